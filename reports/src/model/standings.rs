//! What the cells of a scenario are against each other.

use metrics::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use verdict::{Best, CellVerdicts, PairVerdict, ScenarioPairs};

use super::{CellMetrics, CellSummary};

/// The variants of one scenario in one image, held against the first of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantVerdicts {
    /// The suite.
    pub suite: String,
    /// The scenario.
    pub scenario: String,
    /// The image.
    pub image: String,
    /// The first variant, which the others are held against.
    pub baseline: String,
    /// The other variants, judged against it.
    pub cells: Vec<CellVerdicts>,
}

impl VariantVerdicts {
    pub(super) fn of(pairs: &ScenarioPairs) -> Option<Self> {
        let first = pairs.cells.first()?;
        Some(Self {
            suite: pairs.suite.clone(),
            scenario: pairs.scenario.clone(),
            image: first.image.clone(),
            baseline: first.variant.to_string(),
            cells: pairs.against_first().cloned().collect(),
        })
    }
}

/// Every two cells of a scenario that one session measured, judged.
#[derive(Debug, Default)]
pub struct Standings {
    scenarios: Vec<ScenarioPairs>,
    /// Of each cell of the report its scenario, and its place there.
    places: Vec<Option<(usize, usize)>>,
}

impl Standings {
    /// Finds the cells of the report in the scenarios of their session.
    pub(super) fn of(sessions: Vec<(String, Vec<ScenarioPairs>)>, cells: &[CellSummary]) -> Self {
        let mut standings = Self::default();
        let mut of_session = Vec::new();
        for (session, scenarios) in sessions {
            of_session.extend(scenarios.iter().map(|_| session.clone()));
            standings.scenarios.extend(scenarios);
        }
        let place = |cell: &CellSummary| {
            let scenario = (0..standings.scenarios.len()).find(|&index| {
                let pairs = &standings.scenarios[index];
                of_session[index] == cell.session
                    && pairs.suite == cell.suite
                    && pairs.scenario == cell.scenario
            })?;
            let mut cells = standings.scenarios[scenario].cells.iter();
            let place =
                cells.position(|one| one.image == cell.image && one.variant == cell.variant)?;
            Some((scenario, place))
        };
        standings.places = cells.iter().map(place).collect();
        standings
    }

    /// What one cell of the report is against another one; `None` where nobody judged the two:
    /// they are of two scenarios or sessions, or lack the metric.
    #[must_use]
    pub fn between(&self, base: usize, head: usize, metric: &Metric) -> Option<PairVerdict> {
        let (scenario, base) = self.places[base]?;
        let (other, head) = self.places[head]?;
        (scenario == other).then(|| self.scenarios[scenario].between(base, head, metric))?
    }

    /// The best of these cells by a metric, all places those of the report; `None` where they are
    /// not all the cells of one scenario in one session.
    #[must_use]
    pub fn best(&self, cells: &[usize], metric: &Metric, all: &[CellSummary]) -> Option<Best> {
        let (scenario, _) = self.places[*cells.first()?]?;
        let pairs = &self.scenarios[scenario];
        let in_report = |place: usize| {
            let mut cells = cells.iter().copied();
            cells.find(|&cell| self.places[cell] == Some((scenario, place)))
        };
        let places: Option<Vec<usize>> = (0..pairs.cells.len()).map(in_report).collect();
        let places = places.filter(|places| places.len() == cells.len())?;
        let median = |&cell: &usize| CellMetrics::median(&all[cell].metrics, metric);
        let medians: Vec<Option<f64>> = places.iter().map(median).collect();
        let best = pairs.best(metric, &medians)?;
        let report = |found: Vec<usize>| found.into_iter().map(|place| places[place]).collect();
        Some(Best {
            leader: places[best.leader],
            beaten: report(best.beaten),
            equal: report(best.equal),
            undecided: report(best.undecided),
            ..best
        })
    }
}
