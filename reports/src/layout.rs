//! How wide the columns of a table become in a terminal or a log.

use unicode_width::UnicodeWidthStr;

use crate::{document::Kind, text::Style};

/// Words up to this wide stay in one line, such as `not measured in head`.
const SHORT: usize = 24;

/// A name shorter than this is worth no line of its own.
const HEADING: usize = 8;

/// How far rows stand in under a heading of their own.
pub(crate) const INDENT: usize = 1;

/// Spaces beside a column's text, on both sides together.
const PADDING: usize = 2;

/// What the columns of a table ask for.
pub(crate) struct Widths {
    /// Each in one line.
    natural: Vec<usize>,
    /// Each wrapped as far as it may be.
    least: Vec<usize>,
    /// What a column takes beside its text.
    frame: usize,
    room: usize,
    /// Columns that the reader has.
    width: usize,
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
        let frame = match style {
            Style::Plain => PADDING,
            Style::Terminal(_) => PADDING + 1,
        };
        Self {
            natural: columns.iter().enumerate().map(natural).collect(),
            least: columns.iter().enumerate().map(least).collect(),
            frame,
            room: style.width() + frame - PADDING,
            width: style.width(),
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

    /// Whether the first column may be lines above the others.
    fn may_head(&self, columns: &[(Kind, &str)]) -> bool {
        let others = columns.iter().skip(1);
        let is_alone = |others: &[Kind]| matches!(others, [] | [Kind::Message]);
        columns[0].0 == Kind::Name
            && self.natural[0] >= HEADING
            && !is_alone(&others.map(|(kind, _)| *kind).collect::<Vec<_>>())
    }

    /// What columns take under headings, where nothing but spaces stands between them.
    fn under(widths: &[usize]) -> usize {
        INDENT + widths.iter().map(|width| width + PADDING).sum::<usize>()
    }

    /// Whether all columns have room only where names wrap or columns go below, and the columns
    /// behind the first, indented, do with less.
    pub(crate) fn wants_headings(&self, columns: &[(Kind, &str)]) -> bool {
        self.may_head(columns)
            && self.total(&self.natural) > self.room
            && Self::under(&self.least[1..]) <= self.width
    }

    /// The widths of the columns behind the first, under a line with the first.
    pub(crate) fn under_heading(mut self) -> Self {
        self.natural.remove(0);
        self.least.remove(0);
        self.frame = PADDING;
        self.room = self.width.saturating_sub(INDENT);
        self
    }

    /// How many columns name a row, and behind which column the rest goes below; `None` where all
    /// have room, or cannot be helped.
    pub(crate) fn fold(&self, columns: &[(Kind, &str)]) -> Option<(usize, usize)> {
        if self.total(&self.least) <= self.room {
            return None;
        }
        // The first name takes no width where it becomes a line above its row.
        let is_headed = self.may_head(columns);
        let takes = |end: usize| {
            if is_headed {
                Self::under(&self.least[1..end])
            } else {
                self.total(&self.least[..end])
            }
        };
        let leading = columns.iter().take_while(|(kind, _)| *kind == Kind::Name);
        let leading = leading.count().max(1);
        let repeated = (1..=leading)
            .rev()
            .find(|end| takes(*end) <= self.width / 2);
        let mut names = repeated.unwrap_or(1);
        // Where several rows have one name, a word such as the metric tells them apart.
        let is_word = columns
            .get(names)
            .is_some_and(|(kind, _)| *kind == Kind::Word);
        if is_word && takes(names + 1) <= self.width / 3 {
            names += 1;
        }
        if columns.len() <= names + 1 {
            return None;
        }
        let room = if is_headed { self.width } else { self.room };
        let end = (names + 1..columns.len())
            .rev()
            .find(|end| takes(*end) <= room);
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
