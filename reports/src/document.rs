//! What is told, before it has a form: blocks of text and tables, which the page, Markdown and
//! text each write in their own way.

use judge::{claims::Outcome, compare::Verdict};

use crate::{
    charts::{Chart, Key},
    words::format,
};

#[derive(Debug)]
pub(crate) enum Block {
    Heading(String),
    Subheading(String),
    Text(String),
    Counts(Vec<(usize, &'static str, Mark)>),
    /// What stands out, as a sentence.
    Verdict(Mark, String),
    /// How something came about: small print.
    Method(String),
    Warnings(Vec<String>),
    List(Vec<String>),
    Table(Table),
    /// Where nothing can be drawn, its tables.
    Picture(Picture),
    /// The commands that run cells again, in the order of the table of cells; on a page alone.
    Commands(Vec<String>),
    /// What most readers pass over, under its title.
    Folded(String, Vec<Block>),
    Cards(Vec<Card>),
}

impl Block {
    /// A table under its title with the number of its rows; nothing where it has none.
    pub(crate) fn titled(title: &str, rows: Vec<TableRow>, is_folded: bool) -> Vec<Self> {
        let title = format!("{title}: {}", rows.len());
        match (Table::of(rows), is_folded) {
            (None, _) => Vec::new(),
            (Some(table), true) => vec![Self::Folded(title, vec![Self::Table(table)])],
            (Some(table), false) => vec![Self::Subheading(title), Self::Table(table)],
        }
    }
}

/// The first sentence of a first screen that says what came of it.
pub(crate) fn answer(blocks: &[Block]) -> Option<&str> {
    let mut found = blocks.iter().filter_map(|block| match block {
        Block::Verdict(_, text) => Some(text),
        Block::List(items) => items.first(),
        _ => None,
    });
    found.next().map(String::as_str)
}

/// The sentences of a first screen as one text.
pub(crate) fn description(blocks: &[Block]) -> String {
    const LONGEST: usize = 300;
    let sentences = blocks.iter().flat_map(|block| match block {
        Block::Counts(counts) => {
            let counts = counts.iter().filter(|(count, ..)| *count > 0);
            let counts = counts.map(|(count, word, _)| format!("{count} {word}"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            Vec::from_iter((!counts.is_empty()).then(|| format!("{counts}.")))
        }
        Block::Verdict(_, text) => vec![text.clone()],
        Block::List(items) => items.clone(),
        _ => Vec::new(),
    });
    let text = sentences.collect::<Vec<_>>().join(" ");
    format::shortened(&text, LONGEST)
}

/// A part of a page, with its place in the navigation.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// Its name in the page's addresses.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) about: &'static str,
    pub(crate) blocks: Vec<Block>,
    /// Whether it is folded away under its heading.
    pub(crate) is_folded: bool,
}

impl Section {
    pub(crate) fn of(id: &str, title: &str, blocks: Vec<Block>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            blocks,
            ..Self::default()
        }
    }
}

#[derive(Debug)]
pub(crate) struct Picture {
    /// What the names of its drawings begin with.
    pub(crate) id: String,
    pub(crate) title: &'static str,
    pub(crate) legend: Vec<Key>,
    pub(crate) charts: Vec<Chart>,
    /// Whether charts show what is under the pointer.
    pub(crate) has_hints: bool,
    /// Whether links lead to its `id`.
    pub(crate) is_target: bool,
}

impl Picture {
    pub(crate) fn of(id: &str, title: &'static str, legend: Vec<Key>, charts: Vec<Chart>) -> Self {
        Self {
            id: id.to_owned(),
            title,
            legend,
            charts,
            has_hints: true,
            is_target: false,
        }
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = Table> {
        self.charts.iter().filter_map(Chart::table)
    }
}

pub(crate) type Fact = (&'static str, String);

#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) title: String,
    pub(crate) facts: Vec<Fact>,
    /// What an image's layers hold, from the bottom up, and their bytes.
    pub(crate) layers: Vec<(String, u64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) caption: String,
    /// What the titles of its bodies are, where they have titles.
    pub(crate) title_head: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) bodies: Vec<Body>,
}

pub(crate) type TableRow = Vec<(Column, Cell)>;

impl Table {
    /// Of rows that name their columns, which follow in the order in which they come first; `None`
    /// without rows.
    pub(crate) fn of(rows: Vec<TableRow>) -> Option<Self> {
        let mut columns: Vec<Column> = Vec::new();
        for (column, _) in rows.iter().flatten() {
            if !columns.iter().any(|known| known.head == column.head) {
                columns.push(column.clone());
            }
        }
        let row = |cells: TableRow| -> Vec<Cell> {
            let of = |column: &Column| {
                let mut cells = cells.iter();
                let found = cells.find(|(other, _)| other.head == column.head);
                found.map_or_else(|| known(None), |(_, cell)| cell.clone())
            };
            columns.iter().map(of).collect()
        };
        let rows: Vec<_> = rows.into_iter().map(row).collect();
        (!rows.is_empty()).then(|| Self::new(columns, rows))
    }

    /// With one body that needs no title.
    pub(crate) fn new(columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Self {
        let body = Body {
            rows,
            ..Body::default()
        };
        Self {
            columns,
            bodies: vec![body],
            ..Self::default()
        }
    }

    /// Whether a cell says again what the one above it says: a name of the same thing.
    pub(crate) fn repeats(&self, body: &Body, row: usize, column: usize) -> bool {
        let is_same = |column: usize| {
            self.columns[column].kind == Kind::Name
                && body.rows[row][column].text == body.rows[row - 1][column].text
        };
        row > 0 && (0..=column).all(is_same)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) title: Option<Cell>,
    /// What all its rows have in common; only a page has room for it.
    pub(crate) subtitle: String,
    /// What else is to be said of all its rows.
    pub(crate) note: String,
    pub(crate) rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) head: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Names of things, which may be long.
    Name,
    /// A word or two, such as a verdict.
    Word,
    Number,
    /// Sentences of whatever length.
    Message,
}

impl Kind {
    pub(crate) const fn column(self, head: &'static str) -> Column {
        Column { head, kind: self }
    }

    /// A cell of this kind under a head.
    pub(crate) fn cell(self, head: &'static str, cell: impl Into<Cell>) -> (Column, Cell) {
        (self.column(head), cell.into())
    }

    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Word => "word",
            Self::Number => "number",
            Self::Message => "message",
        }
    }
}

pub(crate) fn columns(kind: Kind, heads: &[&'static str]) -> Vec<Column> {
    heads.iter().map(|head| kind.column(head)).collect()
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) mark: Option<Mark>,
    /// What is to be said beside it.
    pub(crate) note: String,
    /// Where its text leads, relative to the page.
    pub(crate) href: Option<String>,
    /// What its row is about, on the first cell of a row that a page's reader may filter.
    pub(crate) about: Option<Box<About>>,
}

/// What a row of a table is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// The row's address on its page; empty where it has none.
    pub(crate) id: String,
    /// Scenario and variant; the same in every row about them.
    pub(crate) cell: String,
    /// What it may be filtered by. A fact may have several values.
    pub(crate) facts: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Improved, or a claim that holds.
    Good,
    /// Regressed, or a claim that is refuted.
    Bad,
    Same,
    Unknown,
    /// It counts for nothing.
    Muted,
    Failure,
}

impl Mark {
    /// Its class on a page, and what stands before the words there: never colour alone. No arrow:
    /// less memory is good, and an arrow up beside a number that fell reads as its opposite.
    pub(crate) fn look(self) -> (&'static str, &'static str) {
        match self {
            Self::Good => ("good", "✓ "),
            Self::Bad => ("bad", "✗ "),
            Self::Same => ("same", "= "),
            Self::Unknown => ("unknown", "? "),
            Self::Muted => ("muted", ""),
            Self::Failure => ("failure", ""),
        }
    }
}

impl Cell {
    pub(crate) fn marked(self, mark: Mark) -> Self {
        Self {
            mark: Some(mark),
            ..self
        }
    }

    pub(crate) fn linked(self, href: Option<String>) -> Self {
        Self { href, ..self }
    }

    pub(crate) fn about(self, about: About) -> Self {
        Self {
            about: Some(Box::new(about)),
            ..self
        }
    }

    pub(crate) fn noted(self, note: impl Into<String>) -> Self {
        Self {
            note: note.into(),
            ..self
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// What is known, or a sign that nothing is.
pub(crate) fn known(text: Option<String>) -> Cell {
    format::known(text).into()
}

impl From<Verdict> for Mark {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Regressed => Self::Bad,
            Verdict::Improved => Self::Good,
            Verdict::Unchanged => Self::Same,
            Verdict::Inconclusive => Self::Unknown,
        }
    }
}

impl From<Outcome> for Mark {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Refuted => Self::Bad,
            Outcome::Holds => Self::Good,
            Outcome::Inconclusive => Self::Unknown,
        }
    }
}
