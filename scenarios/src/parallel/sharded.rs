//! Parameters, gradients and optimizer state in shards, a block of the model at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtorch::{
    Result, autograd,
    distributed::{Collective, ProcessGroup, Work, on_gradient, resize_storage},
};
use protocol::Precision;
use tch::{Kind, Tensor};

use crate::{
    nn::{self, Gate, Parameters, block_of},
    training::Arithmetic,
};

/// As Python's `fully_shard` on each block and then on the model: a rank keeps an `n`-th of each
/// block's parameters, one after the other, of their gradients and of the optimizer's state. A block's
/// parameters are gathered before its forward and before its backward, the next block's meanwhile,
/// and given back after each; its gradients are averaged in single precision, and each rank gets its
/// part. What lies outside of all blocks stays from the beginning of forward to the end of backward.
///
/// Under autocast to bfloat16 the gathered parameters are of this type, as with
/// `MixedPrecisionPolicy(param_dtype=bfloat16, reduce_dtype=float32)`, and the shards stay of single
/// precision.
#[derive(Debug, Clone)]
pub struct Sharded(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    group: ProcessGroup,
    /// Those of the blocks in order, and at last what lies outside of them.
    units: Vec<Unit>,
    exchanges: bool,
    rank: i64,
}

/// The parameters that are gathered together.
#[derive(Debug)]
struct Unit {
    parameters: Vec<Tensor>,
    /// All of them, flat and filled up to equal parts; without memory while `presence` is `Away`.
    whole: Tensor,
    bytes: usize,
    shard: Tensor,
    gradient: Option<Tensor>,
    presence: Presence,
    /// A reduce-scatter on its way, what it writes and what it reads.
    reducing: Option<(Option<Work>, Tensor, Tensor)>,
}

#[derive(Debug)]
enum Presence {
    Away,
    /// With what is read until then.
    Coming(
        Work,
        #[expect(dead_code, reason = "kept, and read by the collective")] Tensor,
    ),
    There,
}

impl Unit {
    fn new(parameters: Vec<Tensor>, kind: Kind, rank: i64, world: i64) -> Result<Self> {
        let _untracked = tch::no_grad_guard();
        let values = |of: &Tensor| i64::try_from(of.numel()).unwrap_or(i64::MAX);
        let all: i64 = parameters.iter().map(values).sum();
        let part = (all + world - 1) / world;
        let first = &parameters[0];
        let options = (first.f_kind()?, first.device());
        let flat = Tensor::f_zeros([part * world], options)?;
        let whole = Tensor::f_zeros([part * world], (kind, first.device()))?;
        let mut begin = 0;
        for parameter in &parameters {
            let length = values(parameter);
            flat.f_narrow(0, begin, length)?
                .f_copy_(&parameter.f_reshape([-1])?)?;
            let view = whole
                .f_narrow(0, begin, length)?
                .f_view(&*parameter.size())?;
            parameter.shallow_clone().f_set_data(&view)?;
            begin += length;
        }
        let bytes = usize::try_from(nn::bytes(&whole)).unwrap_or(usize::MAX);
        resize_storage(&whole, 0)?;
        Ok(Self {
            shard: flat.f_narrow(0, rank * part, part)?.f_detach_copy()?,
            parameters,
            whole,
            bytes,
            gradient: None,
            presence: Presence::Away,
            reducing: None,
        })
    }

    fn part(&self) -> i64 {
        self.shard.size()[0]
    }
}

impl State {
    /// Has the parameters come, unless they do already.
    fn call(&mut self, unit: usize) -> Result<()> {
        let _untracked = tch::no_grad_guard();
        let (group, rank, exchanges) = (self.group, self.rank, self.exchanges);
        let unit = &mut self.units[unit];
        if !matches!(unit.presence, Presence::Away) {
            return Ok(());
        }
        resize_storage(&unit.whole, unit.bytes)?;
        let own = unit.shard.f_to_kind(unit.whole.f_kind()?)?;
        unit.presence = if exchanges {
            let work = group.start(Collective::AllGather, &unit.whole, Some(&own))?;
            Presence::Coming(work, own)
        } else {
            let part = unit.part();
            unit.whole.f_narrow(0, rank * part, part)?.f_copy_(&own)?;
            Presence::There
        };
        Ok(())
    }

    /// The parameters are there from now on.
    fn arrive(&mut self, unit: usize) -> Result<()> {
        self.call(unit)?;
        let unit = &mut self.units[unit];
        if let Presence::Coming(work, _) = &unit.presence {
            work.wait()?;
            unit.presence = Presence::There;
        }
        Ok(())
    }

    fn leave(&mut self, unit: usize) -> Result<()> {
        // What nobody has waited for would be written into memory of others.
        self.arrive(unit)?;
        let unit = &mut self.units[unit];
        unit.presence = Presence::Away;
        resize_storage(&unit.whole, 0)
    }

    /// Begins to average the gradients over all ranks, a part to each.
    fn reduce(&mut self, unit: usize) -> Result<()> {
        let _untracked = tch::no_grad_guard();
        let (group, rank, exchanges) = (self.group, self.rank, self.exchanges);
        let unit = &mut self.units[unit];
        let options = (Kind::Float, unit.shard.device());
        let flat = Tensor::f_zeros([unit.whole.size()[0]], options)?;
        let mut begin = 0;
        for parameter in &unit.parameters {
            let length = i64::try_from(parameter.numel()).unwrap_or(i64::MAX);
            if let Some(gradient) = autograd::gradient(parameter)? {
                flat.f_narrow(0, begin, length)?
                    .f_copy_(&gradient.f_reshape([-1])?)?;
            }
            begin += length;
        }
        autograd::zero_grad(&unit.parameters)?;
        let mut flat = flat;
        let _ = flat.f_div_scalar_(f64::from(group.world()))?;
        let part = unit.part();
        unit.reducing = Some(if exchanges {
            let mean = Tensor::f_empty([part], options)?;
            let work = group.start(Collective::ReduceScatter, &mean, Some(&flat))?;
            (Some(work), mean, flat)
        } else {
            (
                None,
                flat.f_narrow(0, rank * part, part)?.f_detach_copy()?,
                flat,
            )
        });
        Ok(())
    }

    /// Adds the averaged gradients to what earlier micro-batches gave.
    fn settle(&mut self, unit: usize) -> Result<()> {
        let unit = &mut self.units[unit];
        let Some((work, mean, _)) = unit.reducing.take() else {
            return Ok(());
        };
        if let Some(work) = work {
            work.wait()?;
        }
        let mean = mean.f_to_kind(unit.shard.f_kind()?)?;
        unit.gradient = Some(match unit.gradient.take() {
            Some(gradient) => gradient.f_add(&mean)?,
            None => mean,
        });
        Ok(())
    }

    /// Backward has the whole gradient of what block `block` reads, which ends its own.
    fn is_back_at(&mut self, block: usize) -> Result<()> {
        self.reduce(block)?;
        self.leave(block)?;
        let blocks = self.units.len() - 1;
        if block + 1 < blocks {
            self.settle(block + 1)?;
        }
        self.is_needed_back(block)
    }

    /// Backward goes on to the block before this one.
    fn is_needed_back(&mut self, block: usize) -> Result<()> {
        if block > 0 {
            self.arrive(block - 1)?;
        }
        if block > 1 {
            self.call(block - 2)?;
        }
        Ok(())
    }
}

impl Sharded {
    /// Takes the model's parameters in shards. Their tensors stay those of the model.
    pub fn new(
        group: ProcessGroup,
        rank: u32,
        parameters: &Parameters,
        precision: Precision,
    ) -> Result<Self> {
        let kind = match precision {
            Precision::AmpBf16 => Kind::BFloat16,
            precision => Arithmetic::kind(precision),
        };
        let mut names: Vec<&str> = Vec::new();
        let mut blocks: Vec<Vec<Tensor>> = Vec::new();
        let mut others = Vec::new();
        for (name, tensor) in parameters.trained() {
            let tensor = tensor.shallow_clone();
            let Some(name) = block_of(name) else {
                others.push(tensor);
                continue;
            };
            if names.last() != Some(&name) {
                names.push(name);
                blocks.push(Vec::new());
            }
            if let Some(block) = blocks.last_mut() {
                block.push(tensor);
            }
        }
        blocks.push(others);
        let (rank, world) = (i64::from(rank), i64::from(group.world()));
        let units = blocks
            .into_iter()
            .map(|all| Unit::new(all, kind, rank, world));
        Ok(Self(Arc::new(Mutex::new(State {
            group,
            units: units.collect::<Result<_>>()?,
            exchanges: true,
            rank,
        }))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What an error left half-done is no more used: the run ends with it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the optimizer moves.
    pub fn shards(&self) -> Vec<Tensor> {
        let state = self.state();
        state
            .units
            .iter()
            .map(|unit| unit.shard.shallow_clone())
            .collect()
    }

    /// The gradients of the shards, once backward is over.
    pub fn gradients(&self) -> Vec<Tensor> {
        let state = self.state();
        let all = state.units.iter().filter_map(|unit| unit.gradient.as_ref());
        all.map(Tensor::shallow_clone).collect()
    }

    pub fn drop_gradients(&self) {
        for unit in &mut self.state().units {
            unit.gradient = None;
        }
    }

    /// Whether steps from now on exchange anything.
    pub fn set_exchanges(&self, exchanges: bool) {
        self.state().exchanges = exchanges;
    }

    /// A micro-batch begins.
    pub fn before_forward(&self) -> Result<()> {
        let mut state = self.state();
        let others = state.units.len() - 1;
        state.arrive(others)
    }

    /// Its backward is over.
    pub fn after_backward(&self) -> Result<()> {
        let mut state = self.state();
        let others = state.units.len() - 1;
        state.reduce(others)?;
        for unit in 0..=others {
            state.settle(unit)?;
        }
        state.leave(others)
    }

    /// Bytes that a rank must send at least for a micro-batch: of `n` ranks `(n - 1) / n` of the
    /// blocks' parameters twice, of the others once, and of all gradients.
    pub fn sent_bytes(&self) -> f64 {
        let state = self.state();
        let others = state.units.len() - 1;
        let of = |(place, unit): (usize, &Unit)| {
            let times = if place < others { 2 } else { 1 };
            (unit.bytes * times) as f64 + unit.whole.numel() as f64 * 4.0
        };
        let bytes: f64 = state.units.iter().enumerate().map(of).sum();
        let world = f64::from(state.group.world());
        bytes * (world - 1.0) / world
    }
}

impl Gate for Sharded {
    /// In the type of the parameters, as `MixedPrecisionPolicy` has it: else autocast shortens it
    /// for each product, and keeps every copy for backward.
    fn before(&self, block: usize, x: Tensor) -> Result<Tensor> {
        let mut state = self.state();
        let x = x.f_to_kind(state.units[block].whole.f_kind()?)?;
        state.arrive(block)?;
        if block + 2 < state.units.len() {
            state.call(block + 1)?;
        }
        drop(state);
        let all = self.clone();
        on_gradient(&x, move || all.state().is_back_at(block))?;
        Ok(x)
    }

    fn after(&self, block: usize) -> Result<()> {
        self.state().leave(block)
    }

    fn at_end(&self, x: &Tensor) -> Result<()> {
        let all = self.clone();
        let blocks = self.state().units.len() - 1;
        on_gradient(x, move || all.state().is_needed_back(blocks))
    }
}
