//! What the GPU did for it: utilisation, energy a sample, and clocks.

use std::collections::BTreeSet;

use metrics::catalogue;
use record::{Record, Sampled};

use super::plot::{Drawing, Plot, by_group, rows};
use crate::{
    charts::{Axis, Chart, Entry, Track},
    document::Kind,
    model::{Spread, View},
    svg::Look,
    words::format::{self, Quantity},
};

pub(super) const PLOT: Plot = Plot {
    id: "gpu",
    title: "Utilization, energy and clocks of the GPU",
    about: "Medians of the runs with their range, within the measured steps. Model utilization: \
            operations of the model over those of a large matrix product in the same run. Energy: \
            what the GPU drew for one sample. Clock: the mean of its SMs; where it lies below the \
            greatest, something held it back, such as the power limit.",
    answers: &["gpu_energy_joules", "model_utilization_ratio"],
    is_detail: true,
    draw,
};

/// One column: what it is, how it is written, and where it comes from.
struct Column(&'static str, Quantity, fn(&Record) -> Option<f64>);

/// The first of them are drawn; the table has all.
const DRAWN: usize = 3;
const COLUMNS: [Column; 6] = [
    Column("model utilization", Quantity::Percent, |run| {
        Some(100.0 * catalogue::UTILIZATION.of(run)?)
    }),
    Column("energy of a sample", Quantity::Joules, joules_per_sample),
    Column("SM clock", Quantity::Megahertz, |run| {
        mean(run, Sampled::GpuSmClockMhz)
    }),
    Column("GPU utilization", Quantity::Percent, |run| {
        mean(run, Sampled::GpuUtilizationPercent)
    }),
    Column("power", Quantity::Watts, |run| catalogue::GPU_POWER.of(run)),
    Column("held back", Quantity::Percent, held_back),
];

/// Energy of the GPU over the measured steps' samples.
fn joules_per_sample(run: &Record) -> Option<f64> {
    let samples = run
        .value("samples_count")
        .filter(|samples| *samples > 0.0)?;
    Some(catalogue::GPU_ENERGY.of(run)? / samples)
}

/// Within the measured steps; nothing where no sample lies there.
fn mean(run: &Record, series: Sampled) -> Option<f64> {
    Some(run.monitor.get(series)?.measured?.mean)
}

/// The share of time in which the most frequent reason held a GPU back.
fn held_back(run: &Record) -> Option<f64> {
    let gpus = run.monitor.gpus.iter();
    let reasons = gpus
        .flat_map(|gpu| &gpu.throttled_percent)
        .filter(|(reason, _)| !reason.to_lowercase().contains("idle"));
    reasons.map(|(_, percent)| *percent).reduce(f64::max)
}

impl Column {
    fn of(&self, view: &View, cell: usize) -> Option<Spread> {
        Spread::of(view.good_runs(cell).into_iter().filter_map(self.2))
    }

    /// The median, with the range of the runs where they differ.
    fn write(&self, spread: &Spread) -> String {
        let ends = [spread.median, spread.minimum, spread.maximum];
        let [median, low, high] = ends.map(|value| self.1.write(value));
        if low == high {
            median
        } else {
            format!("{median} ({low} … {high})")
        }
    }
}

fn draw(view: &View) -> Drawing {
    by_group(view, |group| {
        let spreads = |column: &Column| -> Vec<Spread> {
            let cells = group.cells();
            cells.filter_map(|cell| column.of(view, cell)).collect()
        };
        let drawn = COLUMNS[..DRAWN].iter();
        let drawn = drawn.map(|column| (column, spreads(column)));
        let drawn: Vec<_> = drawn.filter(|(_, spreads)| !spreads.is_empty()).collect();
        if drawn.is_empty() || group.cells().all(|cell| on_cpu(view, cell)) {
            return None;
        }
        let columns: Vec<&Column> = drawn.iter().map(|(column, _)| *column).collect();
        let rows = rows(view, group, |_, cell, entry| {
            let look = Look::series(view.contender_of(cell));
            let tracks = columns.iter().map(|column| {
                let spread = column.of(view, cell);
                let ends = spread.map(|one| (one.minimum, one.maximum, look.ink));
                Track {
                    interval: ends,
                    marks: Vec::from_iter(spread.map(|one| (one.median, look))),
                    ..Track::default()
                }
            });
            Some((told(view, &columns, cell, entry)?, tracks.collect()))
        });
        let scales = drawn.iter().map(|(column, spreads)| {
            let most: Vec<f64> = spreads.iter().map(|spread| spread.maximum).collect();
            (Axis::from_zero(column.0, column.1, &most), 1.0)
        });
        Some(Chart::rows(scales.collect(), rows))
    })
}

fn on_cpu(view: &View, cell: usize) -> bool {
    view.runs[cell].iter().all(|run| !run.device.is_cuda())
}

fn told(view: &View, drawn: &[&Column], cell: usize, entry: Entry) -> Option<Entry> {
    let runs = view.good_runs(cell);
    if runs.is_empty() {
        return None;
    }
    let medians = drawn.iter().filter_map(|column| {
        let median = column.of(view, cell)?.median;
        Some(column.1.write(median))
    });
    let value = medians.collect::<Vec<_>>().join(" · ");
    let gpus: BTreeSet<String> = runs.iter().map(|run| run.device.to_string()).collect();
    let gpus = format::clean(&Vec::from_iter(gpus).join(", "));
    let numbers = COLUMNS.iter().map(|column| {
        let spread = column.of(view, cell);
        (column.0, spread.map(|spread| column.write(&spread)))
    });
    let entry = Entry { value, ..entry }.numbers(numbers);
    Some(entry.with(Kind::Word, [("GPU", gpus.into())]))
}
