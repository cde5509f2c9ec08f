//! Panels of two axes, with what lies on them: areas, lines, marks, limits and moments.

use super::{axis::Axis, frame, layers::Drawn};
use crate::{
    measure,
    svg::{Anchor, Area, Canvas, Dashes, LEADING, Look, SMALL, Svg, TEXT, WIDTH, ink::Ink},
};

/// Panels, `columns` of them side by side.
#[derive(Debug)]
pub(crate) struct Panels {
    pub(crate) columns: usize,
    /// Of the paper of each.
    pub(crate) height: f64,
    pub(crate) panels: Vec<Panel>,
}

/// Two axes and what lies on them, drawn in the order of `layers`.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// What follows the title of the left axis, above the paper.
    pub(crate) caption: String,
    /// What lines are called, in their colours, after the title.
    pub(crate) keys: Vec<(&'static str, Ink, Dashes)>,
    pub(crate) along: Axis,
    pub(crate) up: Axis,
    pub(crate) layers: Vec<Layer>,
    /// Where a page's script reads values off its lines and enlarges it.
    pub(crate) reading: Option<Reading>,
}

/// What values that are read off a panel are called, and the unit of its lower axis.
#[derive(Debug)]
pub(crate) struct Reading(pub(crate) String, pub(crate) &'static str);

/// One thing on a panel; its hint is what it shows under the pointer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(super) form: Form,
    pub(super) ink: Ink,
    pub(super) hint: String,
}

#[derive(Debug)]
pub(super) enum Form {
    /// Stretches of the axes; the whole axis where there is none.
    Area {
        along: Option<(f64, f64)>,
        up: Option<(f64, f64)>,
        opacity: f64,
    },
    /// Along the upper edge.
    Strip((f64, f64)),
    /// A level line across the panel.
    Limit(f64),
    /// An upright line; its label is above the paper where there is room.
    Moment {
        along: f64,
        label: String,
    },
    Line {
        /// What values are read out under, where they are.
        name: Option<String>,
        points: Vec<(f64, f64)>,
        width: f64,
        dashes: Dashes,
    },
    Mark(Spot),
}

#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) at: (f64, f64),
    pub(crate) ranges: [Option<(f64, f64)>; 2],
    pub(crate) size: f64,
    pub(crate) look: Look,
    /// Above it; marks that are too close together share a label.
    pub(crate) label: String,
    /// Attributes by which a page's script finds it.
    pub(crate) about: String,
}

const GAP: f64 = 18.0;
const LINE: f64 = TEXT * LEADING;
const CAPTION: f64 = 16.0;
pub(super) const LABELS: f64 = 15.0;
const UNDER: f64 = 12.0;

impl Layer {
    fn new(form: Form, ink: Ink) -> Self {
        let hint = String::new();
        Self { form, ink, hint }
    }

    pub(crate) fn area(
        along: Option<(f64, f64)>,
        up: Option<(f64, f64)>,
        (ink, opacity): (Ink, f64),
    ) -> Self {
        Self::new(Form::Area { along, up, opacity }, ink)
    }

    pub(crate) fn strip(along: (f64, f64), ink: Ink) -> Self {
        Self::new(Form::Strip(along), ink)
    }

    pub(crate) fn limit(up: f64) -> Self {
        Self::new(Form::Limit(up), Ink::Danger)
    }

    pub(crate) fn moment(along: f64, ink: Ink, label: String) -> Self {
        Self::new(Form::Moment { along, label }, ink)
    }

    /// A line whose values are read out under its name, where it has one.
    pub(crate) fn line(
        name: Option<&str>,
        points: Vec<(f64, f64)>,
        (ink, width, dashes): (Ink, f64, Dashes),
    ) -> Self {
        let name = name.map(str::to_owned);
        let form = Form::Line {
            name,
            points,
            width,
            dashes,
        };
        Self::new(form, ink)
    }

    pub(crate) fn mark(spot: Spot) -> Self {
        let ink = spot.look.ink;
        Self::new(Form::Mark(spot), ink)
    }

    pub(crate) fn hinted(self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        Self { hint, ..self }
    }
}

impl Spot {
    pub(crate) fn of(at: (f64, f64), size: f64, look: Look) -> Self {
        Self {
            at,
            ranges: [None, None],
            size,
            look,
            label: String::new(),
            about: String::new(),
        }
    }
}

impl Panel {
    pub(crate) fn of(along: Axis, up: Axis, layers: Vec<Layer>) -> Self {
        Self {
            title: String::new(),
            caption: String::new(),
            keys: Vec::new(),
            along,
            up,
            layers,
            reading: None,
        }
    }

    /// Lines of its title, and of what is written under it.
    fn heading(&self, width: f64) -> [Vec<String>; 2] {
        let (title, rest) = match (&*self.up.title, self.up.unit().sign) {
            ("", "") => (self.title.clone(), String::new()),
            ("", unit) => (format!("{} ({unit})", self.title), String::new()),
            _ => (self.title.clone(), self.up.titled()),
        };
        let title = match title.trim() {
            "" => Vec::new(),
            title => measure::wrap(title, TEXT, width / 1.16),
        };
        let both = [rest, self.caption.clone()];
        let both = both.into_iter().filter(|text| !text.is_empty());
        let caption = match &*both.collect::<Vec<_>>().join(" · ") {
            "" if self.keys.is_empty() => Vec::new(),
            caption => measure::wrap(caption, SMALL, width),
        };
        [title, caption]
    }

    fn has_labels(&self) -> bool {
        let is_label =
            |layer: &Layer| matches!(&layer.form, Form::Moment { label, .. } if !label.is_empty());
        self.layers.iter().any(is_label)
    }
}

impl Panels {
    pub(super) fn draw(&self, has_hints: bool) -> Svg {
        let columns = self.columns.min(self.panels.len()).max(1);
        let each = (WIDTH - GAP * (columns - 1) as f64) / columns as f64;
        let labels = self.panels.iter().any(Panel::has_labels);
        let labels = if labels { LABELS } else { 0.0 };
        let lines = |row: &[Panel], part: usize| {
            let lines = row.iter().map(|panel| panel.heading(each)[part].len());
            lines.max().unwrap_or(0) as f64
        };
        let title = |row: &[Panel]| lines(row, 0) * LINE;
        let caption = |row: &[Panel]| lines(row, 1) * CAPTION + 4.0;
        let lower = |row: &[Panel]| {
            let heights = row
                .iter()
                .map(|panel| frame::height(&panel.along.on(0.0, 1.0)));
            heights.fold(0.0, f64::max)
        };
        let heights: Vec<f64> = self
            .panels
            .chunks(columns)
            .map(|row| title(row) + caption(row) + labels + self.height + lower(row) + UNDER)
            .collect();
        let mut canvas = Canvas::new(heights.iter().sum(), has_hints);
        let mut top = 0.0;
        for (row, height) in self.panels.chunks(columns).zip(heights) {
            for (column, panel) in row.iter().enumerate() {
                let left = (each + GAP) * column as f64;
                let above = top + title(row);
                let upper = above + caption(row) + labels;
                let area = Area::of((left, upper), (left + each, upper + self.height));
                panel.draw_heading(&mut canvas, (left, top, above), each);
                panel.draw(&mut canvas, &area);
            }
            top += height;
        }
        canvas.finish()
    }
}

impl Panel {
    fn draw_heading(&self, canvas: &mut Canvas, (left, top, above): (f64, f64, f64), width: f64) {
        let [title, captions] = self.heading(width);
        for (place, line) in title.iter().enumerate() {
            let at = (left, top + LINE * (place as f64 + 0.5));
            canvas.bold(line, at, Anchor::Left, TEXT, Ink::Text);
        }
        let y = |line: usize| above + CAPTION * (line as f64 + 0.5) - 1.0;
        for (line, caption) in captions.iter().enumerate() {
            canvas.small(caption, (left, y(line)), Anchor::Left);
        }
        // A panel of several lines has no other caption than their names.
        let (mut from, y) = (left, y(0));
        for (name, ink, dashes) in &self.keys {
            canvas.text(name, (from, y), Anchor::Left, SMALL, *ink);
            let to = from + measure::width(name, SMALL);
            canvas.dashed(*dashes, |canvas| {
                canvas.level((from, to), y + 7.0, *ink, 1.3);
            });
            from = to + 8.0;
        }
    }

    fn draw(&self, canvas: &mut Canvas, area: &Area) {
        let up = self.up.on(area.bottom - 2.0, area.top + 2.0);
        let paper = Area {
            left: area.left + frame::left_width(&up),
            right: area.right - 6.0,
            ..*area
        };
        let along = self.along.on(paper.left, paper.right);
        canvas.fill(paper, Ink::Band);
        let drawn = Drawn { along, up, paper };
        let Some(reading) = &self.reading else {
            frame::lower(canvas, &paper, &along);
            drawn.layers(canvas, &self.layers);
            return;
        };
        canvas.group("<g data-ticks=\"\">\n", |canvas| {
            frame::lower(canvas, &paper, &along);
        });
        canvas.group(&drawn.begin(reading), |canvas| {
            drawn.layers(canvas, &self.layers);
        });
    }
}
