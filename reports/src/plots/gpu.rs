//! What the GPU did for it: utilisation, energy a sample, and clocks.

use metrics::catalogue;
use record::{Record, Series};

use super::{Drawing, Picture, Plot, contender_legend, describe, drawings, values};
use crate::{
    document::{Cell, known},
    format::{self, Quantity},
    model::{Group, Spread, View},
    svg::{
        Area, Canvas, Shape, axis,
        ink::Ink,
        rows::{Rows, WIDTH},
        scale::Scale,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "gpu",
    title: "Utilisation, energy and clocks of the GPU",
    about: "Medians of the runs with their range, within the measured steps. Model utilization: \
            operations of the model over those of a large matrix product in the same run. Energy: \
            what the GPU drew for one sample. Clock: the mean of its SMs; where it lies below the \
            greatest, something held it back, such as the power limit.",
    answers: &["gpu_energy_joules", "model_utilization_ratio"],
    is_detail: true,
    draw,
};

/// One column: its title, how it is written, and where it comes from.
struct Column {
    title: &'static str,
    /// Its title on narrow paper.
    short: &'static str,
    quantity: Quantity,
    read: fn(&Record) -> Option<f64>,
}

const COLUMNS: [Column; 3] = [
    Column {
        title: "Model utilization",
        short: "Utilization",
        quantity: Quantity::Percent,
        read: |run| Some(100.0 * catalogue::UTILIZATION.of(run)?),
    },
    Column {
        title: "Energy of one sample",
        short: "Energy/sample",
        quantity: Quantity::Joules,
        read: joules_per_sample,
    },
    Column {
        title: "Clock of the SMs",
        short: "SM clock",
        quantity: Quantity::Megahertz,
        read: |run| mean(run.monitor.gpu_sm_clock_mhz.as_ref()),
    },
];

/// Between the columns.
const GAP: f64 = 26.0;
const TOP: f64 = 4.0;

/// Energy of the GPU over the measured steps' samples.
fn joules_per_sample(run: &Record) -> Option<f64> {
    let samples = run.metrics.as_ref()?.summary.samples;
    let joules = catalogue::GPU_ENERGY.of(run)?;
    (samples > 0).then(|| joules / samples as f64)
}

/// Within the measured steps; nothing where no sample lies there.
fn mean(series: Option<&Series>) -> Option<f64> {
    Some(series?.measured?.mean)
}

fn spread(view: &View, cell: usize, read: fn(&Record) -> Option<f64>) -> Option<Spread> {
    Spread::of(view.good_runs(cell).into_iter().filter_map(read))
}

fn draw(view: &View) -> Picture {
    let drawings = drawings(view, |group| {
        let is_known = |column: &&Column| {
            let mut cells = group.cells();
            cells.any(|cell| spread(view, cell, column.read).is_some())
        };
        let columns: Vec<&Column> = COLUMNS.iter().filter(is_known).collect();
        if columns.is_empty() || group.cells().all(|cell| on_cpu(view, cell)) {
            return None;
        }
        let description = describe(view, group, |cell| {
            let said = columns.iter().filter_map(|column| {
                let median = spread(view, cell, column.read)?.median;
                let title = column.title.to_lowercase();
                Some(format!("{title} {}", column.quantity.write(median)))
            });
            Some(said.collect::<Vec<_>>().join(", "))
        });
        Some(Drawing {
            table: Some(table(view, group)),
            ..Drawing::of(view, group, description, |width| {
                let rows = Rows::of(view, group, TOP, width);
                let mut canvas = Canvas::new(width, rows.bottom + axis::LOWER);
                rows.draw(&mut canvas);
                let each = (width - rows.left + GAP) / columns.len() as f64;
                for (index, column) in columns.iter().enumerate() {
                    let left = rows.left + index as f64 * each;
                    let paper = Area::of((left, rows.top), (left + each - GAP - 8.0, rows.bottom));
                    draw_column(&mut canvas, view, &rows, column, &paper);
                }
                canvas.finish()
            })
        })
    });
    Picture {
        legend: contender_legend(view),
        drawings,
    }
}

fn on_cpu(view: &View, cell: usize) -> bool {
    view.runs[cell].iter().all(|run| !run.device.is_cuda())
}

fn draw_column(canvas: &mut Canvas, view: &View, rows: &Rows, column: &Column, paper: &Area) {
    let spreads = rows
        .lanes()
        .map(|lane| spread(view, lane.cell, column.read));
    let spreads: Vec<Option<Spread>> = spreads.collect();
    let most = spreads.iter().flatten().map(|spread| spread.maximum);
    let most = most.fold(0.0, f64::max);
    let scale = Scale::linear(
        (0.0, if most > 0.0 { most * 1.05 } else { 1.0 }),
        (paper.left, paper.right),
    );
    let title = if rows.width < WIDTH {
        column.short
    } else {
        column.title
    };
    axis::lower(canvas, paper, &scale, column.quantity, title);
    for (lane, spread) in rows.lanes().zip(spreads) {
        let Some(spread) = spread else { continue };
        let ink = Ink::series(lane.contender);
        let hint = format!("{}: {}", column.title, told(column.quantity, &spread));
        canvas.hinted(&hint, |canvas| {
            let ends = (scale.place(spread.minimum), scale.place(spread.maximum));
            canvas.level(ends, lane.y, ink, 2.0);
            let at = (scale.place(spread.median), lane.y);
            canvas.mark(at, Shape::of(lane.contender), 8.0, ink, false);
        });
    }
}

/// The median, with the range of the runs where they differ.
fn told(quantity: Quantity, spread: &Spread) -> String {
    let median = quantity.write(spread.median);
    let (low, high) = (
        quantity.write(spread.minimum),
        quantity.write(spread.maximum),
    );
    if low == high {
        median
    } else {
        format!("{median} ({low} … {high})")
    }
}

fn table(view: &View, group: &Group) -> crate::document::Table {
    let heads = [
        "model utilization",
        "energy of a sample",
        "SM clock",
        "GPU utilisation",
        "power",
        "held back",
        "GPU",
    ];
    values(view, group, &heads, |cell| {
        let column = |quantity: Quantity, read| -> Cell {
            known(spread(view, cell, read).map(|spread| told(quantity, &spread)))
        };
        let held = |run: &Record| {
            let reasons = &run.monitor.gpu_throttled_percent;
            let mut reasons = reasons
                .iter()
                .filter(|(reason, _)| !reason.to_lowercase().contains("idle"));
            let first = reasons.next().map(|(_, percent)| *percent);
            first.map(|first| reasons.map(|(_, percent)| *percent).fold(first, f64::max))
        };
        let runs = view.good_runs(cell);
        let mut gpus: Vec<String> = runs.iter().map(|run| run.device.to_string()).collect();
        gpus.sort();
        gpus.dedup();
        (!runs.is_empty()).then(|| {
            vec![
                column(Quantity::Percent, COLUMNS[0].read),
                column(Quantity::Joules, COLUMNS[1].read),
                column(Quantity::Megahertz, COLUMNS[2].read),
                column(Quantity::Percent, |run| {
                    mean(run.monitor.gpu_utilization_percent.as_ref())
                }),
                column(Quantity::Watts, |run| catalogue::GPU_POWER.of(run)),
                column(Quantity::Percent, held),
                format::clean(&gpus.join(", ")).into(),
            ]
        })
    })
}
