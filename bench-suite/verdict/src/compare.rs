//! Two sides, cell by cell and metric by metric.

use std::collections::BTreeMap;

use judge::{
    compare::{BaseOrHead, Block, Comparison, Interval, Verdict},
    median,
    moderation::Variance,
    sessions::BetweenSessions,
};
use metrics::{Metric, Rows, catalogue};
use record::{ImageChange, ImageFacts, Others, image_changes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CompareError, MethodKey, Warning, cold_start, environment,
    failures::{Failures, compare_failures},
    inside::Inside,
    nodes,
    question::{Question, judge_questions, measurement},
    short_window::ShortWindow,
    side::{Cell, Origin, Runs, Side},
};

/// Version of the file format of [`Verdicts`].
pub const VERSION: u32 = 6;

#[derive(Debug, Clone, Default)]
pub struct Options {
    pub statistics: judge::compare::Options,
    /// Relative noise thresholds that replace a metric's own, by its name.
    pub thresholds: BTreeMap<String, f64>,
    /// Compare although machine, GPU or driver differ.
    pub across_machines: bool,
    /// Settings of the method that may differ.
    pub ignore: Vec<MethodKey>,
    /// Judge one metric against this ratio, in place of against no change, and without a noise
    /// threshold: *regressed* is worse than the ratio then, and *improved* better.
    pub beside: Option<Beside>,
    /// How far sessions lie apart, for the metrics of which the history knows: counts where the
    /// sides are of two sessions.
    pub between_sessions: BTreeMap<CellMetric, BetweenSessions>,
    /// What a run's logarithm scatters by in earlier sessions, for the metrics of which the history
    /// knows.
    pub earlier: BTreeMap<CellMetric, Variance>,
}

impl Options {
    /// So strict that a verdict is wrong with at most this probability.
    pub fn at_error(error: f64) -> Self {
        let mut options = Self::default();
        options.statistics.alpha = error;
        options
    }

    /// A metric's noise threshold: the user's word first, then the suite's of the head, then the
    /// metric's own.
    pub(crate) fn threshold(
        &self,
        metric: &Metric,
        of_suite: Option<&BTreeMap<String, f64>>,
    ) -> f64 {
        let of_suite = || of_suite?.get(metric.name);
        let own = self.thresholds.get(metric.name).or_else(of_suite);
        own.copied().unwrap_or(metric.threshold)
    }
}

/// A ratio that a metric is judged against.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    pub metric: String,
    /// Head ÷ base.
    pub ratio: f64,
}

/// One metric of one cell, by its names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellMetric {
    pub suite: String,
    pub scenario: String,
    pub variant: String,
    pub metric: String,
}

/// Two sides, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdicts {
    pub version: u32,
    /// What was compared against.
    pub base: Origin,
    /// What was compared.
    pub head: Origin,
    /// What the reader must know.
    pub warnings: Vec<Warning>,
    /// How often the session looked at its metrics to know when to end; 0 where the number of
    /// blocks was fixed beforehand. Looking is paid for: all looks together err as often as one
    /// comparison, and intervals are as much wider.
    #[serde(default)]
    pub looks: usize,
    /// What the two images differ in, as far as their sessions tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_changes: Vec<ImageChange>,
    /// Metrics of the images themselves, which are of no cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<MetricVerdict>,
    /// The way of a run to its first measured step, a metric of every step of it, in order: the
    /// typical cell's, for one verdict over all. It fails no gate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cold_start: Vec<MetricVerdict>,
    /// Every cell that both sides have.
    pub cells: Vec<CellVerdicts>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellVerdicts {
    /// Its name: scenario and variant, and the suite where two have that in common.
    #[serde(default)]
    pub name: String,
    pub suite: String,
    pub scenario: String,
    pub variant: String,
    /// Runs that failed; `None` where all went well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
    /// What changed inside its steps, where that is known: it describes, and is no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
    /// Every metric that either side yielded.
    pub metrics: Vec<MetricVerdict>,
}

/// One metric of one cell, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricVerdict {
    pub metric: String,
    /// Whether a change for the worse fails a gate.
    pub gated: bool,
    /// Median on the base side, in the metric's unit.
    pub base: Option<f64>,
    /// Median on the head side.
    pub head: Option<f64>,
    /// The side on which no run yielded the metric, while one did on the other: there is nothing
    /// to compare, and no further block would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_measured_in: Option<BaseOrHead>,
    /// What the judge says.
    pub comparison: Comparison,
}

impl MetricVerdict {
    /// The base against the head. Noise threshold and p are the same both ways.
    #[must_use]
    pub fn reversed(self) -> Self {
        let inverse = |ratio: f64| (ratio > 0.0).then(|| ratio.recip());
        let Comparison {
            ratio, interval, ..
        } = self.comparison;
        Self {
            base: self.head,
            head: self.base,
            not_measured_in: self.not_measured_in.map(|role| match role {
                BaseOrHead::Base => BaseOrHead::Head,
                BaseOrHead::Head => BaseOrHead::Base,
            }),
            comparison: Comparison {
                verdict: match self.comparison.verdict {
                    Verdict::Improved => Verdict::Regressed,
                    Verdict::Regressed => Verdict::Improved,
                    other => other,
                },
                ratio: ratio.and_then(inverse),
                interval: interval.and_then(|Interval { lo, hi }| {
                    Some(Interval {
                        lo: inverse(hi)?,
                        hi: inverse(lo)?,
                    })
                }),
                ..self.comparison
            },
            ..self
        }
    }

    /// What it comes to in words: `not measured in head`, or else the verdict.
    pub fn outcome(&self) -> String {
        self.not_measured_in.map_or_else(
            || self.comparison.verdict.to_string(),
            |role| format!("not measured in {role}"),
        )
    }
}

impl CellVerdicts {
    /// What a gate makes of how often the cell fails: *regressed* where it works in the base and
    /// never in the head, or fails far more often there; *inconclusive* where all of its runs in
    /// the head failed for what is no fault of an image. `None` for every other cell.
    pub fn lost(&self) -> Option<Verdict> {
        let alpha = judge::compare::Options::default().alpha;
        self.failures.as_ref()?.verdict(alpha)
    }
}

impl Verdicts {
    pub fn all(&self) -> impl Iterator<Item = (&CellVerdicts, &MetricVerdict)> {
        self.cells
            .iter()
            .flat_map(|cell| cell.metrics.iter().map(move |found| (cell, found)))
    }

    /// What a session decides on: this metric of every cell, or every gated one.
    pub fn to_decide(
        &self,
        metric: Option<&str>,
    ) -> impl Iterator<Item = (&CellVerdicts, &MetricVerdict)> {
        self.all()
            .filter(move |(_, found)| metric.map_or(found.gated, |metric| found.metric == metric))
    }

    /// Those that further blocks could still decide: with an effect that is inconclusive so far.
    /// Where a side yields no metric, no block helps.
    pub fn undecided(
        &self,
        metric: Option<&str>,
    ) -> impl Iterator<Item = (&CellVerdicts, &MetricVerdict)> {
        self.to_decide(metric).filter(|(_, found)| {
            let comparison = &found.comparison;
            comparison.verdict == Verdict::Inconclusive && comparison.ratio.is_some()
        })
    }

    /// Whether nothing that is gated could be judged: runs failed, or no cell yields it on both
    /// sides. Where no metric is gated there is no gate.
    pub fn is_nothing_gated(&self) -> bool {
        let mut gated = self.all().filter(|(_, found)| found.gated).peekable();
        let has_failed = self.cells.iter().any(|cell| cell.metrics.is_empty());
        (gated.peek().is_some() || has_failed)
            && gated.all(|(_, found)| found.not_measured_in.is_some())
            && self.cells.iter().all(|cell| cell.lost().is_none())
    }
}

/// Judges everything that both sides have.
pub fn compare(base: &Side, head: &Side, options: &Options) -> Result<Verdicts, CompareError> {
    let rows = base.rows(head);
    check_names(options, &rows)?;
    let (base_cells, head_cells) = (base.cells(), head.cells());
    let in_both = |(cell, runs)| Some((cell, runs, head_cells.get(cell)?));
    let common: Vec<(&Cell, &Runs<'_>, &Runs<'_>)> =
        base_cells.iter().filter_map(in_both).collect();
    if common.is_empty() {
        return Err(CompareError::NothingInCommon {
            base: base.contents(),
            head: head.contents(),
        });
    }
    let mut warnings = environment::check(base, head, &common, options.across_machines)?;
    warnings.extend(environment::check_methods(&common, &options.ignore)?);
    warnings.extend(one_sided(&base_cells, &head_cells, &base.origin));
    warnings.extend(one_sided(&head_cells, &base_cells, &head.origin));
    let of_head = head.thresholds();
    warnings.extend(thresholds_differ(&common, &base.thresholds(), &of_head));
    let of_two_sessions = base.origin.session != head.origin.session;
    warnings.extend(busy_host(&common, base, head));
    warnings.extend(short_windows(&common, &of_head));
    if !of_two_sessions {
        warnings.extend(nodes::check(&common, &rows));
    }
    let mut questions = Vec::new();
    for (cell_index, (cell, base_runs, head_runs)) in common.iter().enumerate() {
        for metric in rows.compared() {
            let beside = options.beside.as_ref();
            let beside = beside.filter(|beside| beside.metric == metric.name);
            let threshold = match beside {
                Some(_) => 0.0,
                None => options.threshold(metric, of_head.get(*cell).copied()),
            };
            let place = (*cell, cell_index);
            let question = Question::of(place, metric, threshold, base_runs, head_runs);
            let key = CellMetric {
                suite: cell.suite.clone(),
                scenario: cell.scenario.clone(),
                variant: cell.variant.clone(),
                metric: metric.name.to_owned(),
            };
            let between = options.between_sessions.get(&key).copied();
            questions.extend(question.map(|question| Question {
                between: between.filter(|_| of_two_sessions),
                past: options.earlier.get(&key).copied(),
                centre: beside.map_or(1.0, |beside| beside.ratio),
                ..question
            }));
        }
    }
    // Sides of one session were looked at while it ran; two sessions were not.
    let looks = if of_two_sessions { &[] } else { head.looks() };
    let judged = judge_questions(&questions, looks, options.statistics)?;
    let mut cells: Vec<CellVerdicts> = common
        .iter()
        .map(|(cell, base, head)| CellVerdicts {
            inside: Inside::of(base, head),
            ..unanswered(cell, base, head)
        })
        .collect();
    name(&mut cells);
    compare_failures(cells.iter_mut().map(|cell| &mut cell.failures));
    for (question, comparison) in questions.iter().zip(judged) {
        let verdicts = &mut cells[question.cell_index].metrics;
        verdicts.push(answered(question, comparison));
    }
    let cold_start = cold_start::judge(&common, looks, options)?;
    let images = base.image().zip(head.image());
    let of_images = images.map(|(base, head)| of_images(base, head, options));
    Ok(Verdicts {
        version: VERSION,
        base: base.origin.clone(),
        head: head.origin.clone(),
        warnings,
        looks: looks.len(),
        image_changes: images.map_or_else(Vec::new, |(base, head)| image_changes(base, head)),
        images: of_images.unwrap_or_default(),
        cold_start,
        cells,
    })
}

/// What two images are, judged as far as both are known: their sizes, and how long they took to load
/// where both were loaded nearly whole.
pub fn of_images(base: &ImageFacts, head: &ImageFacts, options: &Options) -> Vec<MetricVerdict> {
    // An image has one size in every block; two of them leave nothing to chance. It is loaded once.
    let sizes = [base, head].map(|image| Some(image.size_bytes? as f64));
    let pulls = [base, head].map(|image| Some(image.pull_bytes? as f64));
    let loads = [base, head].map(nearly_whole_load);
    let judged = [
        (
            &catalogue::IMAGE_PULL,
            pulls,
            2,
            "the bytes that the registry sent are counted",
        ),
        (
            &catalogue::IMAGE_SIZE,
            sizes,
            2,
            "the bytes of the images' layers are counted",
        ),
        (
            &catalogue::IMAGE_LOAD,
            loads,
            1,
            "each image was loaded once",
        ),
    ];
    let verdict = |(metric, [base, head], blocks, reason): (&Metric, [Option<f64>; 2], _, &str)| {
        let block = Block {
            base: Some(base?),
            head: Some(head?),
        };
        let asked = measurement(metric, vec![block; blocks], options.threshold(metric, None));
        let mut comparison = judge::compare::compare(&asked, &options.statistics).ok()?;
        reason.clone_into(&mut comparison.reason);
        Some(MetricVerdict {
            metric: metric.name.to_owned(),
            gated: false,
            base,
            head,
            not_measured_in: None,
            comparison,
        })
    };
    judged.into_iter().filter_map(verdict).collect()
}

/// What an engine that had many of the layers took for the others says nothing of the image.
fn nearly_whole_load(image: &ImageFacts) -> Option<f64> {
    const NEARLY: f64 = 0.9;
    let sent = image.loaded_bytes? as f64;
    image.load_seconds.filter(|_| {
        image
            .size_bytes
            .is_some_and(|size| sent >= NEARLY * size as f64)
    })
}

fn check_names(options: &Options, rows: &Rows) -> Result<(), CompareError> {
    let is_unknown = |name: &&String| rows.named(name).is_none_or(|one| !one.is_compared());
    match options.thresholds.keys().find(is_unknown) {
        Some(name) => Err(CompareError::UnknownMetric {
            name: name.clone(),
            known: rows.compared().map(|metric| metric.name).collect(),
        }),
        None => Ok(()),
    }
}

/// Names every cell, so that no two have the same name.
fn name(cells: &mut [CellVerdicts]) {
    let mut namesakes: BTreeMap<String, usize> = BTreeMap::new();
    for cell in &mut *cells {
        cell.name = record::cell_name(&cell.scenario, &cell.variant);
        *namesakes.entry(cell.name.clone()).or_default() += 1;
    }
    for cell in cells {
        if namesakes[&cell.name] > 1 {
            cell.name = format!("{}/{}", cell.suite, cell.name);
        }
    }
}

/// A cell before its metrics are judged.
pub(crate) fn unanswered(cell: &Cell, base: &Runs<'_>, head: &Runs<'_>) -> CellVerdicts {
    CellVerdicts {
        name: String::new(),
        suite: cell.suite.clone(),
        scenario: cell.scenario.clone(),
        variant: cell.variant.clone(),
        failures: Failures::of(base, head),
        inside: None,
        metrics: Vec::new(),
    }
}

/// Runs beside which others used much of the CPUs.
fn busy_host(
    common: &[(&Cell, &Runs<'_>, &Runs<'_>)],
    base: &Side<'_>,
    head: &Side<'_>,
) -> Option<Warning> {
    let busy = |side: &Side<'_>, runs: &[&Runs<'_>]| -> Vec<Others> {
        let runs = runs.iter().flat_map(|runs| runs.values());
        let others = runs.filter_map(|run| side.session().others(run));
        others.filter(|others| others.is_much).collect()
    };
    let of_base: Vec<_> = common.iter().map(|(_, runs, _)| *runs).collect();
    let of_head: Vec<_> = common.iter().map(|(.., runs)| *runs).collect();
    let runs = of_base.iter().chain(&of_head).map(|runs| runs.len()).sum();
    let (of_base, of_head) = (busy(base, &of_base), busy(head, &of_head));
    let all = of_base.iter().chain(&of_head);
    let most = all.max_by(|one, other| one.used.total_cmp(&other.used))?;
    Some(Warning::BusyHost {
        base: of_base.len(),
        head: of_head.len(),
        runs,
        used: most.used,
        cpus: most.cpus,
    })
}

/// The measured windows that are too short for the noise of their steps, on either side.
fn short_windows(
    common: &[(&Cell, &Runs<'_>, &Runs<'_>)],
    thresholds: &BTreeMap<Cell, &BTreeMap<String, f64>>,
) -> Option<Warning> {
    let short = common.iter().filter_map(|(cell, base, head)| {
        let runs = base.values().chain(head.values()).copied();
        let own = thresholds.get(*cell);
        let own = own.and_then(|own| own.get(catalogue::THROUGHPUT.name).copied());
        Some((cell, ShortWindow::of(runs, own)?))
    });
    let short: Vec<_> = short.collect();
    let variation = |window: &ShortWindow| window.coefficient_of_variation;
    let (cell, window) = short
        .iter()
        .max_by(|one, other| variation(&one.1).total_cmp(&variation(&other.1)))?;
    Some(Warning::ShortWindow {
        cell: cell.label(),
        cells: short.len(),
        window: *window,
    })
}

/// Whether cells have other noise thresholds in the head than in the base.
fn thresholds_differ(
    common: &[(&Cell, &Runs<'_>, &Runs<'_>)],
    of_base: &BTreeMap<Cell, &BTreeMap<String, f64>>,
    of_head: &BTreeMap<Cell, &BTreeMap<String, f64>>,
) -> Option<Warning> {
    let cells = common.iter().map(|(cell, ..)| *cell);
    let cells = cells.filter(|cell| of_base.get(*cell) != of_head.get(*cell));
    let cells = cells.count();
    (cells > 0).then_some(Warning::ThresholdsDiffer { cells })
}

/// Cells that the other side does not have.
fn one_sided(
    cells: &BTreeMap<Cell, Runs<'_>>,
    others: &BTreeMap<Cell, Runs<'_>>,
    origin: &Origin,
) -> Vec<Warning> {
    let alone = cells.keys().filter(|cell| !others.contains_key(cell));
    alone
        .map(|cell| Warning::OneSided {
            cell: cell.label(),
            only_in: origin.to_string(),
        })
        .collect()
}

pub(crate) fn answered(question: &Question<'_>, mut comparison: Comparison) -> MetricVerdict {
    let Question { metric, blocks, .. } = question;
    let base = median(blocks.values().filter_map(|block| block.base));
    let head = median(blocks.values().filter_map(|block| block.head));
    let not_measured_in = match (base, head) {
        (Some(_), None) => Some(BaseOrHead::Head),
        (None, Some(_)) => Some(BaseOrHead::Base),
        _ => None,
    };
    comparison.ratio = comparison.ratio.map(|ratio| ratio * question.centre);
    comparison.interval = comparison.interval.map(|found| Interval {
        lo: found.lo * question.centre,
        hi: found.hi * question.centre,
    });
    if let Some(role) = not_measured_in {
        comparison.reason = format!("not measured in {role}");
    }
    MetricVerdict {
        metric: metric.name.to_owned(),
        gated: metric.is_gated(),
        base,
        head,
        not_measured_in,
        comparison,
    }
}

impl Cell {
    pub(crate) fn label(&self) -> String {
        record::cell_name(&self.scenario, &self.variant)
    }
}
