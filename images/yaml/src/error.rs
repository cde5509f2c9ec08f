//! What can be wrong with a document.

use std::{fmt, io, ops::Range, path::PathBuf, sync::Arc};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_saphyr::Location;

use crate::{KeyPath, MAX_BYTES};

/// Why a document cannot be read or means nothing.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    /// The file is larger than any that a person writes.
    #[error(
        "{name} is larger than {} KiB, the most that is read; a file written by hand is far smaller",
        MAX_BYTES / 1024
    )]
    TooLarge { name: String },
    #[error("{name}:{line}: byte {byte} is not UTF-8; expected a text file in UTF-8")]
    NotUtf8 {
        name: String,
        /// The line, from 1.
        line: usize,
        /// The first bad byte, from 0.
        byte: usize,
    },
    /// What in the file is wrong, at least one thing.
    #[error("{}", shown(.0, Problem::to_string).join("\n"))]
    Wrong(Vec<Problem>),
}

/// Most mistakes of a document that are shown.
const MOST_SHOWN: usize = 20;
/// Most that are looked for, one or more each time that the document is read.
pub(crate) const MOST_FOUND: usize = 40;

/// The first of them in these words, and how many more there are.
fn shown(problems: &[Problem], words: impl Fn(&Problem) -> String) -> Vec<String> {
    let mut shown: Vec<String> = problems.iter().take(MOST_SHOWN).map(words).collect();
    let least = if problems.len() < MOST_FOUND {
        ""
    } else {
        "at least "
    };
    match problems.len().saturating_sub(MOST_SHOWN) {
        0 => {}
        1 => shown.push("and 1 more mistake".to_owned()),
        more => shown.push(format!("and {least}{more} more mistakes")),
    }
    shown
}

/// Something wrong at a place in a document.
#[derive(Debug, Clone)]
pub struct Problem {
    file: String,
    /// The value that it is about.
    pub(crate) path: Option<KeyPath>,
    /// The key that is not there.
    pub(crate) missing: Option<String>,
    /// The key path, of what is about a value, and what is wrong.
    message: String,
    label: Option<String>,
    help: Option<String>,
    /// From 1.
    line: usize,
    /// In letters, from 0.
    columns: Range<usize>,
    text: Arc<str>,
}

impl Problem {
    pub(crate) fn new(
        file: &str,
        text: &Arc<str>,
        path: Option<KeyPath>,
        place: Location,
        message: String,
        label: Option<String>,
        help: Option<String>,
    ) -> Self {
        let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let line = number(place.line()).max(1);
        let first = number(place.column()).saturating_sub(1);
        let length = number(place.span().len()).max(1);
        let message = printable(message);
        Self {
            file: file.to_owned(),
            message: match &path {
                Some(path) => format!("{path}: {message}"),
                None => message,
            },
            path,
            missing: None,
            label: label.map(printable),
            help: help.map(printable),
            line,
            columns: first..first.saturating_add(length),
            text: Arc::clone(text),
        }
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The line, without what would steer a terminal, and the marked bytes of it. Worked out when it
    /// is shown: most mistakes are found many times, in documents that may have one line.
    fn excerpt(&self) -> (String, Range<usize>) {
        // As YAML counts them: a line ends with LF, CR LF or CR.
        let text = self.text.replace("\r\n", "\n");
        let shown = text.split(['\n', '\r']).nth(self.line - 1);
        let shown = shown.unwrap_or_default().replace(char::is_control, " ");
        let byte = |letter| {
            let mut letters = shown.char_indices();
            letters.nth(letter).map_or(shown.len(), |(at, _)| at)
        };
        let span = byte(self.columns.start)..byte(self.columns.end);
        (shown, span)
    }
}

impl fmt::Display for Problem {
    /// One line with everything but the excerpt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = (self.line, self.columns.start + 1);
        write!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
        for part in [&self.label, &self.help].into_iter().flatten() {
            write!(f, "; {part}")?;
        }
        Ok(())
    }
}

impl YamlError {
    /// These mistakes of one document, of which there is at least one.
    pub(crate) fn of(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| (problem.line, problem.columns.start));
        Self::Wrong(problems)
    }

    /// What was read of each part, or the mistakes of all.
    pub fn all<T>(parts: impl Iterator<Item = Result<T, Self>>) -> Result<Vec<T>, Self> {
        let (mut read, mut problems) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Ok(part) => read.push(part),
                Err(Self::Wrong(more)) => problems.extend(more),
                Err(other) => return Err(other),
            }
            if problems.len() >= MOST_FOUND {
                break;
            }
        }
        if problems.is_empty() {
            return Ok(read);
        }
        Err(Self::of(problems))
    }

    /// The first place, where the file could be read that far.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Wrong(problems) => problems.first(),
            _ => None,
        }
    }

    /// The error as it is shown to people: the message, the line with a caret, the hint.
    ///
    /// The same at every terminal width; `color` puts ANSI colours in.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        match self {
            Self::Wrong(problems) => {
                shown(problems, |problem| problem.render(&renderer)).join("\n\n")
            }
            other => {
                let title = Level::ERROR.primary_title(other.to_string());
                renderer.render(&[Group::with_title(title)])
            }
        }
    }
}

impl Problem {
    fn render(&self, renderer: &Renderer) -> String {
        let problem = self;
        let (shown, span) = problem.excerpt();
        let mark = AnnotationKind::Primary.span(span);
        let line = Snippet::source(&shown)
            .path(&problem.file)
            .line_start(problem.line)
            .annotation(mark.label(problem.label.as_deref()));
        let help = problem.help.as_ref().map(|help| Level::HELP.message(help));
        let report = Level::ERROR.primary_title(&problem.message).element(line);
        renderer.render(&[report.elements(help)])
    }
}

/// Messages quote the document: cut to what can be read, and free of what would steer a terminal.
pub fn printable(text: impl AsRef<str>) -> String {
    const LONGEST: usize = 600;
    let letters = text.as_ref().chars();
    let mut letters = letters.map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = letters.by_ref().take(LONGEST).collect();
    short.extend(letters.next().map(|_| '…'));
    short
}
