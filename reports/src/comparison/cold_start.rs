//! What an image takes from nothing to its first measured step, as one table.

use judge::compare::Verdict;
use metrics::catalogue;
use verdict::{MetricVerdict, Verdicts};

use crate::{
    document::{Block, Cell, Kind, Table, TableRow},
    words::comparison::{came_to, effect, interval, label, value},
};

/// What of an image comes before its first run, in order.
const OF_IMAGES: [&str; 3] = [
    catalogue::IMAGE_PULL.name,
    catalogue::IMAGE_SIZE.name,
    catalogue::IMAGE_LOAD.name,
];

/// The table and how it came about, and whether something on the way changed. `None` where no run of
/// both sides has such a step, and of two values of an axis, which start alike.
pub(super) fn table(verdicts: &Verdicts) -> Option<(Vec<Block>, bool)> {
    if verdicts.cold_start.is_empty() || verdicts.head.choice.is_some() {
        return None;
    }
    let named = |name| {
        verdicts
            .images
            .iter()
            .find(move |found| found.metric == name)
    };
    let of_images = OF_IMAGES.into_iter().filter_map(named);
    let steps: Vec<&MetricVerdict> = of_images.chain(&verdicts.cold_start).collect();
    let changed = [Verdict::Regressed, Verdict::Improved];
    let is_changed = |found: &&MetricVerdict| changed.iter().any(|one| came_to(found, *one));
    let has_changed = steps.iter().any(is_changed);
    let table = Table::of(steps.into_iter().map(row).collect())?;
    let method = "From nothing to the first measured step, in order. Times of a step are those of the \
                  typical cell, the geometric mean over all, and get one verdict together. A step that \
                  is not known of both is left out. No gate fails on it.";
    let blocks = vec![Block::Table(table), Block::Method(method.to_owned())];
    Some((blocks, has_changed))
}

fn row(found: &MetricVerdict) -> TableRow {
    let verdict = Cell::from(found.outcome()).marked(found.comparison.verdict.into());
    vec![
        Kind::Name.cell("step", label(found)),
        Kind::Number.cell("base", value(found, found.base)),
        Kind::Number.cell("head", value(found, found.head)),
        Kind::Number.cell("change", effect(found)),
        Kind::Number.cell("interval", interval(found)),
        Kind::Word.cell("verdict", verdict),
    ]
}
