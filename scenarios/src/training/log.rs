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

    pub fn clear(&self) -> Result<()> {
        let _ = self.losses.shallow_clone().f_zero_()?;
        let _ = self.skips.shallow_clone().f_zero_()?;
        Ok(())
    }

    /// Takes a step over from a log that has room for one; nothing where this has no room at all,
    /// as for inference.
    pub fn take(&self, step: u32, other: &Self) -> Result<()> {
        if self.losses.numel() == 0 {
            return Ok(());
        }
        for (to, from) in [(&self.losses, &other.losses), (&self.skips, &other.skips)] {
            to.f_select(0, i64::from(step))?
                .f_copy_(&from.f_select(0, 0)?)?;
        }
        Ok(())
    }

    /// Adds a micro-batch's share of the mean loss to a step's.
    pub fn add_loss(&self, step: u32, share: &Tensor) -> Result<()> {
        let _ = self.losses.f_select(0, i64::from(step))?.f_add_(share)?;
        Ok(())
    }

    /// Notes whether a step was skipped: 0 or 1, as the scaler's `found_inf` says.
    pub fn add_skip(&self, step: u32, found_inf: &Tensor) -> Result<()> {
        let _ = self.skips.f_select(0, i64::from(step))?.f_add_(found_inf)?;
        Ok(())
    }

    /// The losses of all steps. Waits for the device.
    pub fn losses(&self) -> Result<Vec<f64>> {
        values(&self.losses)
    }

    pub fn all_losses(&self) -> &Tensor {
        &self.losses
    }

    /// How often each step was skipped, which is 0 or 1 unless several steps share a place.
    /// Waits for the device.
    pub fn skips(&self) -> Result<Vec<f64>> {
        values(&self.skips)
    }
}

fn values(tensor: &Tensor) -> Result<Vec<f64>> {
    let single: Vec<f32> = Vec::try_from(&tensor.f_to_device(Device::Cpu)?)?;
    Ok(single.into_iter().map(f64::from).collect())
}
