//! Where the time of a run goes outside its measured steps, and what of it the harness causes.

use super::{
    Picture, Plot,
    stacked::{Part, Stack, Stacked},
};
use crate::{
    format::{self, Quantity},
    model::{CellSummary, TimeParts, View},
    svg::ink::Ink,
};

pub(super) const RUN: Plot = Plot {
    id: "run-time",
    title: "Time outside the measured steps",
    about: "Medians of the runs. What the harness causes is one part here, and magnified below.",
    draw: |view| draw(view, &RUN_PARTS, run, "Time outside the measured steps"),
};

pub(super) const HARNESS: Plot = Plot {
    id: "overhead",
    title: "Overhead of the harness",
    about: "Medians of the runs: the whole run without CUDA start, model build, warm-up, measured \
            steps and calibration.",
    draw: |view| draw(view, &HARNESS_PARTS, harness, "Time caused by the harness"),
};

const fn part(ink: u8, label: &'static str) -> Part {
    Part {
        ink: Ink::Part(ink),
        label,
    }
}

static CUDA_START: Part = part(0, "CUDA start");
static MODEL_BUILD: Part = part(1, "Model build");
static WARMUP: Part = part(3, "Warm-up");
static CALIBRATION: Part = part(5, "Calibration");
static CAUSED: Part = part(6, "Caused by the harness");
static RUN_PARTS: [&Part; 5] = [&CUDA_START, &MODEL_BUILD, &WARMUP, &CALIBRATION, &CAUSED];

static CREATE: Part = part(4, "Create");
static START: Part = part(2, "Start");
static PROCESS_START: Part = part(0, "Process start");
static DATA: Part = part(5, "Data");
static TEARDOWN: Part = part(1, "Teardown");
static NOTICE: Part = part(6, "Notice the end");
static REMOVE: Part = part(7, "Remove");
static OTHER: Part = part(3, "Other");
static HARNESS_PARTS: [&Part; 8] = [
    &CREATE,
    &START,
    &PROCESS_START,
    &DATA,
    &TEARDOWN,
    &NOTICE,
    &REMOVE,
    &OTHER,
];

fn run(time: &TimeParts) -> Stack {
    vec![
        (&CUDA_START, time.cuda_start_seconds),
        (&MODEL_BUILD, time.model_build_seconds),
        (&WARMUP, time.warmup_seconds),
        (&CALIBRATION, time.calibrate_seconds),
        (
            &CAUSED,
            time.harness_caused.map_or(0.0, |spread| spread.median),
        ),
    ]
}

/// In the order in which it passes.
fn harness(time: &TimeParts) -> Stack {
    vec![
        (&CREATE, time.create_seconds),
        (&START, time.start_seconds),
        (&PROCESS_START, time.process_start_seconds),
        (&DATA, time.data_seconds),
        (&TEARDOWN, time.teardown_seconds),
        (&NOTICE, time.notice_seconds),
        (&REMOVE, time.remove_seconds),
        (&OTHER, time.other_seconds),
    ]
}

fn draw(
    view: &View,
    parts: &'static [&'static Part],
    read: fn(&TimeParts) -> Stack,
    axis: &'static str,
) -> Picture {
    let stack = |cell: &CellSummary| {
        let mut stack = cell.time.as_ref().map_or_else(Stack::new, read);
        stack.retain(|(_, seconds)| *seconds > 0.0);
        stack
    };
    let bars = Stacked {
        parts,
        stack: &stack,
        quantity: Quantity::Seconds,
        format: format::seconds,
        axis,
        unknown: "not timed",
        mark: None,
        least: 1.0,
    };
    bars.draw(view)
}
