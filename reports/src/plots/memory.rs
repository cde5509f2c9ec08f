//! Memory as stacked bars: what the tensors took, what the allocator kept beyond it, and what
//! lies outside the allocator; beside them the peak of the whole run.

use metrics::catalogue;

use super::{
    Picture, Plot,
    stacked::{Mark, Part, Stack, Stacked},
};
use crate::{
    format::{self, Quantity},
    model::{CellSummary, View, run_peak},
    svg::ink::Ink,
};

pub(super) const PLOT: Plot = Plot {
    id: "memory",
    title: "Peak memory",
    about: "Medians of the runs' peaks during the measured steps, stacked. Parameters and optimizer \
            state are there all the time; gradients, activations and temporaries are the rest of \
            what tensors took. On a GPU the allocator holds more than that (reserved), and the \
            process more than the allocator: the CUDA context, libraries and their workspaces. On \
            the CPU the last part is the rest of the container's or process's memory. A mark shows \
            the peak of the whole run, warm-up included and calibration not, where it lies above.",
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
    label: "Outside the allocator",
};
const HOST: Part = Part {
    ink: Ink::Part(3),
    label: "Rest of the container or process",
};
const PARTS: [&Part; 5] = [&STATE, &WORK, &SLACK, &OUTSIDE, &HOST];

/// The parts of a cell's bar from the left, in bytes, all of one window.
fn stack(cell: &CellSummary) -> Stack {
    let median = |metric| cell.metrics.median(metric);
    let container = median(&catalogue::CONTAINER_PEAK);
    let Some(allocated) = median(&catalogue::PEAK_ALLOCATED) else {
        return container.map(|bytes| (&HOST, bytes)).into_iter().collect();
    };
    let parameters = median(&catalogue::PARAMETERS).unwrap_or(0.0);
    let optimizer = median(&catalogue::OPTIMIZER).unwrap_or(0.0);
    let state = (parameters + optimizer).min(allocated);
    let mut parts = vec![(&STATE, state), (&WORK, allocated - state)];
    match (median(&catalogue::PEAK_RESERVED), container) {
        (Some(reserved), _) => {
            parts.push((&SLACK, reserved - allocated));
            let process = median(&catalogue::PROCESS_PEAK);
            parts.extend(process.map(|process| (&OUTSIDE, process - reserved)));
        }
        (None, Some(container)) => parts.push((&HOST, container - allocated)),
        (None, None) => {}
    }
    parts.retain(|(_, bytes)| *bytes > 0.0);
    parts
}

/// The peak of the whole run, where it lies above that of the measured steps.
fn mark(cell: &CellSummary) -> Option<Mark> {
    let median = |metric| cell.metrics.median(metric);
    let value = median(&catalogue::RUN_PROCESS_PEAK)?;
    if value < run_peak::ABOVE * median(&catalogue::PROCESS_PEAK)? {
        return None;
    }
    Some(Mark {
        value,
        words: format!("peak of the whole run {}", format::bytes(value)),
        cause: cell.run_peak_made_by.clone(),
    })
}

fn draw(view: &View) -> Picture {
    let bars = Stacked {
        parts: &PARTS,
        stack: &stack,
        quantity: Quantity::Bytes,
        format: format::bytes,
        axis: "Peak memory",
        unknown: "memory is not known",
        mark: Some(("whole run", &mark)),
        least: 1024.0,
    };
    bars.draw(view)
}
