//! Memory as stacked bars: what the tensors took, what the allocator kept beyond it, and what
//! lies outside the allocator.

use super::{
    Picture, Plot,
    stacked::{Part, Stacked},
};
use crate::{
    format::{self, Quantity},
    model::{CellSummary, Spread, View},
    svg::ink::Ink,
};
use metrics::catalogue;

pub(super) const PLOT: Plot = Plot {
    id: "memory",
    title: "Peak memory",
    about: "Medians of the runs' peaks, stacked. Parameters and optimizer state are there all the \
            time; gradients, activations and temporaries are the rest of the peak that tensors \
            took. On a GPU, the allocator holds more than that (reserved), and the process more \
            than the allocator: the CUDA context and libraries. On the CPU, the last part is \
            the rest of the process's resident memory.",
    draw,
};

const STATE: Part = Part {
    ink: Ink::Part(0),
    label: "Parameters and optimizer state",
};
const WORK: Part = Part {
    ink: Ink::Part(1),
    label: "Gradients, activations, temporaries",
};
const SLACK: Part = Part {
    ink: Ink::Part(2),
    label: "Reserved beyond allocated",
};
const OUTSIDE: Part = Part {
    ink: Ink::Part(3),
    label: "Outside the allocator, on the GPU",
};
const HOST: Part = Part {
    ink: Ink::Part(3),
    label: "Rest of the process's resident memory",
};
const PARTS: [&Part; 5] = [&STATE, &WORK, &SLACK, &OUTSIDE, &HOST];

/// The parts of a cell's bar from the left, in bytes.
fn stack(cell: &CellSummary) -> Vec<(&'static Part, f64)> {
    let metrics = &cell.metrics;
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    let Some(allocated) = median(metrics.get(&catalogue::PEAK_ALLOCATED)) else {
        return median(metrics.get(&catalogue::RUN_HOST_PEAK_RESIDENT))
            .map(|bytes| (&HOST, bytes))
            .into_iter()
            .collect();
    };
    let state = median(metrics.get(&catalogue::PARAMETERS)).unwrap_or(0.0)
        + median(metrics.get(&catalogue::OPTIMIZER)).unwrap_or(0.0);
    let state = state.min(allocated);
    let mut parts = vec![(&STATE, state), (&WORK, allocated - state)];
    if let Some(reserved) = median(metrics.get(&catalogue::PEAK_RESERVED)) {
        parts.push((&SLACK, reserved - allocated));
        if let Some(process) = median(metrics.get(&catalogue::PROCESS_PEAK)) {
            parts.push((&OUTSIDE, process - reserved));
        }
    } else if let Some(resident) = median(metrics.get(&catalogue::RUN_HOST_PEAK_RESIDENT)) {
        parts.push((&HOST, resident - allocated));
    }
    parts.retain(|(_, bytes)| *bytes > 0.0);
    parts
}

fn draw(view: &View) -> Picture {
    let bars = Stacked {
        parts: &PARTS,
        stack: &stack,
        quantity: Quantity::Bytes,
        format: format::bytes,
        axis: "Peak memory",
        unknown: "memory is not known",
        least: 1024.0,
    };
    bars.draw(view)
}
