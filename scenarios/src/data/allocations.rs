//! The tensors that the task allocation makes and drops.

use std::{
    collections::{BTreeSet, VecDeque},
    f64::consts::E,
};

use protocol::{Allocations, RunFile, TensorEvent, Trace};

use super::random::{Purpose, Stream};

const MIB: f64 = (1 << 20) as f64;
/// Sizes of random tensors and most of them at once, where a run file says nothing.
const USUAL_MIB: (u32, u32) = (1, 400);
const USUAL_LIVE_MIB: u32 = 1024;
/// By how much the size of a random tensor varies about what is drawn.
const VARIATION: f64 = 0.3;
/// Bytes of the two that alternate: matrices of single precision.
const ALTERNATING: [u64; 2] = [10_000 * 10_000 * 4, 5_000 * 5_000 * 4];

/// The next tensor, and those that go before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// Those that go.
    pub freed: Vec<u64>,
    /// The new one's name among those that are there.
    pub id: u64,
    /// Its size.
    pub bytes: u64,
}

/// Tensors without end, the same for the same seed everywhere.
#[derive(Debug)]
pub enum Tensors<'a> {
    /// Those of a trace, again and again.
    Traced(Traced<'a>),
    /// Those of a distribution.
    Drawn(Box<Drawn>),
}

/// Where the playing of a trace is.
#[derive(Debug)]
pub struct Traced<'a> {
    events: &'a [TensorEvent],
    next: usize,
    live: BTreeSet<u64>,
}

/// Tensors of a distribution, with those that are there, the oldest first.
#[derive(Debug)]
pub struct Drawn {
    kind: Allocations,
    /// Least and greatest size in MiB, before they vary.
    sizes: (f64, f64),
    stream: Stream,
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
            return Self::Traced(Traced {
                events,
                next: 0,
                live: BTreeSet::new(),
            });
        }
        let variant = &file.variant;
        let sizes = variant.allocation_mib;
        let (least, most) = sizes.map_or(USUAL_MIB, |sizes| (sizes.shortest(), sizes.longest()));
        let live_mib = variant.live_mib.map_or(USUAL_LIVE_MIB, |mib| mib.get());
        Self::Drawn(Box::new(Drawn {
            kind: variant.allocations.unwrap_or_default(),
            sizes: (least.into(), most.into()),
            stream: Stream::new(file.seed, Purpose::Allocations, 0),
            live: VecDeque::new(),
            live_bytes: 0,
            most_bytes: u64::from(live_mib) << 20,
            made: 0,
        }))
    }

    /// The next one.
    pub fn next(&mut self) -> Next {
        match self {
            Self::Traced(traced) => traced.next(),
            Self::Drawn(drawn) => drawn.next(),
        }
    }
}

impl Traced<'_> {
    /// A trace has an event that allocates, or it was not read.
    fn next(&mut self) -> Next {
        let mut freed = Vec::new();
        loop {
            let event = self.events.get(self.next);
            self.next += 1;
            match event {
                Some(&TensorEvent::Allocated { id, bytes }) => {
                    self.live.insert(id);
                    return Next { freed, id, bytes };
                }
                Some(&TensorEvent::Freed { id }) => {
                    self.live.remove(&id);
                    freed.push(id);
                }
                None => {
                    freed.extend(std::mem::take(&mut self.live));
                    self.next = 0;
                }
            }
        }
    }
}

impl Drawn {
    fn next(&mut self) -> Next {
        let bytes = match self.kind {
            Allocations::Alternating => ALTERNATING[usize::from(self.made % 2 == 1)],
            Allocations::Random => self.random_bytes(),
        };
        let mut freed = Vec::new();
        while self.live_bytes + bytes > self.most_bytes && !self.live.is_empty() {
            let place = match self.kind {
                Allocations::Alternating => 0,
                Allocations::Random => self.stream.below(self.live.len() as u64),
            };
            let place = usize::try_from(place).unwrap_or_default();
            if let Some((id, bytes)) = self.live.swap_remove_front(place) {
                self.live_bytes -= bytes;
                freed.push(id);
            }
        }
        let id = self.made;
        self.made += 1;
        self.live.push_back((id, bytes));
        self.live_bytes += bytes;
        Next { freed, id, bytes }
    }

    fn random_bytes(&mut self) -> u64 {
        let (least, most) = self.sizes;
        let drawn = least * E.powf(self.stream.uniform() * (most / least).ln());
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
