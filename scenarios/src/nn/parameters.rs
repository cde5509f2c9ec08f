//! The parameters and buffers of a model, in the order and under the names of the
//! reference's `state_dict`.

use libtorch::{
    Result,
    attribution::{self, Entered},
    distributed::resize_storage,
};
use protocol::MemoryFormat;
use tch::{Device, Kind, Tensor};

use super::{Init, Rounding, Stage, block_of, int8};

/// Where and how parameters are made.
#[derive(Debug, Clone, Copy)]
pub struct Placement {
    pub device: Device,
    /// How tensors of four and five dimensions lie in memory.
    pub memory_format: MemoryFormat,
    pub kind: Kind,
    /// What becomes of the sides of layers' products.
    pub rounding: Rounding,
    /// Whether to fill them. Without, memory is reserved and never touched, which makes
    /// counting the parameters of a large model free.
    pub fill: bool,
}

/// A module of a model, as its parameters' names have it.
#[derive(Debug, Clone, Copy)]
pub struct Module(u32);

impl Module {
    /// The loss, which has no parameters.
    pub const LOSS: Self = Self(0);

    /// It is computed until what is returned is dropped.
    pub fn enter(self) -> Entered {
        attribution::enter(self.0)
    }
}

/// Named tensors: trained ones, frozen ones and buffers.
#[derive(Debug)]
pub struct Parameters {
    placement: Placement,
    trained: Vec<(String, Tensor)>,
    frozen: Vec<(String, Tensor)>,
    buffers: Vec<(String, Tensor)>,
    modules: Vec<String>,
    /// What is kept of the model, where that is not all of it.
    stage: Option<Stage>,
    /// Values that are trained elsewhere.
    elsewhere: u64,
    /// The block that the last parameter was of, and how many there were.
    block: (String, usize),
    /// What the first and the last stage both have.
    tied: Vec<Tensor>,
}

impl Parameters {
    pub fn new(placement: Placement) -> Self {
        Self::of_stage(placement, None)
    }

    /// Those of a stage, or of the whole model.
    pub fn of_stage(placement: Placement, stage: Option<Stage>) -> Self {
        Self {
            placement,
            stage,
            elsewhere: 0,
            block: (String::new(), 0),
            tied: Vec::new(),
            trained: Vec::new(),
            frozen: Vec::new(),
            buffers: Vec::new(),
            modules: vec!["[loss]".to_owned()],
        }
    }

    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The root of the names.
    pub fn root(&mut self) -> Scope<'_> {
        Scope {
            parameters: self,
            prefix: String::new(),
            is_tied: false,
            is_scores: false,
        }
    }

    pub fn stage(&self) -> Option<Stage> {
        self.stage
    }

    /// What the last stage has of the first one's, whose gradients are theirs together; none
    /// anywhere else.
    pub fn tied(&self) -> &[Tensor] {
        &self.tied
    }

    /// Trained tensors with their names, in the order in which the reference lists them.
    pub fn trained(&self) -> &[(String, Tensor)] {
        &self.trained
    }

    /// Keeps all that is trained as it is: new ones are trained in its place.
    pub fn freeze(&mut self) -> Result<()> {
        for (_, tensor) in &self.trained {
            let _ = tensor.f_set_requires_grad(false)?;
        }
        self.frozen.append(&mut self.trained);
        Ok(())
    }

    /// Drops what is trained in place of the frozen ones, and those take its place.
    pub fn thaw(&mut self) {
        self.trained = std::mem::take(&mut self.frozen);
    }

    /// Tensors that are kept but not trained, with their names.
    pub fn buffers(&self) -> &[(String, Tensor)] {
        &self.buffers
    }

    /// Tensors that are trained no more, and scales of whole numbers, with their names.
    pub fn frozen(&self) -> &[(String, Tensor)] {
        &self.frozen
    }

    /// The names of the modules, in the order of their numbers.
    pub fn modules(&self) -> &[String] {
        &self.modules
    }

    /// How many values of the model are trained, here or by another stage.
    pub fn count(&self) -> u64 {
        let here = self.trained.iter().map(|(_, tensor)| elements(tensor));
        here.sum::<u64>() + self.elsewhere
    }

    /// Bytes of the trained and the frozen tensors.
    pub fn bytes(&self) -> u64 {
        let all = self.trained.iter().chain(&self.frozen);
        all.map(|(_, tensor)| bytes(tensor)).sum()
    }
}

fn elements(tensor: &Tensor) -> u64 {
    u64::try_from(tensor.numel()).unwrap_or(u64::MAX)
}

pub fn bytes(tensor: &Tensor) -> u64 {
    elements(tensor) * tensor.kind().elt_size_in_bytes() as u64
}

/// A place in the tree of names, such as `layer1.0.`.
#[derive(Debug)]
pub struct Scope<'a> {
    parameters: &'a mut Parameters,
    prefix: String,
    is_tied: bool,
    is_scores: bool,
}

impl Scope<'_> {
    /// The place one step down.
    pub fn at(&mut self, name: impl std::fmt::Display) -> Scope<'_> {
        Scope {
            prefix: format!("{}{name}.", self.prefix),
            parameters: self.parameters,
            is_tied: self.is_tied,
            is_scores: self.is_scores,
        }
    }

    /// What is made here is read at the end of the model too, where it is tied.
    #[must_use]
    pub fn tied(self, is_tied: bool) -> Self {
        Self { is_tied, ..self }
    }

    /// What is made here gives the model's scores, whose products are in 8 bits nowhere.
    #[must_use]
    pub fn of_scores(self) -> Self {
        Self {
            is_scores: true,
            ..self
        }
    }

    pub fn module(&mut self) -> Module {
        let modules = &mut self.parameters.modules;
        modules.push(self.prefix.trim_end_matches('.').to_owned());
        Module(u32::try_from(modules.len() - 1).unwrap_or(u32::MAX))
    }

    /// The whole name of something at this place.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub fn parameter(&mut self, name: &str, shape: &[i64], init: Init) -> Result<Tensor> {
        let tensor = self.make(shape, init)?.f_set_requires_grad(true)?;
        let name = self.name(name);
        let is_here = self.is_of_stage(&name);
        let all = &mut *self.parameters;
        if !is_here {
            // Drawn all the same, so that the others' values are those of the whole model.
            resize_storage(&tensor, 0)?;
            all.elsewhere += elements(&tensor);
            return Ok(tensor);
        }
        if self.is_tied && all.stage.is_some() {
            all.tied.push(tensor.shallow_clone());
        }
        all.trained.push((name, tensor.shallow_clone()));
        Ok(tensor)
    }

    /// A matrix that no step changes, as whole numbers of 8 bits, and what each row was divided by.
    pub fn int8_parameter(
        &mut self,
        name: &str,
        shape: &[i64],
        init: Init,
    ) -> Result<(Tensor, Tensor)> {
        // Its own place before a scratch one, as `make` has it.
        let mut kept = Tensor::f_empty(shape, (Kind::Int8, self.device()))?;
        let (rounded, scales) = int8::round(&self.make(shape, init)?)?;
        kept.f_copy_(&rounded)?;
        let (name, all) = (self.name(name), &mut *self.parameters);
        let scales_name = format!("{name}_scale");
        all.trained.push((name, kept.shallow_clone()));
        all.frozen.push((scales_name, scales.shallow_clone()));
        Ok((kept, scales))
    }

    /// Whether the stage has this one, the next of the model's in order.
    fn is_of_stage(&mut self, name: &str) -> bool {
        let (last, begun) = &mut self.parameters.block;
        let block = block_of(name);
        if let Some(block) = block.filter(|block| *block != last.as_str()) {
            block.clone_into(last);
            *begun += 1;
        }
        let Some(stage) = self.parameters.stage else {
            return true;
        };
        match block {
            Some(_) => stage.blocks().contains(&(*begun - 1)),
            None if *begun == 0 => stage.is_first() || (self.is_tied && stage.is_last()),
            None => stage.is_last(),
        }
    }

    pub fn buffer(&mut self, name: &str, shape: &[i64], init: Init) -> Result<Tensor> {
        let tensor = self.make(shape, init)?;
        self.adopt(self.name(name), &tensor);
        Ok(tensor)
    }

    /// Keeps a tensor made elsewhere as a buffer under a whole name.
    pub fn adopt(&mut self, name: String, tensor: &Tensor) {
        self.parameters.buffers.push((name, tensor.shallow_clone()));
    }

    pub fn device(&self) -> Device {
        self.parameters.placement.device
    }

    pub fn rounding(&self) -> Rounding {
        match self.parameters.placement.rounding {
            Rounding::Fp8(_) | Rounding::Int8(_) if self.is_scores => Rounding::None,
            rounding => rounding,
        }
    }

    pub fn fills(&self) -> bool {
        self.parameters.placement.fill
    }

    /// The tensor's own place is taken before a scratch one, so that parameters lie beside each
    /// other in the caching allocator's segments, as those of a finished `PyTorch` model do that
    /// is brought to a GPU. With gaps between them the optimizer's state, which comes later, lies
    /// elsewhere, and more segments are held than steps need.
    fn make(&self, shape: &[i64], init: Init) -> Result<Tensor> {
        let Placement {
            device,
            memory_format,
            kind,
            fill,
            ..
        } = self.parameters.placement;
        let options = (kind, device);
        let mut kept = empty(shape, memory_format, options)?;
        if !fill {
            return Ok(kept);
        }
        if kept.is_contiguous() {
            init.fill(&mut kept)?;
        } else {
            // Drawn in the order of the dimensions, so that the format does not change values.
            let mut drawn = Tensor::f_empty(shape, options)?;
            init.fill(&mut drawn)?;
            kept.f_copy_(&drawn)?;
        }
        Ok(kept)
    }
}

/// A tensor without values that lies in memory as the format wants it. Only four and five dimensions
/// have channels; others are contiguous.
fn empty(shape: &[i64], format: MemoryFormat, options: (Kind, Device)) -> Result<Tensor> {
    Ok(match (format, shape) {
        // tch has no argument for a memory format, but strides say the same.
        (MemoryFormat::ChannelsLast, &[n, c, h, w]) => {
            Tensor::f_empty_strided([n, c, h, w], [c * h * w, 1, c * w, c], options)?
        }
        (MemoryFormat::ChannelsLast, &[_, channels, depth, height, width]) => {
            let row = channels * width;
            let strides = [row * height * depth, 1, row * height, row, channels];
            Tensor::f_empty_strided(shape, strides, options)?
        }
        _ => Tensor::f_empty(shape, options)?,
    })
}

/// The tensor with its values where the format wants them.
pub fn in_format(tensor: Tensor, format: MemoryFormat) -> Result<Tensor> {
    if format == MemoryFormat::Contiguous || tensor.dim() < 4 {
        return Ok(tensor);
    }
    let mut moved = empty(&tensor.size(), format, (tensor.f_kind()?, tensor.device()))?;
    moved.f_copy_(&tensor)?;
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_moves_values_and_keeps_them() {
        let tensor = Tensor::arange(2 * 3 * 4 * 5, (Kind::Float, Device::Cpu)).view([2, 3, 4, 5]);
        let moved = in_format(tensor.shallow_clone(), MemoryFormat::ChannelsLast).unwrap();
        assert_eq!(moved.stride(), [60, 1, 15, 3]);
        assert_eq!(moved, tensor);
        let volumes = tensor.unsqueeze(2);
        let moved = in_format(volumes.shallow_clone(), MemoryFormat::ChannelsLast).unwrap();
        assert_eq!(moved.stride(), [60, 1, 60, 15, 3]);
        assert_eq!(moved, volumes);
    }

    #[test]
    fn a_parameter_has_the_same_values_in_either_format() {
        let _turn = crate::nn::draw_alone();
        for shape in [[8, 3, 5, 5], [8, 3, 1, 1]] {
            let [plain, moved] =
                [MemoryFormat::Contiguous, MemoryFormat::ChannelsLast].map(|memory_format| {
                    tch::manual_seed(5);
                    let mut parameters = Parameters::new(Placement {
                        device: Device::Cpu,
                        memory_format,
                        kind: Kind::Float,
                        rounding: Rounding::None,
                        fill: true,
                    });
                    let init = Init::Normal { std: 1.0 };
                    parameters.root().parameter("weight", &shape, init).unwrap()
                });
            assert_eq!(moved, plain);
            let [_, c, h, w] = shape;
            assert_eq!(moved.stride(), [c * h * w, 1, c * w, c]);
        }
    }

    #[test]
    fn names_follow_the_tree() {
        let mut parameters = Parameters::new(Placement {
            device: Device::Cpu,
            memory_format: MemoryFormat::Contiguous,
            kind: Kind::Float,
            rounding: Rounding::None,
            fill: true,
        });
        let mut root = parameters.root();
        let mut block = root.at("layer1");
        let weight = block.at(0).parameter("weight", &[2, 3], Init::Ones);
        assert!(weight.unwrap().requires_grad());
        let mean = block.buffer("mean", &[3], Init::Zeros);
        assert!(!mean.unwrap().requires_grad());
        assert_eq!(parameters.trained()[0].0, "layer1.0.weight");
        assert_eq!(parameters.buffers()[0].0, "layer1.mean");
        assert_eq!((parameters.count(), parameters.bytes()), (6, 24));
    }
}
