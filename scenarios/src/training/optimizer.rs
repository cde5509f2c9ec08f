//! The optimizers, through libtorch's fused in-place steps.

use libtorch::{
    Result,
    optim::{AdamW, Scaling, Sgd, fused_adamw_, fused_sgd_},
};
use protocol::Optimizer as Choice;
use tch::{Kind, Tensor};

use crate::nn;

/// Small enough that every model learns its few micro-batches without a warm-up schedule.
const SGD: Sgd = Sgd {
    learning_rate: 0.01,
    momentum: 0.9,
    dampening: 0.0,
    weight_decay: 1e-4,
    nesterov: false,
    maximize: false,
};

const ADAMW: AdamW = AdamW {
    learning_rate: 1e-4,
    betas: (0.9, 0.999),
    epsilon: 1e-8,
    weight_decay: 1e-2,
    maximize: false,
};

/// An optimizer. Its state is made at its first step, parameter by parameter, as `PyTorch` does:
/// when and in which order memory is taken shapes what the caching allocator holds.
#[derive(Debug)]
pub struct Optimizer {
    choice: Choice,
    state: Option<State>,
}

#[derive(Debug)]
enum State {
    Sgd {
        momentum: Vec<Tensor>,
    },
    AdamW {
        exp_avgs: Vec<Tensor>,
        exp_avg_sqs: Vec<Tensor>,
        /// One counter a parameter, as `torch.optim.AdamW(fused=True)` has.
        steps: Vec<Tensor>,
    },
}

impl State {
    fn new(choice: Choice, parameters: &[Tensor]) -> Result<Self> {
        let _untracked = tch::no_grad_guard();
        let mut momentum = Vec::new();
        let (mut exp_avgs, mut exp_avg_sqs, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        for parameter in parameters {
            match choice {
                Choice::SgdMomentum => momentum.push(parameter.f_zeros_like()?),
                Choice::Adamw => {
                    let options = (Kind::Float, parameter.device());
                    steps.push(Tensor::f_zeros([0_i64; 0], options)?);
                    exp_avgs.push(parameter.f_zeros_like()?);
                    exp_avg_sqs.push(parameter.f_zeros_like()?);
                }
            }
        }
        Ok(match choice {
            Choice::SgdMomentum => Self::Sgd { momentum },
            Choice::Adamw => Self::AdamW {
                exp_avgs,
                exp_avg_sqs,
                steps,
            },
        })
    }
}

impl Optimizer {
    /// Without state yet.
    #[must_use]
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            state: None,
        }
    }

    /// Moves the parameters in place. Does nothing, without asking the device, where the
    /// scaler found a gradient that is not finite.
    pub fn step(
        &mut self,
        parameters: &[Tensor],
        gradients: &[Tensor],
        scaling: Scaling<'_>,
    ) -> Result<()> {
        let state = match &mut self.state {
            Some(state) => state,
            state => state.insert(State::new(self.choice, parameters)?),
        };
        match state {
            State::Sgd { momentum } => {
                // Zeros plus the first gradient are the gradient, so the first step is like
                // any other, and safe to skip where a gradient is not finite.
                let first = false;
                fused_sgd_(&SGD, parameters, gradients, momentum, first, scaling)
            }
            State::AdamW {
                exp_avgs,
                exp_avg_sqs,
                steps,
            } => fused_adamw_(
                &ADAMW,
                parameters,
                gradients,
                exp_avgs,
                exp_avg_sqs,
                steps,
                scaling,
            ),
        }
    }

    /// Bytes of the state; `None` before the first step.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let sum = |tensors: &[Tensor]| tensors.iter().map(nn::bytes).sum::<u64>();
        Some(match self.state.as_ref()? {
            State::Sgd { momentum } => sum(momentum),
            State::AdamW {
                exp_avgs,
                exp_avg_sqs,
                steps,
            } => sum(exp_avgs) + sum(exp_avg_sqs) + sum(steps),
        })
    }
}
