//! Work that comes up while other work is still under way, done by as many threads as there are
//! cores.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::{Error, Result};

/// Work that waits for a thread.
pub(crate) struct Waiting<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// Each with its size.
    waiting: Vec<(u64, T)>,
    /// Nothing more comes.
    is_complete: bool,
    failure: Option<Error>,
}

/// Somebody failed, and what still waits is not done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped;

impl<T> Waiting<T> {
    /// Hands over work of this size.
    pub(crate) fn add(&self, size: u64, work: T) -> Result<(), Stopped> {
        let mut state = self.lock();
        if state.failure.is_some() {
            return Err(Stopped);
        }
        state.waiting.push((size, work));
        self.changed.notify_one();
        Ok(())
    }

    /// The largest that waits, so that at the end no thread is left alone with it; `None` once all
    /// is done or somebody failed.
    fn next(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() {
                return None;
            }
            let sizes = state.waiting.iter().enumerate();
            if let Some((place, _)) = sizes.max_by_key(|(_, (size, _))| *size) {
                return Some(state.waiting.swap_remove(place).1);
            }
            if state.is_complete {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self, failure: Option<Error>) {
        let mut state = self.lock();
        state.is_complete = true;
        if state.failure.is_none() {
            state.failure = failure;
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Whatever a thread that panicked was doing, it left a whole state behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does `work` for everything that `source` adds, on threads of its own, while `source` goes on
/// here. The first error ends both and is returned.
pub(crate) fn work_while<T: Send>(
    source: impl FnOnce(&Waiting<T>) -> Result<()>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    /// Lets the threads end where `source` panics.
    struct EndOnDrop<'a, T>(&'a Waiting<T>);
    impl<T> Drop for EndOnDrop<'_, T> {
        fn drop(&mut self) {
            self.0.end(None);
        }
    }

    let waiting = Waiting {
        state: Mutex::new(State {
            waiting: Vec::new(),
            is_complete: false,
            failure: None,
        }),
        changed: Condvar::new(),
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(next) = waiting.next() {
                    if let Err(error) = work(next) {
                        waiting.end(Some(error));
                    }
                }
            });
        }
        let end = EndOnDrop(&waiting);
        let failure = source(&waiting).err();
        end.0.end(failure);
    });
    let state = waiting.state.into_inner();
    match state.unwrap_or_else(PoisonError::into_inner).failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Barrier, Mutex},
        time::Duration,
    };

    use super::*;

    fn failure(what: &str) -> Error {
        Error::NotOffered {
            what: what.to_owned(),
            output: String::new(),
        }
    }

    #[test]
    fn everything_is_done_once() {
        let done = Mutex::new(Vec::new());
        work_while(
            |waiting| {
                for n in 0..100_u64 {
                    waiting.add(n, n).unwrap();
                }
                Ok(())
            },
            |n| {
                done.lock().unwrap().push(n);
                Ok(())
            },
        )
        .unwrap();
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn work_is_done_while_more_comes_up() {
        // Neither side gets past the barrier without the other.
        let both = Barrier::new(2);
        work_while(
            |waiting| {
                waiting.add(1, ()).unwrap();
                both.wait();
                Ok(())
            },
            |()| {
                both.wait();
                Ok(())
            },
        )
        .unwrap();
    }

    #[test]
    fn an_error_ends_what_waits_and_what_would_come() {
        let error = work_while(
            |waiting| {
                while waiting.add(1, ()).is_ok() {
                    thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            },
            |()| Err(failure("work")),
        )
        .unwrap_err();
        assert!(error.to_string().contains("work"), "{error}");
        let error = work_while(|_: &Waiting<()>| Err(failure("source")), |()| Ok(())).unwrap_err();
        assert!(error.to_string().contains("source"), "{error}");
    }
}
