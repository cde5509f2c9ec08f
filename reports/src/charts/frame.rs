//! Axes drawn: their ticks, titles and grid.

use super::axis::{Form, Scale};
use crate::{
    measure,
    svg::{Anchor, Area, Canvas, SMALL, WIDTH, ink::Ink},
    words::format::whole,
};

const GAP: f64 = 9.0;
/// Height of the labels, and of the title, of a lower axis.
const LABELS: f64 = 19.0;
const TITLE: f64 = 15.0;

pub(super) fn height(scale: &Scale) -> f64 {
    let titled = scale.axis.titled();
    LABELS + if titled.is_empty() { 0.0 } else { TITLE }
}

/// A lower axis under `area` with its grid.
pub(super) fn lower(canvas: &mut Canvas, area: &Area, scale: &Scale) {
    let most = (area.width() / 42.0).clamp(2.0, 8.0);
    let most = usize::try_from(whole(most)).unwrap_or(2);
    let ticks = clear(scale, most, |value, label| {
        let half = measure::width(label, SMALL) / 2.0;
        let x = scale.place(value);
        let (left, right) = (area.left - 12.0, (area.right + 8.0).min(WIDTH));
        let x = x.max(left.max(0.0) + half).min(right - half);
        (x, half + GAP / 2.0)
    });
    for (value, label, x) in ticks {
        let at = scale.place(value);
        canvas.upright(at, (area.top, area.bottom), grid(scale, value), 1.0);
        canvas.small(&label, (x, area.bottom + 12.0), Anchor::Center);
    }
    canvas.level((area.left, area.right), area.bottom, Ink::Axis, 1.0);
    let title = measure::shorten(&scale.axis.titled(), SMALL, area.width() + 20.0);
    if !title.is_empty() {
        let half = measure::width(&title, SMALL) / 2.0;
        let x = area.middle().0.max(half).min(WIDTH - half);
        let y = area.bottom + height(scale) - 7.0;
        canvas.small(&title, (x, y), Anchor::Center);
    }
}

/// A left axis beside `area` with its grid, without title.
pub(super) fn left(canvas: &mut Canvas, area: &Area, scale: &Scale) {
    for (value, label, y) in left_ticks(scale) {
        canvas.level((area.left, area.right), y, grid(scale, value), 1.0);
        canvas.small(&label, (area.left - 5.0, y), Anchor::Right);
    }
    if scale.axis.is_cut() {
        for y in [area.bottom - 7.0, area.bottom - 3.0] {
            let ends = [(area.left - 4.0, y + 2.0), (area.left + 4.0, y - 2.0)];
            canvas.line(&ends, Ink::Axis, 1.4);
        }
    }
}

/// The width that the labels of a left axis take.
pub(super) fn left_width(scale: &Scale) -> f64 {
    let ticks = left_ticks(scale).into_iter();
    let widths = ticks.map(|(_, label, _)| measure::width(&label, SMALL));
    widths.fold(0.0, f64::max) + 8.0
}

fn left_ticks(scale: &Scale) -> Vec<(f64, String, f64)> {
    clear(scale, 6, |value, _| (scale.place(value), SMALL * 0.75))
}

/// The line of no change stands out.
fn grid(scale: &Scale, value: f64) -> Ink {
    let is_none = scale.axis.form == Form::Ratio && (value - 1.0).abs() < 1e-9;
    if is_none { Ink::Axis } else { Ink::Grid }
}

/// As many ticks as are clear of each other, at most `most`, with the middle of each label; `extent`
/// gives that middle and half of what the label takes.
fn clear(
    scale: &Scale,
    most: usize,
    extent: impl Fn(f64, &str) -> (f64, f64),
) -> Vec<(f64, String, f64)> {
    for count in (1..=most).rev() {
        let ticks = scale.axis.ticks(count);
        let places: Vec<_> = ticks
            .iter()
            .map(|(value, text)| extent(*value, text))
            .collect();
        let is_clear = |pair: &[(f64, f64)]| {
            let [(one, half), (other, other_half)] = [pair[0], pair[1]];
            (one - other).abs() >= half + other_half
        };
        if places.windows(2).all(is_clear) || count == 1 {
            let shown = if count == 1 { 1 } else { ticks.len() };
            let ticks = ticks.into_iter().zip(places).take(shown);
            return ticks
                .map(|((value, label), (middle, _))| (value, label, middle))
                .collect();
        }
    }
    Vec::new()
}
