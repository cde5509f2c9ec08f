//! What a supervisor adds to the results file.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use protocol::{Event, Phase};
use serde::{Deserialize, Serialize};

use crate::Lost;

/// An event of a run of several processes.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(default)]
    rank: u32,
    #[serde(flatten)]
    event: Event,
}

/// Appends how a rank was lost, unless it has said itself why it failed.
pub fn report(results: &Path, lost: &Lost) -> io::Result<()> {
    let text = fs::read_to_string(results)?;
    let lines = text.lines().map(serde_json::from_str::<Line>);
    let own = lines.flatten().filter(|line| line.rank == lost.rank);
    let mut phase = Phase::ProcessStart;
    for line in own {
        match line.event {
            Event::PhaseBegan { phase: began, .. } => phase = began,
            Event::Failed { .. } => return Ok(()),
            _ => {}
        }
    }
    let event = Event::Failed {
        reason: lost.how.reason(),
        phase,
        message: lost.how.to_string(),
        shortage: None,
        values: protocol::Values::new(),
    };
    let rank = lost.rank;
    let line = serde_json::to_string(&Line { rank, event })? + "\n";
    let mut file = OpenOptions::new().append(true).open(results)?;
    file.write_all(line.as_bytes())
}
