//! What made the peak of a whole run, where that lies above the peak of its measured steps.

use protocol::Moment;
use record::Record;

/// A whole run's peak is worth a word from this many times that of the measured steps on.
pub(crate) const ABOVE: f64 = 1.05;

/// What made the peak, in words; `None` where it does not lie above that of the measured steps, or
/// nobody looked.
pub(super) fn made_by(run: &Record) -> Option<String> {
    let peak = run.values.get("run_peak_allocated_bytes")?;
    if *peak < ABOVE * run.values.get("peak_allocated_bytes")? {
        return None;
    }
    let points = run.memory_points.iter();
    let highest = points.max_by_key(|point| point.peak_allocated_bytes)?;
    let step = highest.step?;
    let part = match highest.moment {
        Moment::Forward => "forward",
        Moment::Backward => "backward",
        Moment::OptimizerStep => "the optimizer",
        Moment::Context | Moment::Model | Moment::Data => return None,
    };
    // Deterministic algorithms are chosen and not tried.
    let tries = run.device.is_cuda()
        && run
            .axes
            .get("deterministic")
            .is_none_or(|value| value != "true")
        && step == 0;
    Some(if tries {
        format!("cuDNN's trials of algorithms in {part} of the first warm-up step")
    } else {
        format!("{part} of warm-up step {}", step + 1)
    })
}
