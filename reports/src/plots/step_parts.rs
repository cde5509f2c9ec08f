//! Where the time of a training step goes.

use super::{
    Picture, Plot,
    stacked::{Part, Stack, Stacked, medians},
};
use crate::{
    format::{self, Quantity},
    model::{CellSummary, View},
    svg::{DrawError, ink::Ink},
};

pub(super) const PLOT: Plot = Plot {
    id: "step-parts",
    title: "Where the time of a step goes",
    about: "Medians over the runs of each run's mean measured step: forward and loss of all its \
            micro-batches, backward with whatever checkpointing computes again, and the optimizer \
            with the loss scaler. The data lie on the device beforehand, so loading takes none of \
            it.",
    draw,
};

const FORWARD: Part = Part { ink: Ink::Part(0), label: "Forward and loss" };
const BACKWARD: Part = Part { ink: Ink::Part(1), label: "Backward" };
const OPTIMIZER: Part = Part { ink: Ink::Part(4), label: "Optimizer" };
const PARTS: [&Part; 3] = [&FORWARD, &BACKWARD, &OPTIMIZER];

fn stack(cell: &CellSummary) -> Stack {
    let metrics = &cell.metrics;
    medians([
        (&FORWARD, metrics.forward_seconds),
        (&BACKWARD, metrics.backward_seconds),
        (&OPTIMIZER, metrics.optimizer_seconds),
    ])
}

fn draw(view: &View) -> Result<Picture, DrawError> {
    let bars = Stacked {
        plot: &PLOT,
        parts: &PARTS,
        stack,
        quantity: Quantity::Seconds,
        figure: format::seconds,
        axis: "Time of a step",
        unknown: "a whole step only",
        least: 1.0,
    };
    bars.draw(view)
}
