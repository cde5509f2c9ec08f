//! Batches that are on the GPU before a step wants them.

use std::{
    sync::mpsc::{Receiver, sync_channel},
    thread::{self, JoinHandle},
};

use libtorch::cuda::{Copied, Copier};

use super::workers::Workers;
use crate::Error;

/// A thread that takes the workers' batches, copies them to pinned memory and from there to the GPU,
/// on a stream of its own. One waits on the GPU while the next one is on its way.
#[derive(Debug)]
pub(super) struct Ahead {
    batches: Option<Receiver<Result<[Copied; 2], Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    pub(super) fn start(mut workers: Workers, copier: Copier) -> Result<Self, Error> {
        let (sender, batches) = sync_channel(1);
        let work = move || {
            // As PyTorch's does: a copy's threads wait for the next one by spinning, and would take the
            // cores of the workers and of what launches kernels.
            if let Err(error) = libtorch::set_threads(1) {
                let _ = sender.send(Err(error.into()));
                return;
            }
            loop {
                let next = workers.next().and_then(|batch| {
                    Ok([copier.copy(&batch.input)?, copier.copy(&batch.labels)?])
                });
                let has_failed = next.is_err();
                if sender.send(next).is_err() || has_failed {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("pin-memory".into()).spawn(work);
        Ok(Self {
            batches: Some(batches),
            thread: Some(thread.map_err(|source| Error::Pipe {
                doing: "starting the thread that empties",
                source,
            })?),
        })
    }

    /// Input and labels of the next batch. The current stream waits for them, and not this thread.
    pub(super) fn next(&mut self) -> Result<[Copied; 2], Error> {
        let next = self
            .batches
            .as_ref()
            .and_then(|batches| batches.recv().ok());
        let copied = next.ok_or_else(|| Error::Pipe {
            doing: "reading from",
            source: std::io::Error::other("the thread that empties it has ended"),
        })??;
        for one in &copied {
            one.receive()?;
        }
        Ok(copied)
    }
}

impl Drop for Ahead {
    /// The thread ends once nobody wants what it sends, and takes the workers along.
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
