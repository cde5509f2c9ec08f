//! A run that is being watched.

use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::watch;

use super::Samples;

/// A running monitor. Dropped, it ends and its samples are lost.
#[derive(Debug)]
pub struct Watch {
    stop: Sender<()>,
    thread: Option<JoinHandle<Samples>>,
    lost: watch::Receiver<Option<String>>,
}

/// The monitor's end of a [`Watch`].
#[derive(Debug)]
pub(crate) struct Watcher {
    stopped: Receiver<()>,
    lost: watch::Sender<Option<String>>,
}

impl Watch {
    /// Runs `monitor` on a thread of its own, until [`Watcher::pause`] says to stop.
    pub(crate) fn begin(monitor: impl FnOnce(&Watcher) -> Samples + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (tell_lost, lost) = watch::channel(None);
        let watcher = Watcher {
            stopped,
            lost: tell_lost,
        };
        Self {
            stop,
            // No thread to be had is no reason to fail a run.
            thread: thread::Builder::new()
                .name("monitor".into())
                .spawn(move || monitor(&watcher))
                .ok(),
            lost,
        }
    }

    pub(crate) fn none() -> Self {
        Self {
            stop: mpsc::channel().0,
            thread: None,
            lost: watch::channel(None).1,
        }
    }

    /// Comes back with the reason when the GPU turns out to be lost; never where it does not.
    pub(crate) fn gpu_lost(&self) -> impl Future<Output = String> + Send + use<> {
        let mut lost = self.lost.clone();
        async move {
            let why = lost.wait_for(Option::is_some).await;
            if let Some(why) = why.ok().and_then(|why| why.clone()) {
                return why;
            }
            // The monitor ended first.
            std::future::pending().await
        }
    }

    /// Ends and gives what was seen.
    pub fn end(mut self) -> Samples {
        // The thread is gone only where it panicked; then there is nothing to tell.
        let _ = self.stop.send(());
        self.thread
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

impl Watcher {
    /// Waits for the next sample; `false` where there is to be none.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        self.stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }

    /// Tells why the GPU is lost; the first reason counts.
    pub(super) fn tell_lost(&self, why: &str) {
        self.lost.send_if_modified(|told| {
            let is_new = told.is_none();
            told.get_or_insert_with(|| why.to_owned());
            is_new
        });
    }
}
