//! Rows of a horizontal plot: a label for each variant, and in it a lane for each image.

use super::{Anchor, Area, Canvas, LEADING, SMALL, TEXT, ink::Ink};
use crate::{
    measure,
    model::{Group, View},
};

/// Width of every plot, in pixels of the page.
pub(crate) const WIDTH: f64 = 1080.0;

const WIDEST_LABEL: f64 = 300.0;
const WIDEST_NAME: f64 = 170.0;
const LANE: f64 = 22.0;
const GAP: f64 = 12.0;

#[derive(Debug, Clone)]
pub(crate) struct Lane {
    /// Index of the cell in the report.
    pub(crate) cell: usize,
    /// Index of the image (in its session) among the view's contenders.
    pub(crate) contender: usize,
    /// The height of its middle.
    pub(crate) y: f64,
    /// How much height it has.
    pub(crate) height: f64,
    name: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    label: Vec<String>,
    top: f64,
    bottom: f64,
    /// The lanes from the top down.
    pub(crate) lanes: Vec<Lane>,
}

/// All rows of one scenario.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    /// Where labels end and metrics may begin.
    pub(crate) left: f64,
    /// The upper edge of the first row.
    pub(crate) top: f64,
    /// The lower edge of the last row.
    pub(crate) bottom: f64,
    label_width: f64,
}

impl Rows {
    /// Lays out the rows of a group from `top` on; every label in full.
    pub(crate) fn of(view: &View, group: &Group, top: f64) -> Self {
        let several = view.has_several();
        let widest = |texts: &mut dyn Iterator<Item = &str>, size: f64, limit: f64| {
            texts
                .map(|text| measure::width(text, size))
                .fold(0.0, f64::max)
                .min(limit)
        };
        let label_width = widest(
            &mut group.rows.iter().map(|row| row.label.as_str()),
            TEXT,
            WIDEST_LABEL,
        );
        let name_width = if several {
            let names = view
                .contenders
                .iter()
                .map(|contender| contender.label.as_str());
            widest(&mut names.into_iter(), SMALL, WIDEST_NAME)
        } else {
            0.0
        };
        let mut y = top;
        let mut rows = Vec::new();
        for row in &group.rows {
            let label = measure::wrap(&row.label, TEXT, label_width);
            let mut lanes: Vec<Lane> = row
                .cells
                .iter()
                .map(|&cell| {
                    let contender = view.contender_of(cell);
                    let name = if several {
                        measure::wrap(&view.contenders[contender].label, SMALL, name_width)
                    } else {
                        Vec::new()
                    };
                    let height = (name.len() as f64 * SMALL * LEADING + 6.0).max(LANE);
                    Lane {
                        cell,
                        contender,
                        y: 0.0,
                        height,
                        name,
                    }
                })
                .collect();
            let lanes_height: f64 = lanes.iter().map(|lane| lane.height).sum();
            let label_height = label.len() as f64 * TEXT * LEADING;
            let height = lanes_height.max(label_height) + 8.0;
            let mut lane_top = y + (height - lanes_height) / 2.0;
            for lane in &mut lanes {
                lane.y = lane_top + lane.height / 2.0;
                lane_top += lane.height;
            }
            rows.push(Row {
                label,
                top: y,
                bottom: y + height,
                lanes,
            });
            y += height;
        }
        let names = if several { GAP + name_width } else { 0.0 };
        Self {
            rows,
            left: label_width + names + GAP,
            top,
            bottom: y,
            label_width,
        }
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.rows.iter().flat_map(|row| &row.lanes)
    }

    /// Draws every other row's background, labels and names.
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        for (index, row) in self.rows.iter().enumerate() {
            if index % 2 == 0 {
                let band = Area::of((0.0, row.top), (WIDTH, row.bottom));
                canvas.fill(band, Ink::Band);
            }
            let middle = f64::midpoint(row.top, row.bottom);
            canvas.lines(&row.label, (4.0, middle), TEXT, Ink::Text);
            for lane in &row.lanes {
                let at = (4.0 + self.label_width + GAP, lane.y);
                canvas.lines(&lane.name, at, SMALL, Ink::Muted);
            }
        }
    }

    /// Says in a lane why it shows no values.
    pub(crate) fn remark(&self, canvas: &mut Canvas, lane: &Lane, why: &str) {
        let why = measure::shorten(why, SMALL, WIDTH - self.left - 12.0);
        canvas.text(
            &why,
            (self.left + 6.0, lane.y),
            Anchor::Start,
            SMALL,
            Ink::Danger,
        );
    }
}
