//! Times of steps, and of their parts, that do not disturb the steps.

use std::time::Instant;

use libtorch::{Result, cuda};
use protocol::StepParts;
use tch::Device;

use crate::training::Observer;

/// Marks between steps: CUDA events on a card, which the card itself stamps when it gets
/// there, or the clock on the processor, where a step is done when it returns.
#[derive(Debug)]
pub enum Stopwatch {
    /// Marks that a card stamps; made beforehand.
    Card {
        /// All marks.
        events: Vec<cuda::Event>,
        /// How many are set.
        set: usize,
    },
    /// Marks of the clock.
    Clock(Vec<Instant>),
}

impl Stopwatch {
    /// Room for the marks around this many laps.
    pub fn new(laps: usize, device: Device) -> Result<Self> {
        Ok(match device {
            Device::Cuda(_) => Self::Card {
                events: (0..=laps)
                    .map(|_| cuda::Event::new())
                    .collect::<Result<_>>()?,
                set: 0,
            },
            _ => Self::Clock(Vec::with_capacity(laps + 1)),
        })
    }

    /// Sets the next mark. Returns at once.
    pub fn mark(&mut self) -> Result<()> {
        match self {
            Self::Card { events, set } => {
                if let Some(event) = events.get_mut(*set) {
                    event.record()?;
                    *set += 1;
                }
            }
            Self::Clock(instants) => instants.push(Instant::now()),
        }
        Ok(())
    }

    /// Seconds between marks. Waits for the card.
    pub fn seconds(&self) -> Result<Vec<f64>> {
        match self {
            Self::Card { events, set } => events[..*set]
                .windows(2)
                .map(|pair| Ok(pair[1].elapsed_since(&pair[0])?.as_secs_f64()))
                .collect(),
            Self::Clock(instants) => Ok(instants
                .windows(2)
                .map(|pair| (pair[1] - pair[0]).as_secs_f64())
                .collect()),
        }
    }
}

/// A stopwatch over steps, with marks inside each where the parts are wanted.
#[derive(Debug)]
pub struct StepWatch {
    stopwatch: Stopwatch,
    /// Marks inside a step: after each forward and each backward; 0 for steps as a whole.
    inner: usize,
}

/// Time of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lap {
    /// All of it.
    pub seconds: f64,
    /// Where it went.
    pub parts: Option<StepParts>,
}

impl StepWatch {
    /// For this many steps, each with parts of so many micro-batches, or as a whole.
    pub fn new(steps: usize, micro_batches: Option<usize>, device: Device) -> Result<Self> {
        let inner = 2 * micro_batches.unwrap_or(0);
        Ok(Self {
            stopwatch: Stopwatch::new(steps * (inner + 1), device)?,
            inner,
        })
    }

    /// A step begins, or the last one ended.
    pub fn mark(&mut self) -> Result<()> {
        self.stopwatch.mark()
    }

    /// The times. Waits for the card.
    pub fn laps(&self) -> Result<Vec<Lap>> {
        let times = self.stopwatch.seconds()?;
        Ok(times.chunks_exact(self.inner + 1).map(lap).collect())
    }
}

/// Forward and backward in turn, and the optimizer at last.
fn lap(times: &[f64]) -> Lap {
    let seconds = times.iter().sum();
    let parts = match times {
        [] | [_] => None,
        [passes @ .., optimizer_seconds] => Some(StepParts {
            forward_seconds: passes.iter().step_by(2).sum(),
            backward_seconds: passes.iter().skip(1).step_by(2).sum(),
            optimizer_seconds: *optimizer_seconds,
        }),
    };
    Lap { seconds, parts }
}

impl Observer for StepWatch {
    fn forward(&mut self, _: usize) -> Result<()> {
        self.inner_mark()
    }

    fn backward(&mut self, _: usize) -> Result<()> {
        self.inner_mark()
    }
}

impl StepWatch {
    fn inner_mark(&mut self) -> Result<()> {
        if self.inner == 0 {
            return Ok(());
        }
        self.stopwatch.mark()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_is_the_sum_of_its_parts() {
        let whole = lap(&[2.0]);
        assert_eq!((whole.seconds, whole.parts), (2.0, None));
        let parts = lap(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((parts.seconds - 15.0).abs() < 1e-12);
        let parts = parts.parts.unwrap();
        assert!((parts.forward_seconds - 4.0).abs() < 1e-12);
        assert!((parts.backward_seconds - 6.0).abs() < 1e-12);
        assert!((parts.optimizer_seconds - 5.0).abs() < 1e-12);
    }

    #[test]
    fn steps_are_told_apart_by_their_marks() {
        let mut watch = StepWatch::new(2, Some(1), Device::Cpu).unwrap();
        watch.mark().unwrap();
        for _ in 0..2 {
            watch.forward(0).unwrap();
            watch.backward(0).unwrap();
            watch.mark().unwrap();
        }
        let laps = watch.laps().unwrap();
        assert_eq!(laps.len(), 2);
        assert!(laps.iter().all(|lap| lap.parts.is_some()));
    }
}
