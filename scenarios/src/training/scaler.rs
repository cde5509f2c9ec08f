//! Dynamic loss scaling for half precision, as `torch.amp.GradScaler`.
//!
//! Everything stays on the device: a step whose gradients are not finite is skipped by the
//! fused optimizer itself, and nobody waits to learn of it.

use libtorch::{
    Result,
    optim::{ScaleUpdate, unscale_and_check_, update_scale_},
};
use tch::{Device, Kind, Tensor};

/// The scale before the first step, as in `PyTorch`.
const FIRST_SCALE: f64 = 65_536.0;

/// A scale and what moves it.
#[derive(Debug)]
pub struct LossScaler {
    scale: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    update: ScaleUpdate,
}

impl LossScaler {
    /// A scaler with `PyTorch`'s defaults: from 65536, twice as large after 2000 finite steps
    /// in a row, half as large after one that is not.
    pub fn new(device: Device) -> Result<Self> {
        Self::with(device, FIRST_SCALE, ScaleUpdate::default())
    }

    /// A scaler that begins and moves otherwise.
    pub fn with(device: Device, first_scale: f64, update: ScaleUpdate) -> Result<Self> {
        let single = |value: f64| Tensor::f_full([0_i64; 0], value, (Kind::Float, device));
        Ok(Self {
            scale: single(first_scale)?,
            growth_tracker: Tensor::f_zeros([0_i64; 0], (Kind::Int, device))?,
            found_inf: single(0.0)?,
            update,
        })
    }

    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        Ok(loss.f_mul(&self.scale)?)
    }

    /// Divides the gradients by the scale and notes whether all are finite.
    pub fn unscale(&mut self, gradients: &[Tensor]) -> Result<()> {
        let _untracked = tch::no_grad_guard();
        let _ = self.found_inf.f_zero_()?;
        let inverse = self.scale.f_reciprocal()?;
        unscale_and_check_(gradients, &self.found_inf, &inverse)
    }

    /// 1 where the gradients last unscaled were not all finite, else 0.
    pub fn found_inf(&self) -> &Tensor {
        &self.found_inf
    }

    /// Moves the scale by what was found.
    pub fn update(&mut self) -> Result<()> {
        update_scale_(
            &self.update,
            &self.scale,
            &self.growth_tracker,
            &self.found_inf,
        )
    }

    /// The scale now. Waits for the device.
    pub fn value(&self) -> Result<f64> {
        Ok(self.scale.f_double_value(&[])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPDATE: ScaleUpdate = ScaleUpdate {
        growth_factor: 2.0,
        backoff_factor: 0.5,
        growth_interval: 3,
    };

    /// Steps with these gradients; the scale after each, and whether it was skipped.
    fn check(gradients: &[f32], expected: &[(f64, bool)]) {
        let mut scaler = LossScaler::with(Device::Cpu, 8.0, UPDATE).unwrap();
        for (&gradient, &(scale, skipped)) in gradients.iter().zip(expected) {
            let gradients = [Tensor::from_slice(&[1.0_f32, gradient])];
            scaler.unscale(&gradients).unwrap();
            assert_eq!(scaler.found_inf().double_value(&[]) != 0.0, skipped);
            scaler.update().unwrap();
            assert!((scaler.value().unwrap() - scale).abs() < 1e-9);
        }
    }

    #[test]
    fn the_scale_grows_after_enough_finite_steps() {
        let finite = [1.0; 6];
        let scales = [8.0, 8.0, 16.0, 16.0, 16.0, 32.0].map(|scale| (scale, false));
        check(&finite, &scales);
    }

    #[test]
    fn the_scale_backs_off_and_counts_again() {
        check(
            &[1.0, 1.0, f32::INFINITY, 1.0, 1.0, f32::NAN, 1.0, 1.0, 1.0],
            &[
                (8.0, false),
                (8.0, false),
                (4.0, true),
                (4.0, false),
                (4.0, false),
                (2.0, true),
                (2.0, false),
                (2.0, false),
                (4.0, false),
            ],
        );
    }

    #[test]
    fn gradients_come_back_to_size() {
        let mut scaler = LossScaler::new(Device::Cpu).unwrap();
        let loss = Tensor::from(0.75_f32);
        let large = scaler.scale(&loss).unwrap();
        assert!((large.double_value(&[]) - 49_152.0).abs() < 1e-9);
        let gradients = [large.view([1])];
        scaler.unscale(&gradients).unwrap();
        assert!((gradients[0].double_value(&[0]) - 0.75).abs() < 1e-9);
    }
}
