//! The results file of one run: one event a line, as the workload wrote it.

use std::{collections::BTreeMap, fs::File, io, io::Read as _, path::Path};

use jiff::Timestamp;
use protocol::{Event, MemoryPoint, Phase, Started, Step, VERSION};
use record::printable;

/// Letters of a bad line that are quoted.
const QUOTED: usize = 80;

/// What a workload told, up to where it can be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// What ran; `None` where the workload never got so far.
    pub started: Option<Started>,
    /// Phases that ended, with their time in seconds.
    pub phase_seconds: BTreeMap<Phase, f64>,
    /// When each phase began, in seconds since 1970.
    pub phase_began: BTreeMap<Phase, f64>,
    /// The last phase that began.
    pub phase: Option<Phase>,
    /// Memory at moments outside of measuring, in order.
    pub memory_points: Vec<MemoryPoint>,
    /// The measured steps.
    pub steps: Vec<Step>,
    /// How the workload itself says that it ended: [`Event::Finished`] or [`Event::Failed`].
    pub end: Option<Event>,
    /// What is wrong with the file.
    pub fault: Option<Fault>,
}

/// What is wrong with a results file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not there, or cannot be read.
    #[error("the results file cannot be read: {0}")]
    Unreadable(String),
    /// It holds nothing.
    #[error("the results file is empty")]
    Empty,
    /// It is larger than this many bytes, which is its limit.
    #[error("the results file is larger than {0} bytes; the limit is `limits.results`")]
    TooLarge(u64),
    /// A line is no event, or stands where it cannot.
    #[error("line {number} of the results file, `{text}`: {message}")]
    Line {
        /// The line, from 1.
        number: usize,
        /// How it begins.
        text: String,
        /// What is wrong.
        message: String,
    },
    /// The last line has no end: the workload was cut off while it wrote.
    #[error("line {0} of the results file is torn: no line end")]
    Torn(usize),
    /// The last event is missing: the workload ended before it told how.
    #[error("the results file ends without the event `finished` or `failed`")]
    NoEnd,
}

/// Reads the results of the run `run`, of at most `limit` bytes. Whatever is wrong stands in
/// [`Results::fault`], beside everything that could be read before it. All text is made
/// [printable], for the workload may be anybody's.
#[must_use]
pub fn read(path: &Path, run: &str, limit: u64) -> Results {
    let faulty = |fault| Results {
        fault: Some(fault),
        ..Results::default()
    };
    match load(path, limit) {
        Ok(bytes) if bytes.len() as u64 > limit => faulty(Fault::TooLarge(limit)),
        Ok(bytes) => parse(&bytes, run),
        Err(error) => faulty(Fault::Unreadable(error.to_string())),
    }
}

fn load(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn parse(bytes: &[u8], run: &str) -> Results {
    let mut results = Results::default();
    for (place, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = place + 1;
        if line.last() != Some(&b'\n') {
            results.fault = Some(Fault::Torn(number));
            return results;
        }
        if let Err(message) = results.take(line, run) {
            let text = String::from_utf8_lossy(line.trim_ascii_end());
            let quote: String = text.chars().take(QUOTED).collect();
            let mut quote = printable(&quote).into_owned();
            if text.chars().count() > QUOTED {
                quote.push('…');
            }
            results.fault = Some(Fault::Line {
                number,
                text: quote,
                message: printable(&message).into_owned(),
            });
            return results;
        }
    }
    if results.end.is_none() {
        results.fault = Some(match results.started {
            None => Fault::Empty,
            Some(_) => Fault::NoEnd,
        });
    }
    results
}

impl Results {
    /// When each phase began, in seconds since the run's start. None where a clock was set in the
    /// middle of the run: the phases lie outside of it then.
    #[must_use]
    pub fn phases_since(&self, start: Timestamp, wall_seconds: f64) -> BTreeMap<Phase, f64> {
        let start = start.as_duration().as_secs_f64();
        let began = self
            .phase_began
            .iter()
            .map(|(phase, at)| (*phase, at - start));
        let began: BTreeMap<Phase, f64> = began.collect();
        let is_within = |(phase, from): (&Phase, &f64)| {
            let to = from + self.phase_seconds.get(phase).unwrap_or(&0.0);
            *from >= 0.0 && to <= wall_seconds
        };
        if began.iter().all(is_within) {
            began
        } else {
            BTreeMap::new()
        }
    }

    /// Takes one line in; tells what is wrong with it.
    fn take(&mut self, line: &[u8], run: &str) -> Result<(), String> {
        let event: Event = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if self.end.is_some() {
            return Err("an event after the last one".into());
        }
        if let Event::Started(started) = event {
            if self.started.is_some() {
                return Err("a second `started`".into());
            }
            if started.version != VERSION {
                let next = if started.version < VERSION {
                    "build the image again"
                } else {
                    "use a newer Torchgauge"
                };
                return Err(format!(
                    "of version {}, this Torchgauge reads version {VERSION}; {next}",
                    started.version
                ));
            }
            if started.run != run {
                return Err(format!("of the run `{}`, expected `{run}`", started.run));
            }
            self.started = Some(shown(*started));
            return Ok(());
        }
        // A run that fails before it has anything to tell begins with its failure.
        if self.started.is_none() && !matches!(event, Event::Failed { .. }) {
            return Err("expected `started` first".into());
        }
        match event {
            Event::Started(_) => {}
            Event::PhaseBegan { phase, at_seconds } => {
                self.phase = Some(phase);
                self.phase_began.extend(at_seconds.map(|at| (phase, at)));
            }
            Event::Heartbeat { phase, .. } => self.phase = Some(phase),
            Event::PhaseEnded { phase, seconds } => {
                if !seconds.is_finite() || seconds < 0.0 {
                    return Err(format!("a phase of {seconds} seconds"));
                }
                self.phase_seconds.insert(phase, seconds);
            }
            Event::Memory(point) => self.memory_points.push(point),
            Event::Step(step) => {
                let expected = self.steps.len();
                if step.index as usize != expected {
                    return Err(format!("step {}, expected step {expected}", step.index));
                }
                self.steps.push(step);
            }
            Event::Finished(_) => self.end = Some(event),
            Event::Failed {
                reason,
                phase,
                message,
                memory,
            } => {
                self.phase = Some(phase);
                self.end = Some(Event::Failed {
                    reason,
                    phase,
                    message: printable(&message).into_owned(),
                    memory,
                });
            }
        }
        Ok(())
    }
}

/// With all text printable.
fn shown(mut started: Started) -> Started {
    let cuda = started.cuda.iter_mut().flat_map(|cuda| {
        [
            &mut cuda.device_name,
            &mut cuda.uuid,
            &mut cuda.capability,
            &mut cuda.runtime_version,
            &mut cuda.driver_cuda_version,
        ]
        .into_iter()
        .chain(&mut cuda.cudnn_version)
    });
    let rest = [&mut started.scenario_version, &mut started.libtorch_version];
    for text in cuda.chain(rest).chain(&mut started.allocator) {
        *text = printable(text).into_owned();
    }
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: &str = r#"{"event":"started","version":3,"run":"r","scenario_version":"0.1.0","libtorch_version":"2.11.0","threads":2,"cuda":null,"allocator":null}"#;
    const FAILED: &str = r#"{"event":"failed","reason":"out-of-memory","phase":"warmup","message":"m","memory":null}"#;

    fn fault(lines: &[&str]) -> String {
        let text = [lines, &[""]].concat().join("\n");
        let fault = parse(text.as_bytes(), "r").fault;
        fault.map_or_else(|| "fine".into(), |fault| fault.to_string())
    }

    fn check(lines: &[&str], expect: &str) {
        let found = fault(lines);
        assert!(found.contains(expect), "{found}");
    }

    #[test]
    fn what_cannot_be_is_named_with_its_line() {
        check(&[STARTED, FAILED], "fine");
        check(&[FAILED], "fine");
        check(&[], "is empty");
        check(&[STARTED], "ends without the event");
        check(
            &["garbage"],
            "line 1 of the results file, `garbage`: expected value",
        );
        check(
            &[STARTED, "{}"],
            "line 2 of the results file, `{}`: missing field `event`",
        );
        check(&[STARTED, STARTED], "line 2 of the results file");
        check(
            &[&STARTED.replace("\"r\"", "\"x\"")],
            "of the run `x`, expected `r`",
        );
        check(
            &[&STARTED.replace("\"version\":3", "\"version\":9")],
            "of version 9",
        );
        check(&[STARTED, FAILED, FAILED], "an event after the last one");
        let heartbeat = r#"{"event":"heartbeat","phase":"warmup","step":1}"#;
        check(&[heartbeat], "expected `started` first");
        let step = r#"{"event":"step","index":1,"seconds":0.5,"loss":null,"skipped":false}"#;
        check(&[STARTED, step], "step 1, expected step 0");
        check(&[STARTED, &"x".repeat(5000)], "xxx…`");
        let negative = r#"{"event":"phase-ended","phase":"warmup","seconds":-1.0}"#;
        check(&[STARTED, negative], "a phase of -1 seconds");
    }

    #[test]
    fn what_an_image_says_acts_on_nobody_who_shows_it() {
        let hostile = r"\u001b]0;owned\u0007\n::error::x\u202e";
        let failed = FAILED.replace("\"m\"", &format!("\"{hostile}\""));
        let started = STARTED.replace("0.1.0", hostile);
        let results = parse(format!("{started}\n{failed}\n").as_bytes(), "r");
        let expect = "\\u{1b}]0;owned\\u{7}\n\\::error::x\\u{202e}";
        let Some(Event::Failed { message, .. }) = results.end else {
            panic!("{:?}", results.fault)
        };
        assert_eq!(message, expect);
        assert_eq!(results.started.unwrap().scenario_version, expect);
        // What is no event is quoted, and quoted by whoever says what is wrong with it.
        let unknown = STARTED.replace("started", hostile);
        let fault = fault(&[&unknown]);
        assert!(
            !fault.contains('\u{1b}') && !fault.contains('\u{202e}'),
            "{fault}"
        );
        let raw = super::parse(b"\x1b[2J\n", "r").fault.unwrap().to_string();
        assert!(raw.contains("`\\u{1b}[2J`"), "{raw}");
    }

    #[test]
    fn a_file_above_its_limit_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("events");
        std::fs::write(&path, format!("{STARTED}\n{FAILED}\n")).unwrap();
        assert_eq!(read(&path, "r", 1 << 20).fault, None);
        assert_eq!(read(&path, "r", 50).fault, Some(Fault::TooLarge(50)));
    }

    #[test]
    fn a_torn_line_keeps_what_stood_before_it() {
        let text = format!("{STARTED}\n{}", &FAILED[..20]);
        let results = parse(text.as_bytes(), "r");
        assert_eq!(results.fault, Some(Fault::Torn(2)));
        assert_eq!(results.started.unwrap().threads, 2);
    }

    #[test]
    fn a_file_that_is_not_there_says_so() {
        let fault = read(Path::new("/no/such/file"), "r", 1 << 20)
            .fault
            .unwrap();
        assert!(fault.to_string().contains("No such file"), "{fault}");
        let home = tempfile::tempdir().unwrap();
        let fault = read(home.path(), "r", 1 << 20).fault.unwrap();
        assert!(fault.to_string().contains("not a plain file"), "{fault}");
    }
}
