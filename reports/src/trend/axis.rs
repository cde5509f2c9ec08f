//! An axis of days.

use crate::{
    measure,
    svg::{Anchor, Area, Canvas, SMALL, axis, ink::Ink, scale::Scale},
};

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;
/// Steps that fall on whole hours and days.
const STEPS: [f64; 18] = [
    60.0,
    600.0,
    HOUR,
    6.0 * HOUR,
    DAY,
    2.0 * DAY,
    5.0 * DAY,
    10.0 * DAY,
    20.0 * DAY,
    50.0 * DAY,
    100.0 * DAY,
    200.0 * DAY,
    500.0 * DAY,
    1e3 * DAY,
    2e3 * DAY,
    5e3 * DAY,
    1e4 * DAY,
    1e5 * DAY,
];
const GAP: f64 = 16.0;
/// More than there is room for.
const MOST_TICKS: u32 = 20;

/// Draws the axis under `area`, with its grid.
pub(super) fn lower(canvas: &mut Canvas, area: &Area, along: &Scale) {
    let (low, high) = along.range();
    let most = (area.width() / 130.0).max(1.0);
    let step = STEPS
        .into_iter()
        .find(|step| (high - low) / step <= most)
        .unwrap_or((high - low).max(1.0));
    let form = if step < DAY {
        "%m-%d %H:%M"
    } else {
        "%Y-%m-%d"
    };
    axis::base(canvas, area);
    let mut free_from = f64::NEG_INFINITY;
    let first = (low / step).ceil();
    let ticks = (0..=MOST_TICKS).map(|index| (first + f64::from(index)) * step);
    for tick in ticks.take_while(|tick| *tick <= high) {
        let x = along.place(tick);
        canvas.upright(x, (area.top, area.bottom), Ink::Grid, 1.0);
        let label = super::written(tick, form);
        let half = measure::width(&label, SMALL) / 2.0;
        let middle = x.max(area.left + half).min(area.right - half);
        if middle - half >= free_from {
            let at = (middle, area.bottom + 11.0);
            canvas.small(&label, at, Anchor::Middle);
            free_from = middle + half + GAP;
        }
    }
}
