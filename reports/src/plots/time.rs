//! Where time goes: within a step, around the measured steps, and in the harness.

use metrics::{Metric, catalogue};

use super::{
    plot::Plot,
    stacked::{
        Length::{Median, Of, Time},
        Part, Stacked, part,
    },
};
use crate::words::format::Quantity;

pub(super) const STEP: Plot = Plot {
    id: "step-parts",
    title: "Where the time of a step goes",
    about: "Medians over the runs of each run's mean measured step: forward and loss of all its \
            micro-batches, backward with whatever checkpointing computes again, and the optimizer \
            with the loss scaler. Without a data loader the data lie on the device beforehand, so \
            that loading takes none of it; with one, data is the wait for its batches and their \
            way to the device. The table has how busy the GPU and the host's CPUs were in each.",
    answers: &[
        "step_data_seconds",
        "step_forward_seconds",
        "step_backward_seconds",
    ],
    is_detail: true,
    draw: |view| {
        let bars = bars(&STEP_PARTS, "Time of a step");
        let beside = &AT_WORK;
        Stacked { beside, ..bars }.draw(view)
    },
};

pub(super) const RUN: Plot = Plot {
    id: "run-time",
    title: "Time outside the measured steps",
    about: "Medians of the runs. What is besides the work is one part here, and magnified below.",
    answers: &[
        "warmup_seconds",
        "cuda_start_seconds",
        "model_build_seconds",
    ],
    is_detail: true,
    draw: |view| bars(&RUN_PARTS, "Time outside the measured steps").draw(view),
};

pub(super) const HARNESS: Plot = Plot {
    id: "overhead",
    title: "A run besides its work",
    about: "Medians of the runs: the whole run without CUDA start, model build, warm-up, measured \
            steps and calibration. Create, start, notice the end and remove are the harness's; \
            process start is mostly the loading of libtorch, and teardown and other are mostly the \
            kernel's taking back of the CUDA context.",
    answers: &["harness_seconds", "container_start_seconds", "wall_seconds"],
    is_detail: true,
    draw: |view| bars(&HARNESS_PARTS, "Time besides the work").draw(view),
};

fn bars(parts: &'static [Part], axis: &'static str) -> Stacked {
    Stacked {
        parts,
        quantity: Quantity::Seconds,
        axis,
        mark: None,
        beside: &[],
        limits: None,
    }
}

static STEP_PARTS: [Part; 4] = [
    part(2, "Data", Median(&catalogue::STEP_DATA)),
    part(0, "Forward and loss", Median(&catalogue::STEP_FORWARD)),
    part(1, "Backward", Median(&catalogue::STEP_BACKWARD)),
    part(4, "Optimizer", Median(&catalogue::STEP_OPTIMIZER)),
];

static AT_WORK: [&Metric; 8] = [
    &catalogue::DATA_GPU_BUSY,
    &catalogue::FORWARD_GPU_BUSY,
    &catalogue::BACKWARD_GPU_BUSY,
    &catalogue::OPTIMIZER_GPU_BUSY,
    &catalogue::DATA_HOST_CPU,
    &catalogue::FORWARD_HOST_CPU,
    &catalogue::BACKWARD_HOST_CPU,
    &catalogue::OPTIMIZER_HOST_CPU,
];

static RUN_PARTS: [Part; 5] = [
    part(0, "CUDA start", Time("cuda_start_seconds")),
    part(1, "Model build", Time("model_build_seconds")),
    part(3, "Warm-up", Time("warmup_seconds")),
    part(5, "Calibration", Time("calibrate_seconds")),
    part(
        6,
        "Besides the work",
        Of(|cell| Some(cell.time.as_ref()?.harness_caused?.median)),
    ),
];

/// In the order in which they pass.
static HARNESS_PARTS: [Part; 8] = [
    part(4, "Create", Time("create_seconds")),
    part(2, "Start", Time("start_seconds")),
    part(0, "Process start", Time("process_start_seconds")),
    part(5, "Data", Time("data_seconds")),
    part(1, "Teardown", Time("teardown_seconds")),
    part(6, "Notice the end", Time("notice_seconds")),
    part(7, "Remove", Time("remove_seconds")),
    part(3, "Other", Time("other_seconds")),
];
