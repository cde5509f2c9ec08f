//! What the gate looks at, and when it says no.

use history::SeriesKey;
use judge::{
    compare::{Options, Verdict},
    family::q_values,
    trend::TOO_SHORT,
};
use reports::{
    format::plural,
    trend::{Entry, Failure, Series},
};

use super::followed::Followed;
use crate::{
    error::{Error, Result},
    printer::Printer,
};

/// What the gate says of every series that it looks at. Of many series some look regressed by chance
/// every night, so that the false discovery rate is held, as it is in a comparison.
pub(super) fn decide(all: &mut [Followed], gated: impl Fn(&SeriesKey) -> bool) {
    for one in all.iter_mut() {
        one.gated = gated(&one.series.key);
    }
    let mut members: Vec<&mut Followed> = all.iter_mut().filter(|one| one.gated).collect();
    let p: Vec<f64> = members
        .iter()
        .map(|one| {
            one.news
                .map_or(1.0, |place| one.found.change_points[place].p)
        })
        .collect();
    let options = Options::default();
    for (one, q) in members.iter_mut().zip(q_values(&p)) {
        one.q = one.news.map(|_| q);
        one.fails.clear();
        if one.verdict == Some(Verdict::Regressed) && q <= options.alpha && one.counts_as_a_change()
        {
            one.fails.push(Failure::Regressed);
        }
        if one.staleness.is_some_and(|staleness| staleness.overdue) {
            one.fails.push(Failure::NoNewResult);
        }
    }
}

impl Followed {
    /// Whether what the last run brought to light is more than the noise threshold.
    fn counts_as_a_change(&self) -> bool {
        let news = self.news.map(|place| &self.found.change_points[place]);
        news.is_none_or(|change| change.counts(self.threshold))
    }
}

/// What the command ends with: an error where a series fails, and where there is none to look at.
/// Series of a history grow by themselves: until they are long enough it is said that they are not.
pub(super) fn end(
    all: &[Followed],
    shown: &[Series],
    entries: &[Entry],
    grows: bool,
    printer: &Printer,
) -> Result<()> {
    let gated = all.iter().filter(|one| one.gated).count();
    if gated == 0 {
        return Err(Error::Input(format!(
            "none of the {} series found is gated; name metrics \
             with --metric, or leave --gate out",
            all.len()
        )));
    }
    let failures = reports::trend::failures(shown, entries);
    if !failures.is_empty() {
        return Err(Error::Gate(format!(
            "the gate failed: {}\n  {}",
            plural(failures.len(), "failure", "failures"),
            failures.join("\n  ")
        )));
    }
    let short = all.iter().filter(|one| one.gated && one.found.too_short);
    let short = short.count();
    if short > 0 && !grows {
        return Err(Error::Input(format!(
            "the series has {} of {TOO_SHORT} points, so a gate would pass with nothing judged",
            all[0].points.len()
        )));
    }
    if short > 0 {
        printer.note(&format!(
            "the gate judged {} of {gated} series: {short} of fewer than {TOO_SHORT} points left out",
            gated - short
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use history::{SeriesInfo, SeriesKey};
    use judge::{
        compare::Direction,
        trend::{ChangePoint, Point, Trend},
    };

    use super::*;

    fn regressed(metric: &str, p: f64) -> Followed {
        let points: Vec<Point> = (0..40)
            .map(|i| Point {
                timestamp: f64::from(i),
                revision: String::new(),
                value: 1.0,
            })
            .collect();
        let series = SeriesInfo {
            key: SeriesKey {
                metric: metric.to_owned(),
                ..SeriesKey::default()
            },
            settings: None,
            joined: Vec::new(),
            unit: String::new(),
            direction: Direction::HigherIsBetter,
            kind: judge::compare::Kind::TimeLike,
            threshold: None,
            points: 40,
            oldest: None,
            newest: None,
        };
        let found = Trend {
            change_points: vec![ChangePoint {
                range: [39, 39],
                index: 39,
                timestamp: 39.0,
                revision: String::new(),
                before: 1.0,
                after: 0.9,
                ratio: Some(0.9),
                interval: Some([0.89, 0.91]),
                p,
                gradual: false,
            }],
            ..Trend::default()
        };
        Followed {
            threshold: 0.005,
            ..Followed::new(series, points, found, Some(0))
        }
    }

    fn failing(mut all: Vec<Followed>) -> usize {
        decide(&mut all, |key| key.metric == "gated");
        all.iter().filter(|one| !one.fails.is_empty()).count()
    }

    #[test]
    fn among_many_series_a_gate_asks_for_more() {
        assert_eq!(failing(vec![regressed("gated", 0.015)]), 1);
        let among = |p: f64| {
            let mut all = vec![regressed("gated", p)];
            all.extend((0..99).map(|_| Followed {
                news: None,
                verdict: None,
                ..regressed("gated", 1.0)
            }));
            failing(all)
        };
        assert_eq!(among(0.015), 0, "one of a hundred looks so by chance");
        assert_eq!(among(0.0001), 1);
        assert_eq!(
            failing((0..100).map(|_| regressed("gated", 0.015)).collect()),
            100
        );
    }

    #[test]
    fn a_metric_that_explains_fails_no_gate() {
        assert_eq!(failing(vec![regressed("other", 0.0)]), 0);
    }

    /// With a level after the change that is this share of the one before.
    fn by(ratio: f64) -> Followed {
        let mut one = regressed("gated", 0.0);
        one.found.change_points[0].ratio = Some(ratio);
        one.found.change_points[0].interval = Some([ratio - 4e-4, ratio + 4e-4]);
        one
    }

    #[test]
    fn a_change_that_a_comparison_calls_none_fails_no_gate() {
        assert_eq!(failing(vec![by(0.996)]), 0, "0.4 % of 0.5 %");
        assert_eq!(failing(vec![by(1.0 - 512.0 / 4.5e9)]), 0);
        assert_eq!(failing(vec![by(0.9948)]), 0, "0.48 to 0.56 %");
        assert_eq!(failing(vec![by(0.994)]), 1);
        // A level that was 0 has no ratio and no noise threshold.
        let mut one = by(1.0);
        one.found.change_points[0].interval = None;
        assert!(one.counts_as_a_change());
    }

    #[test]
    fn a_gate_says_why_and_over_nothing_it_does_not_pass() {
        let ended = |all: &[Followed], grows| {
            let shown: Vec<Series> = all.iter().map(Followed::shown).collect();
            end(all, &shown, &[], grows, &Printer::new())
        };
        let end = |all: &[Followed]| ended(all, true);
        let mut all = vec![by(0.9), by(1.0)];
        all[1].verdict = None;
        all[1].staleness = judge::trend::staleness(&[0.0, 1.0, 2.0], 100.0, None);
        decide(&mut all, |_| true);
        let Err(Error::Gate(text)) = end(&all) else {
            panic!("two series fail")
        };
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "the gate failed: 2 failures");
        assert!(
            lines[1].contains("regressed by -10.00 %, 1.0000 to 0.90000; last good"),
            "{lines:?}"
        );
        assert!(lines[2].contains("no result for"), "{lines:?}");
        decide(&mut all, |_| false);
        assert!(matches!(end(&all), Err(Error::Input(_))));
        let mut short = by(1.0);
        (short.verdict, short.news) = (None, None);
        short.found = Trend {
            too_short: true,
            ..Trend::default()
        };
        let mut all = vec![short];
        decide(&mut all, |_| true);
        assert!(end(&all).is_ok());
        assert!(matches!(ended(&all, false), Err(Error::Input(_))));
        let mut long = by(1.0);
        (long.verdict, long.news) = (None, None);
        all.push(long);
        decide(&mut all, |_| true);
        assert!(end(&all).is_ok());
    }
}
