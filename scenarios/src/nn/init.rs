//! How parameters begin, as `torch.nn.init` does it.

use libtorch::Result;
use tch::Tensor;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    Zeros,
    Ones,
    /// Normal with mean 0.
    Normal {
        std: f64,
    },
    /// Normal with mean 0 whose values are clipped to ±2, which is what
    /// `trunc_normal_` of timm does with its default bounds.
    TruncatedNormal {
        std: f64,
    },
    /// Uniform on ±`bound`.
    Uniform {
        /// The largest absolute value.
        bound: f64,
    },
}

impl Init {
    /// `kaiming_normal_(mode="fan_out", nonlinearity="relu")` of a convolution's weight
    /// `[out, in, height, width]`.
    pub fn kaiming_normal_fan_out(shape: [i64; 4]) -> Self {
        let [out, _, height, width] = shape;
        Self::Normal {
            std: (2.0 / (out * height * width) as f64).sqrt(),
        }
    }

    /// What `nn.Linear` and `nn.Conv2d` do by themselves to weight and bias:
    /// `kaiming_uniform_(a=√5)`, which is uniform on ±1/√(fan in).
    pub fn fan_in_uniform(fan_in: i64) -> Self {
        Self::Uniform {
            bound: 1.0 / (fan_in as f64).sqrt(),
        }
    }

    /// Fills the tensor in place, drawing from libtorch's default generator of its device.
    pub(crate) fn fill(self, tensor: &mut Tensor) -> Result<()> {
        let _ = match self {
            Self::Zeros => tensor.f_zero_()?,
            Self::Ones => tensor.f_fill_(1.0)?,
            Self::Normal { std } => tensor.f_normal_(0.0, std)?,
            Self::TruncatedNormal { std } => {
                // The inverse of the distribution function at uniform points between its
                // values at the bounds, as in PyTorch's _no_grad_trunc_normal_.
                let upper = 2.0 * standard_normal_below(2.0 / std) - 1.0;
                tensor
                    .f_uniform_(-upper, upper)?
                    .f_erfinv_()?
                    .f_mul_scalar_(std * std::f64::consts::SQRT_2)?
                    .f_clamp_(-2.0, 2.0)?
            }
            Self::Uniform { bound } => tensor.f_uniform_(-bound, bound)?,
        };
        Ok(())
    }
}

fn standard_normal_below(z: f64) -> f64 {
    0.5 * statrs::function::erf::erfc(-z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(init: Init, mean: f64, std: f64, largest: f64) {
        tch::manual_seed(11);
        let mut tensor = Tensor::zeros([100_000], (tch::Kind::Float, tch::Device::Cpu));
        init.fill(&mut tensor).unwrap();
        let got = tensor.mean(None).double_value(&[]);
        assert!((got - mean).abs() < 0.01 * largest.max(1e-9), "mean {got}");
        let got = tensor.std(true).double_value(&[]);
        assert!((got - std).abs() <= 0.02 * std, "deviation {got}");
        let got = tensor.abs().max().double_value(&[]);
        assert!(got <= largest, "largest {got}");
    }

    #[test]
    fn moments_are_those_of_the_rule() {
        let _turn = crate::nn::draw_alone();
        check(Init::Zeros, 0.0, 0.0, 0.0);
        check(Init::Ones, 1.0, 0.0, 1.0);
        check(Init::Normal { std: 0.02 }, 0.0, 0.02, 0.12);
        check(Init::TruncatedNormal { std: 0.02 }, 0.0, 0.02, 0.12);
        // Clipped at two deviations: the deviation shrinks to 0.880.
        check(Init::TruncatedNormal { std: 1.0 }, 0.0, 0.8796, 2.0);
        check(Init::fan_in_uniform(25), 0.0, 0.2 / 3.0_f64.sqrt(), 0.2);
        check(
            Init::kaiming_normal_fan_out([64, 3, 7, 7]),
            0.0,
            (2.0 / (64.0 * 49.0_f64)).sqrt(),
            0.2,
        );
    }
}
