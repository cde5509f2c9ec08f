//! The length of every step's sequences, or of every request, where they vary.

use protocol::{LengthRange, Variant};

use super::random::{Purpose, Stream};

/// Draws the lengths of steps: uniform over the range, the same for the same seed on every
/// machine, device, batch size and version of libtorch. A measured step's length does not hang on
/// how many steps the warm-up took, which the clock may decide.
#[derive(Debug, Clone, Copy)]
pub struct Lengths {
    range: LengthRange,
    seed: u64,
}

impl Lengths {
    /// For this variant; `None` where all sequences have one length.
    pub fn of(variant: &Variant, seed: u64) -> Option<Self> {
        let range = variant.sequence_lengths?;
        Some(Self { range, seed })
    }

    /// The length of this step of the warm-up, from 0.
    pub fn in_warmup(self, step: u32) -> u32 {
        self.draw(Purpose::WarmupLength, step)
    }

    /// The length of this measured step, from 0.
    pub fn measured(self, step: u32) -> u32 {
        self.draw(Purpose::MeasuredLength, step)
    }

    fn draw(self, purpose: Purpose, step: u32) -> u32 {
        let count = 1 + self.range.longest() - self.range.shortest();
        let drawn = Stream::new(self.seed, purpose, step.into()).below(count.into());
        self.range.shortest() + u32::try_from(drawn).unwrap_or_default()
    }
}
