//! What a session tells, as `OpenMetrics`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use metrics::{Metric, Rows, catalogue};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};
use record::{Record, Sampled, Scope};

use super::Live;
use crate::{
    host::Host,
    session::{Progress, Subscriber, Totals},
};

type Number = Gauge<f64, AtomicU64>;
type Labels = Vec<(&'static str, String)>;

/// The metrics of a session. A clone shows the same.
#[derive(Debug, Clone)]
pub struct Exposition {
    live: Vec<(String, Live)>,
    told: Arc<Mutex<Told>>,
}

/// What the session has told so far.
#[derive(Debug, Default)]
struct Told {
    about: Labels,
    totals: Totals,
    attempts: BTreeMap<String, u64>,
    /// What the session's metrics mean.
    rows: Option<Rows>,
    /// The last good run of each cell.
    cells: BTreeMap<Labels, Vec<(&'static Metric, f64)>>,
    last_record_seconds: f64,
}

/// The name of a series of every run under way; the host's own belong to whoever watches the host.
fn live_name(what: Sampled) -> Option<String> {
    let word = what.word().replace("_mhz", "_megahertz");
    match what.scope() {
        Scope::Run => Some(format!("run_{word}")),
        Scope::Gpu => Some(format!("gpu_{word}")),
        Scope::Host => None,
    }
}

impl Exposition {
    /// Shows nothing yet but what the monitors of these hosts read.
    #[must_use]
    pub fn new(hosts: &[Arc<dyn Host>]) -> Self {
        let live = |host: &Arc<dyn Host>| (host.name().to_owned(), host.live());
        Self {
            live: hosts.iter().map(live).collect(),
            told: Arc::default(),
        }
    }

    /// Everything as `OpenMetrics` text, as of now.
    #[must_use]
    pub fn text(&self) -> String {
        let mut registry = Registry::with_prefix("torchgauge");
        self.lock().register(&mut registry);
        let mut readings = Vec::new();
        for (host, live) in &self.live {
            for (run, all) in live.readings() {
                readings.extend(all.into_iter().map(|one| (host.clone(), run.clone(), one)));
            }
        }
        for what in Sampled::ALL {
            let Some(name) = live_name(*what) else {
                continue;
            };
            let family = Family::<Labels, Number>::default();
            for (host, run, reading) in &readings {
                if let Some(value) = reading.values.get(what) {
                    let labels = vec![
                        ("run", run.clone()),
                        ("host", host.clone()),
                        ("device", reading.device.clone()),
                    ];
                    family.get_or_create(&labels).set(*value);
                }
            }
            registry.register(name, what.help(), family);
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
        for metric in self.rows.iter().flat_map(Rows::compared) {
            let family = Family::<Labels, Number>::default();
            for (labels, values) in &self.cells {
                let value = values.iter().find(|(of, _)| of.name == metric.name);
                if let Some((_, value)) = value {
                    family.get_or_create(labels).set(*value);
                }
            }
            let help = format!("Of the last good run of a cell: {}", metric.label);
            // What a suite calls its own must not be what the session or a monitor is called.
            let is_built_in = catalogue::ALL.contains(&metric);
            let prefix = if is_built_in { "" } else { "suite_" };
            registry.register(format!("{prefix}{}", metric.name), help, family);
        }
        if !self.about.is_empty() {
            let about = Info::new(self.about.clone());
            registry.register("session", "The session under way", about);
        }
    }

    fn session(&mut self, session: &record::Session) {
        self.rows = Some(Rows::with(&session.metrics));
        self.about = vec![
            ("session", session.session.clone()),
            ("device", session.device.to_string()),
            ("engine", session.engine.kind.clone()),
            ("machine", session.machine_names()),
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
            ("variant", record.axes.to_string()),
        ];
        let of = |metric: &'static Metric| Some((metric, metric.of(record)?));
        let rows = self.rows.iter().flat_map(Rows::compared);
        let values: Vec<_> = rows.filter_map(of).collect();
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
            Progress::Unfit { .. } | Progress::BlockEnded { .. } | Progress::Looked { .. } => {}
        }
    }
}
