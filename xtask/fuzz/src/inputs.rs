//! Input after input, each made from a seed and its own number alone.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::Target;

/// Larger inputs are rare in life and slow here.
const MOST_INPUT_BYTES: usize = 1 << 18;

/// The inputs of a target.
pub struct Inputs {
    target: &'static Target,
    material: crate::edit::Material,
    seed: u64,
}

impl Inputs {
    /// Those of this target and seed.
    #[must_use]
    pub fn new(target: &'static Target, seed: u64) -> Self {
        Self {
            target,
            material: target.material(),
            seed,
        }
    }

    /// The documents that the edits start from.
    #[must_use]
    pub fn seeds(&self) -> &[Vec<u8>] {
        &self.material.seeds
    }

    /// One of them: a document after one edit or several.
    #[must_use]
    pub fn input(&self, number: u64) -> Vec<u8> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(number);
        let seeds = &self.material.seeds;
        let start = &seeds[random.random_range(0..seeds.len())];
        self.edited(start, &mut random)
    }

    /// A document after one edit or several.
    #[must_use]
    pub fn edited(&self, start: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
        // One edit lets most of a document through to where it matters; many find what only a
        // combination breaks.
        let mut edits = 1;
        while edits < 12 && random.random_bool(0.5) {
            edits += 1;
        }
        let edited = self.target.edit(start, edits, &self.material, random);
        if edited.len() > MOST_INPUT_BYTES {
            return edited[..MOST_INPUT_BYTES].to_vec();
        }
        edited
    }
}
