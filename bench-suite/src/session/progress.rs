//! What a session tells while it runs.

use record::{CellPlan, Deciding, Look, Record, Session};
use verdict::Verdicts;

use super::Totals;
use crate::plan::Run;

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// The session begins, or goes on where it was cut off.
    SessionStarted {
        /// Plan, machine and images.
        session: &'a Session,
        /// Where it stands.
        totals: Totals,
    },
    /// A run begins.
    RunStarted {
        /// Its place in the plan.
        run: &'a Run,
        /// What it measures.
        cell: &'a CellPlan,
        /// Which attempt at it this is, from 1.
        attempt: u32,
        /// Where the session stands.
        totals: Totals,
    },
    /// A run ended, and its record is on the disk.
    RunEnded {
        /// The record.
        record: &'a Record,
        /// Where the session stands.
        totals: Totals,
    },
    /// Every run of a block ended.
    BlockEnded {
        /// The block, from 0.
        block: u32,
        /// How many there are.
        of: u32,
    },
    /// The session looked at its metrics to know whether to go on.
    Looked {
        /// What the look came to.
        look: &'a Look,
        /// The budget, and whether the session goes on.
        deciding: &'a Deciding,
        /// Everything that was judged.
        verdicts: &'a [Verdicts],
    },
    /// The session ended, complete or not.
    SessionEnded {
        /// Where it stands.
        totals: Totals,
    },
}

/// Somebody who wants to know what a session does: the terminal, a log, a test.
pub trait Subscriber {
    /// Is called in order, between runs; what takes long here delays the session.
    fn tell(&mut self, progress: Progress<'_>);
}

/// Two who want to know.
#[derive(Debug)]
pub struct Both<A, B>(pub A, pub B);

impl<A: Subscriber, B: Subscriber> Subscriber for Both<A, B> {
    fn tell(&mut self, progress: Progress<'_>) {
        self.0.tell(progress);
        self.1.tell(progress);
    }
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Subscriber for Silent {
    fn tell(&mut self, _: Progress<'_>) {}
}
