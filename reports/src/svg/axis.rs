//! Axes with their ticks, titles and grid.

use super::{
    Anchor, Area, Canvas, SMALL,
    ink::Ink,
    scale::{Scale, Tick},
};
use crate::{format::Quantity, measure};

/// Height that a lower axis with its title takes.
pub(crate) const LOWER: f64 = 36.0;
/// Between the labels of a lower axis.
const GAP: f64 = 10.0;

/// A lower axis under `area` with its grid; `title` gets the unit behind it.
pub(crate) fn lower(
    canvas: &mut Canvas,
    area: &Area,
    scale: &Scale,
    quantity: Quantity,
    title: &str,
) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 2 to 8"
    )]
    let most = (area.width() / 50.0).clamp(2.0, 8.0) as usize;
    let (ticks, unit) = ticks(scale, quantity, most, |before, after| {
        let half = |tick: &Tick| measure::width(&tick.label, SMALL) / 2.0;
        scale.place(after.value) - half(after) - scale.place(before.value) - half(before) >= GAP
    });
    for tick in &ticks {
        let x = scale.place(tick.value);
        canvas.upright(x, (area.top, area.bottom), Ink::Grid, 1.0);
        canvas.small(&tick.label, (x, area.bottom + 10.0), Anchor::Middle);
    }
    base(canvas, area);
    let title = measure::shorten(&with_unit(title, unit), SMALL, area.width() + 60.0);
    let at = (area.middle().0, area.bottom + 26.0);
    canvas.small(&title, at, Anchor::Middle);
}

/// The line under `area`.
pub(crate) fn base(canvas: &mut Canvas, area: &Area) {
    canvas.level((area.left, area.right), area.bottom, Ink::Axis, 1.0);
}

/// A left axis beside `area` with its grid, without title.
pub(crate) fn left(canvas: &mut Canvas, area: &Area, scale: &Scale, quantity: Quantity) {
    for tick in &left_ticks(scale, quantity, area) {
        let y = scale.place(tick.value);
        canvas.level((area.left, area.right), y, Ink::Grid, 1.0);
        canvas.small(&tick.label, (area.left - 5.0, y), Anchor::End);
    }
}

/// Two strokes across a left axis that does not begin at 0: heights do not compare as values do.
pub(crate) fn mark_break(canvas: &mut Canvas, area: &Area, scale: &Scale) {
    if scale.range().0 <= 0.0 || scale.is_logarithmic() {
        return;
    }
    for y in [area.bottom - 7.0, area.bottom - 3.0] {
        let ends = [(area.left - 4.0, y + 2.0), (area.left + 4.0, y - 2.0)];
        canvas.line(&ends, Ink::Axis, 1.4);
    }
}

/// Width that the labels of a left axis take.
pub(crate) fn left_width(scale: &Scale, quantity: Quantity, area: &Area) -> f64 {
    let ticks = left_ticks(scale, quantity, area);
    let widths = ticks.iter().map(|tick| measure::width(&tick.label, SMALL));
    widths.fold(0.0, f64::max) + 8.0
}

/// The unit of a left axis.
pub(crate) fn unit_of(scale: &Scale, quantity: Quantity) -> &'static str {
    scale.ticks(quantity, 4).1.sign
}

/// `title` with the unit behind it.
pub(crate) fn with_unit(title: &str, unit: &str) -> String {
    match (title, unit) {
        (_, "") => title.to_owned(),
        ("", _) => unit.to_owned(),
        _ => format!("{title} ({unit})"),
    }
}

fn left_ticks(scale: &Scale, quantity: Quantity, area: &Area) -> Vec<Tick> {
    let has_room = area.height() > 0.0;
    let (ticks, _) = ticks(scale, quantity, 6, |before, after| {
        let apart = (scale.place(before.value) - scale.place(after.value)).abs();
        !has_room || apart >= SMALL * 1.5
    });
    ticks
}

/// As many ticks as stand clear of each other, and their unit.
fn ticks(
    scale: &Scale,
    quantity: Quantity,
    most: usize,
    is_clear: impl Fn(&Tick, &Tick) -> bool,
) -> (Vec<Tick>, &'static str) {
    for count in (1..=most).rev() {
        let (ticks, unit) = scale.ticks(quantity, count);
        if ticks.windows(2).all(|pair| is_clear(&pair[0], &pair[1])) {
            return (ticks, unit.sign);
        }
    }
    let (mut ticks, unit) = scale.ticks(quantity, 1);
    ticks.truncate(1);
    (ticks, unit.sign)
}
