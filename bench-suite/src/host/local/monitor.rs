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
use crate::host::{Samples, Subject, watch::Watcher};

/// Between two samples.
const EVERY: Duration = Duration::from_millis(100);

/// `gpus` are those of the ranks.
pub(super) fn run(subject: &Subject, gpus: &[(usize, Gpu)], watcher: &Watcher) -> Samples {
    let mut samples = Samples::default();
    let mut run = RunMonitor::new(&subject.target);
    let mut system = SystemMonitor::new();
    let monitor = |(rank, gpu)| {
        let (target, bystanders) = (subject.target.clone(), subject.bystanders.clone());
        let monitor = GpuMonitor::new(gpu, target, bystanders);
        (rank, monitor, Errors::listen(gpu))
    };
    let gpus = gpus.iter().map(|(rank, gpu)| (*rank, gpu));
    let mut monitors: Vec<_> = gpus.map(monitor).collect();
    loop {
        let at = subject.began.elapsed().as_secs_f64();
        let own = run.sample(at, &mut samples);
        system.sample(at, own, &mut samples);
        for (_, gpu, errors) in &mut monitors {
            gpu.sample(subject.began, errors.as_ref());
            if let Some(why) = gpu.lost() {
                watcher.tell_lost(why);
            }
        }
        if !watcher.pause(EVERY) {
            break;
        }
    }
    let finished = monitors.into_iter();
    samples.gpus = finished
        .map(|(rank, gpu, _)| (rank, gpu.finish()))
        .collect();
    samples
}
