//! Points in time: how they are written, and the ticks of their axis.

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// At most about `count` ticks between two points in time, in seconds since 1970.
pub(super) fn ticks(low: f64, high: f64, count: usize) -> Vec<(f64, String)> {
    let most = count.max(1);
    // Steps that fall on whole hours and days.
    let days = (0..6).flat_map(|power| [1.0, 2.0, 5.0].map(|days| days * 10_f64.powi(power) * DAY));
    let mut steps = [60.0, 600.0, HOUR, 6.0 * HOUR].into_iter().chain(days);
    let step = steps
        .find(|step| (high - low) / step <= most as f64)
        .unwrap_or((high - low).max(1.0));
    let form = if step < DAY {
        "%m-%d %H:%M"
    } else {
        "%Y-%m-%d"
    };
    let first = (low / step).ceil();
    let ticks = (0..=most + 1).map(|index| (first + index as f64) * step);
    let ticks = ticks.take_while(|tick| *tick <= high);
    ticks.map(|tick| (tick, written(tick, form))).collect()
}

/// Seconds since 1970 in this form of `strftime`, in UTC.
pub(crate) fn written(seconds: f64, form: &str) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates; an odd time is shown as it is"
    )]
    let whole = seconds as i64;
    jiff::Timestamp::from_second(whole).map_or_else(
        |_| format!("{seconds:.3e} s"),
        |time| time.strftime(form).to_string(),
    )
}
