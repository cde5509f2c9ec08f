//! What a session tells, as `OpenMetrics`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64};

use metrics::Metric;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};
use record::{CellPlan, Outcome, Record};

use super::Live;
use crate::{
    host::Sampled,
    session::{Progress, Subscriber, Totals},
};

type Number = Gauge<f64, AtomicU64>;

/// A cell, by which metrics are told apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CellLabels {
    image: String,
    suite: String,
    scenario: String,
    variant: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    run: String,
    device: String,
}

/// The metrics of a session. A clone shows the same.
#[derive(Debug, Clone)]
pub struct Exposition {
    live: Live,
    shown: Arc<Mutex<Shown>>,
}

#[derive(Debug)]
struct Shown {
    registry: Registry,
    is_told: bool,
    planned: Gauge,
    remaining: Gauge,
    complete: Gauge,
    ended: Family<OutcomeLabels, Counter>,
    cells: Vec<(&'static Metric, Family<CellLabels, Number>)>,
    last_record: Number,
    runs: Vec<(Sampled, Family<RunLabels, Number>)>,
}

/// What is shown of every run under way: name, help, and which readings.
const LIVE: [(&str, &str, Sampled); 8] = [
    (
        "run_memory_bytes",
        "Memory of the container or process of a run under way",
        Sampled::MemoryBytes,
    ),
    (
        "run_cpu_cores",
        "CPUs' worth of time that a run under way uses",
        Sampled::CpuCores,
    ),
    (
        "run_pids",
        "Threads and processes of a run under way",
        Sampled::Pids,
    ),
    (
        "gpu_used_bytes",
        "Bytes of the GPU in use by all processes",
        Sampled::GpuUsedBytes,
    ),
    (
        "gpu_utilization_percent",
        "Share of time with a kernel running on the GPU",
        Sampled::GpuUtilizationPercent,
    ),
    (
        "gpu_power_watts",
        "Power draw of the GPU",
        Sampled::GpuPowerWatts,
    ),
    (
        "gpu_temperature_celsius",
        "Temperature of the GPU",
        Sampled::GpuTemperatureCelsius,
    ),
    (
        "gpu_sm_clock_megahertz",
        "Multiprocessor clock of the GPU",
        Sampled::GpuSmClockMhz,
    ),
];

impl Exposition {
    /// Shows nothing yet but what the monitors put into `live`.
    #[must_use]
    pub fn new(live: Live) -> Self {
        let mut registry = Registry::with_prefix("torchgauge");
        let (planned, remaining, complete) = (Gauge::default(), Gauge::default(), Gauge::default());
        let ended = Family::<OutcomeLabels, Counter>::default();
        let last_record = Number::default();
        registry.register("runs_planned", "Runs that were planned", planned.clone());
        registry.register(
            "runs_remaining",
            "Runs that are still to do",
            remaining.clone(),
        );
        registry.register(
            "session_complete",
            "1 when every planned run is finished",
            complete.clone(),
        );
        registry.register(
            "attempts",
            "Attempts at runs by how they ended",
            ended.clone(),
        );
        let cells = Metric::compared()
            .map(|metric| {
                let family = Family::<CellLabels, Number>::default();
                let help = format!("Of the last good run of a cell: {}", metric.label);
                registry.register(metric.name, help, family.clone());
                (metric, family)
            })
            .collect();
        registry.register(
            "last_record_timestamp_seconds",
            "When the last record was written, in seconds since 1970",
            last_record.clone(),
        );
        let runs = LIVE
            .iter()
            .map(|&(name, help, what)| {
                let family = Family::<RunLabels, Number>::default();
                registry.register(name, help, family.clone());
                (what, family)
            })
            .collect();
        Self {
            live,
            shown: Arc::new(Mutex::new(Shown {
                registry,
                is_told: false,
                planned,
                remaining,
                complete,
                ended,
                cells,
                last_record,
                runs,
            })),
        }
    }

    /// Everything as `OpenMetrics` text, as of now.
    #[must_use]
    pub fn text(&self) -> String {
        let readings = self.live.readings();
        let shown = self.lock();
        for (what, family) in &shown.runs {
            // A run that ended has no newest reading.
            family.clear();
            for (run, reading) in &readings {
                if let Some(value) = reading.values.get(what) {
                    let labels = RunLabels {
                        run: run.clone(),
                        device: reading.device.clone(),
                    };
                    family.get_or_create(&labels).set(*value);
                }
            }
        }
        let mut text = String::new();
        // A String takes everything.
        let _ = encode(&mut text, &shown.registry);
        text
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    fn session(&mut self, session: &record::Session) {
        if self.is_told {
            return;
        }
        self.is_told = true;
        let about = Info::new(vec![
            ("session", session.session.clone()),
            ("device", session.device.to_string()),
            ("engine", session.engine.kind.clone()),
            ("machine", session.machine.name.clone()),
            ("version", session.tool.version.clone()),
        ]);
        self.registry
            .register("session", "The session under way", about);
    }

    fn totals(&self, totals: Totals) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.planned.set(number(totals.planned));
        self.remaining.set(number(totals.remaining));
        self.complete.set(totals.is_complete().into());
    }

    fn record(&self, record: &Record) {
        let outcome = match &record.outcome {
            Outcome::Ok => "ok".to_owned(),
            Outcome::Failed { reason, .. } => reason.word(),
        };
        self.ended.get_or_create(&OutcomeLabels { outcome }).inc();
        let now = jiff::Timestamp::now().as_duration().as_secs_f64();
        self.last_record.set(now);
        let labels = CellLabels {
            image: record.image.clone(),
            suite: record.suite.clone(),
            scenario: record.scenario.clone(),
            variant: record.variant.to_string(),
        };
        for (metric, family) in &self.cells {
            if let Some(value) = metric.of(record) {
                family.get_or_create(&labels).set(value);
            }
        }
    }

    fn cells(&self, cells: &[CellPlan]) {
        // The outcome that one watches for is there from the start, so that its rate is known.
        if !cells.is_empty() {
            let outcome = "ok".to_owned();
            let _ = self.ended.get_or_create(&OutcomeLabels { outcome });
        }
    }
}

impl Subscriber for Exposition {
    fn tell(&mut self, progress: Progress<'_>) {
        let mut shown = self.lock();
        match progress {
            Progress::SessionStarted { session, totals } => {
                shown.session(session);
                shown.cells(&session.cells);
                shown.totals(totals);
            }
            Progress::RunEnded { record, totals } => {
                shown.record(record);
                shown.totals(totals);
            }
            Progress::RunStarted { totals, .. } | Progress::SessionEnded { totals } => {
                shown.totals(totals);
            }
            Progress::BlockEnded { .. } | Progress::Looked { .. } => {}
        }
    }
}
