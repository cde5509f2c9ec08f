//! How long work tells its caller how far it is. This crate never prints.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Waits for another build to let go of what it holds.
    Wait,
    /// Asks pip or apt which packages there are.
    Resolve,
    /// Fetches a package. Counts bytes.
    Download,
    /// Compares content with a known hash. Counts bytes.
    Verify,
    /// Takes files out of packages. Counts bytes.
    Unpack,
    /// Compiles the scenario binary. Counts compiled crates.
    Compile,
    /// Hashes a layer. Counts bytes.
    Hash,
    /// Looks for the GPU code in a library. Counts bytes.
    Slim,
    /// Sends an image to the engine. Counts bytes.
    Load,
    /// Takes an image out of the engine. Counts bytes.
    Save,
    /// Compresses a layer. Counts bytes.
    Compress,
    /// Sends a layer to a registry. Counts bytes.
    Push,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wait => "waiting",
            Self::Resolve => "resolving",
            Self::Download => "downloading",
            Self::Verify => "verifying",
            Self::Unpack => "unpacking",
            Self::Compile => "compiling",
            Self::Hash => "hashing",
            Self::Slim => "slimming",
            Self::Load => "loading",
            Self::Save => "saving",
            Self::Compress => "compressing",
            Self::Push => "pushing",
        })
    }
}

impl Action {
    /// Whether the step counts bytes (and not things).
    pub fn counts_bytes(self) -> bool {
        !matches!(self, Self::Wait | Self::Resolve | Self::Compile)
    }
}

/// Hears about each step of long work. Steps may run side by side.
pub trait Progress: Send + Sync {
    /// A step begins. It ends when the meter is dropped.
    ///
    /// `object` names what it works on; `total` is its size in the unit of [`Action`], where known.
    fn start(&self, action: Action, object: &str, total: Option<u64>) -> Box<dyn Meter>;

    /// Something worth a line that is no error, such as a damaged cached file that is fetched again.
    fn note(&self, text: &str);
}

pub trait Meter: Send {
    /// The step has done this much, in all.
    fn advance_to(&mut self, done: u64);

    /// The total turned out to be this.
    fn set_total(&mut self, total: u64);

    /// What the step is at right now, such as the crate being compiled.
    fn message(&mut self, text: &str);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _: Action, _: &str, _: Option<u64>) -> Box<dyn Meter> {
        Box::new(Silent)
    }

    fn note(&self, _: &str) {}
}

impl Meter for Silent {
    fn advance_to(&mut self, _: u64) {}
    fn set_total(&mut self, _: u64) {}
    fn message(&mut self, _: &str) {}
}

/// Adds up what several workers of one step have done.
pub(crate) struct SharedMeter {
    state: std::sync::Mutex<(u64, Box<dyn Meter>)>,
}

impl SharedMeter {
    pub(crate) fn new(meter: Box<dyn Meter>) -> Self {
        Self {
            state: std::sync::Mutex::new((0, meter)),
        }
    }

    /// One worker's share, which hears how much that worker has done.
    pub(crate) fn part(&self) -> impl FnMut(u64) + '_ {
        let mut before = 0;
        move |done| {
            self.add(done - before);
            before = done;
        }
    }

    fn add(&self, amount: u64) {
        // A worker that panicked has left a valid count behind.
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state.0 += amount;
        let done = state.0;
        state.1.advance_to(done);
    }
}
