//! An executor without a workload, for tests of everything around it.

use std::{
    fs,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use protocol::{
    CudaFacts, Device, Event, FailureReason, Memory, Phase, RunFile, Started, Step, Summary, Task,
};
use record::{Isolation, Reason, Stage};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Execution, Executor, Order, no_files};
use crate::{
    live::Live,
    monitor::{Gpu, Target, Watch},
    outcome::End,
};

/// Runs nothing and tells invented metrics, as a script says.
///
/// The script is a list of rules, separated by `;` or line ends. A rule is `PATTERN=ENDING`; the
/// first whose pattern is part of `RUN IMAGE SCENARIO VARIANT` or is `*` decides, and a run that
/// no rule fits goes well. Endings: `ok`, `ok:X` (X times as fast), `oom`, `nan`, `libtorch`,
/// `exit:N`, `signal:N`, `host-oom`, `time-limit`, `hang`, `gpu-lost`, `garbage`, `torn`, `invalid`, `engine`, `image`,
/// `cancel` (the session is interrupted during this run), `fits:N` (memory runs out above a batch of
/// N), `sleep:MS` (goes well after that
/// long), `stubborn:MS` (as `sleep`, and does not let itself be interrupted).
///
/// The command line reaches it as `--engine mock:SCRIPT`, hidden: tests of the real binary need a
/// session without containers, libtorch or a GPU. Its records say that nothing was measured.
#[derive(Debug, Clone)]
pub struct Mock {
    rules: Vec<(String, Ending)>,
    live: Live,
}

#[derive(Debug, Clone, PartialEq)]
enum Ending {
    Ok { speed: f64 },
    Told(FailureReason),
    Exit(i64),
    Signal(i32),
    HostOutOfMemory,
    TimeLimit,
    Hang,
    GpuLost,
    Garbage,
    Torn,
    Invalid,
    Engine,
    Image,
    Cancel,
    Sleep(Duration),
    Stubborn(Duration),
    Fits(u32),
}

/// Why a script cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no rule; expected PATTERN=ENDING with an ending of ok, ok:X, oom, nan, libtorch, \
     exit:N, signal:N, host-oom, time-limit, hang, gpu-lost, garbage, torn, invalid, engine, image, cancel, sleep:MS, stubborn:MS"
)]
pub struct MockError(String);

impl Mock {
    /// Follows this script.
    pub fn new(script: &str) -> Result<Self, MockError> {
        let rules = script
            .split([';', '\n'])
            .map(str::trim)
            .filter(|rule| !rule.is_empty())
            .map(|rule| parse(rule).ok_or_else(|| MockError(rule.to_owned())))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            rules,
            live: Live::default(),
        })
    }

    /// Lets the monitors put their newest readings here.
    #[must_use]
    pub fn telling(mut self, live: Live) -> Self {
        self.live = live;
        self
    }

    fn ending(&self, order: &Order) -> Ending {
        let RunFile { run, variant, .. } = &order.asked;
        let text = format!("{run} {} {variant}", order.image);
        self.rules
            .iter()
            .find(|(pattern, _)| pattern == "*" || text.contains(pattern.as_str()))
            .map_or(Ending::Ok { speed: 1.0 }, |(_, ending)| ending.clone())
    }
}

impl Ending {
    /// What a limit of the batch comes to.
    fn for_batch(self, batch: u32) -> Self {
        match self {
            Self::Fits(most) if batch > most => Self::Told(FailureReason::OutOfMemory),
            Self::Fits(_) => Self::Ok { speed: 1.0 },
            other => other,
        }
    }
}

fn parse(rule: &str) -> Option<(String, Ending)> {
    // A variant itself may hold `=`; an ending never does.
    let (pattern, ending) = rule.rsplit_once('=')?;
    let (word, value) = ending.trim().split_once(':').unwrap_or((ending.trim(), ""));
    let ending = match (word, value) {
        ("ok", "") => Ending::Ok { speed: 1.0 },
        ("ok", speed) => Ending::Ok {
            speed: speed
                .parse()
                .ok()
                .filter(|speed: &f64| speed.is_finite() && *speed > 0.0)?,
        },
        ("exit", status) => Ending::Exit(status.parse().ok()?),
        ("signal", signal) => Ending::Signal(signal.parse().ok()?),
        ("sleep", ms) => Ending::Sleep(Duration::from_millis(ms.parse().ok()?)),
        ("fits", batch) => Ending::Fits(batch.parse().ok()?),
        ("stubborn", ms) => Ending::Stubborn(Duration::from_millis(ms.parse().ok()?)),
        ("oom", "") => Ending::Told(FailureReason::OutOfMemory),
        ("nan", "") => Ending::Told(FailureReason::LossNotFinite),
        ("libtorch", "") => Ending::Told(FailureReason::Libtorch),
        ("host-oom", "") => Ending::HostOutOfMemory,
        ("time-limit", "") => Ending::TimeLimit,
        ("hang", "") => Ending::Hang,
        ("gpu-lost", "") => Ending::GpuLost,
        ("garbage", "") => Ending::Garbage,
        ("torn", "") => Ending::Torn,
        ("invalid", "") => Ending::Invalid,
        ("engine", "") => Ending::Engine,
        ("image", "") => Ending::Image,
        ("cancel", "") => Ending::Cancel,
        _ => return None,
    };
    Some((pattern.trim().to_owned(), ending))
}

impl Executor for Mock {
    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution> {
        Box::pin(async move {
            let mut execution = Execution::new(self.isolation());
            execution
                .notes
                .push("made by the mock engine; nothing was measured".into());
            execution.wall_seconds = 0.25;
            let ending = self
                .ending(order)
                .for_batch(order.asked.variant.batch.get());
            // The GPU is watched as in a run, so that what others do on it is seen.
            let gpu = match order.device {
                Device::Cuda(index) => Gpu::open(index),
                Device::Cpu => None,
            };
            let own = Target::Process {
                pid: std::process::id(),
            };
            let watch = gpu.filter(|_| order.is_watched).map(|gpu| {
                let live = self.live.run(&order.asked.run, order.device);
                Watch::begin(Instant::now(), own, Some(gpu.before_run()), live)
            });
            if let Ending::Sleep(time) = ending {
                let lost = watch.as_ref().map(Watch::gpu_lost);
                let lost = async {
                    match lost {
                        Some(lost) => lost.await,
                        None => std::future::pending().await,
                    }
                };
                let end = tokio::select! {
                    () = sleep(time) => None,
                    message = lost => Some(End::GpuLost { message }),
                    () = cancel.cancelled() => Some(End::Interrupted),
                };
                if let Some(end) = end {
                    execution.monitor = watch.map(Watch::end).unwrap_or_default();
                    execution.end = end;
                    return execution;
                }
            }
            if let Ending::Stubborn(time) = ending {
                sleep(time).await;
            }
            execution.monitor = watch.map(Watch::end).unwrap_or_default();
            if ending == Ending::Cancel {
                cancel.cancel();
                return execution;
            }
            if let Err(error) = write(order, &ending) {
                execution.end = no_files(&error);
                return execution;
            }
            execution.end = end(order, &ending);
            execution
        })
    }

    fn isolation(&self) -> Isolation {
        Isolation::Process {
            missing: vec!["everything: nothing ran, the metrics are invented".into()],
        }
    }
}

fn end(order: &Order, ending: &Ending) -> End {
    match ending {
        Ending::Exit(status) => End::Exited(*status),
        Ending::Signal(signal) => End::Signalled(*signal),
        Ending::Told(_) => End::Exited(1),
        Ending::HostOutOfMemory => End::OutOfMemory {
            message: "the container's memory limit of 4 GiB".into(),
        },
        Ending::TimeLimit => End::TimeLimit(order.limits.time),
        Ending::Hang => End::Silent(order.limits.silence.unwrap_or_default()),
        Ending::GpuLost => End::GpuLost {
            message: "the GPU fell off the bus".into(),
        },
        Ending::Engine => End::EngineLost {
            message: "the engine is gone".into(),
        },
        Ending::Image => End::NotStarted {
            reason: Reason::ImageBroken,
            stage: Stage::Create,
            message: "no such image".into(),
        },
        _ => End::Exited(0),
    }
}

fn write(order: &Order, ending: &Ending) -> std::io::Result<()> {
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
            at_seconds: Some(jiff::Timestamp::now().as_duration().as_secs_f64()),
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
        events.push(Event::PhaseEnded {
            phase,
            seconds: 0.05,
        });
    }
    match ending {
        Ending::Ok { speed } => events.extend(metrics(&order.asked, *speed, true)),
        Ending::Sleep(_) | Ending::Stubborn(_) => events.extend(metrics(&order.asked, 1.0, true)),
        Ending::Invalid => events.extend(metrics(&order.asked, 1.0, false)),
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

/// Metrics that agree with each other and are the same for the same run.
fn metrics(asked: &RunFile, speed: f64, sound: bool) -> Vec<Event> {
    // A per cent of spread, out of the run's name, so that statistics have something to work on.
    let letters: u32 = asked.run.bytes().map(u32::from).sum();
    let spread = 1.0 + f64::from(letters % 21) / 2000.0;
    let samples = asked.variant.effective_batch() * u64::from(asked.steps.measured);
    let step_seconds = 0.01 * spread / speed;
    let measured_seconds = step_seconds * f64::from(asked.steps.measured);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read() {
        let mock = Mock::new("checkpointing=blocks=oom; b1=exit:3\n*=ok:1.05").unwrap();
        assert_eq!(mock.rules.len(), 3);
        assert_eq!(mock.rules[0].0, "checkpointing=blocks");
        assert_eq!(mock.rules[2].1, Ending::Ok { speed: 1.05 });
        for bad in ["x", "x=", "x=exit", "x=ok:-1", "x=oom:1", "x=fire"] {
            let error = Mock::new(bad).unwrap_err();
            assert!(
                error.to_string().contains("is no rule; expected"),
                "{error}"
            );
        }
    }
}
