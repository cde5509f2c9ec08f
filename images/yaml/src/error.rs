//! What can be wrong with a document.

use std::{fmt, io, path::PathBuf};

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode};

use crate::{KeyPath, MAX_BYTES, excerpt::Excerpt};

/// Why a document cannot be read or means nothing.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is larger than any that a person writes.
    #[error(
        "{name} is larger than {} KiB, the most that is read; a file written by hand is far smaller",
        MAX_BYTES / 1024
    )]
    TooLarge {
        /// The file.
        name: String,
    },
    /// The file is not text.
    #[error("{name}:{line}: byte {byte} is not UTF-8; expected a text file in UTF-8")]
    NotUtf8 {
        /// The file.
        name: String,
        /// The line, from 1.
        line: usize,
        /// The first bad byte, from 0.
        byte: usize,
    },
    /// Something in the file is wrong.
    #[error(transparent)]
    At(#[from] Box<Problem>),
}

/// Something wrong at a place in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    file: String,
    path: KeyPath,
    message: String,
    label: Option<String>,
    help: Option<String>,
    excerpt: Excerpt,
}

impl Problem {
    pub(crate) fn new(
        path: KeyPath,
        message: String,
        label: Option<String>,
        help: Option<String>,
        file: &str,
        excerpt: Excerpt,
    ) -> Self {
        Self {
            file: file.to_owned(),
            path,
            message: printable(message),
            label: label.map(printable),
            help: help.map(printable),
            excerpt,
        }
    }

    /// The file, as it was named when the document was read.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where in the document.
    #[must_use]
    pub fn path(&self) -> &KeyPath {
        &self.path
    }

    /// What is wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.excerpt.line()
    }

    /// The column in letters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.excerpt.column()
    }
}

impl fmt::Display for Problem {
    /// One line with everything but the excerpt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = (self.line(), self.column());
        write!(
            f,
            "{}:{line}:{column}: {}: {}",
            self.file, self.path, self.message
        )?;
        for part in [&self.label, &self.help].into_iter().flatten() {
            write!(f, "; {part}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

impl YamlError {
    /// The place, where the file could be read that far.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::At(problem) => Some(problem),
            _ => None,
        }
    }

    /// The error as it is shown to people: the message, the line with a caret, the hint.
    ///
    /// The same at every terminal width; `color` puts ANSI colours in.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let theme = if color {
            GraphicalTheme::unicode()
        } else {
            GraphicalTheme::unicode_nocolor()
        };
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(100)
            .with_links(false);
        let mut text = String::new();
        match handler.render_report(&mut text, &Shown(self)) {
            Ok(()) => text,
            Err(_) => format!("{self}\n"),
        }
    }
}

/// An error under a headline without the position, which stands above the excerpt.
#[derive(Debug)]
struct Shown<'a>(&'a YamlError);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.problem() {
            Some(problem) => write!(f, "{}: {}", problem.path, problem.message),
            None => self.0.fmt(f),
        }
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.0.problem()?.help.as_ref()?))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.0.problem()?.excerpt)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let problem = self.0.problem()?;
        let span = problem.excerpt.span();
        let label = LabeledSpan::new_primary_with_span(problem.label.clone(), span);
        Some(Box::new(std::iter::once(label)))
    }
}

/// Messages quote the document: cut to what can be read, and free of what would steer a terminal.
#[must_use]
pub fn printable(text: String) -> String {
    const LONGEST: usize = 600;
    let needs_work = text.len() > LONGEST || text.chars().any(char::is_control);
    if !needs_work {
        return text;
    }
    let mut short: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST)
        .collect();
    if text.chars().count() > LONGEST {
        short.push('…');
    }
    short
}
