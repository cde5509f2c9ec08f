//! What the days of the week do to a series, taken out of it.

use super::constants::MIN_SEGMENT;
use super::model::Point;
use super::robust;
use crate::dist::f_upper;

/// Nights of a week.
const NIGHTS: usize = 7;
/// How sure it has to be that days of the week differ: a series in which they do not is left alone.
const ALPHA: f64 = 0.001;

/// Takes out of the values what sets a day of the week apart, where that is beyond chance: an F test of
/// normal scores of the distances from the median of a week around each point. Days with fewer points
/// than a level say nothing.
pub(super) fn flatten(y: &mut [f64], points: &[Point]) {
    let days: Vec<usize> = points.iter().map(weekday).collect();
    let around = NIGHTS / 2;
    let places = around..y.len().saturating_sub(around);
    let distance = |place: usize| y[place] - robust::median(&y[place - around..=place + around]);
    let distances: Vec<f64> = places.clone().map(distance).collect();
    let scores = robust::normal_scores(&distances);
    let mut effects = [0.0; NIGHTS];
    let (mut between, mut within, mut groups, mut all) = (0.0, 0.0, 0.0, 0.0);
    for (weekday, effect) in effects.iter_mut().enumerate() {
        let is_one = |place: &usize| days[*place] == weekday;
        let own = places.clone().filter(is_one).map(|place| place - around);
        let own: Vec<usize> = own.collect();
        if own.len() < MIN_SEGMENT {
            continue;
        }
        let count = own.len() as f64;
        let mean = own.iter().map(|one| scores[*one]).sum::<f64>() / count;
        // The scores of all have mean 0.
        between += count * mean * mean;
        within += own
            .iter()
            .map(|one| (scores[*one] - mean).powi(2))
            .sum::<f64>();
        (groups, all) = (groups + 1.0, all + count);
        *effect = robust::median(&own.iter().map(|one| distances[*one]).collect::<Vec<_>>());
    }
    let (above, below) = (groups - 1.0, all - groups);
    if f_upper(between / above / (within / below), above, below) > ALPHA {
        return;
    }
    for (value, day) in y.iter_mut().zip(days) {
        *value -= effects[day];
    }
}

/// The day of the week, from 0, in UTC.
fn weekday(point: &Point) -> usize {
    let day = (point.timestamp / 86_400.0).floor().rem_euclid(7.0);
    (0..NIGHTS - 1)
        .find(|one| day <= *one as f64)
        .unwrap_or(NIGHTS - 1)
}
