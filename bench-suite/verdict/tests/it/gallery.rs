//! The sessions of the gallery, judged: what each verdict says, its interval shows.

use std::path::Path;

use judge::compare::Verdict;
use record::SessionFolder;
use verdict::{CellVerdicts, Options, compare_session, judge_pairs};

/// Holds every verdict beside its interval; gives how many there are.
#[track_caller]
fn check<'a>(cells: impl Iterator<Item = &'a CellVerdicts>) -> usize {
    let mut count = 0;
    for cell in cells {
        for found in &cell.metrics {
            let comparison = &found.comparison;
            let Some(interval) = comparison.interval else {
                continue;
            };
            let (least, most) = (
                1.0 / (1.0 + comparison.threshold),
                1.0 + comparison.threshold,
            );
            let is_within = interval.lo >= least && interval.hi <= most;
            let is_beyond = interval.lo > most || interval.hi < least;
            let shown = match comparison.verdict {
                Verdict::Unchanged => is_within,
                Verdict::Improved | Verdict::Regressed => is_beyond,
                Verdict::Inconclusive => !is_within && !is_beyond,
            };
            assert!(shown, "{}: {found:?}", cell.name);
            count += 1;
        }
    }
    count
}

#[test]
fn no_verdict_of_the_gallery_contradicts_its_interval() {
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/gallery");
    let mut count = 0;
    for entry in gallery.read_dir().unwrap() {
        let folder = SessionFolder::at(entry.unwrap().path());
        let Ok(session) = folder.read_session() else {
            continue;
        };
        let records = folder.read_records().unwrap().records;
        let options = Options::default();
        let comparisons = compare_session(&session, &records, &options).unwrap();
        count += check(comparisons.iter().flat_map(|verdicts| &verdicts.cells));
        let nothing_else = |_: &str| Vec::new();
        let pairs = judge_pairs(&session, &records, &comparisons, nothing_else, &options);
        for scenario in pairs.unwrap() {
            count += check(scenario.against_first());
        }
    }
    assert!(count > 900, "{count} verdicts");
}
