//! Plots along time whose values a page's script reads out, and which it enlarges.

use super::{Area, Canvas, backend::escape, scale::Scale, whole};
use crate::format::{self, Quantity};

/// What the two axes of a plot are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panel<'a> {
    /// What its values are called.
    pub(crate) name: &'a str,
    /// Where it is drawn.
    pub(crate) paper: Area,
    /// The lower axis, and the unit of its values.
    pub(crate) along: (&'a Scale, &'static str),
    /// The left axis, and what it counts.
    pub(crate) up: (&'a Scale, Quantity),
}

impl Panel<'_> {
    /// Places on the paper and what stands there, as `left right low high`.
    fn begin(&self) -> String {
        let (along, up) = (self.along.0.range(), self.up.0.range());
        let unit = self.up.1.unit(up.1.abs().max(up.0.abs()));
        let Area {
            left,
            top,
            right,
            bottom,
        } = self.paper;
        // Where the scales end, which may be off the paper's edges.
        let (from, to) = (self.up.0.place(up.0), self.up.0.place(up.1));
        let logarithmic = if self.up.0.is_logarithmic() {
            " data-log=\"\""
        } else {
            ""
        };
        format!(
            "<g data-panel=\"{}\" data-along=\"{} {} {} {}\" data-along-unit=\"{}\" \
             data-up=\"{} {} {} {}\" data-unit=\"{}\" data-paper=\"{} {}\"{logarithmic}>\n",
            escape(&format::clean(self.name)).replace('"', "&quot;"),
            whole(left),
            whole(right),
            along.0,
            along.1,
            self.along.1,
            whole(from),
            whole(to),
            up.0 / unit.size,
            up.1 / unit.size,
            unit.sign,
            whole(top),
            whole(bottom),
        )
    }
}

impl Canvas {
    /// Whatever `draw` draws moves along the lower axis when the plot is enlarged, but for what is
    /// [`Canvas::fixed`].
    pub(crate) fn panel(&mut self, panel: &Panel, draw: impl FnOnce(&mut Self)) {
        self.group(&panel.begin(), draw);
    }

    /// What stays where it is in a [`Canvas::panel`], such as a left axis.
    pub(crate) fn fixed(&mut self, draw: impl FnOnce(&mut Self)) {
        self.group("<g data-fixed=\"\">\n", draw);
    }

    /// The ticks of a lower axis, which the script replaces when the plot is enlarged.
    pub(crate) fn ticks(&mut self, draw: impl FnOnce(&mut Self)) {
        self.group("<g data-ticks=\"\">\n", draw);
    }

    /// A line whose values are read out under this name.
    pub(crate) fn series(&mut self, name: &str, draw: impl FnOnce(&mut Self)) {
        let name = escape(&format::clean(name)).replace('"', "&quot;");
        self.group(&format!("<g data-series=\"{name}\">\n"), draw);
    }
}
