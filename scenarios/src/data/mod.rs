//! Synthetic data out of a seed.
//!
//! Images are standard normal with uniform labels; volumes have two balls to be found; sequences are uniform tokens, 15 % of
//! whose positions are masked and to be guessed, or whose every next token is. Sample *i* of a seed is the same
//! everywhere: micro-batch *m* of size *b* holds the samples from *m·b* on, so that *n*
//! micro-batches are one batch *n* times as large.
//!
//! A run, with a data loader or without, trains on few fixed micro-batches again and again, as
//! synthetic benchmarks do: the device works the same, no data set is needed, and the loss falls,
//! which a validity check can ask for. Where a data loader reads a folder, [`Folder`] makes that of
//! the seed too. Where lengths vary, a step takes the beginning of each
//! sequence.

mod allocations;
mod arrivals;
mod folder;
mod lengths;
mod picture;
mod random;
mod volume;

use std::{ops::Range, thread};

use protocol::{LengthRange, MemoryFormat, Model, Variant};
use tch::{Device, Tensor};

use self::random::{Purpose, Stream};
pub use self::{
    allocations::Tensors,
    arrivals::{ArrivalTimes, traced_rate},
    folder::Folder,
    lengths::Lengths,
    volume::Patches,
};
use crate::{
    Error,
    models::{IGNORED_LABEL, Vocabulary, input_size, vocabulary},
    nn::in_format,
};

/// Share of a sequence's positions that is masked (Devlin et al., «BERT», 2018).
const MASKED_SHARE: f64 = 0.15;

/// One micro-batch on the device.
#[derive(Debug)]
pub struct Batch {
    /// `[batch, 3, size, size]` or `[batch, 1, size, size, size]` single precision, or
    /// `[batch, length]` token numbers.
    pub input: Tensor,
    /// `[batch]` or `[batch, size, size, size]` classes, or `[batch, length]` tokens to be guessed, [`IGNORED_LABEL`]
    /// where there is none.
    pub labels: Tensor,
}

impl Batch {
    /// The same batch in the same memory.
    #[must_use]
    pub fn shallow_clone(&self) -> Self {
        Self {
            input: self.input.shallow_clone(),
            labels: self.labels.shallow_clone(),
        }
    }

    /// Its first samples, in the same memory.
    pub fn first(&self, samples: usize) -> Result<Self, Error> {
        let samples = samples.try_into().unwrap_or(i64::MAX);
        Ok(Self {
            input: self.input.f_narrow(0, 0, samples)?,
            labels: self.labels.f_narrow(0, 0, samples)?,
        })
    }

    /// The beginning of every sequence, this many tokens long. The input has memory of its own, as
    /// a request's has.
    pub fn beginning(&self, length: u32) -> Result<Self, Error> {
        let length = length.into();
        Ok(Self {
            input: self.input.f_narrow(1, 0, length)?.f_contiguous()?,
            labels: self.labels.f_narrow(1, 0, length)?,
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Source {
    vocabulary: Vocabulary,
    /// Edges of an image or a volume, or the tokens of a sequence.
    size: u32,
    /// The length of the shortest beginning of a sequence that a step may take.
    shortest: u32,
    seed: u64,
    batch: usize,
    memory_format: MemoryFormat,
    /// Threads that make pixels; `None`: as many as there are CPUs.
    threads: Option<usize>,
}

impl Source {
    /// For this model and variant.
    pub fn new(model: Model, variant: &Variant, seed: u64) -> Self {
        let size = input_size(model, variant);
        Self {
            vocabulary: vocabulary(model),
            size,
            shortest: variant.sequence_lengths.map_or(size, LengthRange::shortest),
            seed,
            batch: variant.batch.get() as usize,
            memory_format: variant.memory_format,
            threads: None,
        }
    }

    /// The same data for a worker of a data loader: made by one thread, as several workers share
    /// the CPUs, and contiguous, as they are handed over.
    #[must_use]
    pub fn of_worker(self) -> Self {
        Self {
            memory_format: MemoryFormat::Contiguous,
            threads: Some(1),
            ..self
        }
    }

    /// Micro-batch number `index`, on the device.
    pub fn micro_batch(&self, index: usize, device: Device) -> Result<Batch, Error> {
        let samples = ((index * self.batch) as u64..).take(self.batch);
        let size = self.size as usize;
        let extent = i64::from(self.size);
        let batch = match self.vocabulary {
            Vocabulary::Classes(_) => {
                let pixels = self.pixels((index * self.batch) as u64, 3 * size.pow(2))?;
                let labels: Vec<i64> = samples.map(|sample| self.label(sample)).collect();
                let images = Tensor::f_from_slice(&pixels)?.f_view([-1, 3, extent, extent])?;
                Batch {
                    input: in_format(images, self.memory_format)?,
                    labels: Tensor::f_from_slice(&labels)?,
                }
            }
            Vocabulary::Voxels => self.volumes((index * self.batch) as u64)?,
            Vocabulary::Tokens { .. } => {
                self.sequences(samples.map(|sample| Ok((sample, self.tokens(sample)))))?
            }
        };
        Ok(Batch {
            input: batch.input.f_to_device(device)?,
            labels: batch.labels.f_to_device(device)?,
        })
    }

    /// The class of an image.
    fn label(&self, sample: u64) -> i64 {
        let classes = match self.vocabulary {
            Vocabulary::Classes(count) | Vocabulary::Tokens { count, .. } => count.unsigned_abs(),
            Vocabulary::Voxels => 1,
        };
        let label = Stream::new(self.seed, Purpose::Labels, sample).below(classes);
        i64::try_from(label).unwrap_or_default()
    }

    /// A batch of sequences, each with the sample that its masks are drawn for.
    fn sequences(
        &self,
        all: impl Iterator<Item = Result<(u64, Vec<i64>), Error>>,
    ) -> Result<Batch, Error> {
        let room = || Vec::with_capacity(self.batch * self.size as usize);
        let (mut input, mut labels) = (room(), room());
        for one in all {
            let (sample, tokens) = one?;
            let (tokens, guesses) = self.with_guesses(sample, tokens);
            input.extend(tokens);
            labels.extend(guesses);
        }
        let shape = [-1, i64::from(self.size)];
        Ok(Batch {
            input: Tensor::f_from_slice(&input)?.f_view(shape)?,
            labels: Tensor::f_from_slice(&labels)?.f_view(shape)?,
        })
    }

    /// Standard normal values of the batch's images from sample `first` on, made on all
    /// CPUs: a large batch has some 10⁸.
    fn pixels(&self, first: u64, per_image: usize) -> Result<Vec<f32>, Error> {
        let count = self.batch * per_image;
        let mut pixels = Vec::new();
        pixels
            .try_reserve_exact(count)
            .map_err(|_| Error::HostMemory {
                bytes: count * size_of::<f32>(),
            })?;
        pixels.resize(count, 0.0);
        let threads = self
            .threads
            .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let share = self.batch.div_ceil(threads);
        thread::scope(|scope| {
            for (thread, part) in pixels.chunks_mut(share * per_image).enumerate() {
                let first = first + (thread * share) as u64;
                scope.spawn(move || {
                    for (sample, image) in (first..).zip(part.chunks_mut(per_image)) {
                        Stream::new(self.seed, Purpose::Pixels, sample).normal(image);
                    }
                });
            }
        });
        Ok(pixels)
    }

    /// The tokens of a sequence, and one more where each next one is to be guessed. Never token 0,
    /// which is padding: a full sequence has none.
    fn tokens(&self, sample: u64) -> Vec<i64> {
        let Vocabulary::Tokens { count, .. } = self.vocabulary else {
            return Vec::new();
        };
        let mut draw = Stream::new(self.seed, Purpose::Tokens, sample);
        let mut token = || draw.below(count.unsigned_abs() - 1);
        (0..self.tokens_of_a_sample())
            .map(|_| 1 + i64::try_from(token()).unwrap_or_default())
            .collect()
    }

    fn tokens_of_a_sample(&self) -> usize {
        let is_text = matches!(self.vocabulary, Vocabulary::Tokens { mask: None, .. });
        self.size as usize + usize::from(is_text)
    }

    /// What a model reads of a sequence's tokens, and what it is to guess: what comes after each, or
    /// what stood at masked positions. The first `shortest` positions hold their own share of
    /// masks, so that every beginning that a step may take has some.
    fn with_guesses(&self, sample: u64, mut tokens: Vec<i64>) -> (Vec<i64>, Vec<i64>) {
        let Vocabulary::Tokens {
            mask: Some(mask), ..
        } = self.vocabulary
        else {
            let labels = tokens[1..].to_vec();
            tokens.pop();
            return (tokens, labels);
        };
        let (length, shortest) = (self.size as usize, self.shortest as usize);
        let mut labels = vec![IGNORED_LABEL; length];
        let mut draw = Stream::new(self.seed, Purpose::Masks, sample);
        // At least one, so that there is a loss.
        let first = masked_count(shortest).max(1);
        let mut masked = some_positions(&mut draw, 0..shortest, first);
        let rest = masked_count(length - shortest);
        masked.extend(some_positions(&mut draw, shortest..length, rest));
        for position in masked {
            labels[position] = std::mem::replace(&mut tokens[position], mask);
        }
        (tokens, labels)
    }
}

/// How many of so many positions are masked.
fn masked_count(length: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length is a smaller length"
    )]
    let count = (length as f64 * MASKED_SHARE).round() as usize;
    count
}

/// `count` different positions out of these: the beginning of a Fisher-Yates shuffle.
fn some_positions(draw: &mut Stream, among: Range<usize>, count: usize) -> Vec<usize> {
    let mut positions: Vec<usize> = among.collect();
    for chosen in 0..count {
        let rest = (positions.len() - chosen) as u64;
        let other = chosen + usize::try_from(draw.below(rest)).unwrap_or_default();
        positions.swap(chosen, other);
    }
    positions.truncate(count);
    positions
}
