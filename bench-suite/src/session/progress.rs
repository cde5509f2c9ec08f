//! What a session tells while it runs.

use record::{CellPlan, Deciding, Look, Record, Session};
use verdict::Verdicts;

use super::Totals;
use crate::plan::Run;

#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// The session begins, or goes on where it was cut off.
    SessionStarted {
        session: &'a Session,
        totals: Totals,
    },
    RunStarted {
        run: &'a Run,
        cell: &'a CellPlan,
        /// Which attempt at it this is, from 1.
        attempt: u32,
        totals: Totals,
    },
    /// A run ended, and its record is on the disk.
    RunEnded { record: &'a Record, totals: Totals },
    /// A run was not begun as often as it may be, since the machine was not fit to measure on; the
    /// session ends, and the run that waited counts as contaminated.
    Unfit { message: &'a str },
    BlockEnded {
        /// The block, from 0.
        block: u32,
        of: u32,
    },
    /// The session looked at its metrics to know whether to go on.
    Looked {
        look: &'a Look,
        /// The budget, and whether the session goes on.
        deciding: &'a Deciding,
        verdicts: &'a [Verdicts],
    },
    /// The session ended, complete or not.
    SessionEnded { totals: Totals },
}

/// Somebody who wants to know what a session does: the terminal, a log, a test.
pub trait Subscriber {
    /// Is called in order, between runs; what takes long here delays the session.
    fn tell(&mut self, progress: Progress<'_>);
}
