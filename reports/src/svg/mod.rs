//! Drawing through plotters, dressed for a page.
//!
//! [`paint`] gives a [`Canvas`] in pixels of the page. plotters knows whole pixels only, so it
//! draws on paper ten times as large, and the view box brings that back.

pub mod axis;
pub mod ink;
pub mod measure;
pub mod place;
pub mod rows;
pub mod scale;
mod theme;

use plotters::{
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea},
    element::{Circle, PathElement, Polygon, Rectangle, Text},
    prelude::SVGBackend,
    style::{
        FontDesc, FontFamily, FontStyle, ShapeStyle, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use crate::format;
use ink::Ink;
use place::Area;

pub(crate) use theme::escape;

/// plotters' pixels in one pixel of the page.
const UNITS: f64 = 10.0;
/// plotters takes a size in its own measure and writes it divided by this.
const PLOTTERS_FONT: f64 = 1.24;

/// Size of ordinary text in a plot.
pub const TEXT: f64 = 12.0;
/// Size of text on axes.
pub const SMALL: f64 = 11.0;

/// What went wrong while drawing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "plotters could not draw `{title}`: {message}; this is a fault of the report, not of the data"
)]
pub struct DrawError {
    /// What was being drawn.
    pub title: String,
    /// What plotters said.
    pub message: String,
}

/// What a drawing is called.
#[derive(Debug, Clone)]
pub struct Names {
    /// Unique in the page.
    pub id: String,
    /// What it shows, in few words.
    pub title: String,
    /// What it shows, for those who cannot see it.
    pub description: String,
}

/// Where a text stands beside its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The point is its left end.
    Start,
    /// The point is its middle.
    Middle,
    /// The point is its right end.
    End,
}

/// The shapes of marks, in the order of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A disc.
    Disc,
    /// A square.
    Square,
    /// A triangle on its side.
    Triangle,
    /// A square on its tip.
    Diamond,
}

impl Shape {
    /// The shape of this series.
    #[must_use]
    pub fn of(series: usize) -> Self {
        [Self::Disc, Self::Square, Self::Triangle, Self::Diamond][series % 4]
    }

    /// The same shape in a line of text.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Disc => "●",
            Self::Square => "■",
            Self::Triangle => "▲",
            Self::Diamond => "◆",
        }
    }
}

/// Paper to draw on, in pixels of the page, from the upper left.
pub struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
    failure: Option<String>,
}

/// Draws on paper of this size and gives the SVG.
pub fn paint(
    size: (f64, f64),
    names: &Names,
    draw: impl FnOnce(&mut Canvas<'_>),
) -> Result<String, DrawError> {
    let mut svg = String::new();
    if let Some(message) = drawn(&mut svg, size, draw) {
        return Err(DrawError {
            title: names.title.clone(),
            message,
        });
    }
    let title = format::clean(&names.title);
    let description = format::clean(&names.description);
    let names = theme::Names {
        id: &names.id,
        title: &title,
        description: &description,
    };
    Ok(theme::dress(&svg, size, UNITS, names))
}

/// Draws into `svg`; what failed, if anything did.
fn drawn(svg: &mut String, size: (f64, f64), draw: impl FnOnce(&mut Canvas<'_>)) -> Option<String> {
    let paper = (whole(size.0).unsigned_abs(), whole(size.1).unsigned_abs());
    let area = SVGBackend::with_string(svg, paper).into_drawing_area();
    let mut canvas = Canvas {
        area,
        failure: None,
    };
    draw(&mut canvas);
    let presented = canvas.area.present().err();
    canvas.failure.or(presented.map(|error| error.to_string()))
}

impl Canvas<'_> {
    /// A line through these points.
    pub fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        self.line_through(points, ink, width, 1.0);
    }

    /// A line through these points, more or less transparent.
    pub fn line_through(&mut self, points: &[(f64, f64)], ink: Ink, width: f64, opacity: f64) {
        use plotters::style::Color as _;
        let style = ShapeStyle {
            color: ink.key().mix(opacity),
            filled: false,
            stroke_width: whole(width).unsigned_abs(),
        };
        let path: Vec<_> = points.iter().copied().map(spot).collect();
        let drawn = self.area.draw(&PathElement::new(path, style));
        self.note(drawn);
    }

    /// A filled box.
    pub fn fill(&mut self, area: Area, ink: Ink) {
        let corners = [spot((area.left, area.top)), spot((area.right, area.bottom))];
        let drawn = self.area.draw(&Rectangle::new(corners, filled(ink)));
        self.note(drawn);
    }

    /// A filled box that what lies behind it shines through.
    pub fn fill_through(&mut self, area: Area, ink: Ink, opacity: f64) {
        use plotters::style::Color as _;
        let corners = [spot((area.left, area.top)), spot((area.right, area.bottom))];
        let style = ShapeStyle::from(ink.key().mix(opacity)).filled();
        let drawn = self.area.draw(&Rectangle::new(corners, style));
        self.note(drawn);
    }

    /// A mark of `size` across, filled, or hollow where it is only a rim.
    pub fn mark(&mut self, (x, y): (f64, f64), shape: Shape, size: f64, ink: Ink, hollow: bool) {
        if hollow {
            self.mark((x, y), shape, size, ink, false);
            self.mark((x, y), shape, size - 3.4, Ink::Paper, false);
            return;
        }
        let half = size / 2.0;
        let drawn = match shape {
            Shape::Disc => self
                .area
                .draw(&Circle::new(spot((x, y)), whole(half), filled(ink))),
            Shape::Square => {
                let half = half * 0.9;
                let corners = [spot((x - half, y - half)), spot((x + half, y + half))];
                self.area.draw(&Rectangle::new(corners, filled(ink)))
            }
            Shape::Triangle => self.polygon(
                &[
                    (x, y - half * 1.1),
                    (x + half * 1.1, y + half * 0.8),
                    (x - half * 1.1, y + half * 0.8),
                ],
                ink,
            ),
            Shape::Diamond => {
                let half = half * 1.2;
                self.polygon(
                    &[(x, y - half), (x + half, y), (x, y + half), (x - half, y)],
                    ink,
                )
            }
        };
        self.note(drawn);
    }

    /// A triangle that points to the right (or left): a metric lies beyond the paper.
    pub fn beyond(&mut self, (x, y): (f64, f64), to_the_right: bool, ink: Ink) {
        let tip = if to_the_right { 7.0 } else { -7.0 };
        let drawn = self.polygon(&[(x, y), (x - tip, y - 4.0), (x - tip, y + 4.0)], ink);
        self.note(drawn);
    }

    /// A line of text at the height of its middle.
    pub fn text(&mut self, text: &str, at: (f64, f64), anchor: Anchor, size: f64, ink: Ink) {
        self.write(text, at, anchor, size, ink, FontStyle::Normal);
    }

    /// As [`Canvas::text`], bold.
    pub fn bold(&mut self, text: &str, at: (f64, f64), anchor: Anchor, size: f64, ink: Ink) {
        self.write(text, at, anchor, size, ink, FontStyle::Bold);
    }

    /// Lines of text around a middle height.
    pub fn lines(
        &mut self,
        lines: &[String],
        (x, y): (f64, f64),
        anchor: Anchor,
        size: f64,
        ink: Ink,
    ) {
        let leading = size * LEADING;
        let first = y - leading * (lines.len() as f64 - 1.0) / 2.0;
        for (index, line) in lines.iter().enumerate() {
            self.text(line, (x, first + index as f64 * leading), anchor, size, ink);
        }
    }

    /// Whatever `draw` draws shows `hint` under the pointer.
    pub fn hinted(&mut self, hint: &str, draw: impl FnOnce(&mut Self)) {
        self.group_mark(&format::clean(hint));
        draw(self);
        self.group_mark(theme::GROUP_CLOSES);
    }

    fn group_mark(&mut self, text: &str) {
        let style = TextStyle::from(FontDesc::new(
            FontFamily::SansSerif,
            PLOTTERS_FONT,
            FontStyle::Normal,
        ));
        let drawn = self.area.draw(&Text::new(text.to_owned(), (0, 0), style));
        self.note(drawn);
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
        let font = FontDesc::new(FontFamily::SansSerif, size * UNITS * PLOTTERS_FONT, style);
        let colour = ink.key();
        let style = TextStyle::from(font)
            .color(&colour)
            .pos(Pos::new(horizontal, VPos::Center));
        let drawn = self
            .area
            .draw(&Text::new(format::clean(text), spot(at), style));
        self.note(drawn);
    }

    fn polygon(&self, corners: &[(f64, f64)], ink: Ink) -> Drawn {
        let corners: Vec<_> = corners.iter().copied().map(spot).collect();
        self.area.draw(&Polygon::new(corners, filled(ink)))
    }

    fn note(&mut self, drawn: Drawn) {
        if let Err(error) = drawn {
            self.failure.get_or_insert(error.to_string());
        }
    }
}

/// From one line of text to the next, in sizes of the text.
pub const LEADING: f64 = 1.22;

type Drawn = Result<(), plotters::drawing::DrawingAreaErrorKind<std::io::Error>>;

fn filled(ink: Ink) -> ShapeStyle {
    ShapeStyle::from(ink.key()).filled()
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
