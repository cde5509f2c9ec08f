//! What the cells of a scenario are against each other.

use metrics::Metric;
use verdict::{Best, MetricVerdict, ScenarioPairs};

use super::report::CellSummary;

/// Every two cells of a scenario that one session measured, judged.
#[derive(Debug, Default)]
pub struct Pairs {
    scenarios: Vec<ScenarioPairs>,
    /// Of each cell of the report its scenario, and its place there.
    places: Vec<Option<(usize, usize)>>,
}

impl Pairs {
    /// Finds the cells of the report in the scenarios of their session.
    pub(super) fn of(sessions: Vec<(String, Vec<ScenarioPairs>)>, cells: &[CellSummary]) -> Self {
        let mut found = Self::default();
        let mut of_session = Vec::new();
        for (session, scenarios) in sessions {
            of_session.extend(scenarios.iter().map(|_| session.clone()));
            found.scenarios.extend(scenarios);
        }
        let place = |cell: &CellSummary| {
            let scenario = (0..found.scenarios.len()).find(|&index| {
                let pairs = &found.scenarios[index];
                of_session[index] == cell.session
                    && pairs.suite == cell.suite
                    && pairs.scenario == cell.scenario
            })?;
            let mut cells = found.scenarios[scenario].cells.iter();
            let place = cells.position(|one| one.image == cell.image && one.axes == cell.axes)?;
            Some((scenario, place))
        };
        found.places = cells.iter().map(place).collect();
        found
    }

    /// What one cell of the report is against another one; `None` where nobody judged the two:
    /// they are of two scenarios or sessions, or lack the metric.
    pub fn between(&self, base: usize, head: usize, metric: &Metric) -> Option<MetricVerdict> {
        let (scenario, base) = self.places[base]?;
        let (other, head) = self.places[head]?;
        (scenario == other).then(|| self.scenarios[scenario].between(base, head, metric))?
    }

    /// The best of these cells by a metric; `None` where they are not all the cells of one scenario in
    /// one session.
    pub fn best(&self, cells: &[usize], metric: &Metric, all: &[CellSummary]) -> Option<Best> {
        let (scenario, _) = self.places[*cells.first()?]?;
        let is_own = |cell: &&usize| self.places[**cell].is_some_and(|(own, _)| own == scenario);
        let own = cells.iter().filter(is_own).count();
        if own != self.scenarios[scenario].cells.len() || own != cells.len() {
            return None;
        }
        let median = |&cell: &usize| Some((cell, all[cell].metrics.median(metric)?));
        let medians: Vec<(usize, f64)> = cells.iter().filter_map(median).collect();
        let between = |base, head| self.between(base, head, metric);
        Best::of(metric.direction, &medians, between)
    }
}
