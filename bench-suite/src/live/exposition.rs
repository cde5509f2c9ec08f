//! What a session tells, as `OpenMetrics`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use metrics::Metric;
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};
use record::Record;

use super::Live;
use crate::{
    host::Sampled,
    session::{Progress, Subscriber, Totals},
};

type Number = Gauge<f64, AtomicU64>;
type Labels = Vec<(&'static str, String)>;

/// The metrics of a session. A clone shows the same.
#[derive(Debug, Clone)]
pub struct Exposition {
    live: Live,
    told: Arc<Mutex<Told>>,
}

/// What the session has told so far.
#[derive(Debug, Default)]
struct Told {
    about: Labels,
    totals: Totals,
    attempts: BTreeMap<String, u64>,
    /// The last good run of each cell.
    cells: BTreeMap<Labels, Vec<(&'static Metric, f64)>>,
    last_record_seconds: f64,
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
        Self {
            live,
            told: Arc::default(),
        }
    }

    /// Everything as `OpenMetrics` text, as of now.
    #[must_use]
    pub fn text(&self) -> String {
        let mut registry = Registry::with_prefix("torchgauge");
        self.lock().register(&mut registry);
        let readings = self.live.readings();
        for (name, help, what) in LIVE {
            let family = Family::<Labels, Number>::default();
            for (run, reading) in &readings {
                if let Some(value) = reading.values.get(&what) {
                    let labels = vec![("run", run.clone()), ("device", reading.device.clone())];
                    family.get_or_create(&labels).set(*value);
                }
            }
            registry.register(name, help, family);
        }
        let mut text = String::new();
        // A String takes everything.
        let _ = encode(&mut text, &registry);
        text
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn register(&self, registry: &mut Registry) {
        let numbers = [
            (
                "runs_planned",
                "Runs that were planned",
                self.totals.planned as f64,
            ),
            (
                "runs_remaining",
                "Runs that are still to do",
                self.totals.remaining as f64,
            ),
            (
                "session_complete",
                "1 when every planned run is finished",
                f64::from(u8::from(self.totals.is_complete())),
            ),
            (
                "last_record_timestamp_seconds",
                "When the last record was written, in seconds since 1970",
                self.last_record_seconds,
            ),
        ];
        for (name, help, value) in numbers {
            let number = Number::default();
            number.set(value);
            registry.register(name, help, number);
        }
        let attempts = Family::<Labels, Counter>::default();
        for (outcome, count) in &self.attempts {
            let labels = vec![("outcome", outcome.clone())];
            attempts.get_or_create(&labels).inc_by(*count);
        }
        registry.register("attempts", "Attempts at runs by how they ended", attempts);
        for metric in Metric::compared() {
            let family = Family::<Labels, Number>::default();
            for (labels, values) in &self.cells {
                let value = values.iter().find(|(of, _)| of.name == metric.name);
                if let Some((_, value)) = value {
                    family.get_or_create(labels).set(*value);
                }
            }
            let help = format!("Of the last good run of a cell: {}", metric.label);
            registry.register(metric.name, help, family);
        }
        if !self.about.is_empty() {
            let about = Info::new(self.about.clone());
            registry.register("session", "The session under way", about);
        }
    }

    fn session(&mut self, session: &record::Session) {
        self.about = vec![
            ("session", session.session.clone()),
            ("device", session.device.to_string()),
            ("engine", session.engine.kind.clone()),
            ("machine", session.machine.name.clone()),
            ("version", session.tool.version.clone()),
        ];
        // The outcome that one watches for is there from the start, so that its rate is known.
        self.attempts.entry("ok".to_owned()).or_default();
    }

    fn record(&mut self, record: &Record) {
        *self.attempts.entry(record.outcome.word()).or_default() += 1;
        self.last_record_seconds = jiff::Timestamp::now().as_duration().as_secs_f64();
        let labels = vec![
            ("image", record.image.clone()),
            ("suite", record.suite.clone()),
            ("scenario", record.scenario.clone()),
            ("variant", record.variant.to_string()),
        ];
        let of = |metric: &'static Metric| Some((metric, metric.of(record)?));
        let values: Vec<_> = Metric::compared().filter_map(of).collect();
        if !values.is_empty() {
            self.cells.insert(labels, values);
        }
    }
}

impl Subscriber for Exposition {
    fn tell(&mut self, progress: Progress<'_>) {
        let mut told = self.lock();
        match progress {
            Progress::SessionStarted { session, totals } => {
                told.session(session);
                told.totals = totals;
            }
            Progress::RunEnded { record, totals } => {
                told.record(record);
                told.totals = totals;
            }
            Progress::RunStarted { totals, .. } | Progress::SessionEnded { totals } => {
                told.totals = totals;
            }
            Progress::BlockEnded { .. } | Progress::Looked { .. } => {}
        }
    }
}
