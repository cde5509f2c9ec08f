//! Stacked bars, one for each cell: what several plots are made of.

use super::{Key, Legend, Picture, Plot, group_drawing};
use crate::{
    format::Quantity,
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

const TOP: f64 = 4.0;

/// A part of the bars.
pub(super) struct Part {
    pub(super) ink: Ink,
    pub(super) label: &'static str,
}

/// What the bars show.
pub(super) struct Stacked {
    pub(super) plot: &'static Plot,
    /// All parts, in the order of the legend.
    pub(super) parts: &'static [&'static Part],
    /// The parts of a cell's bar from the left, each above 0; none where nothing is known.
    pub(super) stack: fn(&CellSummary) -> Stack,
    pub(super) quantity: Quantity,
    /// A value as text.
    pub(super) format: fn(f64) -> String,
    /// The title of the axis.
    pub(super) axis: &'static str,
    /// What is said of a cell that has runs, but no bar.
    pub(super) unknown: &'static str,
    /// A bar of no length still has a scale: its end.
    pub(super) least: f64,
}

pub(super) type Stack = Vec<(&'static Part, f64)>;

/// The medians of the parts that are known and above 0, in this order.
pub(super) fn medians<const N: usize>(parts: [(&'static Part, Option<Spread>); N]) -> Stack {
    parts
        .into_iter()
        .filter_map(|(part, spread)| Some((part, spread?.median)))
        .filter(|(_, value)| *value > 0.0)
        .collect()
}

fn total(parts: &[(&Part, f64)]) -> f64 {
    parts.iter().map(|(_, value)| value).sum()
}

impl Stacked {
    pub(super) fn draw(&self, view: &View) -> Result<Picture, DrawError> {
        let stacks: Vec<Stack> = view.report.cells.iter().map(self.stack).collect();
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
                let description = self.describe(view, group, &stacks);
                group_drawing(self.plot, group, index, size, &description, |canvas| {
                    self.draw_group(canvas, view, &rows, &stacks);
                })
            })
            .collect::<Result<_, _>>()?;
        let used = |part: &&&Part| {
            let mut all = stacks.iter().flatten();
            all.any(|(other, _)| other.label == part.label)
        };
        let keys = self
            .parts
            .iter()
            .filter(used)
            .map(|part| Key::area(part.ink, part.label))
            .collect();
        let legends = vec![Legend { title: "", keys }];
        Ok(Picture { legends, drawings })
    }

    fn draw_group(&self, canvas: &mut Canvas, view: &View, rows: &Rows, stacks: &[Stack]) {
        let metric_width = rows
            .lanes()
            .map(|lane| measure::bold_width(&(self.format)(total(&stacks[lane.cell])), TEXT))
            .fold(0.0, f64::max);
        let bars = Area {
            left: rows.left,
            top: rows.top,
            right: WIDTH - metric_width - 22.0,
            bottom: rows.bottom,
        };
        let most = rows
            .lanes()
            .map(|lane| total(&stacks[lane.cell]))
            .fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { self.least };
        let scale = Scale::linear((0.0, most), (bars.left, bars.right));
        rows.draw(canvas);
        axis::lower(canvas, &bars, &scale, self.quantity, self.axis);
        for lane in rows.lanes() {
            let parts = &stacks[lane.cell];
            if parts.is_empty() {
                let why = if view.report.cells[lane.cell].ok == 0 {
                    view.why_nothing(lane.cell)
                } else {
                    self.unknown.to_owned()
                };
                let why = measure::shorten(&why, SMALL, WIDTH - bars.left - 12.0);
                canvas.text(
                    &why,
                    (bars.left + 6.0, lane.y),
                    Anchor::Start,
                    SMALL,
                    Ink::Danger,
                );
                continue;
            }
            let mut from = 0.0;
            for (part, value) in parts {
                let area = Area {
                    left: scale.place(from),
                    top: lane.y - 7.0,
                    right: scale.place(from + value),
                    bottom: lane.y + 7.0,
                };
                let hint = format!(
                    "{}: {} {}",
                    view.report.cells[lane.cell].cell,
                    part.label.to_lowercase(),
                    (self.format)(*value)
                );
                canvas.hinted(&hint, |canvas| canvas.fill(area, part.ink));
                from += value;
            }
            let at = (scale.place(from) + 8.0, lane.y);
            canvas.bold(&(self.format)(from), at, Anchor::Start, TEXT, Ink::Text);
        }
    }

    fn describe(&self, view: &View, group: &Group, stacks: &[Stack]) -> String {
        let lines = group.rows.iter().flat_map(|row| {
            row.cells.iter().map(|&cell| {
                let image = &view.contenders[view.contender_of(cell)].label;
                let parts: Vec<_> = stacks[cell]
                    .iter()
                    .map(|(part, value)| {
                        format!("{} {}", part.label.to_lowercase(), (self.format)(*value))
                    })
                    .collect();
                format!("{} in {image}: {}.", row.label, parts.join(", "))
            })
        });
        lines.collect::<Vec<_>>().join(" ")
    }
}
