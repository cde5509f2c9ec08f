//! The memory limit that an attempt runs against, how long it may take, and whether the limit
//! ended it.

use std::time::Duration;

use protocol::Snapshot;
use record::{Monitor, Outcome, Reason, Sampled};

use crate::plan::Cell;

/// Of the limit: from here on a container's memory counts as full. What the kernel takes back to
/// stay below the limit it takes before the last page.
const FULL: f64 = 0.95;
/// The first attempt takes its time to read libtorch from the disk.
const FIRST_SILENCE: Duration = Duration::from_mins(1);
/// An attempt is given so many times what the last one took for its batch, and this on top.
const PATIENCE: f64 = 4.0;
const AT_LEAST: Duration = Duration::from_secs(10);
/// Most steps of an attempt on the CPU.
const WARMUP: u32 = 2;
const MEASURED: u32 = 3;

/// A budget of memory as the limit of every attempt.
#[derive(Debug, Clone)]
pub(super) struct MemoryLimit {
    pub(super) bytes: u64,
    pub(super) is_cuda: bool,
    /// Batch and seconds of the last try that fitted.
    last: Option<(u32, f64)>,
}

impl MemoryLimit {
    pub(super) fn new(bytes: u64, is_cuda: bool) -> Self {
        Self {
            bytes,
            is_cuda,
            last: None,
        }
    }

    /// Lets an attempt of this batch run against it.
    pub(super) fn shape(&self, cell: &mut Cell, batch: u32) {
        let (steps, limits) = (&mut cell.plan.steps, &mut cell.limits);
        // What comes after the measured steps takes memory of its own.
        steps.calibrate = false;
        steps.profiled = 0;
        steps.attribution = false;
        steps.snapshot = Snapshot::Never;
        if self.is_cuda {
            limits.gpu_memory_bytes = Some(self.bytes);
            return;
        }
        // The second step has the memory of all that follow, and CPUs are slow.
        steps.warmup = steps.warmup.min(WARMUP);
        steps.measured = steps.measured.min(MEASURED);
        limits.memory_bytes = Some(self.bytes);
        // A container at its limit does not always end: the kernel drops the pages of its
        // libraries and reads them again, and nothing gets on. Nobody should wait for the suite's
        // limits of time then.
        let patience = self.patience(batch);
        limits.time = limits.time.min(patience.max(FIRST_SILENCE));
        let silence = limits.silence.unwrap_or(patience);
        limits.silence = Some(silence.min(patience));
    }

    fn patience(&self, batch: u32) -> Duration {
        let Some((last, seconds)) = self.last else {
            return FIRST_SILENCE;
        };
        let growth = f64::from(batch) / f64::from(last.max(1));
        AT_LEAST + Duration::from_secs_f64(PATIENCE * seconds * growth.max(1.0))
    }

    /// Notes how long an attempt took that fitted.
    pub(super) fn took(&mut self, batch: u32, seconds: f64) {
        self.last = Some((batch, seconds));
    }

    /// Whether an attempt got nowhere because its memory was full: on the CPU a container that
    /// ran out of time with all of its memory in use.
    pub(super) fn stalled(&self, outcome: &Outcome, monitor: &Monitor) -> bool {
        let ran_out_of_time = matches!(outcome.reason(), Some(Reason::Hang | Reason::TimeLimit));
        let most = monitor
            .get(Sampled::MemoryBytes)
            .map(|series| series.maximum);
        !self.is_cuda && ran_out_of_time && most.is_some_and(|most| most > FULL * self.bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use record::{Sample, Series, Stage};

    use super::*;

    fn failed(reason: Reason) -> Outcome {
        Outcome::failed(reason, Stage::Start, "")
    }

    fn memory(bytes: f64) -> Monitor {
        let series = Series::of(&[Sample(0.1, bytes)]).unwrap();
        Monitor {
            series: [(Sampled::MemoryBytes, series)].into(),
            ..Monitor::default()
        }
    }

    #[test]
    fn only_a_full_container_that_ran_out_of_time_stalled() {
        let limit = MemoryLimit::new(1000, false);
        let hang = failed(Reason::Hang);
        assert!(limit.stalled(&hang, &memory(990.0)));
        assert!(limit.stalled(&failed(Reason::TimeLimit), &memory(990.0)));
        assert!(!limit.stalled(&hang, &memory(500.0)), "a hang of its own");
        assert!(!limit.stalled(&hang, &Monitor::default()), "nobody knows");
        assert!(!limit.stalled(&failed(Reason::LossNotFinite), &memory(990.0)));
        assert!(!limit.stalled(&Outcome::Ok, &memory(1000.0)));
        assert!(!MemoryLimit::new(1000, true).stalled(&hang, &memory(990.0)));
    }

    #[test]
    fn patience_grows_with_the_batch() {
        let mut limit = MemoryLimit::new(1000, false);
        assert_eq!(limit.patience(4), FIRST_SILENCE);
        limit.took(4, 10.0);
        assert_eq!(limit.patience(8), Duration::from_secs(90));
        assert_eq!(limit.patience(3), Duration::from_secs(50));
    }
}
