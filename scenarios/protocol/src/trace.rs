//! Allocations of a program, to be made again.

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::text::text_form;

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

/// Tensors as they come and go: `+ID BYTES` or `-ID` a line, and comments after `#`. At its end all
/// that are left go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace(Vec<TensorEvent>);

/// Most tensors of a trace.
const MOST: usize = 100_000;
/// Most bytes of one.
const MOST_BYTES: u64 = 1 << 40;

/// Why a text is no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseTraceError(String);

impl Trace {
    /// What happens, in order.
    #[must_use]
    pub fn events(&self) -> &[TensorEvent] {
        &self.0
    }
}

impl FromStr for Trace {
    type Err = ParseTraceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
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
        for (place, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wrong = || {
                let begin: String = line.chars().take(40).flat_map(char::escape_debug).collect();
                ParseTraceError(format!(
                    "line {}, `{begin}`: expected `+ID BYTES` for a tensor that is not there, or \
                     `-ID` for one that is",
                    place + 1
                ))
            };
            events.push(event(line).ok_or_else(wrong)?);
        }
        events.extend(there.into_iter().map(|id| TensorEvent::Freed { id }));
        if !(1..=MOST).contains(&made) {
            let message = format!("{made} tensors; expected 1 to {MOST}");
            return Err(ParseTraceError(message));
        }
        Ok(Self(events))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|event| match event {
            TensorEvent::Allocated { id, bytes } => writeln!(f, "+{id} {bytes}"),
            TensorEvent::Freed { id } => writeln!(f, "-{id}"),
        })
    }
}

text_form!(
    Trace,
    "Tensors as they come and go: `+ID BYTES` or `-ID` a line",
    r"^[-+0-9 \n]+$"
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
    fn what_is_no_trace_is_refused_by_line() {
        for (text, expect) in [
            ("", "0 tensors; expected 1 to 100000"),
            ("+1 0", "line 1, `+1 0`: expected"),
            ("+1 5\n+1 5", "line 2, `+1 5`: expected"),
            ("+1 5\n-2", "line 2, `-2`: expected"),
            ("-1", "line 1, `-1`"),
            ("+1 2000000000000", "line 1"),
            ("+1 5\n\u{1b}[2J", r"line 2, `\u{1b}[2J`"),
        ] {
            let error = text.parse::<Trace>().unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
        let of = |count| {
            let lines = (0..count).map(|id| format!("+{id} 1\n"));
            lines.collect::<Vec<_>>().concat()
        };
        let error = of(MOST + 1).parse::<Trace>().unwrap_err();
        assert!(error.to_string().starts_with("100001 tensors"), "{error}");
        // What is written is read again.
        let most: Trace = of(MOST).parse().unwrap();
        assert_eq!(most.to_string().parse(), Ok(most));
    }
}
