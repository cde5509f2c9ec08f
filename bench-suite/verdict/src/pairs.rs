//! The cells of a scenario against each other, within one session: which is faster, which takes
//! less memory, and which of them the runs cannot tell apart.
//!
//! Two cells that a session compares anyway, in [`crate::compare_session`], have one verdict:
//! that one. All others of a session are judged together, as one family, with its looks.

use std::collections::BTreeMap;

use judge::compare::{Direction, Verdict};
use metrics::{Metric, Rows, catalogue};
use protocol::Axes;
use record::{Record, Session, SidesCompared};

use crate::{
    CellVerdicts, CompareError, MetricVerdict, Options, Verdicts,
    compare::{answered, unanswered},
    question::{Question, judge_questions},
    side::{Cell, Runs, Side},
};

/// Of more cells than this not every pair is judged, only each against the first, and one variant in
/// every two images.
pub const MOST_IN_PAIRS: usize = 40;

/// The metrics by which every two cells are judged; one variant in two images, which are two
/// versions, by all headline metrics. The others are judged against the first cell.
const IN_PAIRS: [&Metric; 3] = [
    &catalogue::THROUGHPUT,
    &catalogue::PEAK_ALLOCATED,
    &catalogue::PEAK_RESERVED,
];

/// One scenario of a session with its cells, judged in pairs.
#[derive(Debug, Clone)]
pub struct ScenarioPairs {
    pub suite: String,
    pub scenario: String,
    /// The cells, in the order of the plan, the base of what the session was to decide first. The
    /// first one is the baseline.
    pub cells: Vec<PairedCell>,
    /// By the places of both, the smaller first, and the metric's name.
    verdicts: BTreeMap<(usize, usize), CellVerdicts>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PairedCell {
    pub image: String,
    pub axes: Axes,
}

/// The best of several cells by one metric, and what the others are beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Best {
    /// The cell with the best median.
    pub leader: usize,
    /// Cells that it is better than.
    pub beaten: Vec<usize>,
    /// Cells that are unchanged against it.
    pub equal: Vec<usize>,
    /// Cells of which that is inconclusive.
    pub undecided: Vec<usize>,
}

impl Best {
    /// The best cell among those with these medians, by what `between` says of two of them; `None` with
    /// fewer than two.
    pub fn of(
        direction: Direction,
        medians: &[(usize, f64)],
        between: impl Fn(usize, usize) -> Option<MetricVerdict>,
    ) -> Option<Self> {
        let better = |a: &&(usize, f64), b: &&(usize, f64)| match direction {
            // Of equals the first one leads.
            Direction::HigherIsBetter => a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)),
            Direction::LowerIsBetter => b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)),
        };
        let &(leader, _) = medians.iter().max_by(better)?;
        let mut best = Self {
            leader,
            beaten: Vec::new(),
            equal: Vec::new(),
            undecided: Vec::new(),
        };
        for &(cell, _) in medians.iter().filter(|(cell, _)| *cell != leader) {
            let place = match between(cell, leader).map(|found| found.comparison.verdict) {
                Some(Verdict::Improved) => &mut best.beaten,
                Some(Verdict::Unchanged) => &mut best.equal,
                // The judge pairs runs by block; against the medians it may find the leader worse.
                Some(Verdict::Regressed | Verdict::Inconclusive) | None => &mut best.undecided,
            };
            place.push(cell);
        }
        (medians.len() > 1).then_some(best)
    }
}

impl ScenarioPairs {
    /// What `head` is against `base`, by their places; `None` where the two were not judged by
    /// the metric.
    pub fn between(&self, base: usize, head: usize, metric: &Metric) -> Option<MetricVerdict> {
        let key = (base.min(head), base.max(head));
        let mut found = self.verdicts.get(&key)?.metrics.iter();
        let found = found.find(|found| found.metric == metric.name)?;
        let found = Some(found.clone()).filter(|found| found.not_measured_in.is_none())?;
        Some(if base <= head {
            found
        } else {
            found.reversed()
        })
    }

    /// Every other cell of the first one's image, against it.
    pub fn against_first(&self) -> impl Iterator<Item = &CellVerdicts> {
        let image = self.cells.first().map(|cell| &cell.image);
        let others = self.verdicts.iter();
        others
            .filter(move |((base, head), _)| *base == 0 && Some(&self.cells[*head].image) == image)
            .map(|(_, verdicts)| verdicts)
    }
}

struct Judged<'a> {
    paired: PairedCell,
    cell: Cell,
    runs: Runs<'a>,
    thresholds: Option<&'a BTreeMap<String, f64>>,
}

impl Judged<'_> {
    fn is_version_of(&self, other: &Self) -> bool {
        self.paired.axes == other.paired.axes
    }
}

/// Judges the cells of every scenario that has several. `comparisons` are what the session
/// compares, by [`crate::compare_session`]; `wanted` names metrics of a suite that are judged
/// besides those that every comparison judges.
pub fn judge_pairs(
    session: &Session,
    records: &[Record],
    comparisons: &[Verdicts],
    wanted: impl Fn(&str) -> Vec<&'static Metric>,
    options: &Options,
) -> Result<Vec<ScenarioPairs>, CompareError> {
    let scenarios = scenarios(session, records)?;
    let rows = Rows::with(&session.metrics);
    let mut questions = Vec::new();
    let mut asked = Vec::new();
    for (place, ((suite, _), cells)) in scenarios.iter().enumerate() {
        let of_suite = wanted(suite);
        for (base, head) in pairs(cells) {
            asked.push((place, base, head));
            let others = of_suite.iter().copied().filter(|one| !one.is_compared());
            let metrics = rows.compared().chain(others);
            let is_judged = |metric: &&Metric| {
                base == 0
                    || IN_PAIRS.contains(metric)
                    || metric.headline && cells[base].is_version_of(&cells[head])
            };
            for metric in metrics.filter(is_judged) {
                let (base, head) = (&cells[base], &cells[head]);
                let cell = (&head.cell, asked.len() - 1);
                let threshold = options.threshold(metric, head.thresholds);
                let question = Question::of(cell, metric, threshold, &base.runs, &head.runs);
                questions.extend(question.map(|question| Question {
                    is_apart: false,
                    ..question
                }));
            }
        }
    }
    let looks = session.deciding.as_ref().map_or(&[][..], |one| &one.looks);
    let judged = judge_questions(&questions, looks, options.statistics)?;
    let mut found: Vec<CellVerdicts> = asked
        .iter()
        .map(|&(place, base, head)| {
            let cells = &scenarios[place].1;
            let mut verdicts = unanswered(&cells[head].cell, &cells[base].runs, &cells[head].runs);
            verdicts.name = cells[head].cell.label();
            verdicts
        })
        .collect();
    for (question, comparison) in questions.iter().zip(judged) {
        found[question.cell_index]
            .metrics
            .push(answered(question, comparison));
    }
    let mut all: Vec<ScenarioPairs> = scenarios
        .iter()
        .map(|((suite, scenario), cells)| ScenarioPairs {
            suite: suite.clone(),
            scenario: scenario.clone(),
            cells: cells.iter().map(|cell| cell.paired.clone()).collect(),
            verdicts: BTreeMap::new(),
        })
        .collect();
    for (&(place, base, head), mut verdicts) in asked.iter().zip(found) {
        let pairs = &mut all[place];
        let (one, other) = (&pairs.cells[base], &pairs.cells[head]);
        if let Some(compared) = compared(session, comparisons, &verdicts, one, other) {
            let is_theirs = |own: &MetricVerdict| {
                let mut theirs = compared.metrics.iter();
                theirs.any(|theirs| theirs.metric == own.metric)
            };
            verdicts.metrics.retain(|own| !is_theirs(own));
            verdicts
                .metrics
                .splice(0..0, compared.metrics.iter().cloned());
        }
        pairs.verdicts.insert((base, head), verdicts);
    }
    Ok(all)
}

/// Every two of these cells; where those were too many, the first with every other, and those of one
/// variant.
fn pairs(cells: &[Judged<'_>]) -> impl Iterator<Item = (usize, usize)> {
    let is_few = cells.len() <= MOST_IN_PAIRS;
    let all =
        (0..cells.len()).flat_map(|base| (base + 1..cells.len()).map(move |head| (base, head)));
    all.filter(move |&(base, head)| base == 0 || is_few || cells[base].is_version_of(&cells[head]))
}

type ScenarioCells<'a> = ((String, String), Vec<Judged<'a>>);

/// The scenarios with several cells that ran, in the order of the plan.
fn scenarios<'a>(
    session: &'a Session,
    records: &'a [Record],
) -> Result<Vec<ScenarioCells<'a>>, CompareError> {
    let mut sides = BTreeMap::new();
    for record in records {
        if !sides.contains_key(record.image.as_str()) {
            let side = Side::pick(session, records, Some(&record.image))?;
            let (cells, thresholds) = (side.cells(), side.thresholds());
            sides.insert(record.image.as_str(), (cells, thresholds));
        }
    }
    let mut all: Vec<ScenarioCells> = Vec::new();
    // What computes nothing is no choice between cells.
    for plan in session.cells.iter().filter(|plan| !plan.workload.is_idle()) {
        let cell = Cell {
            suite: plan.suite.clone(),
            scenario: plan.scenario.clone(),
            variant: plan.axes.to_string(),
        };
        let Some((runs, thresholds)) = sides
            .get(plan.image.as_str())
            .and_then(|(cells, thresholds)| Some((cells.get(&cell)?, thresholds.get(&cell))))
        else {
            continue;
        };
        let paired = PairedCell {
            image: plan.image.clone(),
            axes: plan.axes.clone(),
        };
        let name = (plan.suite.clone(), plan.scenario.clone());
        let place = all.iter().position(|(known, _)| *known == name);
        let place = place.unwrap_or_else(|| {
            all.push((name, Vec::new()));
            all.len() - 1
        });
        let cells = &mut all[place].1;
        if cells.iter().all(|known| known.paired != paired) {
            cells.push(Judged {
                paired,
                cell,
                runs: runs.clone(),
                thresholds: thresholds.copied(),
            });
        }
    }
    all.retain(|(_, cells)| cells.len() > 1);
    for (_, cells) in &mut all {
        cells.sort_by_key(|cell| !is_decided_base(session, &cell.paired));
    }
    Ok(all)
}

/// Whether a cell is on the base side of what the session was to decide.
fn is_decided_base(session: &Session, cell: &PairedCell) -> bool {
    match session.deciding.as_ref().map(|deciding| &deciding.sides) {
        Some(SidesCompared::Images { base }) => cell.image == *base,
        Some(SidesCompared::Axis { axis, base, .. }) => cell.axes.get(axis) == Some(base),
        None => false,
    }
}

/// What the session's own comparisons say of two cells.
fn compared<'a>(
    session: &Session,
    comparisons: &'a [Verdicts],
    pair: &CellVerdicts,
    base: &PairedCell,
    head: &PairedCell,
) -> Option<&'a CellVerdicts> {
    let axis = match session.deciding.as_ref().map(|deciding| &deciding.sides) {
        Some(SidesCompared::Axis { axis, .. }) => Some(axis.as_str()),
        _ => None,
    };
    let is_side = |origin: &crate::Origin, cell: &PairedCell| {
        let has_choice = match (axis, &origin.choice) {
            (Some(axis), Some(choice)) => cell
                .axes
                .get(axis)
                .is_some_and(|value| *choice == format!("{axis}={value}")),
            (_, choice) => choice.is_none(),
        };
        origin.image == cell.image && has_choice
    };
    let named = |cell: &PairedCell| match axis {
        Some(axis) => cell.axes.without(axis),
        None => cell.axes.to_string(),
    };
    let (own, other) = (named(base), named(head));
    let verdicts = comparisons
        .iter()
        .find(|found| is_side(&found.base, base) && is_side(&found.head, head))?;
    verdicts.cells.iter().find(|cell| {
        (&cell.suite, &cell.scenario) == (&pair.suite, &pair.scenario)
            && own == other
            && cell.variant == own
    })
}
