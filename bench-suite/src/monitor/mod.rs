//! What is seen from outside while a run goes on.
//!
//! A thread of its own takes ten samples a second: the container's or process's memory,
//! processor time and threads, and through NVML the card. Whatever cannot be read has no series;
//! no NVML, no cgroup files or a process in another namespace is normal. The thread reads a few
//! files and counters and never waits for the run.

mod card;
mod host;

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use record::{Monitor, Sample, Series};

pub use card::Card;
pub use host::Target;
pub(crate) use host::group_members;

/// Between two samples.
const EVERY: Duration = Duration::from_millis(100);

/// A running monitor. Dropped, it ends and its samples are lost.
#[derive(Debug)]
pub struct Watch {
    stop: Sender<()>,
    thread: Option<JoinHandle<Monitor>>,
}

impl Watch {
    /// Begins to sample. `began` is the run's start; `card` the card that it uses, as it was
    /// before the start.
    #[must_use]
    pub fn begin(began: Instant, target: Target, card: Option<card::Idle>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let sample = move || {
            let mut host = host::Host::new(&target);
            let mut card = card.map(|card| card::Busy::new(card, target));
            loop {
                let at = began.elapsed().as_secs_f64();
                host.sample(at);
                if let Some(card) = &mut card {
                    card.sample(at);
                }
                match stopped.recv_timeout(EVERY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            let mut monitor = Monitor::default();
            host.finish(&mut monitor);
            if let Some(card) = card {
                card.finish(&mut monitor);
            }
            monitor
        };
        Self {
            stop,
            // No thread to be had is no reason to fail a run.
            thread: thread::Builder::new()
                .name("monitor".into())
                .spawn(sample)
                .ok(),
        }
    }

    /// Ends and gives what was seen.
    #[must_use]
    pub fn end(mut self) -> Monitor {
        // The thread is gone only where it panicked; then there is nothing to tell.
        let _ = self.stop.send(());
        self.thread
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

/// Samples of one quantity.
#[derive(Debug, Default)]
struct Column(Vec<Sample>);

impl Column {
    fn push(&mut self, at: f64, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.push(Sample(at, value));
        }
    }

    fn series(&self) -> Option<Series> {
        Series::of(&self.0)
    }
}
