//! What a workload would have told.

use std::{fs, io};

use jiff::Timestamp;
use protocol::{CudaFacts, Event, Phase, Started, Step, Task, Values, Variant};
use record::Place;

use super::script::Ending;
use crate::{executors::Order, suite::Work};

/// Writes the events of every rank; `uuid` gives that of the GPU in a place.
pub(super) fn write(
    order: &Order,
    ending: &Ending,
    uuid: impl Fn(&Place) -> Option<String>,
) -> io::Result<()> {
    let mut text = String::new();
    for (rank, place) in order.cell.places.iter().enumerate() {
        for event in told(order, ending, uuid(place)) {
            let mut line = serde_json::to_value(&event)?;
            if order.cell.places.len() > 1 {
                line["rank"] = rank.into();
            }
            text.push_str(&line.to_string());
            text.push('\n');
        }
    }
    match ending {
        Ending::Garbage => text.push_str("Segmentation fault (core dumped)\n"),
        Ending::Torn => text.push_str("{\"event\":\"finis"),
        _ => {}
    }
    fs::write(order.run_file(), order.to_json()?)?;
    fs::write(order.results_file(), text)?;
    fs::write(&order.log, "mock: nothing ran\n")
}

fn told(order: &Order, ending: &Ending, uuid: Option<String>) -> Vec<Event> {
    let mut events = vec![Event::Started(Box::new(Started {
        version: protocol::VERSION,
        run: order.told.clone(),
        scenario_version: env!("CARGO_PKG_VERSION").into(),
        libtorch_version: "2.11.0".into(),
        threads: order.cell.threads.unwrap_or(1),
        cuda: uuid.map(|uuid| CudaFacts {
            device_name: "no GPU: nothing ran".into(),
            uuid,
            ..CudaFacts::default()
        }),
        ..Started::default()
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
                values: Values::new(),
                shortage: None,
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
    events
}

/// The sum of a run's name, out of which all that varies comes.
fn letters(order: &Order) -> u32 {
    order.run.bytes().map(u32::from).sum()
}

/// How long the measured steps of a run take.
pub(super) fn measured_seconds(order: &Order, speed: f64) -> f64 {
    // A per cent of spread, so that statistics have something to work on.
    let spread = 1.0 + f64::from(letters(order) % 21) / 2000.0;
    0.01 * spread / speed * f64::from(order.cell.plan.steps.measured)
}

fn named(pairs: &[(&str, Option<f64>)]) -> Values {
    let known = |(name, value): &(&str, Option<f64>)| Some(((*name).to_owned(), (*value)?));
    pairs.iter().filter_map(known).collect()
}

/// Metrics that agree with each other and are the same for the same run.
fn metrics(order: &Order, speed: f64, sound: bool) -> Vec<Event> {
    let letters = letters(order);
    let steps = order.cell.plan.steps;
    let (warmup, steps) = (steps.warmup, steps.measured);
    let (variant, task, of_step) = match &order.cell.work {
        Work::Builtin { variant, task, .. } => {
            let samples = variant.own_samples(order.cell.plan.ranks);
            (Some(variant), *task, Some(samples))
        }
        Work::Program { program, .. } => (None, Task::Inference, program.samples_per_step),
    };
    let samples = of_step.map(|of_step| of_step * f64::from(steps));
    let measured_seconds = measured_seconds(order, speed);
    let step_seconds = measured_seconds / f64::from(steps);
    let loss = (task == Task::Training).then_some(2.0);
    // What computes no model takes no samples.
    let computes = task.computes();
    let serves = task == Task::Serving;
    let searches = variant.is_some_and(Variant::searches_rate);
    let step = |index| {
        let lengths = variant.and_then(|variant| variant.sequence_lengths);
        let length = lengths.map(|range| {
            let room = 1 + range.longest() - range.shortest();
            f64::from(range.shortest() + (letters + index) % room)
        });
        let name = match task {
            Task::Serving => "latency_seconds",
            Task::Idle => "idle_seconds",
            _ => "step_seconds",
        };
        Event::Step(Step {
            index,
            values: named(&[
                (name, Some(step_seconds)),
                ("loss", loss),
                ("sequence_length_tokens", length),
            ]),
        })
    };
    let mut events: Vec<_> = (0..steps).map(step).collect();
    let rate = samples.map(|samples| samples / measured_seconds);
    let rate = rate.map(|rate| if sound { rate } else { rate * 1.5 });
    let of_model = |value: Option<f64>| value.filter(|_| computes && !serves);
    let of_serving = |value: f64| serves.then_some(value);
    let of_generation = |value: f64| (task == Task::Generation).then_some(value);
    let batch = variant.map(|variant| variant.batch.get().into());
    events.push(Event::Finished {
        values: named(&[
            ("parameters_count", of_model(batch.map(|_: f64| 1000.0))),
            ("micro_batch_samples", of_model(batch)),
            ("effective_batch_samples", of_model(of_step)),
            ("samples_count", of_model(samples)),
            ("measured_seconds", Some(measured_seconds)),
            ("throughput_samples_per_second", of_model(rate)),
            ("prefill_tokens_per_second", of_generation(1000.0)),
            (
                "time_to_first_token_seconds",
                of_generation(step_seconds / 2.0),
            ),
            (
                "achieved_requests_per_second",
                of_serving(f64::from(steps) / measured_seconds),
            ),
            ("latency_p50_seconds", of_serving(step_seconds)),
            (
                "highest_rate_requests_per_second",
                of_serving(f64::from(steps) / measured_seconds).filter(|_| searches),
            ),
            ("first_loss", loss.map(|loss| loss + 0.5)),
            ("last_loss", loss),
            ("peak_allocated_bytes", Some(f64::from(100 << 20))),
            ("parameter_bytes", Some(4000.0)),
            ("run_host_peak_resident_bytes", Some(f64::from(300 << 20))),
            ("warmup_steps_count", Some(warmup.into())),
        ]),
    });
    events
}
