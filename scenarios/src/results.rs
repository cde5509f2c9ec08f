//! The results file: one event a line, each in one write, flushed at once, so that a run
//! that is killed leaves whole lines.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use protocol::{Event, Phase};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Error,
    summary::{Memory, values},
};

#[derive(Debug)]
pub struct Results<W> {
    sink: W,
    rank: Option<u32>,
    began: Option<(Phase, Instant)>,
    heartbeat: Instant,
}

/// Heartbeats are at least this far apart.
const HEARTBEAT: Duration = Duration::from_secs(1);

impl Results<File> {
    /// Opens the file for appending, making it where it is missing. The harness mounts an
    /// empty one.
    pub fn open(path: &Path) -> Result<Self, Error> {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map(Self::new)
            .map_err(|source| Error::Results {
                doing: "opening",
                source,
            })
    }
}

/// Writes why the run failed to a results file whose own writer, this process of several, hangs.
pub fn fail_at(path: &Path, rank: Option<u32>, error: Error) {
    let Ok(results) = Results::open(path) else {
        return;
    };
    let mut results = results.of_rank(rank);
    let text = fs::read_to_string(path).unwrap_or_default();
    results.began = text.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let is_own = line["rank"].as_u64() == rank.map(u64::from);
        let phase = is_own.then(|| Phase::deserialize(&line["phase"]).ok())?;
        Some((phase?, Instant::now()))
    });
    results.fail(error, None);
}

impl<W: Write> Results<W> {
    /// Events go to this writer.
    pub fn new(sink: W) -> Self {
        Self {
            sink,
            rank: None,
            began: None,
            heartbeat: Instant::now(),
        }
    }

    /// Each line names this process of a run of several.
    #[must_use]
    pub fn of_rank(self, rank: Option<u32>) -> Self {
        Self { rank, ..self }
    }

    pub fn write(&mut self, event: &Event) -> Result<(), Error> {
        self.put(event).map_err(|source| Error::Results {
            doing: "writing to",
            source,
        })
    }

    fn put(&mut self, event: &Event) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            rank: Option<u32>,
            #[serde(flatten)]
            event: &'a Event,
        }
        let rank = self.rank;
        let mut line = serde_json::to_vec(&Line { rank, event })?;
        line.push(b'\n');
        // One write: the ranks of a run append to one file.
        self.sink.write_all(&line)?;
        self.sink.flush()
    }

    /// A phase begins, now or at `since`.
    pub fn begin(&mut self, phase: Phase, since: Instant) -> Result<(), Error> {
        self.began = Some((phase, since));
        self.heartbeat = Instant::now();
        let at = SystemTime::now().checked_sub(since.elapsed());
        let at = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        self.write(&Event::PhaseBegan {
            phase,
            at_seconds: at.map(|at| at.as_secs_f64()),
        })
    }

    /// The phase that runs ends now.
    pub fn end(&mut self) -> Result<(), Error> {
        self.end_at(Instant::now())
    }

    /// The phase that runs ended at this time.
    pub fn end_at(&mut self, end: Instant) -> Result<(), Error> {
        let Some((phase, since)) = self.began else {
            return Ok(());
        };
        let seconds = end.saturating_duration_since(since).as_secs_f64();
        self.write(&Event::PhaseEnded { phase, seconds })
    }

    /// Writes why the run failed, as the last line, and gives the error back. A second error,
    /// of writing, would say less.
    pub fn fail(&mut self, error: Error, memory: Option<&Memory>) -> Error {
        let _ = self.write(&Event::Failed {
            reason: error.reason(),
            phase: self.phase(),
            message: error.brief(),
            shortage: memory.and_then(|memory| memory.shortage),
            values: memory.map(values).unwrap_or_default(),
        });
        error
    }

    /// The phase that runs, or ran last.
    pub fn phase(&self) -> Phase {
        self.began.map_or(Phase::ProcessStart, |(phase, _)| phase)
    }

    /// A sign of life, unless the last one was less than a second ago.
    pub fn heartbeat(&mut self, step: u32) -> Result<(), Error> {
        if self.heartbeat.elapsed() < HEARTBEAT {
            return Ok(());
        }
        self.heartbeat = Instant::now();
        let phase = self.phase();
        self.write(&Event::Heartbeat { phase, step })
    }

    pub fn into_inner(self) -> W {
        self.sink
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_processes_name_their_rank() {
        let line = |rank| {
            let mut results = Results::new(Vec::new()).of_rank(rank);
            results.begin(Phase::Warmup, Instant::now()).unwrap();
            String::from_utf8(results.into_inner()).unwrap()
        };
        assert!(line(Some(3)).starts_with(r#"{"rank":3,"event":"phase-began""#));
        assert!(line(None).starts_with(r#"{"event":"phase-began""#));
    }

    #[test]
    fn a_hanging_writer_is_spoken_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let mut results = Results::open(&path).unwrap().of_rank(Some(1));
        results.begin(Phase::Warmup, Instant::now()).unwrap();
        results.begin(Phase::Measure, Instant::now()).unwrap();
        let message = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)".to_owned();
        fail_at(&path, Some(1), libtorch::Error::Exchange { message }.into());
        let text = fs::read_to_string(&path).unwrap();
        let last = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let Event::Failed {
            reason,
            phase,
            message,
            ..
        } = last
        else {
            panic!("{text}");
        };
        assert_eq!(reason, protocol::FailureReason::Exchange);
        assert_eq!(phase, Phase::Measure);
        assert!(message.contains("WorkNCCL(SeqNum=3)"), "{message}");
    }

    #[test]
    fn phases_are_lines_and_heartbeats_are_rare() {
        let mut results = Results::new(Vec::new());
        let since = Instant::now();
        results.begin(Phase::Warmup, since).unwrap();
        for step in 0..1000 {
            results.heartbeat(step).unwrap();
        }
        results.heartbeat -= HEARTBEAT;
        results.heartbeat(1000).unwrap();
        results.end().unwrap();
        let text = String::from_utf8(results.into_inner()).unwrap();
        let events: Vec<Event> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(
            matches!(
                events[..],
                [
                    Event::PhaseBegan {
                        phase: Phase::Warmup,
                        at_seconds: Some(_),
                    },
                    Event::Heartbeat {
                        phase: Phase::Warmup,
                        step: 1000
                    },
                    Event::PhaseEnded {
                        phase: Phase::Warmup,
                        ..
                    },
                ]
            ),
            "{text}"
        );
    }
}
