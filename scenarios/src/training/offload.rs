//! The optimizer on the host, as `ZeRO`-Offload has it (Ren et al., 2021): its state and the
//! parameters that it moves lie there, gradients go over as backward makes them, and the moved
//! parameters come back group by group, while the CPU moves the next ones.

use std::ops::Range;

use libtorch::mover::Mover;
use protocol::{Optimizer as Choice, OptimizerState as Form, Variant};
use tch::{Device, Tensor};

use crate::{
    Error, host,
    nn::{self, Parameters},
};

/// Parameters of so many bytes make a group.
const GROUP: u64 = 32 << 20;

/// Parameters that come back together, or whose moments are opened together, and the form of these.
///
/// Tables of embeddings have theirs in no 8 bits, as Dettmers et al. advise: beside the words of a
/// batch the others have hardly a gradient, and would share a scale with them.
pub(super) fn groups(trained: &[(String, Tensor)], asked: Form) -> Vec<(Range<usize>, Form)> {
    let form = |name: &str| {
        let is_table = name.contains("embeddings.") || name.contains("embed_tokens.");
        let is_coded = asked == Form::Int8 && is_table;
        if is_coded { Form::Fp32 } else { asked }
    };
    let (mut groups, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (index, (name, tensor)) in trained.iter().enumerate() {
        bytes += nn::bytes(tensor);
        let next = trained.get(index + 1).map(|(name, _)| form(name));
        if bytes >= GROUP || next != Some(form(name)) {
            groups.push((begin..index + 1, form(name)));
            (begin, bytes) = (index + 1, 0);
        }
    }
    groups
}

/// The copies that a variant asks for, and the host memory that they may pin: nine tenths of what
/// there is, less what the optimizer's state takes beside it.
pub(super) fn mover(
    variant: &Variant,
    parameters: &Parameters,
    device: Device,
) -> libtorch::Result<Option<Mover>> {
    let moments = match (variant.offload.has_optimizer(), variant.optimizer) {
        _ if variant.offload == protocol::Offload::None => return Ok(None),
        (false, _) => 0,
        (true, Choice::SgdMomentum) => 1,
        (true, Choice::Adamw) => 2,
    };
    let trained = parameters.trained().iter();
    let state = moments * trained.map(|(_, tensor)| nn::bytes(tensor)).sum::<u64>();
    let limit = host::available_bytes().map_or(u64::MAX, |bytes| bytes / 10 * 9);
    // Smaller ones take longer to be asked for than to be copied. On the CPU, where tests are,
    // models are tiny.
    let (gpu, least) = match device {
        Device::Cuda(index) => (u32::try_from(index).ok(), 64 << 10),
        _ => (None, 1 << 10),
    };
    Mover::new(gpu, limit.saturating_sub(state), least).map(Some)
}

/// What the optimizer works on in place of the device's parameters.
#[derive(Debug)]
pub(super) struct OnHost {
    pub(super) parameters: Vec<Tensor>,
    pub(super) gradients: Vec<Tensor>,
}

impl OnHost {
    pub(super) fn new(mover: &Mover, trained: &[Tensor]) -> libtorch::Result<Self> {
        let copies = || -> libtorch::Result<Vec<Tensor>> {
            let copies = trained.iter().map(|tensor| mover.host_like(tensor));
            copies.collect()
        };
        let (parameters, gradients) = (copies()?, copies()?);
        mover.watch(trained, &gradients)?;
        Ok(Self {
            parameters,
            gradients,
        })
    }

    /// Waits for the gradients, of which each parameter must have one.
    pub(super) fn receive(&self, mover: &Mover, parameters: &Parameters) -> Result<(), Error> {
        let sent = mover.finish(self.gradients.len())?;
        let mut all = parameters.trained().iter().zip(sent);
        match all.find(|(_, sent)| !sent) {
            None => Ok(()),
            Some(((name, _), _)) => Err(Error::GradientMissing { name: name.clone() }),
        }
    }
}
