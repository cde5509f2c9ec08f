//! What runs of several ranks are against those of the fewest.

use std::collections::BTreeMap;

use record::Record;

use crate::{
    Metric,
    catalogue::{SCALING_EFFICIENCY, STEP_RATE, THROUGHPUT},
};

/// The axis that counts ranks.
const AXIS: &str = "ranks";

/// What one rank of a run does a second.
fn each(record: &Record) -> Option<f64> {
    let of = |metric: &Metric| metric.of(record).filter(|rate| *rate > 0.0);
    // Of steps a run's value is the mean over its ranks.
    let samples = of(&THROUGHPUT).map(|rate| rate / count(record) as f64);
    samples.or_else(|| of(&STEP_RATE))
}

fn count(record: &Record) -> usize {
    record.ranks.len().max(1)
}

/// Adds the scaling efficiency to the values of each run of more ranks than the fewest of its cell
/// otherwise, in the same session: against the run of the fewest in the same block, or the median of
/// all these where that one failed.
pub(crate) fn add_scaling(records: &mut [Record]) {
    let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        if record.axes.contains_key(AXIS) && each(record).is_some() {
            let names = [
                &record.session,
                &record.image,
                &record.suite,
                &record.scenario,
            ];
            let key = (names.map(String::clone), record.axes.without(AXIS));
            alike.entry(key).or_default().push(place);
        }
    }
    for places in alike.into_values() {
        let fewest = places.iter().map(|place| count(&records[*place])).min();
        let (least, more): (Vec<usize>, Vec<usize>) = places
            .into_iter()
            .partition(|place| Some(count(&records[*place])) == fewest);
        let of = |place: &usize| Some((records[*place].block, each(&records[*place])?));
        let by_block: BTreeMap<u32, f64> = least.iter().filter_map(of).collect();
        let Some(usual) = judge::median(by_block.values().copied()) else {
            continue;
        };
        for place in more {
            let record = &mut records[place];
            let base = by_block.get(&record.block).copied().unwrap_or(usual);
            if let Some(each) = each(record) {
                let name = SCALING_EFFICIENCY.name.to_owned();
                record.values.insert(name, each / base);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ranks: u32, block: u32, rate: f64) -> Record {
        let rank = |rank| record::Rank {
            rank,
            place: record::Place {
                host: String::new(),
                device: protocol::Device::Cpu,
            },
            started: None,
            values: protocol::Values::new(),
        };
        Record {
            block,
            axes: [
                ("batch".to_owned(), "1".to_owned()),
                (AXIS.to_owned(), ranks.to_string()),
            ]
            .into_iter()
            .collect(),
            ranks: if ranks > 1 {
                (0..ranks).map(rank).collect()
            } else {
                Vec::new()
            },
            values: [(THROUGHPUT.name.to_owned(), rate)].into(),
            ..Record::default()
        }
    }

    #[test]
    fn efficiency_is_against_the_fewest_in_the_same_block() {
        let mut records = [
            run(1, 0, 100.0),
            run(1, 1, 80.0),
            run(2, 0, 180.0),
            run(2, 1, 160.0),
            run(4, 2, 288.0),
        ];
        records[4].values.insert("x".into(), 1.0);
        add_scaling(&mut records);
        let found = records.map(|record| SCALING_EFFICIENCY.of(&record));
        // Of the last, whose block has no run of one rank, against their median.
        assert_eq!(found, [None, None, Some(0.9), Some(1.0), Some(0.8)]);
        let mut alone = [run(2, 0, 100.0)];
        add_scaling(&mut alone);
        assert_eq!(SCALING_EFFICIENCY.of(&alone[0]), None);
    }
}
