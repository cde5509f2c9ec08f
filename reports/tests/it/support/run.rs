//! One made-up run.

use std::collections::BTreeMap;

use protocol::{AllocatorCounters, CudaFacts, Memory, Phase, ScalerState, Started, Step};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use record::{
    GpuInterval, HarnessCost, Isolation, Metrics, Monitor, Outcome, Reason, Record, Sample, Series,
    Stage, StepTimes, Validity,
};

use super::{Fake, FakeCell, MIB, mib};

impl Fake {
    fn outcome(&self, order: u32) -> Outcome {
        let failed = self.failing.iter().find(|(at, ..)| *at == order);
        if let Some((_, reason, stage, message)) = failed.cloned() {
            return Outcome::Failed {
                reason,
                stage,
                message,
            };
        }
        if !self.all_fail {
            return Outcome::Ok;
        }
        Outcome::Failed {
            reason: Reason::DeviceUnavailable,
            stage: Stage::Start,
            message: "no CUDA device; `doctor` says what is missing".into(),
        }
    }

    pub(super) fn record(
        &self,
        random: &mut ChaCha8Rng,
        cell: &FakeCell,
        image: &str,
        factor: f64,
        block: u32,
        order: u32,
    ) -> Record {
        let cuda = self.device.is_cuda();
        let run = format!("r-{order:04}");
        let outcome = self.outcome(order);
        let good = outcome.is_ok();
        let validity = validity(&outcome);
        let is_contaminated = !validity.contamination.is_empty();
        let batch = cell.variant.effective_batch();
        let step = batch as f64 / (cell.throughput * factor * (1.0 + cell.noise * normal(random)));
        let steps: Vec<Step> = (0..self.steps)
            .map(|index| Step {
                index,
                seconds: step
                    * (1.0
                        + 0.004 * normal(random).abs()
                        + if random.random_bool(0.02) { 0.06 } else { 0.0 }),
                loss: Some(6.9 - 0.02 * f64::from(index)),
                ..Step::default()
            })
            .collect();
        let measured: f64 = steps.iter().map(|step| step.seconds).sum();
        let phases = self.phases(random, measured);
        let harness = HarnessCost {
            create_seconds: 0.011 + 0.003 * random.random::<f64>(),
            start_seconds: 0.12 + 0.02 * random.random::<f64>(),
            notice_seconds: 0.004,
            remove_seconds: 0.035 + 0.01 * random.random::<f64>(),
        };
        let inside: f64 = phases.values().sum();
        let wall = inside + harness.total_seconds() + 0.02;
        let metrics = (good || is_contaminated).then(|| self.metrics(cell, factor, &steps));
        Record {
            version: record::VERSION,
            run: run.clone(),
            session: self.name.clone(),
            image: image.to_owned(),
            image_id: None,
            suite: "sample".into(),
            scenario: cell.scenario.clone(),
            model: cell.model,
            task: cell.task,
            variant: cell.variant.clone(),
            device: self.device,
            block,
            order,
            attempt: 1,
            started_at: "2026-11-12T10:20:30Z".parse().unwrap(),
            wall_seconds: wall,
            method: record::Method::default(),
            isolation: Isolation {
                gpu_path: cuda.then(|| "passthrough".into()),
                ..Isolation::without("container", &[])
            },
            workload: Some(Started {
                version: protocol::VERSION,
                run: run.clone(),
                scenario_version: "0.1.0".into(),
                libtorch_version: "2.11.0".into(),
                threads: 16,
                cuda: cuda.then(CudaFacts::default),
                allocator: None,
            }),
            monitor: if good || is_contaminated {
                Monitor {
                    gpu_intervals: stretches(&validity),
                    ..self.monitor(random, cell, wall, wall - measured - 0.2)
                }
            } else {
                Monitor::default()
            },
            validity,
            metrics,
            steps: if good || is_contaminated {
                steps
            } else {
                Vec::new()
            },
            phase_began_seconds: BTreeMap::new(),
            phase_seconds: phases,
            harness,
            log: Some(format!("logs/{run}.log")),
            shortage: None,
            notes: Vec::new(),
            outcome,
        }
    }

    fn phases(&self, random: &mut ChaCha8Rng, measured: f64) -> BTreeMap<Phase, f64> {
        let cuda = self.device.is_cuda();
        let mut phases = BTreeMap::from([
            (Phase::ProcessStart, 0.03 + 0.004 * random.random::<f64>()),
            (Phase::ModelBuild, 0.4 + 0.02 * random.random::<f64>()),
            (Phase::Data, 0.05),
            (
                Phase::Warmup,
                if cuda { 6.0 } else { 0.3 } + 0.3 * random.random::<f64>(),
            ),
            (Phase::Measure, measured),
            (Phase::Teardown, 0.06),
        ]);
        if cuda {
            phases.insert(Phase::CudaStart, 1.9 + 0.1 * random.random::<f64>());
        }
        phases
    }

    fn metrics(&self, cell: &FakeCell, factor: f64, steps: &[Step]) -> Metrics {
        let cuda = self.device.is_cuda();
        let batch = cell.variant.effective_batch();
        let samples = batch * u64::from(self.steps);
        let measured: f64 = steps.iter().map(|step| step.seconds).sum();
        Metrics {
            summary: protocol::Summary {
                throughput_samples_per_second: Some(samples as f64 / measured),
                samples,
                measured_seconds: measured,
                micro_batch: u64::from(cell.variant.batch.get()),
                effective_batch: batch,
                parameters: 25_557_032,
                first_loss: Some(6.93),
                last_loss: Some(5.71),
                scaler: (cell.variant.precision == protocol::Precision::AmpFp16).then_some(
                    ScalerState {
                        scale: 65536.0,
                        skipped_in_warmup: 1,
                        skipped_while_measuring: 0,
                    },
                ),
                memory: self.memory(cell, factor),
                ..protocol::Summary::default()
            },
            peaks: record::Peaks {
                process_peak_bytes: cuda.then(|| mib(cell.allocated_mib / factor * 1.11 + 620.0)),
                container_peak_bytes: Some(mib(1900.0)),
                ..record::Peaks::default()
            },
            step_seconds: StepTimes::of(steps).unwrap(),
            ..Metrics::default()
        }
    }

    fn memory(&self, cell: &FakeCell, factor: f64) -> Memory {
        let cuda = self.device.is_cuda();
        let peak = cell.allocated_mib / factor;
        let state = (peak * 0.2).min(200.0);
        Memory {
            peak_allocated_bytes: Some(mib(peak)),
            peak_reserved_bytes: cuda.then(|| mib(peak * 1.11)),
            run_peak_allocated_bytes: Some(mib(peak)),
            run_peak_reserved_bytes: cuda.then(|| mib(peak * 1.12)),
            allocated_bytes: Some(mib(state)),
            reserved_bytes: cuda.then(|| mib(peak * 1.11)),
            parameter_bytes: Some(mib(state / 2.0)),
            gradient_bytes: Some(mib(state / 2.0)),
            optimizer_bytes: Some(mib(state / 2.0)),
            context_bytes: cuda.then(|| mib(612.0)),
            device_used_bytes: cuda.then(|| mib(peak * 1.11 + 640.0)),
            device_total_bytes: cuda.then(|| mib(143_771.0)),
            host_peak_resident_bytes: Some(mib(if cuda { 1800.0 } else { peak + 240.0 })),
            counters: cuda.then(AllocatorCounters::default),
            ..Memory::default()
        }
    }

    fn monitor(&self, random: &mut ChaCha8Rng, cell: &FakeCell, wall: f64, begin: f64) -> Monitor {
        let mut series = |low: f64, high: f64, wobble: f64| {
            let samples: Vec<Sample> = (0..150)
                .map(|index| {
                    let at = wall * f64::from(index) / 150.0;
                    let level = if at < begin * 0.35 { low } else { high };
                    Sample(at, (level + wobble * normal(random)).max(0.0))
                })
                .collect();
            Series::of(&samples)
        };
        // Without chance, so that what is drawn besides moves no metric.
        let level = |value: f64, swing: f64| {
            let sample = |index: u32| {
                let at = wall * f64::from(index) / 150.0;
                Sample(at, value + swing * (f64::from(index) / 9.0).sin())
            };
            Series::of(&(0..150).map(sample).collect::<Vec<_>>())
        };
        let host = Monitor {
            pids: level(41.0, 0.0),
            read_bytes: Some(mib(812.0)),
            written_bytes: Some(0),
            host_busy_cores: level(2.2, 0.4),
            other_cores: level(0.3, 0.1),
            host_available_bytes: level(240.0 * 1024.0 * MIB, 40.0 * MIB),
            ..Monitor::default()
        };
        if self.device.is_cuda() {
            let busy = 92.0_f64.min(40.0 + cell.allocated_mib / 200.0);
            Monitor {
                gpu_utilization_percent: series(0.0, busy, 1.5),
                gpu_power_watts: series(118.0, 400.0 + busy * 2.5, 12.0),
                gpu_process_bytes: series(0.0, (cell.allocated_mib * 1.11 + 620.0) * MIB, 0.0),
                memory_bytes: series(200.0 * MIB, 1800.0 * MIB, 2.0 * MIB),
                cpu_cores: series(0.8, 1.0, 0.02),
                gpu_used_bytes: level((cell.allocated_mib * 1.11 + 1240.0) * MIB, 0.0),
                gpu_sm_clock_mhz: level(1900.0, 60.0),
                gpu_memory_clock_mhz: level(3201.0, 0.0),
                gpu_temperature_celsius: level(51.0, 4.0),
                gpu_energy_joules: Some(412.0 * wall),
                ..host
            }
        } else {
            Monitor {
                cpu_cores: series(1.0, 3.8, 0.1),
                memory_bytes: series(80.0 * MIB, 260.0 * MIB, 1.0 * MIB),
                ..host
            }
        }
    }
}

/// What contaminated it, where that is how it ended.
fn validity(outcome: &Outcome) -> Validity {
    let mut validity = Validity::default();
    if let Outcome::Failed {
        reason: Reason::Contaminated,
        message,
        ..
    } = outcome
    {
        validity.contamination.push(message.clone());
    }
    validity
}

/// Each reason, for two seconds.
fn stretches(validity: &Validity) -> Vec<GpuInterval> {
    let stretch = |why: &String| GpuInterval {
        reason: why.clone(),
        from_seconds: 3.0,
        to_seconds: 5.0,
    };
    validity.contamination.iter().map(stretch).collect()
}

/// Standard normal, by Box and Muller.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}
