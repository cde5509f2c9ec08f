//! The optimizers, through libtorch's fused in-place steps.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
};

use libtorch::{
    Result,
    optim::{AdamW, Sgd, fused_adamw_, fused_sgd_},
};
use protocol::{Optimizer as Choice, OptimizerState as Form};
use tch::{Kind, Tensor};

use super::short::Short;
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
    /// By the first of the parameters that it is of.
    states: BTreeMap<usize, State>,
}

/// What steps keep for each parameter; SGD has averages alone, its momentum.
#[derive(Debug)]
enum State {
    Plain(Moments),
    /// The two averages, and the counters.
    Short(Short, Short, Vec<Tensor>),
}

#[derive(Debug, Default)]
struct Moments {
    averages: Vec<Tensor>,
    squares: Vec<Tensor>,
    /// One counter a parameter, as `torch.optim.AdamW(fused=True)` has.
    steps: Vec<Tensor>,
}

impl State {
    fn new(choice: Choice, form: Form, parameters: &[Tensor]) -> Result<Self> {
        let _untracked = tch::no_grad_guard();
        let mut state = Moments::default();
        let is_short = form != Form::Fp32;
        for parameter in parameters {
            if choice == Choice::Adamw {
                let options = (Kind::Float, parameter.device());
                state.steps.push(Tensor::f_zeros([0_i64; 0], options)?);
            }
            if is_short {
                continue;
            }
            state.averages.push(parameter.f_zeros_like()?);
            if choice == Choice::Adamw {
                state.squares.push(parameter.f_zeros_like()?);
            }
        }
        if !is_short {
            return Ok(Self::Plain(state));
        }
        let short = |is_signed| Short::new(form, parameters, is_signed);
        Ok(Self::Short(short(true)?, short(false)?, state.steps))
    }

    fn step(
        &mut self,
        choice: Choice,
        parameters: &[Tensor],
        gradients: &[Tensor],
        found_inf: Option<&Tensor>,
    ) -> Result<()> {
        match (self, choice) {
            // Zeros plus the first gradient are the gradient, so the first step is like any
            // other, and safe to skip where a gradient is not finite.
            (Self::Plain(state), Choice::SgdMomentum) => {
                fused_sgd_(&SGD, parameters, gradients, &state.averages, found_inf)
            }
            (Self::Plain(state), Choice::Adamw) => fused_adamw_(
                &ADAMW,
                parameters,
                gradients,
                &state.averages,
                &state.squares,
                &state.steps,
                found_inf,
            ),
            (Self::Short(averages, squares, steps), _) => {
                let _untracked = tch::no_grad_guard();
                let (first, firsts) = averages.open(parameters)?;
                let (second, seconds) = squares.open(parameters)?;
                fused_adamw_(
                    &ADAMW, parameters, gradients, &firsts, &seconds, steps, found_inf,
                )?;
                averages.close(&first)?;
                squares.close(&second)
            }
        }
    }

    /// Bytes of the parameter at this place among those that the state is of; `None` where it is of
    /// fewer.
    fn bytes_of(&self, place: usize) -> Option<u64> {
        let of = |all: &[Tensor]| all.get(place).map(nn::bytes);
        match self {
            Self::Plain(state) => {
                let more = [&state.squares, &state.steps];
                let more = more.into_iter().filter_map(|all| of(all));
                Some(of(&state.averages)? + more.sum::<u64>())
            }
            Self::Short(averages, squares, steps) => {
                let counter = of(steps)?;
                Some(counter + averages.bytes_of(place) + squares.bytes_of(place))
            }
        }
    }
}

impl Optimizer {
    /// Without state yet.
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            states: BTreeMap::new(),
        }
    }

    /// Moves those of the parameters that lie within a range, in place; the same ranges in every
    /// step, with moments in the form given.
    /// Does nothing, without asking the device, where `found_inf`, which the scaler sets, is 1.
    pub fn step(
        &mut self,
        parameters: &[Tensor],
        gradients: &[Tensor],
        found_inf: Option<&Tensor>,
        (of, form): (Range<usize>, Form),
    ) -> Result<()> {
        let (begin, parameters, gradients) = (of.start, &parameters[of.clone()], &gradients[of]);
        let state = match self.states.entry(begin) {
            Entry::Occupied(state) => state.into_mut(),
            Entry::Vacant(place) => place.insert(State::new(self.choice, form, parameters)?),
        };
        state.step(self.choice, parameters, gradients, found_inf)
    }

    /// Bytes of the state of the parameter at this place; 0 before the first step.
    pub(super) fn bytes_of(&self, place: usize) -> u64 {
        let state = self.states.range(..=place).next_back();
        let bytes = state.and_then(|(begin, state)| state.bytes_of(place - begin));
        bytes.unwrap_or(0)
    }

    /// Bytes of the state of so many parameters; `None` before the first step.
    pub fn bytes(&self, parameters: usize) -> Option<u64> {
        let is_there = !self.states.is_empty();
        is_there.then(|| (0..parameters).map(|place| self.bytes_of(place)).sum())
    }
}
