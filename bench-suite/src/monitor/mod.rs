//! What is seen from outside while a run goes on.
//!
//! A thread of its own takes ten samples a second: the container's or process's memory,
//! CPU time and threads, and through NVML the GPU. Whatever cannot be read has no series;
//! no NVML, no cgroup files or a process in another namespace is normal. The thread reads a few
//! files and counters and never waits for the run.

mod everybody;
mod gpu;
mod host;
mod stretches;

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use record::{Monitor, Sample, Series};
use tokio::sync::watch;

use crate::live::{LiveRun, Reading};
pub(crate) use everybody::{Times, cpus};
pub use gpu::{Gpu, GpuReading};
pub use host::Target;
pub(crate) use host::group_members;

/// Between two samples.
const EVERY: Duration = Duration::from_millis(100);

/// A running monitor. Dropped, it ends and its samples are lost.
#[derive(Debug)]
pub struct Watch {
    stop: Sender<()>,
    thread: Option<JoinHandle<Monitor>>,
    lost: watch::Receiver<Option<String>>,
}

impl Watch {
    /// Begins to sample. `began` is the run's start; `gpu` the GPU that it uses, as it was
    /// before the start.
    pub(crate) fn begin(
        began: Instant,
        target: Target,
        gpu: Option<gpu::Idle>,
        live: LiveRun,
    ) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (tell_lost, lost) = watch::channel(None);
        let sample = move || {
            let mut host = host::Host::new(&target);
            let mut everybody = everybody::Everybody::new();
            let opened = gpu.as_ref().map(gpu::Idle::gpu);
            let errors = opened.as_ref().and_then(gpu::Errors::listen);
            let mut gpu = gpu.map(|gpu| gpu::Busy::new(gpu, target));
            loop {
                let at = began.elapsed().as_secs_f64();
                let own = host.sample(at);
                everybody.sample(at, own);
                if let Some(gpu) = &mut gpu {
                    gpu.sample(at, errors.as_ref());
                    if let Some(why) = gpu.lost() {
                        tell_lost.send_if_modified(|told| {
                            let is_new = told.is_none();
                            told.get_or_insert_with(|| why.to_owned());
                            is_new
                        });
                    }
                }
                let mut reading = Reading {
                    device: live.device().to_owned(),
                    ..Reading::default()
                };
                host.tell(&mut reading);
                if let Some(gpu) = &gpu {
                    gpu.tell(&mut reading);
                }
                live.publish(reading);
                match stopped.recv_timeout(EVERY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            let mut monitor = Monitor::default();
            host.finish(&mut monitor);
            everybody.finish(&mut monitor);
            if let Some(gpu) = gpu {
                gpu.finish(&mut monitor);
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
            lost,
        }
    }

    /// Comes back with the reason when the GPU turns out to be lost; never where it does not.
    pub(crate) fn gpu_lost(&self) -> impl Future<Output = String> + Send + use<> {
        let mut lost = self.lost.clone();
        async move {
            let why = lost.wait_for(Option::is_some).await;
            if let Some(why) = why.ok().and_then(|why| why.clone()) {
                return why;
            }
            // The monitor ended first.
            std::future::pending().await
        }
    }

    /// Looks at nothing.
    pub(crate) fn none() -> Self {
        let (stop, _) = mpsc::channel();
        let (_, lost) = watch::channel(None);
        Self {
            stop,
            thread: None,
            lost,
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

    fn last(&self) -> Option<f64> {
        self.0.last().map(|sample| sample.1)
    }

    fn series(&self) -> Option<Series> {
        Series::of(&self.0)
    }
}
