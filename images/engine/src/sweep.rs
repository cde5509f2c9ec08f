//! Removing containers whose maker has died.

use std::collections::{BTreeMap, HashMap};

use bollard::{models::ContainerSummary, query_parameters::ListContainersOptionsBuilder};

use crate::{
    connect::Engine,
    error::{Cause, Result},
    owner::{LABEL_SESSION, Liveness, Owner},
};

/// A container that carries a label that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub id: String,
    /// Name, without the slash that engines put before it.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub is_running: bool,
}

impl Leftover {
    /// Who made it; `None` where the labels do not say so in full.
    pub fn owner(&self) -> Option<Owner> {
        Owner::from_labels(&self.labels)
    }
}

impl Engine {
    /// Containers in any state that carry a label: `key`, or `key=value`.
    pub async fn list_containers(&self, label: &str) -> Result<Vec<Leftover>> {
        // Podman before 5.6 lists a container that is just ending with the state
        // `stopped`, which the API does not know; it passes.
        const ATTEMPTS: u32 = 20;
        let filters = HashMap::from([("label", vec![label])]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let mut attempt = 0;
        let containers = loop {
            let listed = self.docker().list_containers(Some(options.clone())).await;
            attempt += 1;
            match listed.map_err(Cause::from) {
                Ok(containers) => break containers,
                Err(Cause::Unreadable(words))
                    if words.contains("stopped") && attempt < ATTEMPTS =>
                {
                    tokio::time::sleep(std::time::Duration::from_millis(250)).await;
                }
                Err(cause) => {
                    return Err(self.failed(
                        "list containers",
                        format!("with label {label}"),
                        cause,
                    ));
                }
            }
        };
        Ok(containers.into_iter().filter_map(leftover).collect())
    }

    /// Removes the containers of sessions whose process has died, and returns them. Those of
    /// processes that run, or that cannot be seen from here, are left alone. All are tried; the
    /// first error is returned.
    pub async fn sweep_dead_owners(&self) -> Result<Vec<Leftover>> {
        let mut dead = self.list_containers(LABEL_SESSION).await?;
        dead.retain(|leftover| {
            let owner = leftover.owner();
            owner.is_some_and(|owner| owner.liveness() == Liveness::Dead)
        });
        self.remove_all(dead, |leftover| &leftover.id).await
    }
}

fn leftover(container: ContainerSummary) -> Option<Leftover> {
    let name = container
        .names
        .into_iter()
        .flatten()
        .next()
        .unwrap_or_default();
    Some(Leftover {
        id: container.id?,
        name: name.trim_start_matches('/').to_owned(),
        labels: container.labels.unwrap_or_default().into_iter().collect(),
        is_running: container
            .state
            .is_some_and(|state| state.to_string() == "running"),
    })
}
