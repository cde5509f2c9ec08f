//! Allocations of a program, to be made again.

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::{ParseError, text::text_form};

/// What happens to a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorEvent {
    /// It is made.
    Allocated {
        /// Which one, among those that are there.
        id: u64,
        /// Its size.
        bytes: u64,
    },
    /// It goes.
    Freed {
        /// Which one.
        id: u64,
    },
}

/// A request as it came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedRequest {
    /// Seconds from the beginning of the trace to its arrival.
    pub seconds: f64,
    /// Tokens of its prompt, where the trace says so.
    pub prompt: Option<u32>,
    /// Tokens of its answer, likewise.
    pub answer: Option<u32>,
}

/// What a program did, to be done again.
#[derive(Debug, Clone, PartialEq)]
pub enum Trace {
    /// Tensors as they come and go: `+ID BYTES` or `-ID` a line, and comments after `#`. At its end
    /// all that are left go.
    Tensors(Vec<TensorEvent>),
    /// Requests as they arrive: `SECONDS`, `SECONDS PROMPT_TOKENS` or `SECONDS PROMPT_TOKENS
    /// ANSWER_TOKENS` a line, all lines alike, the times rising.
    Requests(Vec<TracedRequest>),
}

/// Most tensors or requests of a trace.
const MOST: usize = 100_000;
/// Most bytes of a tensor.
const MOST_BYTES: u64 = 1 << 40;
/// Most tokens of a prompt or an answer.
const MOST_TOKENS: u32 = 65_536;

impl Trace {
    /// What happens to tensors, in order; nothing of a trace of requests.
    pub fn events(&self) -> &[TensorEvent] {
        match self {
            Self::Tensors(events) => events,
            Self::Requests(_) => &[],
        }
    }

    /// The requests, in order; none of a trace of tensors.
    pub fn requests(&self) -> &[TracedRequest] {
        match self {
            Self::Tensors(_) => &[],
            Self::Requests(requests) => requests,
        }
    }
}

/// The lines of a text that are no comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let all = (1..).zip(text.lines());
    let all = all.map(|(number, line)| (number, line.split('#').next().unwrap_or_default().trim()));
    all.filter(|(_, line)| !line.is_empty())
}

fn wrong(number: usize, line: &str, expected: &str) -> ParseError {
    let begin: String = line.chars().take(40).flat_map(char::escape_debug).collect();
    ParseError(format!("line {number}, `{begin}`: expected {expected}"))
}

impl FromStr for Trace {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let first = lines(text).next();
        let is_of_requests =
            first.is_some_and(|(_, line)| line.starts_with(|c: char| c.is_ascii_digit()));
        if is_of_requests {
            requests(text).map(Self::Requests)
        } else {
            tensors(text).map(Self::Tensors)
        }
    }
}

fn tensors(text: &str) -> Result<Vec<TensorEvent>, ParseError> {
    let (mut there, mut made) = (BTreeSet::new(), 0);
    let mut event = |line: &str| {
        let Some((id, bytes)) = line.split_once(' ') else {
            let id = line.strip_prefix('-')?.parse().ok()?;
            return there.remove(&id).then_some(TensorEvent::Freed { id });
        };
        let id = id.strip_prefix('+')?.parse().ok()?;
        let bytes = bytes.trim().parse().ok()?;
        made += 1;
        let is_sound = (1..=MOST_BYTES).contains(&bytes) && there.insert(id);
        is_sound.then_some(TensorEvent::Allocated { id, bytes })
    };
    let mut events = Vec::new();
    for (number, line) in lines(text) {
        let expected = "`+ID BYTES` for a tensor that is not there, `-ID` for one that is, or \
                        in every line the SECONDS at which a request arrives";
        events.push(event(line).ok_or_else(|| wrong(number, line, expected))?);
    }
    events.extend(there.into_iter().map(|id| TensorEvent::Freed { id }));
    if !(1..=MOST).contains(&made) {
        let message = format!("{made} tensors; expected 1 to {MOST}");
        return Err(ParseError(message));
    }
    Ok(events)
}

fn requests(text: &str) -> Result<Vec<TracedRequest>, ParseError> {
    let mut requests: Vec<TracedRequest> = Vec::new();
    let mut columns = None;
    for (number, line) in lines(text) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let seconds = words[0]
            .parse()
            .ok()
            .filter(|seconds| (0.0..=1e7).contains(seconds));
        let earliest = requests.last().map_or(0.0, |last| last.seconds);
        let seconds = seconds.filter(|&seconds| seconds >= earliest);
        let tokens = |word: &&str| {
            let tokens = word.parse().ok();
            tokens.filter(|tokens| (1..=MOST_TOKENS).contains(tokens))
        };
        let tokens: Option<Vec<u32>> = words[1..].iter().map(tokens).collect();
        let is_like_the_first = *columns.get_or_insert(words.len()) == words.len();
        let (Some(seconds), Some(tokens), true, ..=3) =
            (seconds, tokens, is_like_the_first, words.len())
        else {
            let expected = format!(
                "SECONDS that do not fall, and in every line the same of PROMPT_TOKENS and \
                 ANSWER_TOKENS, from 1 to {MOST_TOKENS}"
            );
            return Err(wrong(number, line, &expected));
        };
        requests.push(TracedRequest {
            seconds,
            prompt: tokens.first().copied(),
            answer: tokens.get(1).copied(),
        });
    }
    let takes_time = requests.last().zip(requests.first());
    let takes_time = takes_time.is_some_and(|(last, first)| last.seconds > first.seconds);
    if !takes_time || requests.len() > MOST {
        let message = format!(
            "{} requests; expected 2 to {MOST}, not all at once",
            requests.len()
        );
        return Err(ParseError(message));
    }
    Ok(requests)
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events().iter().try_for_each(|event| match event {
            TensorEvent::Allocated { id, bytes } => writeln!(f, "+{id} {bytes}"),
            TensorEvent::Freed { id } => writeln!(f, "-{id}"),
        })?;
        self.requests().iter().try_for_each(|request| {
            write!(f, "{}", request.seconds)?;
            let tokens = [request.prompt, request.answer].into_iter().flatten();
            tokens
                .into_iter()
                .try_for_each(|tokens| write!(f, " {tokens}"))?;
            writeln!(f)
        })
    }
}

text_form!(
    Trace,
    "Tensors as they come and go, `+ID BYTES` or `-ID` a line, or requests as they arrive, `SECONDS PROMPT_TOKENS ANSWER_TOKENS`",
    r"^[-+0-9. \n]+$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_reads_and_writes() {
        let trace: Trace = "# of a snapshot\n+1 100\n\n+2 5  # two\n-1\n+1 7\n"
            .parse()
            .unwrap();
        assert_eq!(trace.to_string(), "+1 100\n+2 5\n-1\n+1 7\n-1\n-2\n");
        let json = serde_json::to_string(&trace).unwrap();
        assert_eq!(serde_json::from_str::<Trace>(&json).unwrap(), trace);
    }

    #[test]
    fn requests_are_read_and_written() {
        for (text, expected) in [
            ("0\n0.5\n0.5 # two at once\n", "0\n0.5\n0.5\n"),
            ("0.25 12\n1 400\n", "0.25 12\n1 400\n"),
            ("0 12 3\n1e1  400\t7\n", "0 12 3\n10 400 7\n"),
        ] {
            let trace: Trace = text.parse().unwrap();
            assert_eq!(trace.to_string(), expected);
            assert_eq!(expected.parse(), Ok(trace.clone()));
            assert!(trace.requests().len() > 1 && trace.events().is_empty());
        }
    }

    #[test]
    fn what_is_no_trace_is_refused_by_line() {
        let line = |number: u32, line: &str| {
            format!(
                "line {number}, `{line}`: expected `+ID BYTES` for a tensor that is not there, \
                 `-ID` for one that is, or in every line the SECONDS at which a request arrives"
            )
        };
        let of_requests = |number: u32, line: &str| {
            format!(
                "line {number}, `{line}`: expected SECONDS that do not fall, and in every line the \
                 same of PROMPT_TOKENS and ANSWER_TOKENS, from 1 to 65536"
            )
        };
        let few = |count: u32| format!("{count} requests; expected 2 to 100000, not all at once");
        for (text, expect) in [
            ("", "0 tensors; expected 1 to 100000".to_owned()),
            ("+1 0", line(1, "+1 0")),
            ("+1 5\n+1 5", line(2, "+1 5")),
            ("+1 5\n-2", line(2, "-2")),
            ("-1", line(1, "-1")),
            ("+1 2000000000000", line(1, "+1 2000000000000")),
            ("+1 5\n\u{1b}[2J", line(2, r"\u{1b}[2J")),
            ("0", few(1)),
            ("3\n3", few(2)),
            ("1\n0.5", of_requests(2, "0.5")),
            ("0 5\n1", of_requests(2, "1")),
            ("0 0\n1 1", of_requests(1, "0 0")),
            ("0 5 5 5\n1 5 5 5", of_requests(1, "0 5 5 5")),
            ("0\n1e9", of_requests(2, "1e9")),
            ("0\n-1", of_requests(2, "-1")),
        ] {
            let error = text.parse::<Trace>().unwrap_err();
            assert_eq!(error.to_string(), expect);
        }
        let of = |count| {
            let lines = (0..count).map(|id| format!("+{id} 1\n"));
            lines.collect::<Vec<_>>().concat()
        };
        let error = of(MOST + 1).parse::<Trace>().unwrap_err();
        assert_eq!(error.to_string(), "100001 tensors; expected 1 to 100000");
        // What is written is read again.
        let most: Trace = of(MOST).parse().unwrap();
        assert_eq!(most.to_string().parse(), Ok(most));
    }
}
