//! Series as CSV: the header `timestamp,revision,value`, one result a line.
//!
//! Windows line ends, a byte order mark and quoted fields are fine; columns may come in
//! any order, and further ones are left alone. A timestamp is a number of seconds since 1970-01-01
//! UTC, or a date, or a date and time, of ISO 8601, in UTC where it names no other offset.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::model::Point;

/// What is wrong with the text, and in which line (the first is 1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CsvError(String);

/// In the year 5138. Numbers from here on count milliseconds or less.
const LATEST: f64 = 1e11;

/// Reads a series, its points in the order of the lines; the header alone gives an empty one.
///
/// # Errors
/// [`CsvError`], with the line.
pub fn parse(text: &str) -> Result<Vec<Point>, CsvError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        let words =
            "the series is empty, expected at least the header \"timestamp,revision,value\"";
        return Err(CsvError(words.to_owned()));
    }
    let mut reader = ::csv::ReaderBuilder::new()
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let syntax = |error: ::csv::Error| CsvError(error.to_string());
    let header = reader.headers().map_err(syntax)?.clone();
    let column = |name: &'static str| {
        let mut columns = header.iter();
        let place = columns.position(|found| found.eq_ignore_ascii_case(name));
        place.ok_or_else(|| {
            let found = shorten(&header.iter().collect::<Vec<_>>().join(","));
            CsvError(format!(
                "line 1: the header is \"{found}\", which has no column \"{name}\"; expected \
                 \"timestamp,revision,value\""
            ))
        })
    };
    let [timestamp, revision, value] =
        [column("timestamp")?, column("revision")?, column("value")?];
    let mut points: Vec<Point> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(syntax)?;
        let line = record.position().map_or(0, ::csv::Position::line);
        let time = &record[timestamp];
        let timestamp = if let Some(seconds) = moment(time) {
            seconds
        } else {
            let hint = "seconds since 1970-01-01 UTC, or a time such as 2026-11-21T10:00:00Z";
            number(time, line, "timestamp", LATEST, hint)?
        };
        let hint = "a finite number; leave the line out if there was no result";
        points.push(Point {
            timestamp,
            revision: record[revision].to_owned(),
            value: number(&record[value], line, "value", f64::INFINITY, hint)?,
        });
    }
    Ok(points)
}

/// The seconds of a time in ISO 8601.
fn moment(field: &str) -> Option<f64> {
    let in_utc = || {
        let time = field
            .parse::<DateTime>()
            .ok()?
            .to_zoned(TimeZone::UTC)
            .ok()?;
        Some(time.timestamp())
    };
    // A bare number may read as a compact date; in a column of numbers it is none.
    let is_iso = field.get(1..).is_some_and(|rest| rest.contains('-')) && !field.contains('e');
    let time = field.parse::<Timestamp>().ok().or_else(in_utc);
    let time = time.filter(|_| is_iso)?;
    // The whole and the rest apart: nanoseconds since 1970 have more digits than a float.
    Some(time.as_second() as f64 + f64::from(time.subsec_nanosecond()) / 1e9)
}

fn number(field: &str, line: u64, column: &str, most: f64, hint: &str) -> Result<f64, CsvError> {
    match field.parse::<f64>() {
        Ok(number) if number.abs() < most => Ok(number),
        _ => Err(CsvError(format!(
            "line {line}: the {column} is \"{}\", expected {hint}",
            shorten(field)
        ))),
    }
}

/// Enough of a field to recognise it by, and nothing in it that acts on a terminal.
fn shorten(field: &str) -> String {
    const ENOUGH: usize = 60;
    let mut short = String::new();
    for letter in field.chars().take(ENOUGH) {
        if letter.is_control() {
            short.extend(letter.escape_unicode());
        } else {
            short.push(letter);
        }
    }
    if field.chars().nth(ENOUGH).is_some() {
        short.push('…');
    }
    short
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
        let short = parse(&format!("{header}2,b\n")).unwrap_err();
        insta::assert_snapshot!(short, @"CSV error: record 2 (line: 3, byte: 31): found record with 2 fields, but the previous record has 3 fields");
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
            &format!("{header}2,b,\u{1b}[2J\n"),
            "line 3: the value is \"\\u{1b}[2J\", expected a finite number; \
             leave the line out if there was no result",
        );
        check_error(
            &format!("{header}yesterday,b,1\n"),
            "line 3: the timestamp is \"yesterday\", expected \
             seconds since 1970-01-01 UTC, or a time such as 2026-11-21T10:00:00Z",
        );
    }

    #[test]
    fn times_are_read_in_the_forms_that_tools_write() {
        let read = |time: &str| {
            let points = parse(&format!("timestamp,revision,value\n{time},a,1\n")).unwrap();
            points[0].timestamp
        };
        for (time, expect) in [
            ("1763719200", 1_763_719_200.0),
            ("1763719200.5", 1_763_719_200.5),
            ("2025-11-21T10:00:00Z", 1_763_719_200.0),
            ("2025-11-21T11:00:00+01:00", 1_763_719_200.0),
            ("2025-11-21 10:00:00", 1_763_719_200.0),
            ("2025-11-21T10:00:00.250Z", 1_763_719_200.25),
            ("2025-11-21", 1_763_683_200.0),
            ("20251121", 20_251_121.0),
            ("-5", -5.0),
            ("1e-3", 0.001),
        ] {
            assert_eq!(read(time).to_bits(), f64::to_bits(expect), "{time}");
        }
        check_error(
            "timestamp,revision,value\n1763719200000,a,1\n",
            "line 2: the timestamp is \"1763719200000\", expected \
             seconds since 1970-01-01 UTC, or a time such as 2026-11-21T10:00:00Z",
        );
    }
}
