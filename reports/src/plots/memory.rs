//! Memory as stacked bars: what the tensors took, what the allocator kept beyond it, and what
//! lies outside the allocator; beside them the peak of the whole run.

use metrics::catalogue;

use super::{
    plot::Plot,
    stacked::{
        Length::{Median, Of},
        Limit, Mark, Part, Stacked, part,
    },
};
use crate::{
    model::{CellSummary, Group, RUN_PEAK_ABOVE, View},
    words::format::Quantity,
};

pub(super) const PLOT: Plot = Plot {
    id: "memory",
    title: "Peak memory",
    about: "Medians of the runs' peaks during the measured steps, stacked. How the tensors of a \
            training step divide is seen within a warm-up step: activations are what forward keeps \
            for backward; what backward takes beyond them at the peak are gradients, which come \
            while activations go, and temporaries. On a GPU the allocator holds more than its \
            tensors (reserved and unused), and the process more than the allocator: the CUDA \
            context, libraries and their workspaces. On the CPU the last part is the rest of the \
            container's or process's memory. A mark shows the peak of the whole run, warm-up \
            included and calibration not, where it lies above.",
    answers: &[
        "peak_allocated_bytes",
        "peak_reserved_bytes",
        "process_peak_bytes",
        "context_bytes",
    ],
    is_detail: false,
    draw: |view| STACKED.draw(view),
};

const STACKED: Stacked = Stacked {
    parts: &PARTS,
    quantity: Quantity::Bytes,
    axis: "Peak memory",
    mark: Some(("whole run", whole_run)),
    beside: &[],
    limits: Some(limits),
};

/// The size of the GPU, and what of it the runs of a scenario may take. The allocator's limit counts
/// nothing of what lies outside the allocator.
pub(super) fn limits(view: &View, group: &Group) -> Vec<Limit> {
    let runs = || group.cells().flat_map(|cell| &view.runs[cell]);
    let method = |key| runs().find_map(|run| run.method.bytes(key));
    let size = runs().find_map(|run| run.values.get("device_total_bytes").copied());
    let outside: fn(&CellSummary) -> _ = |cell| cell.metrics.median(&catalogue::OUTSIDE);
    let (gpu, allocator) = (
        method("limits.gpu_memory"),
        method("limits.allocator_memory"),
    );
    let limits = [
        ("Limit of the GPU's memory", gpu, None),
        ("Limit of the allocator", allocator, Some(outside)),
        ("Memory of the GPU", size, None),
    ];
    let limit = |(name, value, beside)| Limit {
        name,
        value,
        beside,
    };
    let known = limits.into_iter();
    let known = known.filter_map(|(name, value, beside)| Some((name, value?, beside)));
    known.map(limit).collect()
}

/// All of one window.
static PARTS: [Part; 9] = [
    part(0, "Parameters", Median(&catalogue::PARAMETERS)),
    part(4, "Optimizer state", Median(&catalogue::OPTIMIZER)),
    part(5, "Buffers and data", Median(&catalogue::DATA)),
    part(1, "Activations", Median(&catalogue::ACTIVATIONS)),
    part(6, "Gradients and temporaries", Median(&catalogue::BACKWARD)),
    part(7, "Activations and temporaries", Of(undivided)),
    part(
        2,
        "Reserved and unused",
        Median(&catalogue::RESERVED_UNUSED),
    ),
    part(3, "Outside the allocator", Median(&catalogue::OUTSIDE)),
    part(3, "Rest of the container or process", Of(rest)),
];

/// What tensors took besides the model's, where no training step was looked into.
fn undivided(cell: &CellSummary) -> Option<f64> {
    let median = |metric| cell.metrics.median(metric);
    let model = [&catalogue::PARAMETERS, &catalogue::OPTIMIZER];
    let model: f64 = model.into_iter().filter_map(median).sum();
    let is_divided = median(&catalogue::ACTIVATIONS).is_some();
    Some(median(&catalogue::PEAK_ALLOCATED)? - model).filter(|_| !is_divided)
}

/// On the CPU, where no allocator reserves: what else the container held.
fn rest(cell: &CellSummary) -> Option<f64> {
    let median = |metric| cell.metrics.median(metric);
    let container = median(&catalogue::CONTAINER_PEAK)?;
    let is_reserved = median(&catalogue::PEAK_RESERVED).is_some();
    let allocated = median(&catalogue::PEAK_ALLOCATED).unwrap_or(0.0);
    Some(container - allocated).filter(|_| !is_reserved)
}

/// The peak of the whole run, where it lies above that of the measured steps.
fn whole_run(cell: &CellSummary) -> Option<Mark> {
    let value = cell.metrics.median(&catalogue::RUN_PROCESS_PEAK)?;
    let measured = cell.metrics.median(&catalogue::PROCESS_PEAK)?;
    (value >= RUN_PEAK_ABOVE * measured).then(|| Mark {
        value,
        cause: cell.run_peak_made_by.clone(),
    })
}
