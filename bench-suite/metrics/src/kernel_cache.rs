//! What runs that share compiled kernels do for each other.

use std::collections::BTreeSet;

use record::Record;

use crate::catalogue::{FIRST_STEP, WARMUP};

/// Takes the warm-up from the first good run of each cell whose runs share a kernel cache: it fills the
/// cache that the others find full, and has the warm-up of a cell without one.
pub(crate) fn leave_out_the_filling(records: &mut [Record]) {
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
        let names = [
            &record.session,
            &record.image,
            &record.suite,
            &record.scenario,
        ];
        if filled.insert((names.map(String::clone), record.axes.clone())) {
            for metric in [&WARMUP, &FIRST_STEP] {
                record.values.remove(metric.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
