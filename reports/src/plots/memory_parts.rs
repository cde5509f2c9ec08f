//! Where the memory of a training step goes, from the model's parameters to the CUDA context.

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
    id: "memory-parts",
    title: "Where the memory goes",
    about: "Training runs, medians, of the measured steps; the parts of what tensors took from \
            within a warm-up step. Activations are what forward keeps for backward; what backward \
            takes beyond them at the peak are gradients, which come while activations go, and \
            temporaries. \
            Slack is what the allocator holds beyond that peak. The last part lies outside the \
            allocator: the CUDA context, libraries and their workspaces.",
    draw,
};

const PARAMETERS: Part = Part {
    ink: Ink::Part(0),
    label: "Parameters",
};
const OPTIMIZER: Part = Part {
    ink: Ink::Part(4),
    label: "Optimizer state",
};
const DATA: Part = Part {
    ink: Ink::Part(5),
    label: "Buffers and data",
};
const ACTIVATIONS: Part = Part {
    ink: Ink::Part(1),
    label: "Activations after forward",
};
const BACKWARD: Part = Part {
    ink: Ink::Part(6),
    label: "Gradients and temporaries at the peak",
};
const SLACK: Part = Part {
    ink: Ink::Part(2),
    label: "Allocator slack",
};
const CONTEXT: Part = Part {
    ink: Ink::Part(3),
    label: "CUDA context and libraries",
};
const PARTS: [&Part; 7] = [
    &PARAMETERS,
    &OPTIMIZER,
    &DATA,
    &ACTIVATIONS,
    &BACKWARD,
    &SLACK,
    &CONTEXT,
];

fn stack(cell: &CellSummary) -> Stack {
    let metrics = &cell.metrics;
    // Without activations there was no step to look into.
    if metrics.get(&catalogue::ACTIVATIONS).is_none() {
        return Stack::new();
    }
    medians([
        (&PARAMETERS, metrics.get(&catalogue::PARAMETERS)),
        (&OPTIMIZER, metrics.get(&catalogue::OPTIMIZER)),
        (&DATA, metrics.get(&catalogue::DATA)),
        (&ACTIVATIONS, metrics.get(&catalogue::ACTIVATIONS)),
        (&BACKWARD, metrics.get(&catalogue::BACKWARD)),
        (&SLACK, metrics.get(&catalogue::RESERVED_UNUSED)),
        (&CONTEXT, metrics.get(&catalogue::OUTSIDE)),
    ])
}

fn draw(view: &View) -> Picture {
    let bars = Stacked {
        parts: &PARTS,
        stack: &stack,
        quantity: Quantity::Bytes,
        format: format::bytes,
        axis: "Memory at the peak of a step",
        unknown: "no training step was looked into",
        mark: None,
        least: 1024.0,
    };
    bars.draw(view)
}
