//! Memory as stacked bars: what the tensors took, what the allocator kept beyond it, and what
//! lies outside the allocator.

use super::{Key, Legend, Picture, Plot, group_drawing};
use crate::{
    format::{self, Quantity},
    model::{CellSummary, Group, Spread, View},
    svg::{
        Anchor, Canvas, DrawError, SMALL, TEXT, axis,
        ink::Ink,
        measure,
        place::Area,
        rows::{Rows, WIDTH},
        scale::Scale,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "memory",
    title: "Peak memory",
    about: "Medians of the runs' peaks, stacked. Parameters and optimizer state are there all the \
            time; gradients, activations and temporaries are the rest of the peak that tensors \
            took. On a card, the allocator holds more than that (reserved), and the process more \
            than the allocator: the CUDA context and libraries. On the processor, the last part is \
            the rest of the process's resident memory.",
    draw,
};

const TOP: f64 = 4.0;

struct Part {
    ink: Ink,
    label: &'static str,
}

const STATE: Part = Part { ink: Ink::Part(0), label: "Parameters and optimizer state" };
const WORK: Part = Part { ink: Ink::Part(1), label: "Gradients, activations, temporaries" };
const SLACK: Part = Part { ink: Ink::Part(2), label: "Reserved beyond allocated" };
const OUTSIDE: Part = Part { ink: Ink::Part(3), label: "Outside the allocator, on the card" };
const HOST: Part = Part { ink: Ink::Part(3), label: "Rest of the process's resident memory" };
const PARTS: [&Part; 5] = [&STATE, &WORK, &SLACK, &OUTSIDE, &HOST];

/// The parts of a cell's bar from the left, in bytes.
fn stack(cell: &CellSummary) -> Vec<(&'static Part, f64)> {
    let metrics = &cell.metrics;
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    let Some(allocated) = median(metrics.peak_allocated_bytes) else {
        return median(metrics.host_peak_resident_bytes)
            .map(|bytes| (&HOST, bytes))
            .into_iter()
            .collect();
    };
    let state = median(metrics.parameter_bytes).unwrap_or(0.0)
        + median(metrics.optimizer_bytes).unwrap_or(0.0);
    let state = state.min(allocated);
    let mut parts = vec![(&STATE, state), (&WORK, allocated - state)];
    if let Some(reserved) = median(metrics.peak_reserved_bytes) {
        parts.push((&SLACK, reserved - allocated));
        if let Some(process) = median(metrics.process_peak_bytes) {
            parts.push((&OUTSIDE, process - reserved));
        }
    } else if let Some(resident) = median(metrics.host_peak_resident_bytes) {
        parts.push((&HOST, resident - allocated));
    }
    parts.retain(|(_, bytes)| *bytes > 0.0);
    parts
}

fn total(parts: &[(&Part, f64)]) -> f64 {
    parts.iter().map(|(_, bytes)| bytes).sum()
}

fn draw(view: &View) -> Result<Picture, DrawError> {
    let stacks: Vec<_> = view.report.cells.iter().map(stack).collect();
    if stacks.iter().all(Vec::is_empty) {
        return Ok(Picture::default());
    }
    let drawings = view
        .groups
        .iter()
        .enumerate()
        .filter(|(_, group)| group.cells().any(|cell| !stacks[cell].is_empty()))
        .map(|(index, group)| {
            let rows = Rows::of(view, group, TOP);
            let size = (WIDTH, rows.bottom + axis::LOWER);
            group_drawing(&PLOT, group, index, size, &describe(view, group, &stacks), |canvas| {
                draw_group(canvas, view, &rows, &stacks);
            })
        })
        .collect::<Result<_, _>>()?;
    let used = |part: &&&Part| {
        let mut all = stacks.iter().flatten();
        all.any(|(other, _)| other.label == part.label)
    };
    let keys = PARTS
        .iter()
        .filter(used)
        .map(|part| Key::area(part.ink, part.label))
        .collect();
    let legends = vec![Legend { title: "", keys }];
    Ok(Picture { legends, drawings })
}

fn draw_group(canvas: &mut Canvas, view: &View, rows: &Rows, stacks: &[Vec<(&Part, f64)>]) {
    let figure_width = rows
        .lanes()
        .map(|lane| measure::bold_width(&format::bytes(total(&stacks[lane.cell])), TEXT))
        .fold(0.0, f64::max);
    let bars = Area {
        left: rows.left,
        top: rows.top,
        right: WIDTH - figure_width - 22.0,
        bottom: rows.bottom,
    };
    let most = rows.lanes().map(|lane| total(&stacks[lane.cell])).fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1024.0 };
    let scale = Scale::linear((0.0, most), (bars.left, bars.right));
    rows.draw(canvas);
    axis::lower(canvas, &bars, &scale, Quantity::Bytes, "Peak memory");
    for lane in rows.lanes() {
        let parts = &stacks[lane.cell];
        if parts.is_empty() {
            let why = if view.report.cells[lane.cell].ok == 0 {
                view.why_nothing(lane.cell)
            } else {
                "memory is not known".to_owned()
            };
            let why = measure::shorten(&why, SMALL, WIDTH - bars.left - 12.0);
            canvas.text(&why, (bars.left + 6.0, lane.y), Anchor::Start, SMALL, Ink::Danger);
            continue;
        }
        let mut from = 0.0;
        for (part, bytes) in parts {
            let area = Area {
                left: scale.place(from),
                top: lane.y - 7.0,
                right: scale.place(from + bytes),
                bottom: lane.y + 7.0,
            };
            let hint = format!(
                "{}: {} {}",
                view.report.cells[lane.cell].cell,
                part.label.to_lowercase(),
                format::bytes(*bytes)
            );
            canvas.hinted(&hint, |canvas| canvas.fill(area, part.ink));
            from += bytes;
        }
        let at = (scale.place(from) + 8.0, lane.y);
        canvas.bold(&format::bytes(from), at, Anchor::Start, TEXT, Ink::Text);
    }
}

fn describe(view: &View, group: &Group, stacks: &[Vec<(&Part, f64)>]) -> String {
    let lines = group.rows.iter().flat_map(|row| {
        row.cells.iter().map(|&cell| {
            let image = &view.contenders[view.contender_of(cell)].label;
            let parts: Vec<_> = stacks[cell]
                .iter()
                .map(|(part, bytes)| {
                    format!("{} {}", part.label.to_lowercase(), format::bytes(*bytes))
                })
                .collect();
            format!("{} in {image}: {}.", row.label, parts.join(", "))
        })
    });
    lines.collect::<Vec<_>>().join(" ")
}
