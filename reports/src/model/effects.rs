//! What stands in a report's first sentences: the changes that lie farthest beyond their thresholds,
//! those of one cause as one.

use judge::compare::Verdict;
use verdict::Verdicts;

use super::changes::{Change, IMAGE};
use crate::{
    document::{Block, Mark},
    words::{
        comparison::{self, effect, value},
        format,
        lists::grouped,
    },
};

/// Effects for the worse, and as many for the better, that a page names.
const NAMED: usize = 3;
const CELLS: usize = 2;

/// Changes of one cause: one metric in many cells, or many metrics of one cell. The largest is first.
pub(crate) struct Effect<'a> {
    changes: Vec<&'a Change>,
    /// Cells in which the metric was judged.
    judged: usize,
}

/// The largest effects as sentences: for the worse, what works no more first, and for the better.
pub(crate) fn told<'a>(
    changes: &[Change],
    mut comparisons: impl Iterator<Item = &'a Verdicts>,
) -> [Vec<String>; 2] {
    let [worst, best] = [Verdict::Regressed, Verdict::Improved].map(|verdict| {
        let effects = of(changes, verdict).into_iter().take(NAMED);
        effects.map(|effect| effect.sentence()).collect::<Vec<_>>()
    });
    let lost = comparisons.find_map(|verdicts| {
        let mut lost = verdicts.cells.iter();
        let lost = lost.find(|cell| cell.lost() == Some(Verdict::Regressed))?;
        let name = comparison::cell_name(lost);
        Some(format!("{name} works in the base and fails in the head"))
    });
    [lost.into_iter().chain(worst).collect(), best]
}

/// A row for each effect, those for the worse first: at most so many, and how many there are.
pub(crate) fn rows(changes: &[Change], most: usize) -> (Vec<String>, usize) {
    let told = [
        (Verdict::Regressed, Mark::Bad),
        (Verdict::Improved, Mark::Good),
    ];
    let rows = told.into_iter().flat_map(|(verdict, mark)| {
        let row = move |effect: Effect| format!("{}{}", mark.look().1, effect.row());
        of(changes, verdict).into_iter().map(row)
    });
    let mut rows: Vec<String> = rows.collect();
    let all = rows.len();
    rows.truncate(most);
    (rows, all)
}

pub(crate) fn list([worst, best]: [&[String]; 2]) -> Option<Block> {
    let told = |texts: &[String], first: &str, other: &str| -> Vec<String> {
        let texts = texts.iter().enumerate();
        let texts = texts.map(|(place, text)| match place {
            0 => format!("{first}: {text}."),
            _ => format!("{other}: {text}."),
        });
        texts.collect()
    };
    let mut items = told(worst, "Worst", "Also worse");
    items.extend(told(best, "Best", "Also better"));
    (!items.is_empty()).then_some(Block::List(items))
}

/// The effects that came to this verdict, the largest first.
pub(crate) fn of(changes: &[Change], verdict: Verdict) -> Vec<Effect<'_>> {
    let is_metric = |a: &Change, b: &Change| a.metric == b.metric && a.sides == b.sides;
    let mut own: Vec<&Change> = changes.iter().collect();
    own.retain(|one| one.verdict() == verdict);
    own.sort_by(|a, b| b.size().total_cmp(&a.size()));
    let by_metric = grouped(own.into_iter().map(|one| ((one.metric, &one.sides), one)));
    let by_metric = by_metric.into_iter().map(|(_, own)| own);
    let (alone, mut found): (Vec<_>, Vec<_>) = by_metric.partition(|own| own.len() == 1);
    let alone = alone.into_iter().flatten();
    let by_cell = grouped(alone.map(|one| ((&one.cell, &one.sides), one)));
    found.extend(by_cell.into_iter().map(|(_, own)| own));
    found.sort_by(|a, b| b[0].size().total_cmp(&a[0].size()));
    let judged = |first: &Change| changes.iter().filter(|one| is_metric(one, first)).count();
    let found = found.into_iter().map(|own| Effect {
        judged: judged(own[0]),
        changes: own,
    });
    found.collect()
}

impl Effect<'_> {
    /// The largest of its changes, on one line: `cell · metric · +4.54 % [3.91, 5.12] · 253 → 265`.
    pub(crate) fn row(&self) -> String {
        let first = self.changes[0];
        let (place, metric, change) = (first.place(), first.metric.label, shown(first));
        format!(
            "{place} · {metric} · {change} · {}{}",
            medians(first),
            self.rest(1)
        )
    }

    pub(crate) fn sentence(&self) -> String {
        let first = self.changes[0];
        let sides = match &*first.sides {
            "" => String::new(),
            sides => format!(", {sides},"),
        };
        let cell = |one: &&Change| {
            let of = match &*one.cell {
                IMAGE => String::new(),
                cell => format!("{cell} "),
            };
            format!("{of}{}, {}", medians(one), shown(one))
        };
        let named = if self.is_of_one_cell() { 1 } else { CELLS };
        let cells = self.changes.iter().take(named).map(cell);
        let cells = cells.collect::<Vec<_>>().join("; ");
        let of = if first.cell == IMAGE { "" } else { "of " };
        format!(
            "{}{sides} {of}{cells}{}",
            first.metric.label,
            self.rest(named)
        )
    }

    fn is_of_one_cell(&self) -> bool {
        let mut others = self.changes.iter();
        others.any(|one| one.metric != self.changes[0].metric)
    }

    /// What it has besides those that are named.
    fn rest(&self, named: usize) -> String {
        let first = self.changes[0];
        let (found, judged) = (self.changes.len(), self.judged);
        let all = if first.is_choice {
            "comparisons"
        } else {
            "cells"
        };
        match &self.changes[named.min(found)..] {
            [] if found == 1 && judged > 1 => format!(" · in 1 of {judged} {all}"),
            [] => String::new(),
            rest if self.is_of_one_cell() => {
                let rest = rest.iter();
                let rest = rest.map(|one| format!("{} {}", one.metric.label, effect(&one.found)));
                format!(" · also {}", format::few(rest.collect(), CELLS, ", ", ""))
            }
            _ => format!(" · {} in {found} of {judged} {all}", first.word()),
        }
    }
}

/// `+4.54 % [3.91, 5.12]`.
fn shown(change: &Change) -> String {
    let interval = comparison::bracketed(&change.found);
    format!("{}{interval}", effect(&change.found))
}

/// `253.4 → 265.0 samples/s`.
fn medians(change: &Change) -> String {
    let found = &change.found;
    format!(
        "{} → {}",
        value(found, found.base),
        value(found, found.head)
    )
}
