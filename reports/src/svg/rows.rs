//! Rows of a horizontal plot: a label for each variant, and in it a lane for each image.

use super::{Anchor, Area, Canvas, LEADING, SMALL, TEXT, ink::Ink};
use crate::{
    measure,
    model::{Group, View},
};

/// Width of every plot, in pixels of the page.
pub(crate) const WIDTH: f64 = 1080.0;
/// Width of the same plot for a telephone.
pub(crate) const NARROW: f64 = 360.0;

const WIDEST_LABEL: f64 = 300.0;
const WIDEST_NAME: f64 = 170.0;
const LANE: f64 = 22.0;
const GAP: f64 = 12.0;
/// Where values begin on narrow paper: room for half of the axis' first label.
const LEFT: f64 = 16.0;

#[derive(Debug, Clone)]
pub(crate) struct Lane {
    /// Index of the cell in the report.
    pub(crate) cell: usize,
    /// Index of the image (in its session) among the view's contenders.
    pub(crate) contender: usize,
    /// The height of its middle.
    pub(crate) y: f64,
    height: f64,
    name: Vec<String>,
    /// Where the name begins, and its middle.
    name_at: (f64, f64),
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    label: Vec<String>,
    /// The middle of the label.
    label_y: f64,
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
    /// The width of the paper.
    pub(crate) width: f64,
}

impl Rows {
    /// Lays out the rows of a group from `top` on; every label in full, beside its lanes or, on
    /// narrow paper, over them.
    pub(crate) fn of(view: &View, group: &Group, top: f64, width: f64) -> Self {
        let several = view.has_several();
        let is_narrow = width < WIDTH;
        let limit = |limit: f64| if is_narrow { width - 8.0 } else { limit };
        let widest = |texts: &mut dyn Iterator<Item = &str>, size: f64, limit: f64| {
            texts
                .map(|text| measure::width(text, size))
                .fold(0.0, f64::max)
                .min(limit)
        };
        let label_width = widest(
            &mut group.rows.iter().map(|row| row.label.as_str()),
            TEXT,
            limit(WIDEST_LABEL),
        );
        let name_width = if several {
            let names = view
                .contenders
                .iter()
                .map(|contender| contender.label.as_str());
            widest(&mut names.into_iter(), SMALL, limit(WIDEST_NAME))
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
                    let name_height = name.len() as f64 * SMALL * LEADING;
                    let height = if is_narrow {
                        name_height + LANE
                    } else {
                        (name_height + 6.0).max(LANE)
                    };
                    Lane {
                        cell,
                        contender,
                        y: 0.0,
                        height,
                        name,
                        name_at: (4.0, 0.0),
                    }
                })
                .collect();
            let lanes_height: f64 = lanes.iter().map(|lane| lane.height).sum();
            let label_height = label.len() as f64 * TEXT * LEADING;
            let (height, label_y, mut lane_top) = if is_narrow {
                let lanes_top = y + 4.0 + label_height;
                let height = label_height + lanes_height + 8.0;
                (height, y + 4.0 + label_height / 2.0, lanes_top)
            } else {
                let height = lanes_height.max(label_height) + 8.0;
                let lanes_top = y + (height - lanes_height) / 2.0;
                (height, y + height / 2.0, lanes_top)
            };
            for lane in &mut lanes {
                if is_narrow {
                    lane.y = lane_top + lane.height - LANE / 2.0;
                    lane.name_at.1 = lane_top + (lane.height - LANE) / 2.0;
                } else {
                    lane.y = lane_top + lane.height / 2.0;
                    lane.name_at = (4.0 + label_width + GAP, lane.y);
                }
                lane_top += lane.height;
            }
            rows.push(Row {
                label,
                label_y,
                top: y,
                bottom: y + height,
                lanes,
            });
            y += height;
        }
        let names = if several { GAP + name_width } else { 0.0 };
        let left = if is_narrow {
            LEFT
        } else {
            label_width + names + GAP
        };
        Self {
            rows,
            left,
            top,
            bottom: y,
            width,
        }
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.rows.iter().flat_map(|row| &row.lanes)
    }

    /// Draws every other row's background, labels and names.
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        for (index, row) in self.rows.iter().enumerate() {
            if index % 2 == 0 {
                let band = Area::of((0.0, row.top), (self.width, row.bottom));
                canvas.fill(band, Ink::Band);
            }
            canvas.lines(&row.label, (4.0, row.label_y), TEXT, Ink::Text);
            for lane in &row.lanes {
                canvas.lines(&lane.name, lane.name_at, SMALL, Ink::Muted);
            }
        }
    }

    /// Says in a lane why it shows no values.
    pub(crate) fn remark(&self, canvas: &mut Canvas, lane: &Lane, why: &str) {
        let why = measure::shorten(why, SMALL, self.width - self.left - 12.0);
        canvas.text(
            &why,
            (self.left + 6.0, lane.y),
            Anchor::Start,
            SMALL,
            Ink::Danger,
        );
    }
}
