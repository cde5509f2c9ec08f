//! The arithmetic of a variant.

use libtorch::{
    Result,
    autocast::{self, DeviceType, Dtype},
    cuda::{self, Tf32},
};
use protocol::Precision;
use tch::{Device, Kind};

/// In which types the model computes.
#[derive(Debug, Clone, Copy)]
pub struct Arithmetic {
    device: DeviceType,
    shorter: Option<Dtype>,
}

impl Arithmetic {
    /// Sets the process up for this precision.
    ///
    /// On a GPU `fp32` switches tf32 off everywhere, also where libtorch's default has it
    /// on (convolutions), and `tf32` switches it on everywhere. Under autocast matrix
    /// products and convolutions are in the shorter type, and the switches stay as
    /// libtorch's defaults.
    pub fn new(precision: Precision, device: Device) -> Result<Self> {
        let cuda = matches!(device, Device::Cuda(_));
        if cuda {
            cuda::set_tf32(match precision {
                Precision::Fp32 => Tf32 {
                    matmul: false,
                    cudnn: false,
                },
                Precision::Tf32 => Tf32 {
                    matmul: true,
                    cudnn: true,
                },
                Precision::AmpFp16 | Precision::AmpBf16 | Precision::Bf16 => Tf32 {
                    matmul: false,
                    cudnn: true,
                },
            })?;
        }
        Ok(Self {
            device: if cuda {
                DeviceType::Cuda
            } else {
                DeviceType::Cpu
            },
            shorter: match precision {
                Precision::Fp32 | Precision::Tf32 | Precision::Bf16 => None,
                Precision::AmpFp16 => Some(Dtype::Half),
                Precision::AmpBf16 => Some(Dtype::BFloat16),
            },
        })
    }

    /// The type of parameters, and so of their gradients and the optimizer's state.
    pub fn kind(precision: Precision) -> Kind {
        match precision {
            Precision::Bf16 => Kind::BFloat16,
            _ => Kind::Float,
        }
    }

    /// Runs forward and loss, under autocast where the precision wants it. Weights are
    /// shortened once a pass, as with `PyTorch`'s default.
    pub fn autocast<T>(self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.shorter {
            None => body(),
            shorter => autocast::with(self.device, shorter, true, body).flatten(),
        }
    }
}
