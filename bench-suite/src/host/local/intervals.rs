//! What holds at one sample after another, as intervals of time.

use std::collections::BTreeMap;

use record::GpuInterval;

/// Most intervals that are kept of one reason; beyond it those that lie closest become one.
const MOST: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Intervals {
    sample: u64,
    found: BTreeMap<String, Found>,
}

#[derive(Debug, Default)]
struct Found {
    intervals: Vec<(f64, f64)>,
    last_sample: u64,
}

impl Intervals {
    /// Another sample begins.
    pub(super) fn next(&mut self) {
        self.sample += 1;
    }

    /// At this sample, taken `at` so many seconds, this holds.
    pub(super) fn holds(&mut self, reason: &str, at: f64) {
        let found = self.found.entry(reason.to_owned()).or_default();
        let goes_on = found.last_sample + 1 >= self.sample;
        found.last_sample = self.sample;
        match found.intervals.last_mut() {
            Some(last) if goes_on => last.1 = at,
            _ => found.intervals.push((at, at)),
        }
        if found.intervals.len() > MOST {
            join_closest(&mut found.intervals);
        }
    }

    pub(super) fn finish(self) -> Vec<GpuInterval> {
        let of_reason = |(reason, found): (String, Found)| {
            let interval = move |(from_seconds, to_seconds)| GpuInterval {
                reason: reason.clone(),
                from_seconds,
                to_seconds,
            };
            found.intervals.into_iter().map(interval)
        };
        self.found.into_iter().flat_map(of_reason).collect()
    }
}

fn join_closest(intervals: &mut Vec<(f64, f64)>) {
    let gap = |place: &usize| intervals[place + 1].0 - intervals[*place].1;
    let closest = (0..intervals.len().saturating_sub(1)).min_by(|a, b| gap(a).total_cmp(&gap(b)));
    if let Some(place) = closest {
        intervals[place].1 = intervals[place + 1].1;
        intervals.remove(place + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(samples: &[(f64, &[&str])]) -> Vec<(String, f64, f64)> {
        let mut intervals = Intervals::default();
        for (at, reasons) in samples {
            intervals.next();
            for reason in *reasons {
                intervals.holds(reason, *at);
            }
        }
        let plain = |s: GpuInterval| (s.reason, s.from_seconds, s.to_seconds);
        intervals.finish().into_iter().map(plain).collect()
    }

    #[test]
    fn samples_that_follow_each_other_are_one_interval() {
        assert_eq!(
            found(&[
                (0.1, &["heat"]),
                (0.2, &["heat", "others"]),
                (0.3, &[]),
                (0.4, &["heat"]),
            ]),
            [
                ("heat".to_owned(), 0.1, 0.2),
                ("heat".to_owned(), 0.4, 0.4),
                ("others".to_owned(), 0.2, 0.2)
            ]
        );
        assert_eq!(found(&[(0.1, &[])]), []);
    }

    #[test]
    fn what_flickers_for_an_hour_takes_little_room() {
        let samples: Vec<(f64, &[&str])> = (0..36_000)
            .map(|i| -> (f64, &[&str]) {
                let reasons: &[&str] = if i % 3 == 0 { &["power"] } else { &[] };
                (f64::from(i) / 10.0, reasons)
            })
            .collect();
        let found = found(&samples);
        assert!(found.len() <= MOST, "{}", found.len());
        let (first, last) = (&found[0], &found[found.len() - 1]);
        assert!(first.1 < 0.05 && last.2 > 3599.6, "{first:?} {last:?}");
        assert!(found.windows(2).all(|pair| pair[0].2 < pair[1].1));
    }
}
