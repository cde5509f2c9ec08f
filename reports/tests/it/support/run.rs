//! One made-up run.

use std::collections::BTreeMap;

use protocol::{CudaFacts, Phase, Started, Values};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use record::{
    GpuInterval, GpuMonitor, HarnessCost, Isolation, Monitor, Outcome, Reason, Record, Sample,
    Sampled, Scope, Series, Stage, Validity, Workload,
};

use super::{Fake, FakeCell, MIB, mib};

impl Fake {
    fn outcome(&self, order: u32) -> Outcome {
        let failed = self.failing.iter().find(|(at, ..)| *at == order);
        if let Some((_, reason, stage, message)) = failed.cloned() {
            return Outcome::failed(reason, stage, message);
        }
        if !self.all_fail {
            return Outcome::Ok;
        }
        Outcome::failed(
            Reason::DeviceUnavailable,
            Stage::Start,
            "no CUDA device; `doctor` lists what is missing",
        )
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
        let (steps, series) = self.steps(random, step);
        let measured: f64 = steps.iter().sum();
        let phases = self.phases(random, measured);
        let harness = HarnessCost {
            create_seconds: 0.011 + 0.003 * random.random::<f64>(),
            start_seconds: 0.12 + 0.02 * random.random::<f64>(),
            notice_seconds: 0.004,
            remove_seconds: 0.035 + 0.01 * random.random::<f64>(),
        };
        let inside: f64 = phases.values().sum();
        let wall = inside + harness.total_seconds() + 0.02;
        let yields = good || is_contaminated;
        let monitor = if yields {
            let mut monitor = self.monitor(random, cell, wall, wall - measured - 0.2);
            for gpu in &mut monitor.gpus {
                gpu.intervals = stretches(&validity);
            }
            monitor
        } else {
            Monitor::default()
        };
        let mut values = self.values(cell, factor, &steps);
        let mut set = |name: &str, value| values.insert(name.to_owned(), value);
        set("wall_seconds", wall);
        set(
            "container_start_seconds",
            harness.create_seconds + harness.start_seconds,
        );
        set("harness_seconds", harness.total_seconds());
        for (phase, name) in [
            (Phase::CudaStart, "cuda_start_seconds"),
            (Phase::ModelBuild, "model_build_seconds"),
            (Phase::Warmup, "warmup_seconds"),
        ] {
            if let Some(seconds) = phases.get(&phase) {
                set(name, *seconds);
            }
        }
        if cuda {
            set("run_gpu_energy_joules", 412.0 * wall);
        }
        if let Some(power) = monitor.get(Sampled::GpuPowerWatts) {
            set("run_gpu_mean_power_watts", power.mean);
        }
        Record {
            version: record::VERSION,
            run: run.clone(),
            session: self.name.clone(),
            image: image.to_owned(),
            suite: "sample".into(),
            scenario: cell.scenario.clone(),
            workload: Workload::builtin(cell.model.name(), cell.task.name()),
            axes: cell.variant.axes(),
            host: String::new(),
            device: self.device,
            block,
            order,
            attempt: 1,
            started_at: "2026-11-12T10:20:30Z".parse().unwrap(),
            wall_seconds: wall,
            isolation: Isolation {
                gpu_path: cuda.then(|| "passthrough".into()),
                ..Isolation::without("container", &[])
            },
            started: Some(Started {
                version: protocol::VERSION,
                run: run.clone(),
                scenario_version: "0.1.0".into(),
                libtorch_version: "2.11.0".into(),
                threads: 16,
                cuda: cuda.then(CudaFacts::default),
                ..Started::default()
            }),
            monitor,
            validity,
            values: if yields { values } else { Values::new() },
            series: if yields { series } else { BTreeMap::new() },
            phase_seconds: phases,
            harness,
            log: Some(format!("logs/{run}.log")),
            outcome,
            ..Record::default()
        }
    }

    /// The times of the steps, and every series of them.
    fn steps(
        &self,
        random: &mut ChaCha8Rng,
        step: f64,
    ) -> (Vec<f64>, BTreeMap<String, Vec<Option<f64>>>) {
        let steps: Vec<f64> = (0..self.steps)
            .map(|_| {
                step * (1.0
                    + 0.004 * normal(random).abs()
                    + if random.random_bool(0.02) { 0.06 } else { 0.0 })
            })
            .collect();
        let losses = (0..self.steps).map(|index| Some(6.9 - 0.02 * f64::from(index)));
        let times = steps.iter().copied().map(Some).collect();
        let series = [("step_seconds", times), ("loss", losses.collect())];
        let series = series.map(|(name, values)| (name.to_owned(), values));
        (steps, series.into())
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

    fn values(&self, cell: &FakeCell, factor: f64, steps: &[f64]) -> Values {
        let cuda = self.device.is_cuda();
        let batch = cell.variant.effective_batch() as f64;
        let samples = batch * f64::from(self.steps);
        let measured: f64 = steps.iter().sum();
        let peak = cell.allocated_mib / factor;
        let state = (peak * 0.2).min(200.0);
        let mut sorted = steps.to_vec();
        sorted.sort_by(f64::total_cmp);
        let quantile = |percent: usize| {
            let last = sorted.len() - 1;
            let (below, rest) = (percent * last / 100, percent * last % 100);
            let above = sorted[(below + 1).min(last)];
            sorted[below] + (above - sorted[below]) * rest as f64 / 100.0
        };
        let is_scaled = cell.variant.precision == protocol::Precision::AmpFp16;
        let on_gpu = |mib: f64| cuda.then_some(mib * MIB);
        let reserved = peak * 1.11;
        let values = [
            ("throughput_samples_per_second", Some(samples / measured)),
            ("samples_count", Some(samples)),
            ("measured_seconds", Some(measured)),
            ("step_median_seconds", Some(quantile(50))),
            ("step_mean_seconds", Some(measured / steps.len() as f64)),
            ("step_p90_seconds", Some(quantile(90))),
            ("step_p99_seconds", Some(quantile(99))),
            ("first_loss", Some(6.93)),
            ("last_loss", Some(5.71)),
            ("loss_scale", is_scaled.then_some(65536.0)),
            ("skipped_steps_count", is_scaled.then_some(0.0)),
            ("process_peak_bytes", on_gpu(reserved + 620.0)),
            ("outside_bytes", on_gpu(620.0)),
            ("reserved_unused_bytes", on_gpu(reserved - peak)),
            ("container_peak_bytes", Some(1900.0 * MIB)),
            ("peak_allocated_bytes", Some(peak * MIB)),
            ("peak_reserved_bytes", on_gpu(reserved)),
            ("run_peak_allocated_bytes", Some(peak * MIB)),
            ("run_peak_reserved_bytes", on_gpu(peak * 1.12)),
            ("run_process_peak_bytes", on_gpu(peak * 1.12 + 620.0)),
            ("allocated_bytes", Some(state * MIB)),
            ("reserved_bytes", on_gpu(reserved)),
            ("parameter_bytes", Some(state / 2.0 * MIB)),
            ("gradient_bytes", Some(state / 2.0 * MIB)),
            ("optimizer_bytes", Some(state / 2.0 * MIB)),
            ("context_bytes", on_gpu(612.0)),
            ("device_used_bytes", on_gpu(reserved + 640.0)),
            ("device_total_bytes", on_gpu(143_771.0)),
            (
                "run_host_peak_resident_bytes",
                Some(if cuda { 1800.0 } else { peak + 240.0 } * MIB),
            ),
            ("allocation_retries_count", cuda.then_some(0.0)),
        ];
        let values = values.into_iter();
        values
            .filter_map(|(name, value)| Some((name.to_owned(), whole_bytes(name, value?))))
            .collect()
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
        let mut all = vec![
            (Sampled::Pids, level(41.0, 0.0)),
            (Sampled::HostBusyCores, level(2.2, 0.4)),
            (Sampled::OtherCores, level(0.3, 0.1)),
            (
                Sampled::HostAvailableBytes,
                level(240.0 * 1024.0 * MIB, 40.0 * MIB),
            ),
        ];
        if self.device.is_cuda() {
            let busy = 92.0_f64.min(40.0 + cell.allocated_mib / 200.0);
            let held = cell.allocated_mib * 1.11;
            all.extend([
                (Sampled::GpuUtilizationPercent, series(0.0, busy, 1.5)),
                (
                    Sampled::GpuPowerWatts,
                    series(118.0, 400.0 + busy * 2.5, 12.0),
                ),
                (
                    Sampled::GpuProcessBytes,
                    series(0.0, (held + 620.0) * MIB, 0.0),
                ),
                (
                    Sampled::MemoryBytes,
                    series(200.0 * MIB, 1800.0 * MIB, 2.0 * MIB),
                ),
                (Sampled::CpuCores, series(0.8, 1.0, 0.02)),
                (Sampled::GpuUsedBytes, level((held + 1240.0) * MIB, 0.0)),
                (Sampled::GpuSmClockMhz, level(1900.0, 60.0)),
                (Sampled::GpuMemoryClockMhz, level(3201.0, 0.0)),
                (Sampled::GpuTemperatureCelsius, level(51.0, 4.0)),
            ]);
        } else {
            all.extend([
                (Sampled::CpuCores, series(1.0, 3.8, 0.1)),
                (
                    Sampled::MemoryBytes,
                    series(80.0 * MIB, 260.0 * MIB, 1.0 * MIB),
                ),
            ]);
        }
        let known = all
            .into_iter()
            .filter_map(|(what, series)| Some((what, series?)));
        let (of_gpu, of_run): (Vec<_>, Vec<_>) =
            known.partition(|(what, _)| what.scope() == Scope::Gpu);
        let mut monitor = Monitor {
            series: of_run.into_iter().collect(),
            read_bytes: Some(mib(812.0)),
            written_bytes: Some(0),
            ..Monitor::default()
        };
        if !of_gpu.is_empty() {
            monitor.gpus.push(GpuMonitor {
                series: of_gpu.into_iter().collect(),
                ..GpuMonitor::default()
            });
        }
        for gpu in &mut monitor.gpus {
            gpu.energy_joules = Some(412.0 * wall);
        }
        monitor
    }
}

fn whole_bytes(name: &str, value: f64) -> f64 {
    if name.ends_with("_bytes") {
        value.trunc()
    } else {
        value
    }
}

/// What contaminated it, where that is how it ended.
fn validity(outcome: &Outcome) -> Validity {
    let mut validity = Validity::default();
    if outcome.reason() == Some(Reason::Contaminated) {
        validity.contamination.push(outcome.message().to_owned());
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
