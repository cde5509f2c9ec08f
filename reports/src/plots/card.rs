//! A small picture of a session in which nothing was judged: one metric's median in each cell.

use judge::compare::Direction;
use metrics::{Metric, catalogue};

use crate::{
    format::{self, Quantity},
    measure,
    model::View,
    svg::{Anchor, Area, Canvas, LEADING, Svg, TEXT, ink::Ink, rows::NARROW, scale::Scale},
};

/// Bars of one picture.
const MOST: usize = 6;
const BAR: f64 = 12.0;
const LINE: f64 = TEXT * LEADING;

/// The picture, and what it says; `None` where nothing was measured and nothing failed.
pub(crate) fn picture(view: &View) -> Option<(Svg, String)> {
    let metric = metric(view)?;
    let cells = 0..view.report.cells.len();
    let rows = cells.map(|cell| {
        let name = view.name_in(&view.short_name(cell), cell);
        (name, view.report.cells[cell].metrics.median(metric), cell)
    });
    let rows: Vec<(String, Option<f64>, usize)> = rows.take(MOST).collect();
    let write = |value: f64| Quantity::from(metric.unit).write(value);
    let say = |value: Option<f64>, cell| value.map_or_else(|| view.why_nothing(cell), write);
    let labels: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, ..)| measure::wrap(name, TEXT, NARROW - 8.0))
        .collect();
    let height = |label: &Vec<String>| (label.len() as f64 + 1.0) * LINE + 12.0;
    let bottom: f64 = labels.iter().map(height).sum();
    let mut canvas = Canvas::new(NARROW, LINE + 8.0 + bottom);
    let better = match metric.direction {
        Direction::HigherIsBetter => "more is better",
        Direction::LowerIsBetter => "less is better",
    };
    let title = format!("Median {}, {better}", metric.label);
    canvas.small(&title, (4.0, LINE / 2.0 + 1.0), Anchor::Start);
    let most = rows.iter().filter_map(|row| row.1).fold(0.0, f64::max);
    let along = Scale::linear((0.0, most), (4.0, NARROW - 110.0));
    let mut top = LINE + 8.0;
    let mut said = Vec::new();
    for ((name, value, cell), label) in rows.iter().zip(&labels) {
        let text = label.len() as f64 * LINE;
        canvas.lines(label, (4.0, top + text / 2.0), TEXT, Ink::Text);
        let y = top + text + LINE / 2.0 + 1.0;
        let told = say(*value, *cell);
        said.push(format!("{name}: {told}."));
        if let Some(value) = value {
            let end = along.place(*value);
            let bar = Area::of((4.0, y - BAR / 2.0), (end, y + BAR / 2.0));
            canvas.fill(bar, Ink::Series(0));
            canvas.bold(&told, (end + 6.0, y), Anchor::Start, TEXT, Ink::Text);
        } else {
            let told = measure::shorten(&told, TEXT, NARROW - 8.0);
            canvas.text(&told, (4.0, y), Anchor::Start, TEXT, Ink::Danger);
        }
        top += height(label);
    }
    Some((canvas.finish(), format::clean(&said.join(" "))))
}

/// The first metric that the suite asks for and some cell has, else throughput or memory.
fn metric(view: &View) -> Option<&'static Metric> {
    let sessions = view.report.sessions.iter();
    let asked = sessions.flat_map(|session| session.questions.values());
    let asked = asked.flat_map(|asked| &asked.answered_by);
    let asked = asked.filter_map(|name| Metric::named(name));
    let usual = [
        &catalogue::THROUGHPUT,
        &catalogue::PEAK_ALLOCATED,
        &catalogue::RUN_HOST_PEAK_RESIDENT,
    ];
    let mut known = asked.chain(usual);
    let is_known = |metric: &&Metric| {
        let mut cells = view.report.cells.iter();
        cells.any(|cell| cell.metrics.get(metric).is_some())
    };
    let first = (!view.report.cells.is_empty()).then_some(&catalogue::THROUGHPUT);
    known.find(is_known).or(first)
}
