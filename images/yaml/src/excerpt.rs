//! The line that is shown under an error.

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

/// Most letters of a line that are shown.
const WINDOW: usize = 120;
/// Letters shown before the marked ones where a line is cut.
const BEFORE: usize = 40;

/// One line of a file, cut to what fits a terminal and free of control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    name: String,
    line: usize,
    column: usize,
    text: String,
    span: (usize, usize),
}

impl Excerpt {
    /// Of line `line` (from 1), with `length` letters marked from letter `column` (from 0) on.
    pub(crate) fn new(name: &str, text: &str, line: usize, column: usize, length: usize) -> Self {
        let (mut line, mut column, mut whole) = (line, column, nth_line(text, line));
        // Where something is missing at the end, the last thing that stands there helps more
        // than the empty line behind it.
        while line > 1 && whole.trim().is_empty() {
            line -= 1;
            whole = nth_line(text, line);
            column = whole.trim_end().chars().count().saturating_sub(1);
        }
        let letters = whole.chars().count();
        let column = column.min(letters);
        let start = if letters <= WINDOW {
            0
        } else {
            column.saturating_sub(BEFORE)
        };
        let shown: Vec<char> = whole
            .chars()
            .skip(start)
            .take(WINDOW)
            // What would steer a terminal must not reach one.
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let first = column - start;
        let last = (first + length.max(1)).min(shown.len()).max(first);
        let bytes = |letters: &[char]| letters.iter().map(|c| c.len_utf8()).sum::<usize>();
        let offset = bytes(&shown[..first]);
        Self {
            name: name.to_owned(),
            line,
            column: column + 1,
            span: (offset, bytes(&shown[first..last])),
            text: shown.into_iter().collect(),
        }
    }

    /// The marked bytes.
    pub(crate) fn span(&self) -> SourceSpan {
        self.span.into()
    }

    pub(crate) fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn column(&self) -> usize {
        self.column
    }
}

/// Line `line` (from 1), counted as YAML does: a line ends with LF, CR LF or CR.
fn nth_line(text: &str, line: usize) -> &str {
    let mut rest = text;
    for _ in 1..line {
        let Some(end) = rest.find(['\n', '\r']) else {
            return "";
        };
        let width = if rest[end..].starts_with("\r\n") {
            2
        } else {
            1
        };
        rest = &rest[end + width..];
    }
    rest.split(['\n', '\r']).next().unwrap_or_default()
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        context_lines_before: usize,
        context_lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let inner = self
            .text
            .read_span(span, context_lines_before, context_lines_after)?;
        // miette asks without context for the position in the header, with context for the text.
        let column = if context_lines_before == 0 {
            self.column - 1
        } else {
            0
        };
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            inner.data(),
            *inner.span(),
            self.line - 1,
            column,
            1,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, line: usize, column: usize, length: usize, expect: &str) {
        let excerpt = Excerpt::new("f", text, line, column, length);
        let (start, width) = excerpt.span;
        assert_eq!(&excerpt.text[start..start + width], expect);
        assert!(excerpt.text.chars().count() <= WINDOW);
    }

    #[test]
    fn the_marked_letters_are_the_asked_ones() {
        check("a: b\r\nc: d\n", 2, 3, 1, "d");
        check("a\rb: c\r", 2, 0, 1, "b");
        check("ä: ß\n", 1, 3, 1, "ß");
        check("", 1, 0, 5, "");
        check("abc", 7, 4, 5, "c");
        check("a: [b\n\n", 3, 0, 1, "b");
        check("abc", 1, 99, 1, "");
        check(&format!("{}needle", "x".repeat(5000)), 1, 5000, 6, "needle");
        check("a\u{1b}[31m", 1, 0, 3, "a [");
    }
}
