//! Drawing through plotters, in pixels of the page.
//!
//! plotters knows whole pixels only, so [`Canvas`] draws on paper ten times as large, and the view
//! box brings that back.

mod area;
mod backend;
pub(crate) mod ink;

use std::{cell::RefCell, rc::Rc};

use plotters::{
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea},
    element::{Circle, Drawable, PathElement, PointCollection, Polygon, Rectangle, Text},
    style::{
        Color as _, FontDesc, FontFamily, FontStyle, TextStyle,
        text_anchor::{Pos, VPos},
    },
};

pub(crate) use plotters::style::text_anchor::HPos as Anchor;

pub(crate) use self::area::Area;
use self::{
    backend::{Backend, escape},
    ink::Ink,
};
use crate::words::format;

/// plotters' pixels in one pixel of the page.
const UNITS: f64 = 10.0;
/// Width of every drawing. A telephone shows it a fifth smaller, a wide page two side by side a
/// third larger; the sizes of text are made for both.
pub(crate) const WIDTH: f64 = 420.0;
/// Size of ordinary text in a plot.
pub(crate) const TEXT: f64 = 12.5;
/// Size of text on axes.
pub(crate) const SMALL: f64 = 11.5;
/// From one line of text to the next, in sizes of the text.
pub(crate) const LEADING: f64 = 1.22;

/// The shapes of marks, in the order of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Disc,
    Square,
    Triangle,
    /// A square on its tip.
    Diamond,
}

impl Shape {
    /// The shape of this series: with its colour, which repeats after eight, the mark of no other of
    /// the first 32.
    pub(crate) fn of(series: usize) -> Self {
        let shapes = [Self::Disc, Self::Square, Self::Triangle, Self::Diamond];
        shapes[(series + series / 8) % 4]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) ink: Ink,
    pub(crate) shape: Shape,
    /// Whether it is a rim alone.
    pub(crate) is_hollow: bool,
}

impl Look {
    pub(crate) const fn of(ink: Ink, shape: Shape) -> Self {
        Self {
            ink,
            shape,
            is_hollow: false,
        }
    }

    pub(crate) fn series(place: usize) -> Self {
        Self::of(Ink::series(place), Shape::of(place))
    }

    pub(crate) fn hollow(self, is_hollow: bool) -> Self {
        Self { is_hollow, ..self }
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
    has_hints: bool,
}

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
}

impl Canvas {
    /// As wide as every drawing; without hints where there are too many of them.
    pub(crate) fn new(height: f64, has_hints: bool) -> Self {
        let out = Rc::new(RefCell::new(String::new()));
        let size = (whole(WIDTH).unsigned_abs(), whole(height).unsigned_abs());
        let area = Backend {
            out: Rc::clone(&out),
            size,
        }
        .into_drawing_area();
        Self {
            area,
            out,
            has_hints,
        }
    }

    pub(crate) fn finish(self) -> Svg {
        Svg {
            size: self.area.dim_in_pixel(),
            body: self.out.take(),
        }
    }

    pub(crate) fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let style = ink.stroke_width(whole(width).unsigned_abs());
        let path: Vec<_> = points.iter().copied().map(spot).collect();
        self.draw(&PathElement::new(path, style));
    }

    pub(crate) fn level(&mut self, (from, to): (f64, f64), y: f64, ink: Ink, width: f64) {
        self.line(&[(from, y), (to, y)], ink, width);
    }

    pub(crate) fn upright(&mut self, x: f64, (from, to): (f64, f64), ink: Ink, width: f64) {
        self.line(&[(x, from), (x, to)], ink, width);
    }

    pub(crate) fn fill(&mut self, area: Area, ink: Ink) {
        self.fill_through(area, ink, 1.0);
    }

    /// A filled box that what lies behind it shines through.
    pub(crate) fn fill_through(&mut self, area: Area, ink: Ink, opacity: f64) {
        let corners = [spot((area.left, area.top)), spot((area.right, area.bottom))];
        self.draw(&Rectangle::new(corners, ink.mix(opacity).filled()));
    }

    pub(crate) fn mark(&mut self, (x, y): (f64, f64), size: f64, look: Look) {
        let Look { ink, shape, .. } = look;
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
        if look.is_hollow {
            let inside = Look::of(Ink::Paper, shape);
            self.mark((x, y), size - 3.4, inside);
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

    pub(crate) fn small(&mut self, text: &str, at: (f64, f64), anchor: Anchor) {
        self.text(text, at, anchor, SMALL, Ink::Muted);
    }

    pub(crate) fn bold(&mut self, text: &str, at: (f64, f64), anchor: Anchor, size: f64, ink: Ink) {
        self.write(text, at, anchor, size, ink, FontStyle::Bold);
    }

    /// Whatever `draw` draws shows `hint` under the pointer.
    pub(crate) fn hinted(&mut self, hint: &str, draw: impl FnOnce(&mut Self)) {
        if !self.has_hints || hint.is_empty() {
            return draw(self);
        }
        let title = escape(&format::clean(hint));
        self.group(&format!("<g><title>{title}</title>"), draw);
    }

    /// Whatever `draw` draws is about what these attributes say.
    pub(crate) fn about(&mut self, attributes: &str, draw: impl FnOnce(&mut Self)) {
        match attributes {
            "" => draw(self),
            attributes => self.group(&format!("<g{attributes}>\n"), draw),
        }
    }

    /// The lines that `draw` draws are broken so.
    pub(crate) fn dashed(&mut self, dashes: Dashes, draw: impl FnOnce(&mut Self)) {
        match dashes.pattern() {
            Some(pattern) => self.group(&format!("<g stroke-dasharray=\"{pattern}\">\n"), draw),
            None => draw(self),
        }
    }

    /// Whatever `draw` draws stands in a group that begins so.
    pub(crate) fn group(&mut self, begin: &str, draw: impl FnOnce(&mut Self)) {
        self.out.borrow_mut().push_str(begin);
        draw(self);
        self.out.borrow_mut().push_str("</g>\n");
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
        let font = FontDesc::new(FontFamily::SansSerif, size * UNITS, style);
        let style = TextStyle::from(font)
            .color(&ink)
            .pos(Pos::new(anchor, VPos::Center));
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

/// A text as an attribute between double quotes.
pub(crate) fn attribute(text: &str) -> String {
    escape(&format::clean(text)).replace('"', "&quot;")
}

fn spot((x, y): (f64, f64)) -> (i32, i32) {
    (whole(x), whole(y))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a place on the paper; saturates"
)]
pub(crate) fn whole(pixels: f64) -> i32 {
    (pixels * UNITS).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_many_images_have_one_mark() {
        let looks: Vec<Look> = (0..32).map(Look::series).collect();
        for (place, look) in looks.iter().enumerate() {
            assert!(!looks[..place].contains(look), "{place}: {look:?}");
        }
    }
}
