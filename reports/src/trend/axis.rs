//! An axis of days.

use crate::svg::{Anchor, Canvas, SMALL, ink::Ink, measure, place::Area, scale::Scale};

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
    1000.0 * DAY,
    2000.0 * DAY,
    5000.0 * DAY,
    10_000.0 * DAY,
    100_000.0 * DAY,
];
const GAP: f64 = 16.0;

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
    canvas.line(
        &[(area.left, area.bottom), (area.right, area.bottom)],
        Ink::Axis,
        1.0,
    );
    let mut free_from = f64::NEG_INFINITY;
    let mut tick = (low / step).ceil() * step;
    while tick <= high {
        let x = along.place(tick);
        canvas.line(&[(x, area.top), (x, area.bottom)], Ink::Grid, 1.0);
        let label = super::written(tick, form);
        let half = measure::width(&label, SMALL) / 2.0;
        let middle = x.clamp(area.left + half, area.right - half);
        if middle - half >= free_from {
            let at = (middle, area.bottom + 11.0);
            canvas.text(&label, at, Anchor::Middle, SMALL, Ink::Muted);
            free_from = middle + half + GAP;
        }
        tick += step;
    }
}
