//! Where the time of a training step goes.

use super::{
    Picture, Plot,
    stacked::{Part, Stack, Stacked, medians},
};
use crate::{
    format::{self, Quantity},
    model::{CellSummary, View},
    svg::ink::Ink,
};
use metrics::catalogue;

pub(super) const PLOT: Plot = Plot {
    id: "step-parts",
    title: "Where the time of a step goes",
    about: "Medians over the runs of each run's mean measured step: forward and loss of all its \
            micro-batches, backward with whatever checkpointing computes again, and the optimizer \
            with the loss scaler. Without a data loader the data lie on the device beforehand, so \
            that loading takes none of it; with one, data is the wait for its batches and their \
            way to the device.",
    draw,
};

const DATA: Part = Part {
    ink: Ink::Part(2),
    label: "Data",
};
const FORWARD: Part = Part {
    ink: Ink::Part(0),
    label: "Forward and loss",
};
const BACKWARD: Part = Part {
    ink: Ink::Part(1),
    label: "Backward",
};
const OPTIMIZER: Part = Part {
    ink: Ink::Part(4),
    label: "Optimizer",
};
const PARTS: [&Part; 4] = [&DATA, &FORWARD, &BACKWARD, &OPTIMIZER];

fn stack(cell: &CellSummary) -> Stack {
    let metrics = &cell.metrics;
    medians([
        (&DATA, metrics.get(&catalogue::STEP_DATA)),
        (&FORWARD, metrics.get(&catalogue::STEP_FORWARD)),
        (&BACKWARD, metrics.get(&catalogue::STEP_BACKWARD)),
        (&OPTIMIZER, metrics.get(&catalogue::STEP_OPTIMIZER)),
    ])
}

fn draw(view: &View) -> Picture {
    let bars = Stacked {
        parts: &PARTS,
        stack: &stack,
        quantity: Quantity::Seconds,
        format: format::seconds,
        axis: "Time of a step",
        unknown: "a whole step only",
        mark: None,
        least: 1.0,
    };
    bars.draw(view)
}
