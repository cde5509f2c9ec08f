//! One input under watch.

use std::{
    cell::RefCell,
    fmt, io,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::Once,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{MOST_BYTES, MOST_TIME, Target, memory};

/// What should not be.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// It panicked.
    Panic {
        /// What it said.
        message: String,
        /// File and line.
        place: String,
    },
    /// It took this long.
    Slow(Duration),
    /// It took so many bytes of memory.
    Large(usize),
    /// Something that must hold does not.
    Broken(String),
}

impl Finding {
    /// What findings with one cause have in common.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Self::Panic { place, .. } => format!("panic at {place}"),
            Self::Slow(_) => "slow".to_owned(),
            Self::Large(_) => "large".to_owned(),
            Self::Broken(what) => what.split(':').next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic { message, place } => write!(f, "panic at {place}: {message}"),
            Self::Slow(took) => write!(f, "it took {:.1} s", took.as_secs_f64()),
            Self::Large(bytes) => write!(f, "it took {} MiB of memory", bytes >> 20),
            Self::Broken(what) => f.write_str(what),
        }
    }
}

/// A folder for what a target writes, emptied after every input that wrote something.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// A fresh one, in memory where the system has such a place: inputs come by the million.
    pub fn new() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        Ok(Self { folder: folder? })
    }

    /// A place in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

thread_local! {
    static SAID: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
    static WATCHED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Panics of a watched thread are kept rather than shown.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !WATCHED.get() {
                return shown(info);
            }
            let place = info.location().map_or_else(String::new, |place| {
                format!("{}:{}", place.file(), place.line())
            });
            let message = info.payload_as_str().unwrap_or("no words").to_owned();
            SAID.set(Some((message, place)));
        }));
    });
}

/// Hands an input to its target. Whether the target accepted it, or what should not be.
pub fn check(target: &Target, input: &[u8], scratch: &Scratch) -> Result<bool, Finding> {
    let (first, took) = once(target, input, scratch);
    if took <= MOST_TIME || first.is_err() {
        return first;
    }
    // A busy machine makes anything slow once; what is slow by itself is slow again.
    let again = (0..2).map(|_| once(target, input, scratch).1);
    match again.min() {
        Some(least) if least > MOST_TIME => Err(Finding::Slow(least.min(took))),
        _ => first,
    }
}

fn once(target: &Target, input: &[u8], scratch: &Scratch) -> (Result<bool, Finding>, Duration) {
    keep_panics();
    let begun = Instant::now();
    WATCHED.set(true);
    let (ended, bytes) =
        memory::measured(|| panic::catch_unwind(AssertUnwindSafe(|| target.check(input, scratch))));
    WATCHED.set(false);
    let took = begun.elapsed();
    let found = match ended {
        Err(_) => {
            let (message, place) = SAID.take().unwrap_or_default();
            Err(Finding::Panic { message, place })
        }
        Ok(Err(what)) => Err(Finding::Broken(what)),
        Ok(Ok(_)) if bytes > MOST_BYTES => Err(Finding::Large(bytes)),
        Ok(Ok(accepted)) => Ok(accepted),
    };
    (found, took)
}
