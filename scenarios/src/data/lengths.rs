//! The length of every step's sequences, or of every request and its answer, where they vary.

use protocol::{LengthRange, Variant};

use super::random::{Purpose, Stream};

/// Draws the lengths of steps: uniform over the range, the same for the same seed on every
/// machine, device, batch size and version of libtorch. A measured step's length does not hang on
/// how many steps the warm-up took, which the clock may decide.
#[derive(Debug, Clone, Copy)]
pub struct Lengths {
    range: LengthRange,
    seed: u64,
    /// Of the warm-up and of what is measured.
    purposes: [Purpose; 2],
}

impl Lengths {
    /// For this variant; `None` where all sequences have one length.
    pub fn of(variant: &Variant, seed: u64) -> Option<Self> {
        let purposes = [Purpose::WarmupLength, Purpose::MeasuredLength];
        Self::drawn(variant.sequence_lengths, seed, purposes)
    }

    /// Of answers; `None` where all have one length.
    pub fn of_answers(variant: &Variant, seed: u64) -> Option<Self> {
        let purposes = [Purpose::WarmupAnswer, Purpose::MeasuredAnswer];
        Self::drawn(variant.answer_lengths, seed, purposes)
    }

    fn drawn(range: Option<LengthRange>, seed: u64, purposes: [Purpose; 2]) -> Option<Self> {
        Some(Self {
            range: range?,
            seed,
            purposes,
        })
    }

    /// The length of this step of the warm-up, from 0.
    pub fn in_warmup(self, step: u32) -> u32 {
        self.draw(self.purposes[0], step)
    }

    /// The length of this measured step, from 0.
    pub fn measured(self, step: u32) -> u32 {
        self.draw(self.purposes[1], step)
    }

    fn draw(self, purpose: Purpose, step: u32) -> u32 {
        let count = 1 + self.range.longest() - self.range.shortest();
        let drawn = Stream::new(self.seed, purpose, step.into()).below(count.into());
        self.range.shortest() + u32::try_from(drawn).unwrap_or_default()
    }
}
