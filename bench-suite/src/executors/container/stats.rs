//! The engine's own readings, for containers whose files cannot be read from here.

use std::time::Instant;

use futures_util::StreamExt as _;
use record::Sampled;

use crate::host::Samples;

/// Samples until the container ends.
pub(super) async fn samples(container: &engine::Container, began: Instant) -> Samples {
    let mut samples = Samples::default();
    let mut readings = container.stats();
    while let Some(Ok(reading)) = readings.next().await {
        let at = began.elapsed().as_secs_f64();
        let number = |value: Option<u64>| value.map(|value| value as f64);
        samples.push(Sampled::MemoryBytes, at, number(reading.memory_bytes));
        samples.push(Sampled::CpuCores, at, reading.cpus_used);
        samples.push(Sampled::Pids, at, number(reading.pids));
        let rest = &mut samples.rest;
        rest.read_bytes = reading.read_bytes.or(rest.read_bytes);
        rest.written_bytes = reading.written_bytes.or(rest.written_bytes);
    }
    samples
}
