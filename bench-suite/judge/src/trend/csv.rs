//! Series as CSV: the header `timestamp,revision,value`, one result a line.
//!
//! Windows line ends, a byte order mark and quoted fields are fine; columns may come in
//! any order, and further ones are left alone.

use super::Point;

/// What is wrong with the text, and in which line (the first is 1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CsvError {
    /// Not a byte of content.
    #[error("the series is empty, expected at least the header \"timestamp,revision,value\"")]
    Empty,
    /// A column is missing from the header.
    #[error(
        "line 1: the header is \"{found}\", which has no column \"{missing}\"; \
         expected \"timestamp,revision,value\""
    )]
    Header {
        /// The header as found.
        found: String,
        /// The column looked for.
        missing: &'static str,
    },
    /// A field is no finite number.
    #[error("line {line}: the {column} is \"{found}\", expected a finite number; {hint}")]
    Number {
        /// Line number.
        line: u64,
        /// `timestamp` or `value`.
        column: &'static str,
        /// The field as found.
        found: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The text cannot be split into fields, or a line has too few or too many of them.
    #[error("{0}")]
    Syntax(String),
}

/// Reads a series; the header alone gives an empty one.
///
/// # Errors
/// [`CsvError`], with the line.
pub fn parse(text: &str) -> Result<Vec<Point>, CsvError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(CsvError::Empty);
    }
    let mut reader = ::csv::ReaderBuilder::new()
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let syntax = |error: ::csv::Error| CsvError::Syntax(error.to_string());
    let header = reader.headers().map_err(syntax)?.clone();
    let column = |name: &'static str| {
        let mut columns = header.iter();
        let place = columns.position(|found| found.eq_ignore_ascii_case(name));
        place.ok_or_else(|| CsvError::Header {
            found: shorten(&header.iter().collect::<Vec<_>>().join(",")),
            missing: name,
        })
    };
    let [timestamp, revision, value] =
        [column("timestamp")?, column("revision")?, column("value")?];
    let mut points = Vec::new();
    for record in reader.records() {
        let record = record.map_err(syntax)?;
        let line = record.position().map_or(0, ::csv::Position::line);
        points.push(Point {
            timestamp: number(
                &record[timestamp],
                line,
                "timestamp",
                "timestamps are seconds since 1970-01-01 UTC",
            )?,
            revision: record[revision].to_owned(),
            value: number(
                &record[value],
                line,
                "value",
                "leave the line out if there was no result",
            )?,
        });
    }
    Ok(points)
}

fn number(
    field: &str,
    line: u64,
    column: &'static str,
    hint: &'static str,
) -> Result<f64, CsvError> {
    match field.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(CsvError::Number {
            line,
            column,
            found: shorten(field),
            hint,
        }),
    }
}

/// Enough of a field to recognise it by.
fn shorten(field: &str) -> String {
    const ENOUGH: usize = 60;
    if field.chars().count() <= ENOUGH {
        field.to_owned()
    } else {
        field.chars().take(ENOUGH).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[(f64, &str, f64)]) {
        let points = parse(text).unwrap();
        let got: Vec<_> = points
            .iter()
            .map(|p| (p.timestamp, p.revision.as_str(), p.value))
            .collect();
        assert_eq!(got, expect);
    }

    #[track_caller]
    fn check_error(text: &str, expect: &str) {
        assert_eq!(parse(text).unwrap_err().to_string(), expect);
    }

    #[test]
    fn reads_what_spreadsheets_and_scripts_write() {
        let expect = [(1.0, "a", 2.5), (2.0, "b", -3.0)];
        check("timestamp,revision,value\n1,a,2.5\n2,b,-3\n", &expect);
        check("timestamp,revision,value\r\n1,a,2.5\r\n2,b,-3", &expect);
        check(
            "\u{feff}timestamp,revision,value\n1,a,2.5\n2,b,-3\n\n",
            &expect,
        );
        check(
            "\"timestamp\",\"revision\",\"value\"\n\"1\",\"a\",\"2.5\"\n2,b,-3e0",
            &expect,
        );
        check(
            "Value, Revision ,timestamp,host\n2.5,a,1,x\n -3 ,b,2,y\n",
            &expect,
        );
        check(
            "timestamp,revision,value\n1,\"a,\"\"b\"\"\",2\n",
            &[(1.0, "a,\"b\"", 2.0)],
        );
    }

    #[test]
    fn header_alone_and_one_row_are_series() {
        check("timestamp,revision,value\n", &[]);
        check("timestamp,revision,value\n1,a,2\n", &[(1.0, "a", 2.0)]);
    }

    #[test]
    fn says_where_and_what() {
        check_error(
            " \n",
            "the series is empty, expected at least the header \"timestamp,revision,value\"",
        );
        check_error(
            "time,revision,value\n",
            "line 1: the header is \"time,revision,value\", which has no column \"timestamp\"; \
             expected \"timestamp,revision,value\"",
        );
        let header = "timestamp,revision,value\n1,a,2\n";
        let short = parse(&format!("{header}2,b\n")).unwrap_err().to_string();
        assert!(
            short.contains("(line: 3,") && short.contains("2 fields"),
            "{short}"
        );
        for bad in ["NaN", "inf", "-infinity", "fast", ""] {
            check_error(
                &format!("{header}2,b,{bad}\n"),
                &format!(
                    "line 3: the value is \"{bad}\", expected a finite number; \
                     leave the line out if there was no result"
                ),
            );
        }
        check_error(
            &format!("{header}2023-01-01,b,1\n"),
            "line 3: the timestamp is \"2023-01-01\", expected a finite number; \
             timestamps are seconds since 1970-01-01 UTC",
        );
    }
}
