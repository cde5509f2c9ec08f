//! A thread that takes ten samples a second of a run, the machine and the GPU.
//!
//! Whatever cannot be read has no samples; no NVML, no cgroup files or a process in another
//! namespace is normal. The thread reads a few files and counters and never waits for the run.

use std::time::Duration;

use super::{
    gpu::{Errors, Gpu, GpuMonitor},
    processes::RunMonitor,
    system::SystemMonitor,
};
use crate::{
    host::{Samples, Subject, watch::Watcher},
    live::LiveRun,
};

/// Between two samples.
const EVERY: Duration = Duration::from_millis(100);

pub(super) fn run(
    subject: Subject,
    gpu: Option<&Gpu>,
    live: &LiveRun,
    watcher: &Watcher,
) -> Samples {
    let mut samples = Samples::default();
    let mut run = RunMonitor::new(&subject.target);
    let mut system = SystemMonitor::new();
    let errors = gpu.and_then(Errors::listen);
    let mut gpu = gpu.map(|gpu| GpuMonitor::new(gpu, subject.target, subject.bystanders));
    loop {
        let at = subject.began.elapsed().as_secs_f64();
        let own = run.sample(at, &mut samples);
        system.sample(at, own, &mut samples);
        if let Some(gpu) = &mut gpu {
            gpu.sample(subject.began, errors.as_ref(), &mut samples);
            if let Some(why) = gpu.lost() {
                watcher.tell_lost(why);
            }
        }
        live.publish(samples.newest());
        if !watcher.pause(EVERY) {
            break;
        }
    }
    if let Some(gpu) = gpu {
        gpu.finish(&mut samples.rest);
    }
    samples
}
