//! What every step leaves behind: loss and whether it was skipped, kept on the device
//! until measuring is over, because reading a value would wait for the device.

use libtorch::Result;
use tch::{Device, Kind, Tensor};

/// Room for the losses and skips of every step of a run, made beforehand.
#[derive(Debug)]
pub struct StepLog {
    losses: Tensor,
    skips: Tensor,
}

impl StepLog {
    /// Room for this many steps.
    pub fn new(steps: u32, device: Device) -> Result<Self> {
        let room = || Tensor::f_zeros([i64::from(steps)], (Kind::Float, device));
        Ok(Self {
            losses: room()?,
            skips: room()?,
        })
    }

    /// Adds a micro-batch's share of the mean loss to a step's.
    pub fn add_loss(&self, step: u32, share: &Tensor) -> Result<()> {
        let _ = self.losses.f_select(0, i64::from(step))?.f_add_(share)?;
        Ok(())
    }

    /// Notes whether a step was skipped: 0 or 1, as the scaler's `found_inf` says.
    pub fn set_skip(&self, step: u32, found_inf: &Tensor) -> Result<()> {
        self.skips
            .f_select(0, i64::from(step))?
            .f_copy_(found_inf)?;
        Ok(())
    }

    /// The losses of all steps. Waits for the device.
    pub fn losses(&self) -> Result<Vec<f64>> {
        values(&self.losses)
    }

    /// Which steps were skipped. Waits for the device.
    pub fn skips(&self) -> Result<Vec<bool>> {
        Ok(values(&self.skips)?
            .into_iter()
            .map(|skip| skip != 0.0)
            .collect())
    }
}

fn values(tensor: &Tensor) -> Result<Vec<f64>> {
    let single: Vec<f32> = Vec::try_from(&tensor.f_to_device(Device::Cpu)?)?;
    Ok(single.into_iter().map(f64::from).collect())
}
