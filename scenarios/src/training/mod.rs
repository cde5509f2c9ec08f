//! One step of training or inference, with nothing in it that waits for the device.

mod graph;
mod log;
mod offload;
mod optimizer;
mod pipelined;
mod precision;
mod scaler;
mod short;

use std::ops::Range;

use libtorch::{
    autograd,
    distributed::ProcessGroup,
    keep::{Form, Keeper},
    mover::Mover,
};
use protocol::{
    Activations, Gradients, OptimizerState, Parallel, Precision, Retain, Task, Variant,
};
use tch::{Device, Kind, Tensor};

use self::offload::OnHost;
pub use self::{
    graph::{Captured, EAGER_STEPS},
    log::StepLog,
    optimizer::Optimizer,
    precision::Arithmetic,
    scaler::LossScaler,
};
use crate::{
    Error,
    data::Batch,
    models::{self, Built, KeyValues, Network, window},
    nn::{self, Module, Parameters, Pass},
    parallel::{Ddp, Pipeline, Sharded, Together},
};

pub trait Feed {
    /// Micro-batch number `index` of a step, from 0.
    fn micro_batch(&mut self, index: usize) -> Result<Batch, Error>;
}

/// The same few batches in turn.
impl Feed for &[Batch] {
    fn micro_batch(&mut self, index: usize) -> Result<Batch, Error> {
        Ok(self[index % self.len()].shallow_clone())
    }
}

/// Is told how far a training step has come. Nothing in it may wait for the device while steps
/// are measured.
pub trait Observer {
    /// A micro-batch, counted from 0, is on the device.
    fn data(&mut self, _micro_batch: usize) -> libtorch::Result<()> {
        Ok(())
    }
    /// A micro-batch has gone forward.
    fn forward(&mut self, _micro_batch: usize) -> libtorch::Result<()> {
        Ok(())
    }
    /// A micro-batch has gone backward.
    fn backward(&mut self, _micro_batch: usize) -> libtorch::Result<()> {
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// A model at work: what the step loop runs again and again.
#[derive(Debug)]
pub struct Work {
    network: Box<dyn Network>,
    parameters: Parameters,
    arithmetic: Arithmetic,
    pass: Pass<'static>,
    /// Where something is offloaded.
    mover: Option<Mover>,
    /// Where blocks keep something otherwise than as it is.
    keeper: Option<Keeper>,
    training: Option<Training>,
    gradients: Gradients,
    /// Edges of the windows that slide over volumes.
    window: Option<i64>,
    retain: Retain,
    /// What steps kept for good.
    retained: Vec<Tensor>,
}

/// What training adds to inference.
#[derive(Debug)]
struct Training {
    /// The trained tensors, in the order of their names.
    trained: Vec<Tensor>,
    optimizer: Optimizer,
    /// What the optimizer works on, where it is offloaded.
    on_host: Option<OnHost>,
    /// The parameters that each of its steps is about, and the form of their moments.
    groups: Vec<(Range<usize>, OptimizerState)>,
    scaler: Option<LossScaler>,
    /// Where ranks train one model.
    together: Option<Together>,
    /// Micro-batches in one optimizer step.
    accumulation: usize,
    /// Known after the first step, which checks that no gradient is missing.
    gradient_bytes: Option<u64>,
}

impl Work {
    /// Sets the model up for the task and variant.
    pub fn new(
        mut built: Built,
        task: Task,
        variant: &Variant,
        device: Device,
    ) -> Result<Self, Error> {
        models::adapt(&mut built, variant)?;
        let Built {
            network,
            parameters,
        } = built;
        let mover = offload::mover(variant, &parameters, device)?;
        let training = if task == Task::Training {
            let trained: Vec<Tensor> = parameters
                .trained()
                .iter()
                .map(|(_, tensor)| tensor.shallow_clone())
                .collect();
            let host = mover.as_ref().filter(|_| variant.offload.has_optimizer());
            let on_host = host.map(|mover| OnHost::new(mover, &trained)).transpose()?;
            let place = on_host.as_ref().map_or(device, |_| Device::Cpu);
            let scaler = (variant.precision == Precision::AmpFp16)
                .then(|| LossScaler::new(place))
                .transpose()?;
            let form = variant.optimizer_state;
            let groups = if on_host.is_none() && form == OptimizerState::Fp32 {
                vec![(0..trained.len(), form)]
            } else {
                offload::groups(parameters.trained(), form)
            };
            Some(Training {
                groups,
                on_host,
                optimizer: Optimizer::new(variant.optimizer),
                scaler,
                together: None,
                trained,
                accumulation: variant.accumulation.get() as usize,
                gradient_bytes: None,
            })
        } else {
            None
        };
        Ok(Self {
            keeper: keeper(variant, mover.as_ref(), &parameters)?,
            mover,
            network,
            parameters,
            arithmetic: Arithmetic::new(variant.precision, device)?,
            pass: Pass {
                training: training.is_some(),
                checkpointing: variant.checkpointing,
                gate: None,
                stage: None,
            },
            training,
            gradients: variant.gradients,
            window: variant.patch_size.map(|edge| edge.get().into()),
            retain: variant.retain,
            retained: Vec::new(),
        })
    }

    /// Trains one model with the other ranks from now on.
    pub fn train_together(
        &mut self,
        group: ProcessGroup,
        rank: u32,
        variant: &Variant,
    ) -> Result<(), Error> {
        let Some(training) = &mut self.training else {
            return Ok(());
        };
        training.together = match variant.parallel {
            Parallel::None => None,
            Parallel::Ddp => Some(Together::Averaged(Ddp::new(group, &self.parameters)?)),
            Parallel::Sharded => {
                let (parameters, precision) = (&self.parameters, variant.precision);
                let sharded = Sharded::new(group, rank, parameters, precision)?;
                training.trained = sharded.shards();
                training.groups = vec![(0..training.trained.len(), variant.optimizer_state)];
                Some(Together::Sharded(sharded))
            }
            Parallel::Pipeline => self.parameters.stage().map(|stage| {
                let device = self.parameters.placement().device;
                Together::Pipelined(Pipeline::new(group, stage, device, self.parameters.tied()))
            }),
        };
        Ok(())
    }

    /// Whether steps from now on exchange anything, where ranks train one model.
    pub fn set_exchanges(&mut self, exchanges: bool) -> Result<(), Error> {
        match self.training.as_mut().and_then(|of| of.together.as_mut()) {
            Some(Together::Averaged(ddp)) => ddp.set_exchanges(exchanges),
            Some(Together::Sharded(sharded)) => sharded.set_exchanges(exchanges),
            Some(Together::Pipelined(pipeline)) => pipeline.set_exchanges(exchanges)?,
            None => {}
        }
        Ok(())
    }

    fn pipeline(&self) -> Option<&Pipeline> {
        match self.training.as_ref()?.together.as_ref()? {
            Together::Pipelined(pipeline) => Some(pipeline),
            _ => None,
        }
    }

    /// Whether it is a stage of a model.
    pub fn is_stage(&self) -> bool {
        self.pipeline().is_some()
    }

    /// Gives the log the losses of all steps, where another rank has them.
    pub fn share_losses(&self, log: &StepLog) -> Result<(), Error> {
        match self.pipeline() {
            Some(pipeline) => Ok(pipeline.share(log.all_losses())?),
            None => Ok(()),
        }
    }

    /// Bytes that a rank must send at least in a step, where ranks train one model.
    pub fn sent_bytes(&self) -> Option<f64> {
        let training = self.training.as_ref()?;
        Some(match training.together.as_ref()? {
            Together::Averaged(ddp) => ddp.sent_bytes(),
            Together::Sharded(sharded) => sharded.sent_bytes() * training.accumulation as f64,
            Together::Pipelined(pipeline) => pipeline.sent_bytes(training.accumulation),
        })
    }

    /// Bytes of the parameters that this rank keeps.
    pub fn parameter_bytes(&self) -> u64 {
        match self.training.as_ref().and_then(|of| of.together.as_ref()) {
            Some(Together::Sharded(sharded)) => sharded.shards().iter().map(nn::bytes).sum(),
            _ => self.parameters.bytes(),
        }
    }

    /// How many different micro-batches the steps want: two where gradients accumulate, so
    /// that what is summed differs, else one.
    pub fn wanted_micro_batches(&self) -> usize {
        self.training
            .as_ref()
            .map_or(1, |training| training.accumulation.min(2))
    }

    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Micro-batches in one optimizer step; 1 for inference.
    pub fn accumulation(&self) -> usize {
        self.training
            .as_ref()
            .map_or(1, |training| training.accumulation)
    }

    /// The trained tensors; none for inference.
    pub fn trained(&self) -> &[Tensor] {
        self.training
            .as_ref()
            .map_or(&[], |training| &training.trained)
    }

    /// Bytes that were copied so far for what is offloaded, and host memory that is pinned for it.
    pub fn moved(&self) -> Option<(u64, u64)> {
        self.mover.as_ref().map(Mover::counts)
    }

    /// Bytes of all gradients that stay, once a step has made them.
    pub fn gradient_bytes(&self) -> Option<u64> {
        self.training.as_ref()?.gradient_bytes
    }

    /// A digest of all bits of the gradients, the same in whatever order a device adds; `None` for
    /// inference. Waits for the device.
    ///
    /// Sums of the bits of each tensor as whole numbers, each 31 times the one before, to 52 bits:
    /// a value holds no more.
    pub fn gradient_digest(&self) -> Result<Option<f64>, Error> {
        let mut digest = 0_i64;
        let on_host = self.training.as_ref().and_then(|all| all.on_host.as_ref());
        for (place, tensor) in self.trained().iter().enumerate() {
            let gradient = match on_host {
                Some(host) => Some(host.gradients[place].shallow_clone()),
                None => autograd::gradient(tensor)?,
            };
            let Some(gradient) = gradient else {
                continue;
            };
            let bits = match gradient.kind() {
                Kind::Float => Kind::Int,
                _ => Kind::Int16,
            };
            let sum = gradient.f_view_dtype(bits)?.f_sum(Kind::Int64)?;
            digest = digest.wrapping_mul(31).wrapping_add(i64::try_from(&sum)?);
        }
        let is_training = self.training.is_some();
        Ok(is_training.then_some((digest & ((1 << 52) - 1)) as f64))
    }

    /// Bytes of the optimizer's state on the device, once a step has made it.
    pub fn optimizer_bytes(&self) -> Option<u64> {
        let training = self.training.as_ref()?;
        let bytes = training.optimizer.bytes(training.trained.len())?;
        Some(training.on_host.as_ref().map_or(bytes, |_| 0))
    }

    /// Bytes of the optimizer's state for the trained tensor at this place.
    pub(crate) fn optimizer_bytes_of(&self, place: usize) -> u64 {
        let training = self.training.as_ref();
        let training = training.filter(|training| training.on_host.is_none());
        training.map_or(0, |training| training.optimizer.bytes_of(place))
    }

    /// The loss scaler's scale now; amp-fp16 training only. Waits for the device.
    pub fn loss_scale(&self) -> Result<Option<f64>, Error> {
        let scaler = self
            .training
            .as_ref()
            .and_then(|training| training.scaler.as_ref());
        Ok(scaler.map(LossScaler::value).transpose()?)
    }

    /// One optimizer step, or one forward for inference. Takes the micro-batches in turn.
    pub fn step(
        &mut self,
        number: u32,
        mut batches: &[Batch],
        log: &StepLog,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.step_fed(number, &mut batches, log, observer)
    }

    /// As [`Self::step`], on the micro-batches that `feed` gives.
    pub fn step_fed(
        &mut self,
        number: u32,
        feed: &mut dyn Feed,
        log: &StepLog,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        if self.training.is_none() {
            return self.infer(&feed.micro_batch(0)?);
        }
        self.accumulate(number, feed, log, observer)?;
        self.descend(number, log)
    }

    fn infer(&mut self, batch: &Batch) -> Result<(), Error> {
        let forward = || {
            let (network, input) = (&*self.network, &batch.input);
            self.arithmetic.autocast(|| match self.window {
                Some(edge) => window::slide(network, input, edge, self.pass),
                None => network.forward(input, self.pass),
            })
        };
        let scores = match self.gradients {
            Gradients::Tracked => forward(),
            Gradients::NoGrad => tch::no_grad(forward),
            Gradients::InferenceMode => autograd::inference_mode(forward)?,
        }?;
        match self.retain {
            Retain::None => {}
            Retain::Graph => self.retained.push(scores),
            Retain::Outputs => self.retained.push(scores.f_detach()?),
        }
        Ok(())
    }

    /// The scores of what comes after these tokens and those seen, `[batch, 1, words]`, without
    /// gradients.
    pub fn next_scores(&self, tokens: &Tensor, seen: &mut KeyValues) -> Result<Tensor, Error> {
        let _untracked = tch::no_grad_guard();
        let scores = self
            .arithmetic
            .autocast(|| self.network.next_scores(tokens, seen))?;
        Ok(scores)
    }

    /// Forward and backward of every micro-batch, as many as the variant accumulates. The
    /// gradients of the step before go first, so that theirs is the memory that forward
    /// takes, as with `PyTorch`'s `zero_grad(set_to_none=True)` at the top of a loop.
    pub fn accumulate(
        &mut self,
        number: u32,
        feed: &mut dyn Feed,
        log: &StepLog,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let Some(training) = &mut self.training else {
            return Ok(());
        };
        autograd::zero_grad(&training.trained)?;
        if let Some(Together::Sharded(sharded)) = &training.together {
            sharded.drop_gradients();
        }
        if let Some(Together::Pipelined(_)) = &training.together {
            return self.pass_stage(number, feed, log, observer);
        }
        for index in 0..training.accumulation {
            let batch = feed.micro_batch(index)?;
            observer.data(index)?;
            match &mut training.together {
                Some(Together::Averaged(ddp)) => {
                    ddp.before_forward(index + 1 == training.accumulation)?;
                }
                Some(Together::Sharded(sharded)) => sharded.before_forward()?,
                Some(Together::Pipelined(_)) | None => {}
            }
            let pass = Pass {
                gate: match &training.together {
                    Some(Together::Sharded(sharded)) => Some(sharded),
                    _ => None,
                },
                ..self.pass
            };
            if let (Some(mover), Some(_)) = (&self.mover, &training.on_host) {
                mover.send(index + 1 == training.accumulation);
            }
            let kept = self.keeper.as_ref().map(Keeper::pass).transpose()?;
            let (retain, retained) = (self.retain, &mut self.retained);
            let mut loss = self.arithmetic.autocast(|| {
                let scores = self.network.forward(&batch.input, pass)?;
                if retain == Retain::Outputs {
                    retained.push(scores.f_detach()?);
                }
                let _entered = Module::LOSS.enter();
                self.network.loss(scores, &batch.labels)
            })?;
            drop(kept);
            if training.accumulation > 1 {
                loss = loss.f_div_scalar(training.accumulation as f64)?;
            }
            log.add_loss(number, &loss.f_detach()?)?;
            observer.forward(index)?;
            if let Some(scaler) = &training.scaler {
                loss = scaler.scale(&loss)?;
            }
            if let Some(Together::Averaged(ddp)) = &mut training.together {
                ddp.before_backward()?;
            }
            autograd::backward(&loss)?;
            if let Some(Together::Sharded(sharded)) = &training.together {
                sharded.after_backward()?;
            }
            if self.retain == Retain::Graph {
                self.retained.push(loss);
            } else {
                drop(loss);
            }
            observer.backward(index)?;
        }
        Ok(())
    }

    fn descend(&mut self, number: u32, log: &StepLog) -> Result<(), Error> {
        let Some(training) = &mut self.training else {
            return Ok(());
        };
        let on_device: Vec<Tensor>;
        let (parameters, gradients) =
            if let (Some(host), Some(mover)) = (&training.on_host, &self.mover) {
                host.receive(mover, &self.parameters)?;
                training.gradient_bytes = Some(0);
                (&host.parameters, &host.gradients)
            } else {
                on_device = if let Some(Together::Sharded(sharded)) = &training.together {
                    sharded.gradients()
                } else {
                    if training.gradient_bytes.is_none() {
                        check_gradients(&self.parameters)?;
                    }
                    training.trained.iter().map(Tensor::grad).collect()
                };
                training.gradient_bytes = Some(on_device.iter().map(nn::bytes).sum());
                (&training.trained, &on_device)
            };
        if let Some(scaler) = &mut training.scaler {
            scaler.unscale(gradients)?;
        }
        let found_inf = training.scaler.as_ref().map(LossScaler::found_inf);
        for (of, form) in &training.groups {
            let optimizer = &mut training.optimizer;
            optimizer.step(parameters, gradients, found_inf, (of.clone(), *form))?;
            if let (Some(mover), Some(_)) = (&self.mover, &training.on_host) {
                mover.bring_back(&training.trained[of.clone()], &parameters[of.clone()])?;
            }
        }
        if let Some(scaler) = &mut training.scaler {
            log.add_skip(number, scaler.found_inf())?;
            scaler.update()?;
        }
        Ok(())
    }
}

/// How blocks keep what backward needs, where that is not as it is.
fn keeper(
    variant: &Variant,
    mover: Option<&Mover>,
    parameters: &Parameters,
) -> libtorch::Result<Option<Keeper>> {
    let mover = mover.filter(|_| variant.offload.has_activations());
    let form = match variant.activations {
        Activations::Plain => Form::Plain,
        Activations::Bf16 => Form::Bf16,
        Activations::Int8 => Form::Int8,
    };
    if mover.is_none() && form == Form::Plain {
        return Ok(None);
    }
    let named = [
        parameters.trained(),
        parameters.frozen(),
        parameters.buffers(),
    ];
    let weights: Vec<&Tensor> = named
        .into_iter()
        .flatten()
        .map(|(_, tensor)| tensor)
        .collect();
    Keeper::new(mover, form, &weights).map(Some)
}

/// Refuses a trained parameter without a gradient.
fn check_gradients(parameters: &Parameters) -> Result<(), Error> {
    for (name, tensor) in parameters.trained() {
        if autograd::gradient(tensor)?.is_none() {
            return Err(Error::GradientMissing { name: name.clone() });
        }
    }
    Ok(())
}
