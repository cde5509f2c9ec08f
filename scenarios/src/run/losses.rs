//! What losses say about a run.

use crate::Error;

/// A run of fewer steps is too short to ask whether the loss falls.
const LEAST_STEPS: usize = 20;

/// Refuses a loss that is no number; `first` is the number of the first of these steps.
pub(super) fn check_finite(losses: &[f64], first: usize) -> Result<(), Error> {
    match losses.iter().position(|loss| !loss.is_finite()) {
        None => Ok(()),
        Some(index) => Err(Error::LossNotFinite {
            step: first + index,
            loss: losses[index],
        }),
    }
}

/// Refuses losses that do not fall: the mean over the last quarter of the steps must be below
/// that over the first. Every run trains on the same few batches, so a model that learns at all
/// comes to know them; one that does not computes something else than training.
pub(super) fn check_falling(losses: &[f64]) -> Result<(), Error> {
    if losses.len() < LEAST_STEPS {
        return Ok(());
    }
    let steps = losses.len() / 4;
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / steps as f64;
    let early = mean(&losses[..steps]);
    let late = mean(&losses[losses.len() - steps..]);
    if late < early {
        return Ok(());
    }
    Err(Error::LossNotFalling { early, late, steps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_is_no_number_is_named_by_its_step() {
        assert!(check_finite(&[1.0, 2.0], 0).is_ok());
        for bad in [f64::NAN, f64::INFINITY] {
            let error = check_finite(&[1.0, bad], 7).unwrap_err();
            assert!(
                matches!(error, Error::LossNotFinite { step: 8, .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn losses_must_fall_in_a_run_that_is_long_enough() {
        let falling: Vec<f64> = (0..20).map(|step| 7.0 - 0.1 * f64::from(step)).collect();
        let rising: Vec<f64> = falling.iter().rev().copied().collect();
        assert!(check_falling(&falling).is_ok());
        assert!(check_falling(&rising[..19]).is_ok());
        let error = check_falling(&rising).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("it is 6.8 on average over the last 5 steps and was 5.3"),
            "{error}"
        );
        assert!(check_falling(&[7.0; 20]).is_err());
        // A wobble is no rise.
        let mut wobbling = falling;
        wobbling[19] += 1.0;
        assert!(check_falling(&wobbling).is_ok());
    }
}
