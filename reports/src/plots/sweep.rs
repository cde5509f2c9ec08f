//! What a metric does while one quantity is varied: latency against load, efficiency against
//! processes, memory against batch.

use metrics::{Metric, catalogue};

use super::plot::{Drawing, Plot};
use crate::{
    charts::{Chart, Curve, Entry, Key, Swept},
    document::Kind,
    model::View,
    svg::Look,
    words::{
        comparison::spelled,
        format::{self, Quantity, plural},
        lists::grouped,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "sweep",
    title: "Swept quantities",
    about: "Medians of cells that differ in one quantity alone, of at least three values of it: the \
            latency of requests against the rate at which they arrive, and peak memory against the \
            batch, and bus bandwidth against the size of the message; of at least two: throughput of a \
            rank against their number, as a share of that with the fewest.",
    answers: &[
        "latency_p99_seconds",
        "first_token_p99_seconds",
        "goodput_requests_per_second",
        "scaling_efficiency_ratio",
        "bus_bandwidth_bytes_per_second",
    ],
    is_detail: true,
    draw,
};

/// Fewer values are a comparison; of ranks, two are a beginning.
const FEWEST: usize = 3;
const FEWEST_RANKS: usize = 2;

type Name = [String; 2];

struct Sweep {
    along: (&'static str, Quantity),
    up: (&'static str, Quantity),
    /// What is varied in a cell, and what it shares with the other cells of its chart and its panel.
    place: fn(&View, usize) -> Option<(f64, Name)>,
    metric: &'static Metric,
    limit: fn(&View, usize) -> Option<(String, f64)>,
}

const SWEEPS: [Sweep; 5] = [
    Sweep {
        along: ("Arrivals a second", Quantity::Plain),
        up: ("p99 latency", Quantity::Seconds),
        place: |view, cell| by_axis(view, cell, "arrival_rate"),
        metric: &catalogue::LATENCY_P99,
        limit: |view, cell| {
            // Of a decoder the objective is of the first token.
            let is_whole = view.median(cell, &catalogue::FIRST_TOKEN_P99).is_none();
            objective(view, cell).filter(|_| is_whole)
        },
    },
    Sweep {
        along: ("Arrivals a second", Quantity::Plain),
        up: ("p99 time to first token", Quantity::Seconds),
        place: |view, cell| by_axis(view, cell, "arrival_rate"),
        metric: &catalogue::FIRST_TOKEN_P99,
        limit: objective,
    },
    Sweep {
        along: ("Ranks", Quantity::Plain),
        up: ("Efficiency", Quantity::Percent),
        place: |view, cell| {
            let ranks = view.runs[cell].first()?.ranks.len().max(1);
            let cell = &view.report.cells[cell];
            let panel = format!("{} · {}", cell.workload, cell.axes.without("ranks"));
            Some((ranks as f64, [cell.suite.clone(), panel]))
        },
        metric: &catalogue::THROUGHPUT,
        limit: |_, _| None,
    },
    Sweep {
        along: ("Message", Quantity::Bytes),
        up: ("Bus bandwidth", Quantity::Bandwidth),
        place: |view, cell| by_axis(view, cell, "message"),
        metric: &catalogue::BUS_BANDWIDTH,
        limit: |_, _| None,
    },
    Sweep {
        along: ("Batch", Quantity::Plain),
        up: ("Peak of the process on the GPU", Quantity::Bytes),
        place: |view, cell| by_axis(view, cell, "batch"),
        metric: &catalogue::RUN_PROCESS_PEAK,
        limit: |view, cell| {
            let limit = view.runs[cell].first()?.method.bytes("limits.gpu_memory")?;
            Some((format!("limit, {}", format::bytes(limit)), limit))
        },
    },
];

fn objective(view: &View, cell: usize) -> Option<(String, f64)> {
    let objective: f64 = view.report.cells[cell].axes.get("slo_ms")?.parse().ok()?;
    Some((format!("objective, {objective} ms"), objective / 1e3))
}

fn by_axis(view: &View, cell: usize, varied: &str) -> Option<(f64, Name)> {
    let axes = &view.report.cells[cell].axes;
    let value = axes.get(varied)?.parse().ok()?;
    let (group, _) = view.place(cell)?;
    Some((value, [group.scenario.clone(), axes.without(varied)]))
}

fn draw(view: &View) -> Drawing {
    let mut keys: Vec<Key> = Vec::new();
    let mut charts = Vec::new();
    for (sweep, heading, panels) in SWEEPS.iter().flat_map(|sweep| charts_of(view, sweep)) {
        let swept = sweep.swept(view, panels);
        Key::add(&mut keys, swept.legend());
        let columns = swept.panels.len().min(2);
        charts.push(Chart {
            heading: format::clean(&heading),
            subtitle: format!("{} against {}", sweep.up.0, sweep.along.0.to_lowercase()),
            ..swept.chart(columns)
        });
    }
    (keys, charts)
}

/// A varied quantity's value with its cell.
type At = (f64, usize);
type Panel = (Name, Vec<At>);
type Charted<'a> = (&'a Sweep, String, Vec<Panel>);

/// The panels of each chart, of those cells that have enough values.
fn charts_of<'a>(view: &View, sweep: &'a Sweep) -> Vec<Charted<'a>> {
    let cells = (0..view.report.cells.len()).filter_map(|cell| {
        let (at, name) = (sweep.place)(view, cell)?;
        let value = view.median(cell, sweep.metric)?;
        (value > 0.0).then_some((name, (at, cell)))
    });
    let mut panels: Vec<Panel> = grouped(cells);
    let fewest = if sweep.is_efficiency() {
        FEWEST_RANKS
    } else {
        FEWEST
    };
    panels.retain(|(_, own)| {
        let mut values: Vec<f64> = own.iter().map(|(at, _)| *at).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values.len() >= fewest
    });
    let charts = panels.into_iter().map(|panel| (panel.0[0].clone(), panel));
    let charts = grouped(charts).into_iter();
    charts.map(|(name, own)| (sweep, name, own)).collect()
}

impl Sweep {
    fn swept(&self, view: &View, panels: Vec<Panel>) -> Swept {
        let cells = || panels.iter().flat_map(|(_, own)| own);
        let ends = cells().map(|(at, _)| *at).map(|at| (at, at));
        let ends = ends.reduce(|(low, high), (at, _)| (low.min(at), high.max(at)));
        let ideal = ends.filter(|_| self.is_efficiency());
        let limit = cells().find_map(|(_, cell)| (self.limit)(view, *cell));
        let is_alone = panels.len() == 1 && !self.is_efficiency();
        let panels = panels.into_iter().map(|([_, name], own)| {
            let title = if is_alone {
                String::new()
            } else {
                format::clean(&spelled(&name))
            };
            (title, String::new(), self.curves(view, &own))
        });
        Swept {
            along: self.along,
            up: self.up,
            limit,
            ideal: ideal
                .map(|(low, high)| ("linear".to_owned(), vec![(low, 100.0), (high, 100.0)])),
            panels: panels.collect(),
        }
    }

    /// Whether values are shares of what the least of the varied quantity makes likely.
    fn is_efficiency(&self) -> bool {
        self.up.1 == Quantity::Percent
    }

    fn curves(&self, view: &View, cells: &[At]) -> Vec<Curve> {
        let of = |contender: usize| {
            let own = cells
                .iter()
                .filter(|(_, cell)| view.contender_of(*cell) == contender);
            let own: Vec<At> = own.copied().collect();
            let value = |cell| view.median(cell, self.metric);
            let least = own.iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
            let each = value(least.1)? / least.0;
            let points = own.iter().filter_map(|&(at, cell)| {
                let value = if self.is_efficiency() {
                    // Where scenarios and no axis count the ranks, their medians stand in.
                    let paired = view.median(cell, &catalogue::SCALING_EFFICIENCY);
                    100.0 * paired.unwrap_or(value(cell)? / (at * each))
                } else {
                    value(cell)?
                };
                Some((at, value, self.entry(view, (at, cell), value)))
            });
            Some(Curve {
                name: view.contenders[contender].label.clone(),
                look: Look::series(contender),
                size: 7.0,
                is_joined: true,
                points: points.collect(),
            })
        };
        (0..view.contenders.len()).filter_map(of).collect()
    }

    fn entry(&self, view: &View, (at, cell): At, value: f64) -> Entry {
        let (name, value) = (view.name_of(cell), self.up.1.write(value));
        let runs = plural(view.report.cells[cell].ok, "run", "runs");
        Entry::new(name.clone(), format!("{value}, {runs}"))
            .with(Kind::Name, [("cell", name.into())])
            .numbers([
                (self.along.0, Some(self.along.1.write(at))),
                (self.up.0, Some(value)),
            ])
    }
}
