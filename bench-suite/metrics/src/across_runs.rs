//! What runs of a session are against each other, and do for each other.

use std::collections::{BTreeMap, BTreeSet};

use record::Record;

use crate::{
    Metric,
    catalogue::{FIRST_STEP, SCALING_EFFICIENCY, STEP_RATE, THROUGHPUT, WARMUP},
};

/// Works out what follows from several runs of a session, so that no record holds it.
pub fn across_runs(records: &mut [Record]) {
    add_scaling(records);
    leave_out_the_filling(records);
}

/// Session, image, suite and scenario.
fn scenario(record: &Record) -> [String; 4] {
    let Record {
        session,
        image,
        suite,
        scenario,
        ..
    } = record;
    [session, image, suite, scenario].map(String::clone)
}

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
fn add_scaling(records: &mut [Record]) {
    let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        if record.axes.contains_key(AXIS) && each(record).is_some() {
            let key = (scenario(record), record.axes.without(AXIS));
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

/// Takes the warm-up from the first good run of each cell whose runs share a kernel cache: it fills the
/// cache that the others find full, and has the warm-up of a cell without one.
fn leave_out_the_filling(records: &mut [Record]) {
    let shares = |record: &Record| {
        let cache = record.axes.get("kernel_cache");
        record.outcome.is_ok() && cache.is_some_and(|of| of == "session")
    };
    let mut places: Vec<usize> = (0..records.len()).collect();
    places.retain(|place| shares(&records[*place]));
    places.sort_by_key(|place| records[*place].order);
    let mut filled = BTreeSet::new();
    for place in places {
        let record = &mut records[place];
        if filled.insert((scenario(record), record.axes.clone())) {
            for metric in [&WARMUP, &FIRST_STEP] {
                record.values.remove(metric.name);
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

    #[test]
    fn the_run_that_fills_a_shared_cache_has_no_warm_up() {
        let run = |order, cache: &str, is_ok: bool| Record {
            order,
            axes: [("kernel_cache".to_owned(), cache.to_owned())]
                .into_iter()
                .collect(),
            outcome: if is_ok {
                record::Outcome::Ok
            } else {
                record::Outcome::failed(
                    record::Reason::OutOfMemory,
                    record::Stage::Workload(protocol::Phase::Warmup),
                    "",
                )
            },
            values: [(WARMUP.name.to_owned(), 14.0)].into(),
            ..Record::default()
        };
        let mut records = [
            run(3, "session", true),
            run(0, "session", false),
            run(2, "session", true),
            run(1, "run", true),
        ];
        leave_out_the_filling(&mut records);
        let known = records.map(|record| record.values.contains_key(WARMUP.name));
        assert_eq!(known, [true, true, false, true]);
    }
}
