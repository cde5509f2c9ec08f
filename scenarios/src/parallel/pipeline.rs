//! A model in stages, a rank each, through which micro-batches pass.

use libtorch::{
    Result, autograd,
    distributed::{Collective, ProcessGroup, Work},
};
use tch::{Device, Kind, Tensor};

use crate::nn::{self, Stage};

const KINDS: [Kind; 3] = [Kind::Float, Kind::BFloat16, Kind::Half];
/// Most dimensions of an activation.
const DIMENSIONS: usize = 6;
/// A kind, the number of dimensions, sizes and strides.
const HEADER: usize = 2 + 2 * DIMENSIONS;

/// The schedule 1F1B (Narayanan et al., «`PipeDream`», 2019, without its weight versions): a rank goes
/// forward with as many micro-batches as ranks come after it, then in turn forward with one and
/// backward with the oldest, so that no more than these are kept. All of a step's are done before the
/// optimizer moves.
///
/// Activations and gradients go from one rank to the next by c10d's `send` and `recv`. Two ranks have
/// one communicator in both directions, which does one thing at a time, so both take the same order:
/// in turn with an activation to the next rank, its gradient of an older one is taken first.
#[derive(Debug)]
pub struct Pipeline {
    group: ProcessGroup,
    stage: Stage,
    device: Device,
    /// Of the activations from the rank before, and of those to the next; known from the first one
    /// on. Their gradients have the same.
    forms: [Option<Form>; 2],
    /// The last gradient on its way to the rank before.
    sent: Option<(Work, Tensor)>,
    tied: Vec<Tensor>,
    /// What stands for what would come, from either side, in steps that exchange nothing.
    stand_ins: Option<[Option<Tensor>; 2]>,
}

/// An activation that the next rank gets, until its gradient has come back.
#[derive(Debug)]
pub struct Sent(
    #[expect(dead_code, reason = "kept, and read by the send")] Tensor,
    Work,
);

/// How an activation lies in memory, without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Form {
    size: Vec<i64>,
    strides: Vec<i64>,
    kind: Kind,
}

impl Form {
    fn of(x: &Tensor) -> Result<Self> {
        let is_last = |x: &Tensor| -> Result<bool> {
            Ok(x.dim() == 4 && x.f_permute([0, 2, 3, 1])?.is_contiguous())
        };
        let x = if is_last(x)? {
            x.shallow_clone()
        } else {
            x.f_contiguous()?
        };
        Ok(Self {
            size: x.size(),
            strides: x.stride(),
            kind: x.f_kind()?,
        })
    }

    fn empty(&self, device: Device) -> Result<Tensor> {
        let options = (self.kind, device);
        Ok(Tensor::f_empty_strided(
            self.size.as_slice(),
            self.strides.as_slice(),
            options,
        )?)
    }

    /// The values of a tensor in this form, one after the other as they lie in memory.
    fn flat(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.f_detach()?;
        if x.stride() != self.strides {
            let mut moved = self.empty(x.device())?;
            moved.f_copy_(&x)?;
            x = moved;
        }
        let values = self.size.iter().product::<i64>();
        Ok(x.f_as_strided([values], [1], None)?)
    }

    fn bytes(&self) -> f64 {
        self.size.iter().product::<i64>() as f64 * self.kind.elt_size_in_bytes() as f64
    }

    fn to_header(&self, device: Device) -> Result<Tensor> {
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        let (Some(kind), dimensions @ ..=DIMENSIONS) = (kind, self.size.len()) else {
            return Err(libtorch::Error::Libtorch {
                message: format!("no activation of a pipeline: {self:?}"),
            });
        };
        let mut header = [0; HEADER];
        let numbers = [kind, dimensions].map(|number| i64::try_from(number).unwrap_or_default());
        header[..2].copy_from_slice(&numbers);
        header[2..2 + dimensions].copy_from_slice(&self.size);
        header[2 + DIMENSIONS..2 + DIMENSIONS + dimensions].copy_from_slice(&self.strides);
        Ok(Tensor::f_from_slice(&header)?.f_to_device(device)?)
    }

    fn from_header(header: &Tensor) -> Result<Self> {
        let header: Vec<i64> = Vec::try_from(header.f_to_device(Device::Cpu)?)?;
        let number = |place: usize| usize::try_from(header[place]).unwrap_or_default();
        let dimensions = number(1).min(DIMENSIONS);
        Ok(Self {
            size: header[2..2 + dimensions].to_vec(),
            strides: header[2 + DIMENSIONS..2 + DIMENSIONS + dimensions].to_vec(),
            kind: KINDS[number(0).min(KINDS.len() - 1)],
        })
    }
}

impl Pipeline {
    /// For this stage of a model, whose first and last one share the tied tensors.
    pub fn new(group: ProcessGroup, stage: Stage, device: Device, tied: &[Tensor]) -> Self {
        Self {
            group,
            stage,
            device,
            forms: [None, None],
            sent: None,
            tied: tied.iter().map(Tensor::shallow_clone).collect(),
            stand_ins: None,
        }
    }

    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Micro-batches that go forward before the first one goes backward.
    pub fn ahead(&self) -> usize {
        self.stage.world - 1 - self.stage.rank
    }

    fn peer(&self, next: bool) -> u32 {
        let rank = self.stage.rank;
        let peer = if next { rank + 1 } else { rank.wrapping_sub(1) };
        u32::try_from(peer).unwrap_or(u32::MAX)
    }

    /// Whether steps from now on exchange anything; those that do not compute on random values.
    pub fn set_exchanges(&mut self, exchanges: bool) -> Result<()> {
        let drawn = |form: &Option<Form>| -> Result<Option<Tensor>> {
            let Some(form) = form else { return Ok(None) };
            let mut values = form.empty(self.device)?;
            let _ = values.f_normal_(0.0, 1.0)?;
            Ok(Some(values))
        };
        self.stand_ins = None;
        if !exchanges {
            self.stand_ins = Some([drawn(&self.forms[0])?, drawn(&self.forms[1])?]);
        }
        Ok(())
    }

    fn receive(&self, form: &Form, next: bool) -> Result<Tensor> {
        if let Some([before, after]) = &self.stand_ins {
            let of = if next { after } else { before };
            return match of {
                Some(values) => Ok(values.f_detach()?),
                None => form.empty(self.device),
            };
        }
        let x = form.empty(self.device)?;
        let from = Collective::Receive(self.peer(next));
        self.group.run(from, &form.flat(&x)?, None)?;
        Ok(x)
    }

    fn send(&self, form: &Form, x: &Tensor, next: bool) -> Result<Option<(Work, Tensor)>> {
        if self.stand_ins.is_some() {
            return Ok(None);
        }
        let flat = form.flat(x)?;
        let work = self
            .group
            .start(Collective::Send(self.peer(next)), &flat, None)?;
        Ok(Some((work, flat)))
    }

    /// What the stage reads of the next micro-batch: the input, or what the rank before made of it.
    pub fn input(&mut self, input: &Tensor) -> Result<Tensor> {
        if self.stage.is_first() {
            return Ok(input.shallow_clone());
        }
        let form = if let Some(form) = self.forms[0].take() {
            form
        } else {
            let header = Tensor::f_from_slice(&[0_i64; HEADER])?;
            let header = header.f_to_device(self.device)?;
            let from = Collective::Receive(self.peer(false));
            self.group.run(from, &header, None)?;
            Form::from_header(&header)?
        };
        let x = self.receive(&form, false)?.f_set_requires_grad(true)?;
        self.forms[0] = Some(form);
        Ok(x)
    }

    /// Sends what the stage made of a micro-batch; nothing from the last one.
    pub fn output(&mut self, output: &Tensor) -> Result<Option<Sent>> {
        if self.stage.is_last() {
            return Ok(None);
        }
        let form = if let Some(form) = self.forms[1].take() {
            form
        } else {
            let form = Form::of(output)?;
            let to = Collective::Send(self.peer(true));
            self.group.run(to, &form.to_header(self.device)?, None)?;
            form
        };
        let sent = self.send(&form, output, true)?;
        self.forms[1] = Some(form);
        Ok(sent.map(|(work, flat)| Sent(flat, work)))
    }

    /// The gradient of the oldest micro-batch's output; `None` for the last stage, which has the loss.
    pub fn gradient(&self) -> Result<Option<Tensor>> {
        match &self.forms[1] {
            Some(form) => self.receive(form, true).map(Some),
            None => Ok(None),
        }
    }

    /// A micro-batch has gone backward from what was sent to what was read.
    pub fn done(&mut self, input: &Tensor, sent: Option<Sent>) -> Result<()> {
        if let Some(Sent(_, work)) = sent {
            work.wait()?;
        }
        self.arrived()?;
        let Some(form) = &self.forms[0] else {
            return Ok(());
        };
        let gradient = autograd::gradient(input)?.ok_or_else(|| libtorch::Error::Libtorch {
            message: "a stage gives what it read no gradient".to_owned(),
        })?;
        self.sent = self.send(form, &gradient, false)?;
        Ok(())
    }

    /// The rank before has the last gradient.
    fn arrived(&mut self) -> Result<()> {
        match self.sent.take() {
            Some((work, _)) => work.wait(),
            None => Ok(()),
        }
    }

    /// All micro-batches are done: adds up the gradients of what two ranks share.
    pub fn finish(&mut self) -> Result<()> {
        self.arrived()?;
        if self.stand_ins.is_some() {
            return Ok(());
        }
        let last = self.stage.world - 1;
        let peer = if self.stage.is_first() { last } else { 0 };
        let peer = u32::try_from(peer).unwrap_or(u32::MAX);
        for tensor in &self.tied {
            let Some(mut own) = autograd::gradient(tensor)? else {
                continue;
            };
            let _untracked = tch::no_grad_guard();
            let other = own.f_empty_like()?;
            let (to, from) = (Collective::Send(peer), Collective::Receive(peer));
            if self.stage.is_first() {
                self.group.run(to, &own, None)?;
                self.group.run(from, &other, None)?;
            } else {
                self.group.run(from, &other, None)?;
                self.group.run(to, &own, None)?;
            }
            let _ = own.f_add_(&other)?;
        }
        Ok(())
    }

    /// Bytes that this rank sends in a step of so many micro-batches.
    pub fn sent_bytes(&self, micro_batches: usize) -> f64 {
        let passed: f64 = self.forms.iter().flatten().map(Form::bytes).sum();
        let tied: u64 = self.tied.iter().map(nn::bytes).sum();
        passed * micro_batches as f64 + tied as f64
    }

    /// Gives all ranks the values that the last one has.
    pub fn share(&self, values: &Tensor) -> Result<()> {
        let last = u32::try_from(self.stage.world - 1).unwrap_or(u32::MAX);
        self.group.run(Collective::Broadcast(last), values, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_pass_as_they_lie_in_memory() {
        let options = (Kind::Float, Device::Cpu);
        let plain = Tensor::arange(2 * 3 * 4 * 5, options).view([2, 3, 4, 5]);
        let last = nn::in_format(plain.shallow_clone(), protocol::MemoryFormat::ChannelsLast);
        let last = last.unwrap();
        for x in [&plain, &last, &plain.transpose(1, 2), &plain.select(0, 1)] {
            let form = Form::of(x).unwrap();
            let header = form.to_header(Device::Cpu).unwrap();
            assert_eq!(Form::from_header(&header).unwrap(), form);
            let flat = form.flat(x).unwrap();
            let y = flat.as_strided(form.size.as_slice(), form.strides.as_slice(), None);
            assert_eq!(&y, x);
        }
        assert_eq!(Form::of(&last).unwrap().strides, last.stride());
        let whole = plain.to_kind(Kind::Int64);
        assert!(Form::of(&whole).unwrap().to_header(Device::Cpu).is_err());
    }
}
