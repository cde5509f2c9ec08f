//! Axes with their ticks, titles and grid.

use super::{
    Anchor, Canvas, SMALL,
    ink::Ink,
    measure,
    place::Area,
    scale::{Scale, Tick},
};
use crate::format::Quantity;

/// Height that a lower axis with its title takes.
pub const LOWER: f64 = 36.0;

/// A lower axis under `area` with its grid; `title` gets the unit behind it.
pub fn lower(canvas: &mut Canvas, area: &Area, scale: &Scale, quantity: Quantity, title: &str) {
    let ticks = ticks_that_fit(scale, quantity, area.width());
    for tick in &ticks.0 {
        let x = scale.place(tick.value);
        canvas.line(&[(x, area.top), (x, area.bottom)], Ink::Grid, 1.0);
        canvas.text(
            &tick.label,
            (x, area.bottom + 10.0),
            Anchor::Middle,
            SMALL,
            Ink::Muted,
        );
    }
    canvas.line(
        &[(area.left, area.bottom), (area.right, area.bottom)],
        Ink::Axis,
        1.0,
    );
    let title = measure::shorten(&with_unit(title, ticks.1), SMALL, area.width() + 60.0);
    canvas.text(
        &title,
        (area.middle().0, area.bottom + 26.0),
        Anchor::Middle,
        SMALL,
        Ink::Muted,
    );
}

/// A left axis beside `area` with its grid, without title.
pub fn left(canvas: &mut Canvas, area: &Area, scale: &Scale, quantity: Quantity) {
    let (ticks, _) = left_ticks(scale, quantity, area);
    for tick in &ticks {
        let y = scale.place(tick.value);
        canvas.line(&[(area.left, y), (area.right, y)], Ink::Grid, 1.0);
        canvas.text(
            &tick.label,
            (area.left - 5.0, y),
            Anchor::End,
            SMALL,
            Ink::Muted,
        );
    }
}

/// Width that the labels of a left axis take.
#[must_use]
pub fn left_width(scale: &Scale, quantity: Quantity, area: &Area) -> f64 {
    let (ticks, _) = left_ticks(scale, quantity, area);
    let widest = ticks
        .iter()
        .map(|tick| measure::width(&tick.label, SMALL))
        .fold(0.0, f64::max);
    widest + 8.0
}

/// The unit of a left axis.
#[must_use]
pub fn unit_of(scale: &Scale, quantity: Quantity) -> &'static str {
    scale.ticks(quantity, 4).1.sign
}

/// `title` with the unit behind it.
#[must_use]
pub fn with_unit(title: &str, unit: &str) -> String {
    match (title, unit) {
        (_, "") => title.to_owned(),
        ("", _) => unit.to_owned(),
        _ => format!("{title} ({unit})"),
    }
}

fn left_ticks(scale: &Scale, quantity: Quantity, area: &Area) -> (Vec<Tick>, &'static str) {
    let mut count = 6;
    loop {
        let (ticks, unit) = scale.ticks(quantity, count);
        let apart = |pair: &[Tick]| {
            (scale.place(pair[0].value) - scale.place(pair[1].value)).abs() >= SMALL * 1.5
        };
        if count == 1 || area.height() <= 0.0 || ticks.windows(2).all(apart) {
            return (ticks, unit.sign);
        }
        count -= 1;
    }
}

/// As many ticks as stand clear of each other.
fn ticks_that_fit(scale: &Scale, quantity: Quantity, width: f64) -> (Vec<Tick>, &'static str) {
    const GAP: f64 = 10.0;
    let most = (width / 50.0).clamp(2.0, 8.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 2 to 8"
    )]
    let mut count = most as usize;
    loop {
        let (mut ticks, unit) = scale.ticks(quantity, count);
        let clear = |pair: &[Tick]| {
            let half = |tick: &Tick| measure::width(&tick.label, SMALL) / 2.0;
            scale.place(pair[1].value)
                - half(&pair[1])
                - scale.place(pair[0].value)
                - half(&pair[0])
                >= GAP
        };
        if ticks.windows(2).all(clear) {
            return (ticks, unit.sign);
        }
        if count == 1 {
            ticks.truncate(1);
            return (ticks, unit.sign);
        }
        count -= 1;
    }
}
