//! Synthetic volumes with something to be found in them, and patches of volumes.

use protocol::{Task, Variant};
use tch::Tensor;

use super::{
    Batch, Source,
    random::{Purpose, Stream},
};
use crate::{Error, training::Feed};

/// A ball within a ball, in shares of the edges: what is outer, of class 1, and inner, of class 2.
const RADII: [f64; 2] = [0.3, 0.12];

impl Source {
    /// Volumes from sample `first` on: standard normal voxels, brighter by the number of their class.
    pub(super) fn volumes(&self, first: u64) -> Result<Batch, Error> {
        let size = self.size as usize;
        let mut voxels = self.pixels(first, size.pow(3))?;
        let mut labels = Vec::with_capacity(voxels.len());
        for (sample, volume) in (first..).zip(voxels.chunks_mut(size.pow(3))) {
            let mut draw = Stream::new(self.seed, Purpose::Labels, sample);
            let middle = [(); 3].map(|()| 0.35 + 0.3 * draw.uniform());
            let away = |at: usize, axis: usize| {
                let share = (at as f64 + 0.5) / size as f64;
                (share - middle[axis]).powi(2)
            };
            for (index, voxel) in volume.iter_mut().enumerate() {
                let (depth, height, width) =
                    (index / size.pow(2), index / size % size, index % size);
                let square = away(depth, 0) + away(height, 1) + away(width, 2);
                let class = RADII
                    .iter()
                    .filter(|radius| square < radius.powi(2))
                    .count();
                *voxel += class as f32;
                labels.push(i64::try_from(class).unwrap_or_default());
            }
        }
        let edge = i64::from(self.size);
        let volumes = Tensor::f_from_slice(&voxels)?.f_view([-1, 1, edge, edge, edge])?;
        Ok(Batch {
            input: crate::nn::in_format(volumes, self.memory_format)?,
            labels: Tensor::f_from_slice(&labels)?.f_view([-1, edge, edge, edge])?,
        })
    }
}

/// Draws a place for a patch of every step, the same for the same seed everywhere.
#[derive(Debug, Clone, Copy)]
pub struct Patches {
    edge: i64,
    seed: u64,
}

impl Patches {
    /// For this variant; `None` where steps take whole volumes.
    pub fn of(variant: &Variant, task: Task, seed: u64) -> Option<Self> {
        let edge = variant.patch_size.filter(|_| task == Task::Training)?;
        Some(Self {
            edge: edge.get().into(),
            seed,
        })
    }

    /// Patches of what `feed` gives to step `number`.
    pub fn cut(self, feed: &mut dyn Feed, number: u32) -> impl Feed {
        Cut(self, feed, number)
    }
}

struct Cut<'a>(Patches, &'a mut dyn Feed, u32);

impl Feed for Cut<'_> {
    fn micro_batch(&mut self, index: usize) -> Result<Batch, Error> {
        let Self(Patches { edge, seed }, feed, number) = self;
        let (edge, Batch { input, labels }) = (*edge, feed.micro_batch(index)?);
        let sample = u64::from(*number) << 16 | index as u64;
        let mut draw = Stream::new(*seed, Purpose::Patches, sample);
        let room = input.size()[2] - edge + 1;
        let mut parts = [input, labels];
        for dimension in -3..0 {
            let at = draw.below(room.unsigned_abs());
            let at = i64::try_from(at).unwrap_or_default();
            for part in &mut parts {
                *part = part.f_narrow(dimension, at, edge)?;
            }
        }
        let [input, labels] = parts;
        Ok(Batch {
            input: input.f_contiguous()?,
            labels,
        })
    }
}
