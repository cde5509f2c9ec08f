//! What changed inside the steps: kernels, losses and gradients, largest first. It describes and fails no gate.

use verdict::{
    CellVerdicts, KERNEL_FLOOR, KernelChange, KernelChanged, KernelChanges, KernelCost, Losses,
    Verdicts,
};

use crate::{
    document::{Block, Cell, Kind, Table, TableRow, known},
    words::{
        comparison::cell_name,
        format::{self, plural, share},
    },
};

/// Rows that are shown; the rest is folded.
const SHOWN: usize = 10;

/// Rows that are folded; the JSON has all.
const FOLDED: usize = 200;

/// Nothing where no cell was profiled on both sides and none is deterministic.
pub(super) fn blocks(verdicts: &Verdicts) -> Vec<Block> {
    let mut blocks = kernels(verdicts);
    blocks.extend(training(verdicts));
    blocks
}

fn kernels(verdicts: &Verdicts) -> Vec<Block> {
    let profiled = verdicts.cells.iter().filter_map(|cell| {
        let inside = cell.inside.as_ref()?;
        Some((cell, inside.kernels.as_ref()?))
    });
    let profiled: Vec<(&CellVerdicts, &KernelChanges)> = profiled.collect();
    if profiled.is_empty() {
        return Vec::new();
    }
    let changes = profiled.iter().flat_map(|&(cell, all)| {
        let changes = all.changes.iter();
        changes.map(move |one| (one.seconds() / all.base_seconds, cell, all, one))
    });
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by(|one, other| other.0.abs().total_cmp(&one.0.abs()));
    let rows = changes.iter().map(|&(weight, cell, all, one)| {
        let mut row = vec![Kind::Name.cell("cell", cell_name(cell))];
        row.extend(columns(weight, all, one));
        row
    });
    let mut blocks = listed("Kernels that changed", rows.collect());
    let small: usize = profiled.iter().map(|(_, kernels)| kernels.small).sum();
    let none = if changes.is_empty() { "None did. " } else { "" };
    blocks.push(Block::Method(format!(
        "Kernels (on a CPU, operators) of the profiled steps after the measured ones, in {}. {none}\
         Listed are those that are new, gone, slower or faster by at least {} of the base's time in \
         kernels, slower and faster in every run; times, counts and shares are of one step, medians \
         over the runs. {} smaller. This is for information; no gate fails on it.",
        plural(profiled.len(), "cell", "cells"),
        share(KERNEL_FLOOR),
        match small {
            1 => "1 that is new or gone is".to_owned(),
            small => format!("{small} that are new or gone are"),
        },
    )));
    blocks
}

/// What is said of a kernel whose change is this share of the base's step.
fn columns(weight: f64, all: &KernelChanges, one: &KernelChange) -> TableRow {
    let word = match one.change {
        KernelChanged::New => "new",
        KernelChanged::Gone => "gone",
        KernelChanged::Slower => "slower",
        KernelChanged::Faster => "faster",
    };
    let cost = |cost: KernelCost, step_seconds: f64, lacks: KernelChanged| {
        if one.change == lacks {
            return known(None);
        }
        let count = format::times(cost.count);
        let share = share(cost.seconds / step_seconds);
        Cell::from(format::seconds(cost.seconds)).noted(format!("{count} ×, {share}"))
    };
    vec![
        Kind::Message.cell("kernel", one.name.as_str()),
        Kind::Word.cell("is", word),
        Kind::Number.cell("of the step", format::change(1.0 + weight)),
        Kind::Number.cell("base", cost(one.base, all.base_seconds, KernelChanged::New)),
        Kind::Number.cell(
            "head",
            cost(one.head, all.head_seconds, KernelChanged::Gone),
        ),
    ]
}

/// Losses and gradients, those that differ first.
fn training(verdicts: &Verdicts) -> Vec<Block> {
    let all = verdicts.cells.iter().flat_map(|cell| {
        let (inside, name) = (cell.inside.iter(), cell_name(cell));
        let told = inside.flat_map(|inside| {
            let gradients = inside.gradients.map(|one| {
                let differ = one.differ.map(|step| step + 1);
                let differ = differ.map(|step| format!("differ from warm-up step {step} on"));
                let (is_other, equal) = (differ.is_some(), equal(one.steps, "warm-up step"));
                (is_other, "gradients", differ.unwrap_or(equal))
            });
            let losses = inside.losses.as_ref();
            let losses = losses.map(|one| (one.differ.is_some(), "losses", told(one)));
            gradients.into_iter().chain(losses)
        });
        told.map(move |told| (name.clone(), told))
            .collect::<Vec<_>>()
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, (differ, ..))| !differ);
    let rows = all.into_iter().map(|(name, (_, what, told))| {
        vec![
            Kind::Name.cell("cell", name),
            Kind::Word.cell("of", what),
            Kind::Message.cell("base and head", told),
        ]
    });
    listed(
        "Losses and gradients of deterministic cells",
        rows.collect(),
    )
}

fn equal(steps: usize, step: &str) -> String {
    match steps {
        1 => format!("equal to the bit in the {step}"),
        _ => format!("equal to the bit in all {steps} {step}s"),
    }
}

fn told(losses: &Losses) -> String {
    let steps = losses.steps;
    let Some(differ) = &losses.differ else {
        return equal(steps, "step");
    };
    let change = |ratio: Option<f64>| format::known(ratio.map(format::change));
    let (here, last) = (change(differ.ratio), change(differ.last_ratio));
    let from = differ.step + 1;
    if from == steps {
        return format!("differ in the last of {steps}, by {here}");
    }
    format!("differ from step {from} of {steps} on, by {here} there and {last} in the last")
}

/// A table of the first rows, and one of the next, which is folded.
fn listed(title: &str, mut rows: Vec<TableRow>) -> Vec<Block> {
    let all = rows.len();
    let mut rest = rows.split_off(all.min(SHOWN));
    rest.truncate(FOLDED);
    let mut blocks = Block::titled(title, rows, false);
    if let Some(Block::Subheading(heading)) = blocks.first_mut() {
        *heading = format!("{title}: {all}");
    }
    let more = format!("{} more", rest.len());
    blocks.extend(Table::of(rest).map(|table| Block::Folded(more, vec![Block::Table(table)])));
    blocks
}
