//! The catalogue of metrics: each metric once, with its unit, its direction, its window of time,
//! its source, and what it takes in and leaves out.
//!
//! Comparison, gate, claims, history, tables, plots, `report.json`, Prometheus and
//! `docs/metrics.md` read it. A new metric is one row of [`catalogue`].

pub mod catalogue;
mod page;

use record::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use judge::compare::{Direction, Kind};
pub use page::page;

/// What a metric is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Samples a second.
    SamplesPerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Times that something happened, or things that there are.
    Count,
    /// Joules.
    Joules,
    /// Watts.
    Watts,
    /// A share, from 0 to 1.
    Ratio,
    /// A number without a unit, such as a loss.
    Plain,
}

impl Unit {
    /// The unit's sign, such as `s`.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::SamplesPerSecond => "samples/s",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Joules => "J",
            Self::Watts => "W",
            Self::Ratio => "ratio",
            Self::Plain => "",
        }
    }
}

/// The time that a metric is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// From the start of the first measured step to the end of the last.
    MeasuredSteps,
    /// From the start of the run to the end of the measured steps.
    Run,
    /// The whole run, calibration and clearing up included.
    WholeRun,
    /// A moment, in words.
    Moment(&'static str),
    /// A phase of the workload, in words.
    Phase(&'static str),
}

/// Where a metric comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// libtorch's allocator on a GPU, a counting allocator on the CPU.
    Allocator,
    /// NVML, from outside, ten times a second.
    Nvml,
    /// NVML from outside, and the workload's own readings where those are too coarse.
    NvmlAndWorkload,
    /// The container's control group, ten times a second; for a plain process the sum of its group.
    Cgroup,
    /// CUDA events around the work; the clock on the CPU.
    Clock,
    /// The harness's clock.
    HarnessClock,
    /// The kernel's accounting of the process.
    Kernel,
    /// A counter of the workload's.
    Counter,
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

/// One metric of a run.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name in files, with its unit.
    pub name: &'static str,
    /// A few words for people.
    pub label: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Which way it improves. Of no meaning where it only describes.
    pub direction: Direction,
    /// How it behaves from run to run.
    pub kind: Kind,
    /// The largest relative change that counts as none, unless a suite sets its own.
    pub threshold: f64,
    /// What a comparison does with it.
    pub role: Role,
    /// The time that it is about.
    pub window: Window,
    /// Where it comes from.
    pub source: Source,
    /// What it takes in and leaves out.
    pub about: &'static str,
    /// Names that it had in older files.
    pub formerly: &'static [&'static str],
    read: fn(&Record) -> Option<f64>,
}

impl Metric {
    /// Those that a comparison judges.
    pub fn compared() -> impl Iterator<Item = &'static Self> {
        catalogue::ALL
            .iter()
            .copied()
            .filter(|metric| metric.is_compared())
    }

    /// Those that have a better and a worse: they are followed over time and may be claimed.
    pub fn followed() -> impl Iterator<Item = &'static Self> {
        let all = catalogue::ALL.iter().copied();
        all.filter(|metric| metric.role != Role::Describes)
    }

    /// The metric of this name, or that had it.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let all = || catalogue::ALL.iter().copied();
        all()
            .find(|metric| metric.name == name)
            .or_else(|| all().find(|metric| metric.formerly.contains(&name)))
    }

    /// Whether a comparison judges it.
    #[must_use]
    pub fn is_compared(&self) -> bool {
        matches!(self.role, Role::Gated | Role::Explains)
    }

    /// Whether a regression fails a gate.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.role == Role::Gated
    }

    /// Its value in a run that went well; `None` where the run failed or did not yield it.
    #[must_use]
    pub fn of(&self, record: &Record) -> Option<f64> {
        if !record.outcome.is_ok() {
            return None;
        }
        (self.read)(record).filter(|value| value.is_finite())
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
