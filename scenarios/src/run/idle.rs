//! A run that computes nothing: what a container takes once libtorch is loaded and, on a GPU, the
//! context is made.

use std::{
    io::Write,
    thread,
    time::{Duration, Instant},
};

use protocol::{Event, IDLE_STEP, Phase, RunFile, Step, Values};

use crate::{Error, host, memory::MemoryMeter, results::Results, summary::Summary};

/// Lets as many steps pass as the run file says, each a stretch of sleep.
pub(super) fn idle<W: Write>(
    file: &RunFile,
    results: &mut Results<W>,
    meter: &mut MemoryMeter,
) -> Result<Summary, Error> {
    results.begin(Phase::Warmup, Instant::now())?;
    let began = Instant::now();
    let least = Duration::from_secs(file.steps.warmup_seconds.into());
    let mut warmup_steps = 0;
    while warmup_steps < file.steps.warmup || began.elapsed() < least {
        thread::sleep(IDLE_STEP);
        warmup_steps += 1;
        results.heartbeat(warmup_steps)?;
    }
    results.end()?;
    meter.reset_peaks()?;

    results.begin(Phase::Measure, Instant::now())?;
    let mut stretches = Vec::new();
    let cpu_before = host::cpu_seconds();
    let began = Instant::now();
    for step in 0..file.steps.measured {
        let step_began = Instant::now();
        thread::sleep(IDLE_STEP);
        stretches.push(step_began.elapsed().as_secs_f64());
        results.heartbeat(step + 1)?;
    }
    let measured_seconds = began.elapsed().as_secs_f64();
    let run_cpu_seconds = host::cpu_seconds();
    let memory = meter.read()?;
    results.end()?;
    for (index, seconds) in (0..).zip(stretches) {
        // As long as it was asked to be, which is no step time of the image's.
        results.write(&Event::Step(Step {
            index,
            values: Values::from([("idle_seconds".to_owned(), seconds)]),
        }))?;
    }
    Ok(Summary {
        warmup_steps,
        measured_seconds,
        cpu_seconds: host::between(cpu_before, run_cpu_seconds),
        run_cpu_seconds,
        memory,
        ..Summary::default()
    })
}
