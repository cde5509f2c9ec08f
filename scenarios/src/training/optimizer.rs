//! The optimizers, through libtorch's fused in-place steps.

use std::ops::Range;

use libtorch::{
    Result,
    optim::{AdamW, Sgd, fused_adamw_, fused_sgd_},
};
use protocol::Optimizer as Choice;
use tch::{Kind, Tensor};

use crate::nn;

/// Small enough that every model learns its few micro-batches without a warm-up schedule.
const SGD: Sgd = Sgd {
    learning_rate: 0.01,
    momentum: 0.9,
    weight_decay: 1e-4,
};

const ADAMW: AdamW = AdamW {
    learning_rate: 1e-4,
    betas: [0.9, 0.999],
    epsilon: 1e-8,
    weight_decay: 1e-2,
};

/// An optimizer. Its state is made at its first step, parameter by parameter, as `PyTorch` does:
/// when and in which order memory is taken shapes what the caching allocator holds.
#[derive(Debug)]
pub struct Optimizer {
    choice: Choice,
    state: Option<State>,
}

/// What steps keep for each parameter; SGD has averages alone, its momentum.
#[derive(Debug, Default)]
struct State {
    averages: Vec<Tensor>,
    squares: Vec<Tensor>,
    /// One counter a parameter, as `torch.optim.AdamW(fused=True)` has.
    steps: Vec<Tensor>,
}

impl State {
    fn new(choice: Choice, parameters: &[Tensor]) -> Result<Self> {
        let _untracked = tch::no_grad_guard();
        let mut state = Self::default();
        for parameter in parameters {
            if choice == Choice::Adamw {
                let options = (Kind::Float, parameter.device());
                state.steps.push(Tensor::f_zeros([0_i64; 0], options)?);
            }
            state.averages.push(parameter.f_zeros_like()?);
            if choice == Choice::Adamw {
                state.squares.push(parameter.f_zeros_like()?);
            }
        }
        Ok(state)
    }
}

impl Optimizer {
    /// Without state yet.
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            state: None,
        }
    }

    /// Moves those of the parameters that lie within `of`, in place. Does nothing, without asking
    /// the device, where `found_inf`, which the scaler sets, is 1.
    pub fn step(
        &mut self,
        parameters: &[Tensor],
        gradients: &[Tensor],
        found_inf: Option<&Tensor>,
        of: Range<usize>,
    ) -> Result<()> {
        let state = match &mut self.state {
            Some(state) => state,
            state => state.insert(State::new(self.choice, parameters)?),
        };
        let State {
            averages,
            squares,
            steps,
        } = state;
        let (parameters, gradients) = (&parameters[of.clone()], &gradients[of.clone()]);
        let averages = &averages[of.clone()];
        match self.choice {
            // Zeros plus the first gradient are the gradient, so the first step is like any
            // other, and safe to skip where a gradient is not finite.
            Choice::SgdMomentum => fused_sgd_(&SGD, parameters, gradients, averages, found_inf),
            Choice::Adamw => fused_adamw_(
                &ADAMW,
                parameters,
                gradients,
                averages,
                &squares[of.clone()],
                &steps[of],
                found_inf,
            ),
        }
    }

    /// Bytes of the state of the parameter at this place; 0 before the first step.
    pub(super) fn bytes_of(&self, place: usize) -> u64 {
        let state = self.state.iter();
        let all = state.flat_map(|state| [&state.averages, &state.squares, &state.steps]);
        all.filter_map(|one| one.get(place)).map(nn::bytes).sum()
    }

    /// Bytes of the state; `None` before the first step.
    pub fn bytes(&self) -> Option<u64> {
        let State {
            averages,
            squares,
            steps,
        } = self.state.as_ref()?;
        let all = averages.iter().chain(squares).chain(steps);
        Some(all.map(nn::bytes).sum())
    }
}
