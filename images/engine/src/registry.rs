//! Which containers this process has made and not yet removed.

use std::{
    collections::BTreeSet,
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use bollard::{Docker, query_parameters::RemoveContainerOptionsBuilder};

use crate::{
    connect::Engine,
    error::{Cause, Result},
};

impl Engine {
    /// Ids of live containers. A container enters when the engine has told its id and
    /// leaves when the engine has confirmed that it is gone.
    pub(crate) fn live(&self) -> MutexGuard<'_, BTreeSet<String>> {
        let live = self.inner.live.lock();
        live.unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes every container that this connection (and its clones) made and that
    /// is still there, running or not; returns their ids.
    ///
    /// For the end of a session and for Ctrl-C: a dropped [`crate::Container`]
    /// starts its own removal, but nothing waits for that. All are tried; the
    /// first error is returned.
    pub async fn cleanup(&self) -> Result<Vec<String>> {
        self.remove_all(self.live_containers(), |id| id).await
    }

    /// Removes these, and gives back those that are gone. All are tried; the first error is returned.
    pub(crate) async fn remove_all<T>(&self, all: Vec<T>, id: fn(&T) -> &String) -> Result<Vec<T>> {
        let mut removed = Vec::new();
        let mut first_error = None;
        for one in all {
            match self.remove_by_id(id(&one)).await {
                Ok(()) => removed.push(one),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(removed), Err)
    }

    /// Ids of the containers that this connection made and that are not yet gone.
    pub fn live_containers(&self) -> Vec<String> {
        self.live().iter().cloned().collect()
    }

    pub(crate) async fn remove_by_id(&self, id: &str) -> Result<()> {
        remove(self.docker(), id)
            .await
            .map_err(|cause| self.failed("remove container", short(id), cause))?;
        self.live().remove(id);
        Ok(())
    }

    /// Starts a removal that nobody waits for; the id stays in the registry until
    /// it has happened, so that [`Engine::cleanup`] catches what did not. Where no runtime is left
    /// to remove it, the next session sweeps it.
    pub(crate) fn remove_in_background(&self, id: String) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let engine = self.clone();
        runtime.spawn(async move {
            if let Err(error) = engine.remove_by_id(&id).await {
                tracing::warn!("{error}");
            }
        });
    }
}

/// Kills and removes, and comes back when the container is gone. Fine where it is
/// gone already, also where another removal is under way.
async fn remove(docker: &Docker, id: &str) -> Result<(), Cause> {
    const ATTEMPTS: u32 = 60;
    let mut attempt = 0;
    loop {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let removed = docker.remove_container(id, Some(options)).await;
        let Err(cause) = Cause::absent(removed) else {
            return Ok(());
        };
        // 409: a removal is in progress; 500: shortly after an exit, fuse-overlayfs and some
        // kernels say "device or resource busy", and Podman 4.3, which wants to stop what has
        // just stopped by itself, "container state improper: stopped".
        let mut passing_messages = ["busy", "container state improper"].iter();
        let passing = cause.has_status(409)
            || cause.has_status(500)
                && passing_messages.any(|words| cause.message().contains(words));
        attempt += 1;
        if !passing || attempt == ATTEMPTS {
            return Err(cause);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Ids as people know them.
pub(crate) fn short(id: &str) -> String {
    id.chars().take(12).collect()
}
