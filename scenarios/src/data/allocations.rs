//! The tensors that the task allocation makes and drops.

use std::{collections::VecDeque, iter::Cycle, slice::Iter};

use protocol::{Allocations, Count, RunFile, TensorEvent, Trace};

use super::random::{Purpose, Stream};

const MIB: f64 = (1 << 20) as f64;
/// Sizes of random tensors and most of them at once, where a run file says nothing.
const USUAL_MIB: (u32, u32) = (1, 400);
const USUAL_LIVE_MIB: u32 = 1024;
/// By how much the size of a random tensor varies about what is drawn.
const VARIATION: f64 = 0.3;
/// Bytes of the two that alternate: matrices of single precision.
const ALTERNATING: [u64; 2] = [10_000 * 10_000 * 4, 5_000 * 5_000 * 4];

/// Tensors that come and go without end, the same for the same seed everywhere.
#[derive(Debug)]
pub enum Tensors<'a> {
    /// Those of a trace, again and again.
    Traced(Cycle<Iter<'a, TensorEvent>>),
    /// Those of a distribution.
    Drawn(Box<Drawn>),
}

/// Tensors of a distribution, with those that are there, the oldest first.
#[derive(Debug)]
pub struct Drawn {
    kind: Allocations,
    /// Least and greatest size in MiB, before they vary.
    sizes: (f64, f64),
    stream: Stream,
    /// Bytes of the next one, while others make room for it.
    next: u64,
    live: VecDeque<(u64, u64)>,
    live_bytes: u64,
    most_bytes: u64,
    made: u64,
}

impl<'a> Tensors<'a> {
    /// What a run file asks for.
    #[must_use]
    pub fn of(file: &'a RunFile) -> Self {
        if let Some(events) = file.trace.as_ref().map(Trace::events) {
            return Self::Traced(events.iter().cycle());
        }
        let variant = &file.variant;
        let sizes = variant.allocation_mib;
        let (least, most) = sizes.map_or(USUAL_MIB, |sizes| (sizes.shortest(), sizes.longest()));
        let live_mib = variant.live_mib.map_or(USUAL_LIVE_MIB, Count::get);
        let mut drawn = Drawn {
            kind: variant.allocations.unwrap_or_default(),
            sizes: (least.into(), most.into()),
            stream: Stream::new(file.seed, Purpose::Allocations, 0),
            next: 0,
            live: VecDeque::new(),
            live_bytes: 0,
            most_bytes: u64::from(live_mib) << 20,
            made: 0,
        };
        drawn.next = drawn.bytes();
        Self::Drawn(Box::new(drawn))
    }
}

impl Iterator for Tensors<'_> {
    type Item = TensorEvent;

    fn next(&mut self) -> Option<TensorEvent> {
        match self {
            Self::Traced(events) => events.next().copied(),
            Self::Drawn(drawn) => Some(drawn.event()),
        }
    }
}

impl Drawn {
    fn event(&mut self) -> TensorEvent {
        let bytes = self.next;
        if self.live_bytes + bytes > self.most_bytes && !self.live.is_empty() {
            let place = match self.kind {
                Allocations::Alternating => 0,
                Allocations::Random => self.stream.below(self.live.len() as u64),
            };
            let place = usize::try_from(place).unwrap_or_default();
            if let Some((id, freed)) = self.live.swap_remove_front(place) {
                self.live_bytes -= freed;
                return TensorEvent::Freed { id };
            }
        }
        let id = self.made;
        self.made += 1;
        self.live.push_back((id, bytes));
        self.live_bytes += bytes;
        self.next = self.bytes();
        TensorEvent::Allocated { id, bytes }
    }

    /// Those of the next one.
    fn bytes(&mut self) -> u64 {
        if self.kind == Allocations::Alternating {
            return ALTERNATING[usize::from(self.made % 2 == 1)];
        }
        let (least, most) = self.sizes;
        let drawn = least * (most / least).powf(self.stream.uniform());
        let varied = drawn * (1.0 + VARIATION * (2.0 * self.stream.uniform() - 1.0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some MiB; a cast saturates"
        )]
        let bytes = (varied * MIB) as u64;
        bytes
    }
}
