//! The verdicts that a report is about: those of headline metrics, or of the metrics that answer its
//! suites' questions.

use std::collections::BTreeMap;

use judge::compare::{Direction, Verdict};
use metrics::Metric;
use verdict::{CellVerdicts, MetricVerdict, Options, Verdicts, of_images};

use super::{
    group::{Group, Row},
    report::{CellSummary, SessionSummary, VariantVerdicts},
    versions::{self, Versions},
    view::View,
};
use crate::{
    document::About,
    facets,
    words::{comparison, format},
};

/// What stands in a cell's place where a metric is of the image.
pub(crate) const IMAGE: &str = "image";

/// One metric of one cell, judged.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The cell in words, with what it is held against where that is not the same for all.
    pub cell: String,
    /// Which sides it is about, where a report has several pairs of them: `2.6.0 → 2.9.1`.
    pub sides: String,
    /// Whether the sides are design choices, and no versions of one thing.
    pub is_choice: bool,
    pub metric: &'static Metric,
    pub found: MetricVerdict,
    /// What a page filters it by; nothing of an image.
    pub about: About,
}

impl Change {
    /// `None` of a metric that nobody knows.
    fn of(
        (cell, found, about): (String, &MetricVerdict, About),
        sides: &str,
        is_choice: bool,
    ) -> Option<Self> {
        Some(Self {
            cell,
            sides: sides.to_owned(),
            is_choice,
            metric: Metric::named(&found.metric)?,
            found: found.clone(),
            about,
        })
    }

    /// How much better, as a logarithm; below 0 worse. 0 where there is no ratio.
    pub(crate) fn gain(&self) -> f64 {
        let log = self.found.comparison.ratio.map_or(0.0, f64::ln);
        match self.metric.direction {
            Direction::HigherIsBetter => log,
            Direction::LowerIsBetter => -log,
        }
    }

    /// How far from no change, in thresholds.
    pub(crate) fn size(&self) -> f64 {
        // A metric without a threshold is no more important than one with a narrow one.
        const LEAST: f64 = 0.001;
        self.gain().abs() / self.found.comparison.threshold.ln_1p().max(LEAST)
    }

    /// The cell, and the sides where there are several.
    pub(crate) fn place(&self) -> String {
        match &*self.sides {
            "" => self.cell.clone(),
            sides => format!("{}, {sides}", self.cell),
        }
    }

    pub(crate) fn word(&self) -> String {
        comparison::word(self.verdict(), self.metric, self.is_choice)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.found.comparison.verdict
    }
}

pub(crate) fn worst_first(mut changes: Vec<Change>) -> Vec<Change> {
    changes.sort_by(|a, b| {
        let size = |one: &Change| one.size().copysign(one.gain());
        size(a).total_cmp(&size(b))
    });
    changes
}

/// The metrics that a session's suite is about: those that it names, or the headline metrics.
pub(crate) fn metrics_of(session: &SessionSummary, suite: &str) -> Vec<&'static Metric> {
    let named = session.questions.get(suite).map(|asked| &asked.answered_by);
    let named: Vec<&'static Metric> = named
        .into_iter()
        .flatten()
        .filter_map(|name| Metric::named(name))
        .collect();
    if named.is_empty() {
        return Metric::headlines().collect();
    }
    named
}

pub(crate) fn is_headline(found: &MetricVerdict) -> bool {
    found.gated || Metric::named(&found.metric).is_some_and(|metric| metric.headline)
}

/// The verdicts of a report, the worst change first: what its sessions compare, by headline metric,
/// versions each with the one before it; or else the variants against the first of their scenario.
pub(crate) fn of(view: &View) -> Vec<Change> {
    let mut all = Vec::new();
    let versions = versions::of(view);
    for session in &view.report.sessions {
        let own = || versions.iter().filter(|one| one.session == session.session);
        for verdicts in &session.comparisons {
            let (base, head) = (&verdicts.base.image, &verdicts.head.image);
            if base == head || !own().any(|one| one.has(view, base) && one.has(view, head)) {
                all.extend(of_comparison(verdicts, session.comparisons.len() > 1));
            }
        }
        for versions in own().filter(|_| !session.comparisons.is_empty()) {
            all.extend(steps(view, versions));
        }
        for variants in &session.variants {
            all.extend(of_variants(view, session, variants));
        }
    }
    worst_first(all)
}

/// The verdicts of one comparison by headline metric.
pub(crate) fn of_comparison(
    verdicts: &Verdicts,
    has_several: bool,
) -> impl Iterator<Item = Change> + '_ {
    let of_cells = verdicts.cells.iter().filter(|cell| cell.lost().is_none());
    let of_cells = of_cells.flat_map(|cell| {
        let name = format::clean(&comparison::cell_name(cell));
        let metrics = cell.metrics.iter();
        metrics.map(move |found| {
            let about = facets::verdict(cell, &found.outcome());
            (name.clone(), found, about)
        })
    });
    let of_images = verdicts.images.iter();
    let of_images = of_images.map(|found| (IMAGE.to_owned(), found, About::default()));
    let sides = if has_several {
        format::clean(&format!("in {}", verdicts.head.image))
    } else {
        String::new()
    };
    let told = of_cells.chain(of_images);
    let told = told.filter(|(_, found, _)| is_headline(found) && found.not_measured_in.is_none());
    let is_choice = verdicts.head.choice.is_some();
    told.filter_map(move |told| Change::of(told, &sides, is_choice))
}

fn steps(view: &View, versions: &Versions) -> Vec<Change> {
    let pairs = versions.images.windows(2).flat_map(|pair| {
        let [(old, base), (new, head)] = [&pair[0], &pair[1]];
        let rows = view.groups.iter().flat_map(|group| &group.rows);
        let cells =
            rows.filter_map(|row| of_version(view, row, *base).zip(of_version(view, row, *head)));
        let of_cells = cells.flat_map(|(base, head)| {
            let CellSummary { cell, scenario, .. } = &view.report.cells[head];
            let name = format::clean(&comparison::spelled(cell));
            Metric::headlines().filter_map(move |metric| {
                let found = view.pairs.between(base, head, metric)?;
                let about = facets::judged(cell, scenario, &found.outcome());
                Some((name.clone(), found, about))
            })
        });
        let images = view.image(*base).zip(view.image(*head));
        let judged = images.map(|(base, head)| of_images(base, head, &Options::default()));
        let of_images = judged.into_iter().flatten();
        let of_images = of_images.map(|found| (IMAGE.to_owned(), found, About::default()));
        let sides = format!("{old} → {new}");
        let all = of_cells.chain(of_images).collect::<Vec<_>>().into_iter();
        all.map(move |found| (sides.clone(), found))
    });
    let changes = pairs.filter_map(|(sides, (cell, found, about))| {
        Change::of((cell, &found, about), &sides, false)
    });
    changes.collect()
}

pub(crate) fn of_version(view: &View, row: &Row, contender: usize) -> Option<usize> {
    let mut cells = row.cells.iter().copied();
    cells.find(|&cell| view.contender_of(cell) == contender)
}

fn of_variants<'a>(
    view: &'a View,
    session: &'a SessionSummary,
    variants: &'a VariantVerdicts,
) -> impl Iterator<Item = Change> + 'a {
    let lanes = view.groups.iter().flat_map(Group::lanes);
    let own = lanes.filter(|(_, cell)| {
        let cell = &view.report.cells[*cell];
        cell.session == session.session
            && cell.image == variants.image
            && (&cell.suite, &cell.scenario) == (&variants.suite, &variants.scenario)
    });
    let labels = own.map(|(row, _)| (row.axes.to_string(), row.label.as_str()));
    let labels: BTreeMap<String, &str> = labels.collect();
    let label = move |variant: &str| (*labels.get(variant).unwrap_or(&variant)).to_owned();
    let wanted = metrics_of(session, &variants.suite);
    let baseline = label(&variants.baseline);
    let name = move |cell: &CellVerdicts| {
        let (scenario, own) = (&variants.scenario, label(&cell.variant));
        format::clean(&format!("{scenario}: {own} against {baseline}"))
    };
    variants.cells.iter().flat_map(move |cell| {
        let name = name(cell);
        let wanted = wanted.clone();
        cell.metrics.iter().filter_map(move |found| {
            let about = facets::verdict(cell, &found.outcome());
            let change = Change::of((name.clone(), found, about), "", true)?;
            let is_wanted = wanted.contains(&change.metric) && found.not_measured_in.is_none();
            is_wanted.then_some(change)
        })
    })
}
