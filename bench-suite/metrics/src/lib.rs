//! The catalogue of metrics: each metric once, with its unit, its direction, its window of time,
//! its source, and what it takes in and leaves out.
//!
//! Comparison, gate, claims, history, tables, plots, `report.json` and
//! `docs/metrics.md` read it. A new metric is one row of [`catalogue`].

mod across_runs;
pub mod catalogue;
mod rules;

use std::sync::{Mutex, PoisonError};

use record::{Better, DeclaredMetric, Record};

pub use across_runs::across_runs;
pub use judge::compare::{Direction, Kind};
pub use record::Unit;
pub use rules::broken_rule;

/// The times that metrics are about, besides moments and phases of the workload.
pub mod window {
    /// From the start of the first measured step to the end of the last.
    pub const MEASURED_STEPS: &str = "measured steps";
    /// With warm-up, and without what comes after the measured steps.
    pub const RUN: &str = "start of the run to the end of the measured steps";
    /// Steps after the measured ones, where a suite asks for them.
    pub const PROFILED_STEPS: &str = "profiled steps";
    /// The whole run, calibration and clearing up included.
    pub const WHOLE_RUN: &str = "whole run";
}

pub mod source {
    /// libtorch's on a GPU, a counting allocator on the CPU.
    pub const ALLOCATOR: &str = "allocator";
    /// From outside, ten times a second.
    pub const NVML: &str = "NVML";
    /// From outside, and the workload's own readings where those are too coarse.
    pub const NVML_AND_WORKLOAD: &str = "NVML, workload";
    /// Ten times a second; for a plain process the sum of its group.
    pub const CGROUP: &str = "cgroup";
    /// Around the work.
    pub const CLOCK: &str = "CUDA events; the clock on a CPU";
    /// Around work that begins and ends on an idle device.
    pub const WORKLOAD_CLOCK: &str = "the workload's clock";
    pub const HARNESS_CLOCK: &str = "the harness's clock";
    /// Its accounting of the process.
    pub const KERNEL: &str = "kernel";
    pub const COUNTER: &str = "workload";
    /// libtorch's, over steps that nothing else measures.
    pub const PROFILER: &str = "profiler";
    pub const IMAGE: &str = "the image's layers";
    pub const REGISTRY: &str = "the engine, while it pulls";
}

/// What a comparison does with a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is compared, and a regression fails a gate.
    Gated,
    /// It is compared, to explain what the gate says.
    Explains,
    /// It is followed over time and may be claimed.
    Followed,
    /// It describes a run and has no better or worse.
    Describes,
}

/// What the values of a run's processes come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Across {
    /// Their sum: rates, energy, what is counted.
    Sum,
    /// The largest: memory, and the time of the slowest.
    Largest,
    /// Their mean: losses, shares.
    Mean,
}

impl Across {
    /// The value of the run; `None` where no process yields one.
    pub fn of(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        let values: Vec<f64> = values.collect();
        let sum: f64 = values.iter().sum();
        match self {
            _ if values.is_empty() => None,
            Self::Sum => Some(sum),
            Self::Largest => values.into_iter().max_by(f64::total_cmp),
            Self::Mean => Some(sum / values.len() as f64),
        }
    }
}

/// One metric of a run: what a value's name means.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name in files, with its unit.
    pub name: &'static str,
    /// A few words for people.
    pub label: &'static str,
    pub unit: Unit,
    /// Which way it improves. Of no meaning where it only describes.
    pub direction: Direction,
    /// How it behaves from run to run.
    pub kind: Kind,
    /// The largest relative change that counts as none, unless a suite sets its own.
    pub threshold: f64,
    /// What a comparison does with it.
    pub role: Role,
    /// Whether a comparison's first sentences name it where it is what changed most.
    pub headline: bool,
    /// The time that it is about, in words.
    pub window: &'static str,
    /// Where it comes from, in words.
    pub source: &'static str,
    /// What a run of several processes comes to.
    pub across: Across,
    /// What it takes in and leaves out.
    pub about: &'static str,
}

/// The metrics of some sessions: the built-in rows, and those that their suites declare.
#[derive(Debug, Clone)]
pub struct Rows(Vec<&'static Metric>);

impl Rows {
    /// The built-in rows with these.
    pub fn with<'a>(declared: impl IntoIterator<Item = &'a DeclaredMetric>) -> Self {
        let mut rows = catalogue::ALL.to_vec();
        for one in declared {
            if rows.iter().all(|row| row.name != one.name) {
                rows.push(Metric::declared(one));
            }
        }
        Self(rows)
    }

    /// Every row, the built-in ones first.
    pub fn all(&self) -> impl Iterator<Item = &'static Metric> + '_ {
        self.0.iter().copied()
    }

    /// Those that a comparison judges.
    pub fn compared(&self) -> impl Iterator<Item = &'static Metric> + '_ {
        self.all().filter(|metric| metric.is_compared())
    }

    /// Those that have a better and a worse: they are followed over time and may be claimed.
    pub fn followed(&self) -> impl Iterator<Item = &'static Metric> + '_ {
        self.all().filter(|metric| metric.role != Role::Describes)
    }

    pub fn named(&self, name: &str) -> Option<&'static Metric> {
        self.all().find(|metric| metric.name == name)
    }
}

/// The rows that suites declared, each once. They live as long as the program, as the built-in ones
/// do, so that a row is a reference wherever it goes; a session may declare 64.
static DECLARED: Mutex<Vec<(DeclaredMetric, &'static Metric)>> = Mutex::new(Vec::new());

impl Metric {
    /// The row of a metric that a suite declares.
    fn declared(declared: &DeclaredMetric) -> &'static Self {
        let mut known = DECLARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, row)) = known.iter().find(|(one, _)| one == declared) {
            return row;
        }
        let leak = |text: &str| -> &'static str { String::leak(text.to_owned()) };
        let name = leak(&declared.name);
        let row: &'static Self = Box::leak(Box::new(Self {
            name,
            label: declared.label.as_deref().map_or(name, leak),
            unit: declared.unit,
            direction: match declared.better {
                Better::Less => Direction::LowerIsBetter,
                Better::More => Direction::HigherIsBetter,
            },
            kind: match declared.unit {
                Unit::Bytes | Unit::Count => Kind::MemoryLike,
                _ => Kind::TimeLike,
            },
            threshold: declared.threshold,
            role: if declared.gate {
                Role::Gated
            } else {
                Role::Explains
            },
            headline: declared.gate,
            window: window::MEASURED_STEPS,
            source: source::COUNTER,
            across: match declared.unit {
                Unit::Seconds | Unit::Bytes => Across::Largest,
                Unit::Ratio | Unit::Plain => Across::Mean,
                _ => Across::Sum,
            },
            about: "Declared by the suite.",
        }));
        known.push((declared.clone(), row));
        row
    }

    /// The built-in metrics that a comparison judges.
    pub fn compared() -> impl Iterator<Item = &'static Self> {
        catalogue::ALL
            .iter()
            .copied()
            .filter(|metric| metric.is_compared())
    }

    /// Those of them that a comparison's first sentences may name.
    pub fn headlines() -> impl Iterator<Item = &'static Self> {
        Self::compared().filter(|metric| metric.headline)
    }

    pub fn built_in(name: &str) -> Option<&'static Self> {
        let mut rows = catalogue::ALL.iter().copied();
        rows.find(|metric| metric.name == name)
    }

    /// What a name means wherever it is shown: the built-in row, or that of a suite whose session
    /// was read. Verdicts go by the [`Rows`] of their own sessions.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::built_in(name).or_else(|| {
            let known = DECLARED.lock().unwrap_or_else(PoisonError::into_inner);
            known
                .iter()
                .map(|(_, row)| *row)
                .find(|row| row.name == name)
        })
    }

    pub fn is_compared(&self) -> bool {
        matches!(self.role, Role::Gated | Role::Explains)
    }

    /// Whether a regression fails a gate.
    pub fn is_gated(&self) -> bool {
        self.role == Role::Gated
    }

    /// Its value in a run that went well; `None` where the run failed or did not yield it.
    pub fn of(&self, record: &Record) -> Option<f64> {
        record.value(self.name)
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
