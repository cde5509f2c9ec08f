//! What changed inside the steps of a cell, beside what changed outside: the kernels that ran, and
//! the losses and gradients where they repeat. It describes, and no verdict and no gate looks at it.

use std::collections::{BTreeMap, BTreeSet};

use judge::median;
use protocol::Kernel;
use record::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::side::Runs;

/// A kernel whose time changes by less than this share of the base's step is not listed.
pub const KERNEL_FLOOR: f64 = 0.01;

/// What changed inside the steps of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inside {
    /// What ran, where both sides have profiled steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<KernelChanges>,
    /// The losses of a deterministic cell, where the runs of either side agree on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub losses: Option<Losses>,
    /// The gradients of its first warm-up steps, where the same holds of their digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradients: Option<Gradients>,
}

/// The kernels of two sides against each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelChanges {
    /// Time of all kernels of a step in the base, in seconds: the median over its runs.
    pub base_seconds: f64,
    pub head_seconds: f64,
    /// Kernels whose time changes by 1 % of `base_seconds` at least, the largest change first.
    pub changes: Vec<KernelChange>,
    /// Kernels that are new or gone and take less than that.
    pub small: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelChange {
    /// Its name, cut at 200 letters.
    pub name: String,
    pub change: KernelChanged,
    /// What a step of the base spends in it: medians over the runs; 0 where none ran it.
    pub base: KernelCost,
    pub head: KernelCost,
}

/// What a kernel takes of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelCost {
    /// How often a step runs it.
    pub count: f64,
    pub seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KernelChanged {
    /// No run of the base has it.
    New,
    /// No run of the head has it.
    Gone,
    /// A step spends more time in it in every run of the head than in any of the base.
    Slower,
    /// A step spends less time in it in every run of the head than in any of the base.
    Faster,
}

/// The losses of two sides, step by step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// Measured steps that both sides have.
    pub steps: usize,
    /// Where they differ; `None` where they are equal to the bit.
    pub differ: Option<LossesDiffer>,
}

/// The gradients of two sides, warm-up step by warm-up step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gradients {
    /// Warm-up steps that both sides have a digest of.
    pub steps: usize,
    /// The first that has other gradients, from 0; `None` where all are equal to the bit.
    pub differ: Option<usize>,
}

/// From where on losses differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossesDiffer {
    /// The first step that has another loss, from 0.
    pub step: usize,
    /// Head ÷ base there; `None` where that is no number.
    pub ratio: Option<f64>,
    /// Head ÷ base in the last step.
    pub last_ratio: Option<f64>,
}

impl Inside {
    /// Of the runs of a cell; `None` where there is nothing to say.
    pub(crate) fn of(base: &Runs<'_>, head: &Runs<'_>) -> Option<Self> {
        let inside = Self {
            kernels: KernelChanges::of(base, head),
            losses: Losses::of(base, head),
            gradients: Gradients::of(base, head),
        };
        (inside != Self::default()).then_some(inside)
    }
}

/// The kernels of each profiled run of a side, by name.
struct Profiled<'a>(Vec<BTreeMap<&'a str, &'a Kernel>>);

impl<'a> Profiled<'a> {
    fn of(runs: &Runs<'a>) -> Option<Self> {
        let runs = runs.values().copied();
        let profiled = runs.filter(|run| run.outcome.is_ok() && !run.kernels.is_empty());
        let by_name = |run: &'a Record| {
            let kernels = run.kernels.iter();
            kernels.map(|one| (one.name.as_str(), one)).collect()
        };
        let runs: Vec<_> = profiled.map(by_name).collect();
        (!runs.is_empty()).then_some(Self(runs))
    }

    fn step_seconds(&self) -> f64 {
        let all = self.0.iter();
        let sums = all.map(|run| run.values().map(|kernel| kernel.seconds).sum());
        median(sums).unwrap_or_default()
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        let names = self.0.iter().flat_map(|run| run.keys().copied());
        names.filter(|name| *name != Kernel::REST)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|run| run.contains_key(name))
    }

    fn over(&self, name: &str, read: fn(&Kernel) -> f64) -> impl Iterator<Item = f64> {
        let runs = self.0.iter();
        runs.map(move |run| run.get(name).map_or(0.0, |kernel| read(kernel)))
    }

    fn cost(&self, name: &str) -> KernelCost {
        KernelCost {
            count: median(self.over(name, |kernel| kernel.count)).unwrap_or_default(),
            seconds: median(self.over(name, |kernel| kernel.seconds)).unwrap_or_default(),
        }
    }

    /// Whether a step spends more time in it in every run than in any of the others.
    fn is_above(&self, others: &Self, name: &str) -> bool {
        let own = self.over(name, |kernel| kernel.seconds);
        let most = others.over(name, |kernel| kernel.seconds);
        own.fold(f64::INFINITY, f64::min) > most.fold(0.0, f64::max)
    }
}

impl KernelChanges {
    fn of(base: &Runs<'_>, head: &Runs<'_>) -> Option<Self> {
        let (base, head) = (Profiled::of(base)?, Profiled::of(head)?);
        let names: BTreeSet<&str> = base.names().chain(head.names()).collect();
        let change = |name: &&str| {
            let change = match (base.has(name), head.has(name)) {
                (false, _) => KernelChanged::New,
                (_, false) => KernelChanged::Gone,
                _ if head.is_above(&base, name) => KernelChanged::Slower,
                _ if base.is_above(&head, name) => KernelChanged::Faster,
                _ => return None,
            };
            Some(KernelChange {
                name: (*name).to_owned(),
                change,
                base: base.cost(name),
                head: head.cost(name),
            })
        };
        let base_seconds = Some(base.step_seconds()).filter(|seconds| *seconds > 0.0)?;
        let all = names.iter().filter_map(change);
        let (mut changes, rest): (Vec<_>, Vec<_>) =
            all.partition(|one| one.seconds().abs() >= KERNEL_FLOOR * base_seconds);
        changes.sort_by(|one, other| other.seconds().abs().total_cmp(&one.seconds().abs()));
        let is_one_sided = |change| matches!(change, KernelChanged::New | KernelChanged::Gone);
        Some(Self {
            base_seconds,
            head_seconds: head.step_seconds(),
            changes,
            small: rest.iter().filter(|one| is_one_sided(one.change)).count(),
        })
    }
}

impl KernelChange {
    /// How much more time a step of the head spends in it, in seconds.
    pub fn seconds(&self) -> f64 {
        self.head.seconds - self.base.seconds
    }
}

impl Losses {
    fn of(base: &Runs<'_>, head: &Runs<'_>) -> Option<Self> {
        let [base, head] = [base, head].map(|side| repeated(side, losses));
        let pairs: Vec<_> = base?.into_iter().zip(head?).collect();
        let ratio = |step: usize| {
            let (base, head) = pairs.get(step)?;
            let ratio = (*head)? / (*base)?;
            Some(ratio).filter(|ratio| ratio.is_finite())
        };
        Some(Self {
            steps: pairs.len(),
            differ: first_difference(&pairs).map(|step| LossesDiffer {
                step,
                ratio: ratio(step),
                last_ratio: ratio(pairs.len() - 1),
            }),
        })
    }
}

impl Gradients {
    fn of(base: &Runs<'_>, head: &Runs<'_>) -> Option<Self> {
        let [base, head] = [base, head].map(|side| repeated(side, digests));
        let pairs: Vec<_> = base?.into_iter().zip(head?).collect();
        Some(Self {
            steps: pairs.len(),
            differ: first_difference(&pairs),
        })
    }
}

/// A number of each step, or none.
type Steps = Vec<Option<f64>>;

fn losses(run: &Record) -> Option<Steps> {
    let deterministic = run.axes.get("deterministic").is_some_and(|on| on == "true");
    run.series.get("loss").filter(|_| deterministic).cloned()
}

/// Of the gradients of the first warm-up steps: only a deterministic run has some.
fn digests(run: &Record) -> Option<Steps> {
    let of = |step: usize| {
        run.values
            .get(&format!("warmup_step_{step}_gradient_digest"))
    };
    let found: Steps = (1..).map_while(of).copied().map(Some).collect();
    (!found.is_empty()).then_some(found)
}

fn bits(number: Option<f64>) -> Option<u64> {
    number.map(f64::to_bits)
}

fn first_difference(pairs: &[(Option<f64>, Option<f64>)]) -> Option<usize> {
    let mut pairs = pairs.iter();
    pairs.position(|(base, head)| bits(*base) != bits(*head))
}

/// What all runs of a side agree on; `None` where they do not, for then it says nothing of an image.
fn repeated(runs: &Runs<'_>, read: fn(&Record) -> Option<Steps>) -> Option<Steps> {
    let runs = runs.values().filter(|run| run.outcome.is_ok());
    let mut all = runs.map(|run| read(run));
    let first = all.next()??;
    let in_bits = |steps: &Steps| -> Vec<_> { steps.iter().copied().map(bits).collect() };
    let is_first = |other: &Steps| in_bits(other) == in_bits(&first);
    all.all(|other| other.as_ref().is_some_and(is_first))
        .then_some(first)
}
