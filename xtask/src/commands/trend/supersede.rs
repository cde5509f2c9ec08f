//! Which series has taken another's place: an image or a driver that was upgraded begins new ones.

use std::collections::HashMap;

use history::{FailedRun, Point, SeriesKey};

use super::read::Selected;

/// Results that a successor may have from before: the old one may have run once beside it, in the
/// session that compared them.
const MOST_TOGETHER: usize = 1;

/// For each series the one that has taken its place, where there is one: of the same machine,
/// device, cell and metric, but of another image or driver. It has a newer result, and it began when
/// the other was not attempted any more. Two images that are followed side by side do not supersede
/// each other, nor do those of one session alone: a failed run is an attempt.
pub(super) fn successors(series: &[Selected], failures: &[FailedRun]) -> Vec<Option<SeriesKey>> {
    let mut alike: HashMap<SeriesKey, Vec<&Selected>> = HashMap::new();
    for one in series {
        alike.entry(role(&one.info.key)).or_default().push(one);
    }
    let mut failed: HashMap<SeriesKey, f64> = HashMap::new();
    for run in failures {
        let last = failed.entry(run.key.clone()).or_insert(run.started);
        *last = last.max(run.started);
    }
    let successor = |one: &Selected| -> Option<SeriesKey> {
        let key = &one.info.key;
        let newest = one
            .newest()
            .filter(|_| key.machine != SeriesKey::IMPORTED)?;
        let failed = failed.get(&cell(key)).copied().unwrap_or(f64::MIN);
        let attempted = newest.timestamp.max(failed);
        let took_over = |other: &Point, of: &Selected| {
            let before = of
                .points
                .iter()
                .filter(|point| point.timestamp <= attempted);
            before.count() <= MOST_TOGETHER
                && other.timestamp > newest.timestamp
                && other.session != newest.session
        };
        alike[&role(key)]
            .iter()
            .filter_map(|other| Some((other.newest()?, *other)))
            .filter(|(newest, other)| other.info.key != *key && took_over(newest, other))
            // Of several the one that runs now.
            .max_by(|(a, _), (b, _)| a.timestamp.total_cmp(&b.timestamp))
            .map(|(_, other)| other.info.key.clone())
    };
    series.iter().map(successor).collect()
}

/// `image torch-2.11.0-cu130, driver 590.44`: what differs in the successor.
pub(super) fn told(of: &SeriesKey, successor: &SeriesKey) -> String {
    let parts = of.parts().into_iter().zip(successor.parts());
    let differing: Vec<String> = parts
        .filter(|((_, old), (_, new))| old != new)
        .map(|(_, (name, new))| format!("{name} {new}"))
        .collect();
    differing.join(", ")
}

/// What stays the same when an image or a driver is upgraded.
fn role(key: &SeriesKey) -> SeriesKey {
    SeriesKey {
        image: String::new(),
        driver: String::new(),
        ..key.clone()
    }
}

fn cell(key: &SeriesKey) -> SeriesKey {
    SeriesKey {
        metric: String::new(),
        ..key.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use history::SeriesInfo;
    use judge::compare::{Direction, Kind};

    use super::*;

    /// With a result a day.
    fn nightly(image: &str, driver: &str, scenario: &str, days: RangeInclusive<u32>) -> Selected {
        let point = |day| Point {
            timestamp: f64::from(day),
            revision: String::new(),
            value: 1.0,
            runs: 1,
            session: Some(format!("{image} {driver}")),
            run: None,
            attempt: None,
            block: None,
            threshold: None,
            gpu: None,
        };
        Selected {
            info: SeriesInfo {
                key: SeriesKey {
                    machine: "gpu-1".into(),
                    image: image.into(),
                    driver: driver.into(),
                    scenario: scenario.into(),
                    metric: "peak_allocated_bytes".into(),
                    ..SeriesKey::default()
                },
                unit: "bytes".into(),
                direction: Direction::LowerIsBetter,
                kind: Kind::MemoryLike,
                points: 0,
                oldest: None,
                newest: None,
            },
            points: days.map(point).collect(),
            superseded_by: None,
            earlier: Vec::new(),
        }
    }

    fn failed(of: &Selected, started: f64) -> FailedRun {
        FailedRun {
            key: cell(&of.info.key),
            session: "s".into(),
            run: "r".into(),
            attempt: 1,
            block: 0,
            started,
            reason: String::new(),
            stage: String::new(),
            message: String::new(),
        }
    }

    /// What a series of the first ten days is superseded by; `failure` is that of one of its runs.
    #[track_caller]
    fn check(other: Selected, failure: Option<f64>, expect: &str) {
        let old = nightly("old", "580", "resnet50", 1..=10);
        let failures: Vec<_> = failure.map(|at| failed(&old, at)).into_iter().collect();
        let series = [old, other];
        let found = successors(&series, &failures);
        let words = found[0].as_ref().map(|new| told(&series[0].info.key, new));
        assert_eq!(words.unwrap_or_default(), expect);
        assert_eq!(found[1], None);
    }

    #[test]
    fn an_upgrade_takes_over() {
        let new = |days| nightly("new", "580", "resnet50", days);
        check(new(11..=20), None, "image new");
        check(
            nightly("old", "590", "resnet50", 11..=20),
            None,
            "driver 590",
        );
        let both = nightly("new", "590", "resnet50", 11..=20);
        check(both, None, "driver 590, image new");
        check(nightly("new", "580", "vit", 11..=20), None, "");
        // The session that compared them has a result of each.
        check(new(10..=20), None, "image new");
        // The old one failed before it was given up.
        check(new(11..=20), Some(10.5), "image new");
    }

    /// The runs of one session come one after the other.
    #[test]
    fn images_of_one_session_do_not_supersede_each_other() {
        let mut series =
            [("a", 1), ("b", 2)].map(|(image, day)| nightly(image, "580", "resnet50", day..=day));
        assert!(successors(&series, &[])[0].is_some());
        for one in &mut series {
            one.points[0].session = Some("s".into());
        }
        assert_eq!(successors(&series, &[])[0], None);
    }

    #[test]
    fn side_by_side_nobody_takes_over() {
        let new = |days| nightly("new", "580", "resnet50", days);
        check(new(1..=20), None, "");
        check(new(8..=10), None, "");
        // It is attempted still, and fails.
        check(new(10..=20), Some(15.0), "");
    }
}
