//! Which series has taken another's place: an image or a driver that was upgraded begins new ones.

use std::collections::HashMap;

use history::{FailedRun, SeriesInfo, SeriesKey};
use judge::trend::Point;

/// Results that a successor may have from before: the old one may have run once beside it, in the
/// session that compared them.
const MOST_TOGETHER: usize = 1;

/// For each series the one that has taken its place, where there is one: of the same machine,
/// device, cell and metric, but of another image or driver. It has a newer result, and it began when
/// the other was not tried any more. Two images that are followed side by side do not supersede each
/// other, nor do those of one session alone: a failed run is a try. `sessions` names the session of
/// each one's newest point.
pub(super) fn successors(
    series: &[SeriesInfo],
    points: &[Vec<Point>],
    sessions: &[Option<&str>],
    failures: &[FailedRun],
) -> Vec<Option<SeriesKey>> {
    let mut alike: HashMap<SeriesKey, Vec<usize>> = HashMap::new();
    for (place, info) in series.iter().enumerate() {
        alike.entry(role(&info.key)).or_default().push(place);
    }
    let mut failed: HashMap<SeriesKey, f64> = HashMap::new();
    for run in failures {
        let last = failed.entry(run.key.clone()).or_insert(run.started);
        *last = last.max(run.started);
    }
    let successor = |place: usize| -> Option<SeriesKey> {
        let key = &series[place].key;
        if key.machine == SeriesKey::IMPORTED {
            return None;
        }
        let newest = newest(&points[place])?;
        let tried = failed.get(&cell(key)).map_or(newest, |at| at.max(newest));
        let took_over = |other: &usize| {
            let before = points[*other]
                .iter()
                .filter(|point| point.timestamp <= tried);
            before.count() <= MOST_TOGETHER
                && self::newest(&points[*other]) > Some(newest)
                && sessions[*other] != sessions[place]
        };
        alike[&role(key)]
            .iter()
            .filter(|other| **other != place && took_over(other))
            // Of several the one that runs now.
            .max_by(|a, b| {
                let newest = |place: usize| self::newest(&points[place]).unwrap_or(f64::MIN);
                newest(**a).total_cmp(&newest(**b))
            })
            .map(|other| series[*other].key.clone())
    };
    (0..series.len()).map(successor).collect()
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

fn newest(points: &[Point]) -> Option<f64> {
    points.last().map(|point| point.timestamp)
}

#[cfg(test)]
mod tests {
    use judge::compare::{Direction, Kind};

    use super::*;

    fn info(image: &str, driver: &str, scenario: &str) -> SeriesInfo {
        SeriesInfo {
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
        }
    }

    fn nightly(from: u32, to: u32) -> Vec<Point> {
        let point = |day| Point {
            timestamp: f64::from(day),
            revision: String::new(),
            value: 1.0,
        };
        (from..=to).map(point).collect()
    }

    fn failed(info: &SeriesInfo, started: f64) -> FailedRun {
        FailedRun {
            key: cell(&info.key),
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

    /// What the first of two series is superseded by.
    #[track_caller]
    fn check(other: &SeriesInfo, points: &[Vec<Point>; 2], failures: &[FailedRun], expect: &str) {
        let series = [info("old", "580", "resnet50"), other.clone()];
        let sessions = ["its last", "another"].map(Some);
        let found = successors(&series, points, &sessions, failures);
        let words = found[0]
            .as_ref()
            .map_or_else(String::new, |successor| told(&series[0].key, successor));
        assert_eq!(words, expect);
        assert_eq!(found[1], None);
    }

    #[test]
    fn an_upgrade_takes_over() {
        let points = || [nightly(1, 10), nightly(11, 20)];
        let new = info("new", "580", "resnet50");
        check(&new, &points(), &[], "image new");
        check(
            &info("old", "590", "resnet50"),
            &points(),
            &[],
            "driver 590",
        );
        let both = info("new", "590", "resnet50");
        check(&both, &points(), &[], "driver 590, image new");
        check(&info("new", "580", "vit"), &points(), &[], "");
        // The session that compared them has a result of each.
        check(&new, &[nightly(1, 10), nightly(10, 20)], &[], "image new");
        // The old one failed before it was given up.
        let old = info("old", "580", "resnet50");
        check(&new, &points(), &[failed(&old, 10.5)], "image new");
    }

    /// The runs of one session come one after the other.
    #[test]
    fn images_of_one_session_do_not_supersede_each_other() {
        let series = ["a", "b"].map(|image| info(image, "580", "resnet50"));
        let points = [nightly(1, 1), nightly(2, 2)];
        for (second, expect) in [("s", None), ("later", Some(series[1].key.clone()))] {
            let sessions = [Some("s"), Some(second)];
            assert_eq!(successors(&series, &points, &sessions, &[])[0], expect);
        }
    }

    #[test]
    fn side_by_side_nobody_takes_over() {
        let new = info("new", "580", "resnet50");
        check(&new, &[nightly(1, 10), nightly(1, 20)], &[], "");
        check(&new, &[nightly(1, 10), nightly(8, 10)], &[], "");
        // It is tried still, and fails.
        let old = info("old", "580", "resnet50");
        let points = [nightly(1, 10), nightly(10, 20)];
        check(&new, &points, &[failed(&old, 15.0)], "");
    }
}
