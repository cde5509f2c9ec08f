//! Times of steps that do not disturb the steps.

use std::time::Instant;

use libtorch::{Result, cuda};
use tch::Device;

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
    /// Room for the marks around this many steps.
    pub fn new(steps: usize, device: Device) -> Result<Self> {
        Ok(match device {
            Device::Cuda(_) => Self::Card {
                events: (0..=steps)
                    .map(|_| cuda::Event::new())
                    .collect::<Result<_>>()?,
                set: 0,
            },
            _ => Self::Clock(Vec::with_capacity(steps + 1)),
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
