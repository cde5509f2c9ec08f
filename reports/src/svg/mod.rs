//! Drawing through plotters, in pixels of the page.
//!
//! plotters knows whole pixels only, so [`Canvas`] draws on paper ten times as large, and the view
//! box brings that back.

mod area;
pub(crate) mod axis;
mod backend;
pub(crate) mod ink;
mod panel;
pub(crate) mod rows;
pub(crate) mod scale;

use std::{cell::RefCell, rc::Rc};

use plotters::{
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea},
    element::{Circle, Drawable, PathElement, PointCollection, Polygon, Rectangle, Text},
    style::{
        Color as _, FontDesc, FontFamily, FontStyle, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

pub(crate) use self::{area::Area, panel::Panel};
use self::{
    backend::{Backend, escape},
    ink::Ink,
};
use crate::format;

/// plotters' pixels in one pixel of the page.
const UNITS: f64 = 10.0;
/// Size of ordinary text in a plot.
pub(crate) const TEXT: f64 = 12.0;
/// Size of text on axes.
pub(crate) const SMALL: f64 = 11.0;
/// From one line of text to the next, in sizes of the text.
pub(crate) const LEADING: f64 = 1.22;

/// Where a text stands beside its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The shapes of marks, in the order of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Disc,
    Square,
    /// A triangle on its side.
    Triangle,
    /// A square on its tip.
    Diamond,
}

impl Shape {
    /// The shape of this series.
    pub(crate) fn of(series: usize) -> Self {
        [Self::Disc, Self::Square, Self::Triangle, Self::Diamond][series % 4]
    }

    /// The same shape in a line of text.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Disc => "●",
            Self::Square => "■",
            Self::Triangle => "▲",
            Self::Diamond => "◆",
        }
    }
}

/// How a line is broken, so that lines are told apart in grey as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dashes {
    None,
    Long,
    Dots,
}

impl Dashes {
    /// Strokes and gaps on the paper, whose lines have round ends.
    fn pattern(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Long => Some("50 35"),
            Self::Dots => Some("1 32"),
        }
    }
}

/// Paper to draw on, in pixels of the page, from the upper left.
pub(crate) struct Canvas {
    area: DrawingArea<Backend, Shift>,
    out: Rc<RefCell<String>>,
}

/// A finished drawing.
#[derive(Debug)]
pub(crate) struct Svg {
    /// Width and height of the view box.
    pub(crate) size: (u32, u32),
    /// What stands inside the `svg` element.
    pub(crate) body: String,
}

impl Svg {
    /// A file of its own, with its colours for light and dark, and paper behind it.
    pub(crate) fn standalone(&self, title: &str, description: &str) -> String {
        let (width, height) = self.size;
        let [title, description] = [title, description].map(|text| escape(&format::clean(text)));
        let style = ink::style_of(&self.body);
        let font = "system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',Arial,sans-serif";
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{}\" height=\"{}\" role=\"img\" fill=\"none\" font-family=\"{font}\">\n\
             <title>{title}</title>\n<desc>{description}</desc>\n<style>{style}\
             polyline{{stroke-linecap:round;stroke-linejoin:round}}\
             .f-label{{paint-order:stroke;stroke:var(--band);stroke-width:30}}</style>\n\
             <rect class=\"f-paper\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            f64::from(width) / UNITS,
            f64::from(height) / UNITS,
            self.body,
        )
    }

    /// Without what [`Canvas::hinted`] adds.
    pub(crate) fn drop_hints(&mut self) {
        let mut bare = String::with_capacity(self.body.len());
        // Whether each group that is open is a hint's.
        let mut open = Vec::new();
        for line in self.body.lines() {
            let line = match line.strip_prefix(HINT) {
                Some(rest) => {
                    open.push(true);
                    rest.split_once("</title>").map_or(rest, |(_, drawn)| drawn)
                }
                None if line == GROUP_END && open.pop() == Some(true) => "",
                None => {
                    open.extend(line.starts_with("<g").then_some(false));
                    line
                }
            };
            if !line.is_empty() {
                bare += line;
                bare.push('\n');
            }
        }
        self.body = bare;
    }
}

/// What a hint begins with.
const HINT: &str = "<g><title>";
/// What every group ends with, in a line of its own.
const GROUP_END: &str = "</g>";

impl Canvas {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        let out = Rc::new(RefCell::new(String::new()));
        let size = (whole(width).unsigned_abs(), whole(height).unsigned_abs());
        let area = Backend {
            out: Rc::clone(&out),
            size,
        }
        .into_drawing_area();
        Self { area, out }
    }

    pub(crate) fn finish(self) -> Svg {
        Svg {
            size: self.area.dim_in_pixel(),
            body: self.out.take(),
        }
    }

    pub(crate) fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        self.line_through(points, ink, width, 1.0);
    }

    /// A level line.
    pub(crate) fn level(&mut self, (from, to): (f64, f64), y: f64, ink: Ink, width: f64) {
        self.line(&[(from, y), (to, y)], ink, width);
    }

    /// An upright line.
    pub(crate) fn upright(&mut self, x: f64, (from, to): (f64, f64), ink: Ink, width: f64) {
        self.line(&[(x, from), (x, to)], ink, width);
    }

    /// A line through these points, more or less transparent.
    pub(crate) fn line_through(
        &mut self,
        points: &[(f64, f64)],
        ink: Ink,
        width: f64,
        opacity: f64,
    ) {
        let style = ink.mix(opacity).stroke_width(whole(width).unsigned_abs());
        let path: Vec<_> = points.iter().copied().map(spot).collect();
        self.draw(&PathElement::new(path, style));
    }

    pub(crate) fn fill(&mut self, area: Area, ink: Ink) {
        self.fill_through(area, ink, 1.0);
    }

    /// A filled box that what lies behind it shines through.
    pub(crate) fn fill_through(&mut self, area: Area, ink: Ink, opacity: f64) {
        let corners = [spot((area.left, area.top)), spot((area.right, area.bottom))];
        self.draw(&Rectangle::new(corners, ink.mix(opacity).filled()));
    }

    /// A mark of `size` across, filled, or hollow where it is only a rim.
    pub(crate) fn mark(
        &mut self,
        (x, y): (f64, f64),
        shape: Shape,
        size: f64,
        ink: Ink,
        hollow: bool,
    ) {
        let half = size / 2.0;
        match shape {
            Shape::Disc => {
                let radius = whole(half).unsigned_abs();
                self.draw(&Circle::new(spot((x, y)), radius, ink.filled()));
            }
            Shape::Square => self.fill(Area::around((x, y), size * 0.9, size * 0.9), ink),
            Shape::Triangle => {
                let (wide, low) = (half * 1.1, half * 0.8);
                self.polygon(
                    &[(x, y - wide), (x + wide, y + low), (x - wide, y + low)],
                    ink,
                );
            }
            Shape::Diamond => {
                let half = half * 1.2;
                self.polygon(
                    &[(x, y - half), (x + half, y), (x, y + half), (x - half, y)],
                    ink,
                );
            }
        }
        if hollow {
            self.mark((x, y), shape, size - 3.4, Ink::Paper, false);
        }
    }

    /// A triangle that points to the right (or left): a value lies beyond the paper.
    pub(crate) fn beyond(&mut self, (x, y): (f64, f64), to_the_right: bool, ink: Ink) {
        let tip = if to_the_right { 7.0 } else { -7.0 };
        self.polygon(&[(x, y), (x - tip, y - 4.0), (x - tip, y + 4.0)], ink);
    }

    /// A line of text at the height of its middle.
    pub(crate) fn text(&mut self, text: &str, at: (f64, f64), anchor: Anchor, size: f64, ink: Ink) {
        self.write(text, at, anchor, size, ink, FontStyle::Normal);
    }

    /// Small text that explains.
    pub(crate) fn small(&mut self, text: &str, at: (f64, f64), anchor: Anchor) {
        self.text(text, at, anchor, SMALL, Ink::Muted);
    }

    /// As [`Canvas::text`], bold.
    pub(crate) fn bold(&mut self, text: &str, at: (f64, f64), anchor: Anchor, size: f64, ink: Ink) {
        self.write(text, at, anchor, size, ink, FontStyle::Bold);
    }

    /// Lines of text around a middle height.
    pub(crate) fn lines(&mut self, lines: &[String], (x, y): (f64, f64), size: f64, ink: Ink) {
        let leading = size * LEADING;
        let first = y - leading * (lines.len() as f64 - 1.0) / 2.0;
        for (index, line) in lines.iter().enumerate() {
            let at = (x, first + index as f64 * leading);
            self.text(line, at, Anchor::Start, size, ink);
        }
    }

    /// Whatever `draw` draws shows `hint` under the pointer.
    pub(crate) fn hinted(&mut self, hint: &str, draw: impl FnOnce(&mut Self)) {
        let title = escape(&format::clean(hint));
        self.group(&format!("{HINT}{title}</title>"), draw);
    }

    /// The lines that `draw` draws are broken so.
    pub(crate) fn dashed(&mut self, dashes: Dashes, draw: impl FnOnce(&mut Self)) {
        match dashes.pattern() {
            Some(pattern) => self.group(&format!("<g stroke-dasharray=\"{pattern}\">\n"), draw),
            None => draw(self),
        }
    }

    /// Whatever `draw` draws stands in a group that begins so.
    fn group(&mut self, begin: &str, draw: impl FnOnce(&mut Self)) {
        self.out.borrow_mut().push_str(begin);
        draw(self);
        let end = format!("{GROUP_END}\n");
        self.out.borrow_mut().push_str(&end);
    }

    fn write(
        &mut self,
        text: &str,
        at: (f64, f64),
        anchor: Anchor,
        size: f64,
        ink: Ink,
        style: FontStyle,
    ) {
        let horizontal = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let font = FontDesc::new(FontFamily::SansSerif, size * UNITS, style);
        let style = TextStyle::from(font)
            .color(&ink)
            .pos(Pos::new(horizontal, VPos::Center));
        self.draw(&Text::new(format::clean(text), spot(at), style));
    }

    fn polygon(&mut self, corners: &[(f64, f64)], ink: Ink) {
        let corners: Vec<_> = corners.iter().copied().map(spot).collect();
        self.draw(&Polygon::new(corners, ink.filled()));
    }

    fn draw<E>(&mut self, element: &E)
    where
        for<'e> &'e E: PointCollection<'e, (i32, i32)>,
        E: Drawable<Backend>,
    {
        // The backend writes to a string, which cannot fail.
        let _ = self.area.draw(element);
    }
}

fn spot((x, y): (f64, f64)) -> (i32, i32) {
    (whole(x), whole(y))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a place on the paper; saturates"
)]
fn whole(pixels: f64) -> i32 {
    (pixels * UNITS).round() as i32
}
