//! How wide the columns of a table become in a terminal or a log.

use unicode_width::UnicodeWidthStr;

use crate::{document::Kind, text::Style};

/// Words up to this wide stay in one line, such as `not measured in head`.
const SHORT: usize = 24;

/// A name shorter than this is worth no line of its own.
const HEADING: usize = 8;

/// How far rows stand in under a heading of their own.
pub(crate) const INDENT: usize = 1;

/// What the columns of a table ask for.
pub(crate) struct Widths {
    /// Each in one line.
    natural: Vec<usize>,
    /// Each wrapped as far as it may be.
    least: Vec<usize>,
    /// What a column takes beside its text.
    frame: usize,
    room: usize,
}

impl Widths {
    pub(crate) fn of(columns: &[(Kind, &str)], texts: &[Vec<String>], style: Style) -> Self {
        let line = |text: &str| text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
        let word = |text: &str| {
            let words = text.split_whitespace().map(UnicodeWidthStr::width);
            words.max().unwrap_or(0)
        };
        let widest = |column: usize, width: &dyn Fn(&str) -> usize| {
            let cells = texts.iter().filter_map(|row| row.get(column));
            cells.map(|text| width(text)).max().unwrap_or(0)
        };
        let natural =
            |(column, (_, head)): (usize, &(Kind, &str))| line(head).max(widest(column, &line));
        let least = |(column, (kind, head)): (usize, &(Kind, &str))| {
            let of_cells = match kind {
                Kind::Number => widest(column, &line),
                Kind::Word if widest(column, &line) <= SHORT => widest(column, &line),
                _ => widest(column, &word),
            };
            word(head).max(of_cells)
        };
        // Both sides are padded; on a terminal columns stand apart by one more.
        let frame = if style == Style::Plain { 2 } else { 3 };
        Self {
            natural: columns.iter().enumerate().map(natural).collect(),
            least: columns.iter().enumerate().map(least).collect(),
            frame,
            room: style.width() + frame - 2,
        }
    }

    fn with_cap(&self, cap: usize) -> Vec<usize> {
        let both = self.least.iter().zip(&self.natural);
        both.map(|(least, natural)| *least.max(natural.min(&cap)))
            .collect()
    }

    fn total(&self, widths: &[usize]) -> usize {
        widths.iter().map(|width| width + self.frame).sum()
    }

    /// Every column as wide as it asks for, up to the one cap with which all have room.
    pub(crate) fn chosen(&self) -> Vec<usize> {
        let most = self.natural.iter().copied().max().unwrap_or(0);
        let caps = (0..=most).rev().map(|cap| self.with_cap(cap));
        let mut fitting = caps.filter(|widths| self.total(widths) <= self.room);
        fitting.next().unwrap_or_else(|| self.least.clone())
    }

    /// Whether all columns have room only where names wrap or columns go below, and the columns
    /// behind the first, indented, do with less.
    pub(crate) fn wants_headings(&self, columns: &[(Kind, &str)]) -> bool {
        let is_named =
            columns.len() > 2 && columns[0].0 == Kind::Name && self.natural[0] >= HEADING;
        let rest = self.total(&self.least[1..]) + INDENT;
        is_named && self.total(&self.natural) > self.room && rest <= self.room
    }

    /// The widths of the columns behind the first, under a line with the first.
    pub(crate) fn under_heading(mut self) -> Self {
        self.natural.remove(0);
        self.least.remove(0);
        self.room = self.room.saturating_sub(INDENT);
        self
    }

    /// How many columns name a row, and behind which column the rest goes below; `None` where all
    /// have room, or cannot be helped.
    pub(crate) fn fold(&self, columns: &[(Kind, &str)]) -> Option<(usize, usize)> {
        let leading =
            |is: &dyn Fn(Kind) -> bool| columns.iter().take_while(|(kind, _)| is(*kind)).count();
        let with_words = leading(&|kind| matches!(kind, Kind::Name | Kind::Word));
        let is_narrow = |names: &usize| self.total(&self.least[..*names]) <= self.room / 2;
        let names = Some(with_words).filter(is_narrow);
        let names = names
            .unwrap_or_else(|| leading(&|kind| kind == Kind::Name))
            .max(1);
        if self.total(&self.least) <= self.room || columns.len() <= names + 1 {
            return None;
        }
        let fits = |end: &usize| self.total(&self.least[..*end]) <= self.room;
        let end = (names + 1..columns.len()).rev().find(fits);
        Some((names, end.unwrap_or(names + 1)))
    }
}

/// Lines of whole words, no longer than `width` where the words allow it.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let wrapped = text.lines().map(|line| {
        let mut lines = vec![String::new()];
        for word in line.split(' ') {
            let last = lines
                .last_mut()
                .filter(|last| last.width() + 1 + word.width() <= width || last.is_empty());
            match last {
                Some(last) if last.is_empty() => last.push_str(word),
                Some(last) => *last += &format!(" {word}"),
                None => lines.push(word.to_owned()),
            }
        }
        lines.join("\n")
    });
    wrapped.collect::<Vec<_>>().join("\n")
}
