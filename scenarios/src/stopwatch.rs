//! Times of steps, and of their parts, that do not contaminate the steps.

use std::time::Instant;

use libtorch::{Result, cuda};
use tch::Device;

use crate::{summary::StepParts, training::Observer};

/// Marks between steps: CUDA events on a GPU, which the GPU itself stamps when it gets
/// there, or the clock on the CPU, where a step is done when it returns.
#[derive(Debug)]
pub enum Stopwatch {
    /// Marks that a GPU stamps; made beforehand.
    Gpu {
        events: Vec<cuda::Event>,
        set: usize,
    },
    /// Marks of the clock.
    Clock(Vec<Instant>),
}

impl Stopwatch {
    /// Room for the marks around this many laps.
    pub fn new(laps: usize, device: Device) -> Result<Self> {
        Ok(match device {
            Device::Cuda(_) => Self::Gpu {
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
            Self::Gpu { events, set } => {
                if let Some(event) = events.get_mut(*set) {
                    event.record()?;
                    *set += 1;
                }
            }
            Self::Clock(instants) => instants.push(Instant::now()),
        }
        Ok(())
    }

    /// Seconds between marks. Waits for the GPU.
    pub fn seconds(&self) -> Result<Vec<f64>> {
        match self {
            Self::Gpu { events, set } => events[..*set]
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
    /// Marks inside a step; 0 for steps as a whole.
    inner: usize,
    /// Whether one of them stands after the data of each micro-batch, before its forward.
    data: bool,
}

/// What is timed within a step: after each forward and each backward of so many micro-batches.
#[derive(Debug, Clone, Copy)]
pub struct Inside {
    pub micro_batches: usize,
    /// Whether the way of their data to the device is timed too.
    pub data: bool,
}

/// Time of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lap {
    pub seconds: f64,
    pub parts: Option<StepParts>,
}

impl StepWatch {
    /// For this many steps, each with its parts, or as a whole.
    pub fn new(steps: usize, inside: Option<Inside>, device: Device) -> Result<Self> {
        let data = inside.is_some_and(|inside| inside.data);
        let inner = inside.map_or(0, |inside| inside.micro_batches * passes(data));
        Ok(Self {
            stopwatch: Stopwatch::new(steps * (inner + 1), device)?,
            inner,
            data,
        })
    }

    /// A step begins, or the last one ended.
    pub fn mark(&mut self) -> Result<()> {
        self.stopwatch.mark()
    }

    /// The times. Waits for the GPU.
    pub fn laps(&self) -> Result<Vec<Lap>> {
        let times = self.stopwatch.seconds()?;
        let laps = times.chunks_exact(self.inner + 1);
        Ok(laps.map(|times| lap(times, self.data)).collect())
    }
}

/// Stretches of a micro-batch.
fn passes(data: bool) -> usize {
    2 + usize::from(data)
}

/// Data where they are timed, forward and backward in turn, and the optimizer at last.
fn lap(times: &[f64], data: bool) -> Lap {
    let seconds = times.iter().sum();
    let parts = match times {
        [] | [_] => None,
        [inner @ .., optimizer_seconds] => {
            let every = |first: usize| inner.iter().skip(first).step_by(passes(data)).sum();
            let forward = usize::from(data);
            Some(StepParts {
                data_seconds: data.then(|| every(0)),
                forward_seconds: every(forward),
                backward_seconds: every(forward + 1),
                optimizer_seconds: *optimizer_seconds,
            })
        }
    };
    Lap { seconds, parts }
}

impl Observer for StepWatch {
    fn data(&mut self, _: usize) -> Result<()> {
        if self.data {
            return self.inner_mark();
        }
        Ok(())
    }

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
        let whole = lap(&[2.0], false);
        assert_eq!((whole.seconds, whole.parts), (2.0, None));
        let parts = lap(&[1.0, 2.0, 3.0, 4.0, 5.0], false);
        assert!((parts.seconds - 15.0).abs() < 1e-12);
        let parts = parts.parts.unwrap();
        assert!((parts.forward_seconds - 4.0).abs() < 1e-12);
        assert!((parts.backward_seconds - 6.0).abs() < 1e-12);
        assert!((parts.optimizer_seconds - 5.0).abs() < 1e-12);
        assert_eq!(parts.data_seconds, None);
        let fed = lap(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], true);
        assert!((fed.seconds - 28.0).abs() < 1e-12);
        let fed = fed.parts.unwrap();
        assert!((fed.data_seconds.unwrap() - 5.0).abs() < 1e-12);
        assert!((fed.forward_seconds - 7.0).abs() < 1e-12);
        assert!((fed.backward_seconds - 9.0).abs() < 1e-12);
        assert!((fed.optimizer_seconds - 7.0).abs() < 1e-12);
    }

    #[test]
    fn steps_are_told_apart_by_their_marks() {
        let inside = Inside {
            micro_batches: 1,
            data: true,
        };
        let mut watch = StepWatch::new(2, Some(inside), Device::Cpu).unwrap();
        watch.mark().unwrap();
        for _ in 0..2 {
            watch.data(0).unwrap();
            watch.forward(0).unwrap();
            watch.backward(0).unwrap();
            watch.mark().unwrap();
        }
        let laps = watch.laps().unwrap();
        assert_eq!(laps.len(), 2);
        assert!(laps.iter().all(|lap| lap.parts.is_some()));
    }
}
