//! What a workload would have told.

use std::{fs, io};

use jiff::Timestamp;
use protocol::{CudaFacts, Event, Memory, Phase, Started, Step, Summary, Task};

use super::script::Ending;
use crate::executors::Order;

pub(super) fn write(order: &Order, ending: &Ending) -> io::Result<()> {
    let mut events = vec![Event::Started(Box::new(Started {
        version: protocol::VERSION,
        run: order.asked.run.clone(),
        scenario_version: env!("CARGO_PKG_VERSION").into(),
        libtorch_version: "2.11.0".into(),
        threads: order.asked.threads.unwrap_or(1),
        cuda: order.device.is_cuda().then(|| gpu_of(order)).flatten(),
        allocator: None,
    }))];
    for phase in [Phase::ModelBuild, Phase::Warmup, Phase::Measure] {
        events.push(Event::PhaseBegan {
            phase,
            at_seconds: Some(Timestamp::now().as_duration().as_secs_f64()),
        });
        if let Ending::Told(reason) = ending
            && phase == Phase::Warmup
        {
            events.push(Event::Failed {
                reason: *reason,
                phase,
                message: format!("the mock failed with {reason:?}"),
                memory: None,
            });
            break;
        }
        let seconds = match phase {
            Phase::Measure => measured_seconds(order, ending.speed()),
            _ => 0.05,
        };
        events.push(Event::PhaseEnded { phase, seconds });
    }
    match ending {
        Ending::Ok { .. } | Ending::Sleep(_) | Ending::Stubborn(_) => {
            events.extend(metrics(order, ending.speed(), true));
        }
        Ending::Invalid => events.extend(metrics(order, 1.0, false)),
        _ => {}
    }
    let mut text = String::new();
    for event in events {
        text.push_str(&serde_json::to_string(&event)?);
        text.push('\n');
    }
    match ending {
        Ending::Garbage => text.push_str("Segmentation fault (core dumped)\n"),
        Ending::Torn => text.push_str("{\"event\":\"finis"),
        _ => {}
    }
    fs::write(order.run_file(), serde_json::to_vec(&order.asked)?)?;
    fs::write(order.results_file(), text)?;
    fs::write(&order.log, "mock: nothing ran\n")
}

/// The GPU that the environment holds the run to, as a workload would tell of it.
fn gpu_of(order: &Order) -> Option<CudaFacts> {
    let seen = order.environment.get("CUDA_VISIBLE_DEVICES")?;
    seen.starts_with("GPU-").then(|| CudaFacts {
        device_name: "no GPU: nothing ran".into(),
        uuid: seen.clone(),
        ..CudaFacts::default()
    })
}

/// The sum of a run's name, out of which all that varies comes.
fn letters(order: &Order) -> u32 {
    order.run.bytes().map(u32::from).sum()
}

/// How long the measured steps of a run take.
pub(super) fn measured_seconds(order: &Order, speed: f64) -> f64 {
    // A per cent of spread, so that statistics have something to work on.
    let spread = 1.0 + f64::from(letters(order) % 21) / 2000.0;
    0.01 * spread / speed * f64::from(order.asked.steps.measured)
}

/// Metrics that agree with each other and are the same for the same run.
fn metrics(order: &Order, speed: f64, sound: bool) -> Vec<Event> {
    let asked = &order.asked;
    let letters = letters(order);
    let samples = asked.variant.effective_batch() * u64::from(asked.steps.measured);
    let measured_seconds = measured_seconds(order, speed);
    let step_seconds = measured_seconds / f64::from(asked.steps.measured);
    let loss = (asked.task == Task::Training).then_some(2.0);
    let lengths = asked.variant.sequence_lengths;
    let mut events: Vec<_> = (0..asked.steps.measured)
        .map(|index| {
            Event::Step(Step {
                index,
                seconds: step_seconds,
                loss,
                sequence_length: lengths.map(|range| {
                    let room = 1 + range.longest() - range.shortest();
                    range.shortest() + (letters + index) % room
                }),
                ..Step::default()
            })
        })
        .collect();
    let rate = samples as f64 / measured_seconds;
    let idle = asked.task == Task::Idle;
    let samples_of = |samples| if idle { 0 } else { samples };
    events.push(Event::Finished(Box::new(Summary {
        parameters: 1000,
        micro_batch: samples_of(asked.variant.batch.get().into()),
        effective_batch: samples_of(asked.variant.effective_batch()),
        samples: samples_of(samples),
        measured_seconds,
        throughput_samples_per_second: (!idle).then_some(if sound { rate } else { rate * 1.5 }),
        first_loss: loss.map(|loss| loss + 0.5),
        last_loss: loss,
        memory: Memory {
            peak_allocated_bytes: Some(100 << 20),
            parameter_bytes: Some(4000),
            host_peak_resident_bytes: Some(300 << 20),
            ..Memory::default()
        },
        warmup_steps: Some(asked.steps.warmup),
        ..Summary::default()
    })));
    events
}
