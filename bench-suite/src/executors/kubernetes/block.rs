//! A block while its Job goes on: what its runs hand over, and what it waits for.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};

use super::{
    Cluster, Known, SILENCE, Tell, job, parcel,
    state::{self, State},
};
use crate::session::Part;

/// The most that is read of a container's log.
const MOST_LOG: i64 = 16 << 20;
/// How long kubelets may go on trying to pull an image, where it may come yet.
const PULLS: Duration = Duration::from_mins(5);
/// How often the results of a run are fetched that do not come whole.
const FETCHES: u32 = 3;

/// A block that a Job carries out.
#[derive(Default)]
pub(super) struct Block {
    /// The Job's name.
    pub(super) job: String,
    /// Containers whose results were taken, failed attempts at that, and since when logs cannot be
    /// read.
    pub(super) taken: BTreeSet<String>,
    failed: u32,
    unread: Option<Instant>,
    /// Why runs were not carried out, where they say so.
    errors: Vec<String>,
    pub(super) told: String,
    /// Since when it waits, for a node or on it, and for an image, with the kubelet's last words.
    waits: Option<Instant>,
    has_node: bool,
    pulls: Option<(Instant, String)>,
}

impl Block {
    pub(super) fn of(job: String) -> Self {
        Self {
            job,
            ..Self::default()
        }
    }

    /// Why a run was not carried out.
    fn error(&self) -> Option<String> {
        let error = self.errors.first()?;
        let next = if error.contains("Torchgauge: was") {
            ", or give the profile a `program` of the version that planned this one"
        } else {
            ""
        };
        Some(format!("was not carried out: {error}{next}"))
    }
}

/// The newest Job of a block that nobody deletes.
pub(super) fn job_of(jobs: &[Job], block: u32) -> Option<&Job> {
    let block = block.to_string();
    let jobs = jobs.iter().filter(|job| {
        job.metadata.deletion_timestamp.is_none() && job.labels().get(job::BLOCK) == Some(&block)
    });
    jobs.max_by_key(|job| job.creation_timestamp())
}

/// The first Pod of a Job: another would begin where this one did.
fn first_pod<'a>(pods: &'a [Pod], job: Option<&Job>) -> Option<&'a Pod> {
    let uid = job.and_then(ResourceExt::uid);
    let is_of = |pod: &&Pod| {
        let mut owners = pod.owner_references().iter();
        owners.any(|owner| Some(&owner.uid) == uid.as_ref())
    };
    let pods = pods.iter().filter(is_of);
    pods.min_by_key(|pod| pod.creation_timestamp())
}

/// The place in the session's order of the run that a container carries out.
fn order_of(container: &str) -> Option<u32> {
    container.strip_prefix("run-")?.parse().ok()
}

impl Cluster {
    /// Takes what runs of this Pod recorded. `Err`: what can never be taken.
    async fn take(
        &self,
        pod: &Pod,
        block: &mut Block,
        part: &Part,
        tell: &mut Tell<'_>,
    ) -> Result<(), String> {
        for container in state::containers(pod) {
            let name = &container.name;
            let (Some(ended), Some(order)) = (state::terminated(container), order_of(name)) else {
                continue;
            };
            if block.taken.contains(name) {
                continue;
            }
            let params = LogParams {
                container: Some(name.clone()),
                limit_bytes: Some(MOST_LOG),
                ..LogParams::default()
            };
            let log = match self.pods().logs(&pod.name_any(), &params).await {
                Ok(log) => log,
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    let said = status.message;
                    return Err(format!(
                        "cannot read the log of {name}: {said}; docs/fleets.md has the rights that are needed"
                    ));
                }
                Err(error) => {
                    if block.unread.get_or_insert_with(Instant::now).elapsed() > SILENCE {
                        return Err(format!(
                            "cannot read the log of {name}: {error}; `--resume` runs it again"
                        ));
                    }
                    return Ok(());
                }
            };
            block.unread = None;
            let took = parcel::read(&log).and_then(|parcel| match parcel {
                Some(parcel) => {
                    parcel.unpack(&part.folder, order)?;
                    block.errors.extend(parcel.error);
                    Ok(true)
                }
                None if ended.exit_code == 0 => Err("it handed nothing over".to_owned()),
                None => Ok(false),
            });
            match took {
                Ok(handed_over) => {
                    block.taken.insert(name.clone());
                    block.failed = 0;
                    if handed_over {
                        let node = state::node(Some(pod));
                        tell(&format!("block {}: {name} ended on {node}", part.block));
                    }
                }
                Err(_) if block.failed < FETCHES => {
                    block.failed += 1;
                    return Ok(());
                }
                Err(said) => {
                    return Err(format!(
                        "cannot take over {name}: {said}; `--resume` runs it again"
                    ));
                }
            }
        }
        Ok(())
    }

    /// How a block ended; `None` while it goes on.
    pub(super) async fn look(
        &self,
        (jobs, pods): &Known,
        block: &mut Block,
        part: &Part,
        tell: &mut Tell<'_>,
    ) -> Option<(String, Option<String>)> {
        let job = job_of(jobs, part.block).filter(|job| job.name_any() == block.job);
        let pod = first_pod(pods, job);
        let node = state::node(pod).to_owned();
        if let Some(pod) = pod
            && let Err(said) = self.take(pod, block, part, tell).await
        {
            return Some((node, Some(said)));
        }
        let state = state::of(job, pod);
        let is_left = block.failed > 0 || block.unread.is_some();
        if is_left && matches!(state, State::Done | State::Ended(_)) {
            return None;
        }
        let words = match state {
            State::Done => return Some((node, block.error())),
            State::Ended(why) => return Some((node, Some(why))),
            State::Runs(words) => {
                (block.waits, block.pulls) = (None, None);
                words
            }
            State::Waits(mut words) => {
                if pod.is_none() {
                    words = self.why_no_pod(&block.job).await.unwrap_or(words);
                }
                // It may be this session's own blocks that it waits for, or its turn in a queue.
                let is_new = !node.is_empty() && !block.has_node;
                let is_held = state::is_suspended(job);
                if is_new || is_held || pods.iter().any(|pod| state::running(pod).is_some()) {
                    (block.waits, block.has_node) = (None, is_new || block.has_node);
                }
                let limit = self.profile.start_within();
                if block.waits.get_or_insert_with(Instant::now).elapsed() > limit {
                    let next = if node.is_empty() {
                        "correct `gpus`, `resources`, `node_selector` or `tolerations`, or raise `start_within`"
                    } else {
                        "`kubectl describe` shows what the node waits for; raise `start_within` for images that take longer"
                    };
                    let limit = limit.as_secs();
                    return Some((node, Some(format!("{words}: not within {limit} s; {next}"))));
                }
                block.pulls = None;
                words
            }
            State::Pulls(words) => {
                let (since, told) = block
                    .pulls
                    .get_or_insert_with(|| (Instant::now(), words.clone()));
                // Between attempts the kubelet does not say why.
                if !words.contains("BackOff") {
                    told.clone_from(&words);
                }
                if since.elapsed() > PULLS || state::never_pulls(told) {
                    let next = "check the reference, and `image_pull_secrets`";
                    return Some((node, Some(format!("{told}; {next}"))));
                }
                words
            }
        };
        if block.told != words {
            block.told.clone_from(&words);
            tell(&format!("block {} {words}", part.block));
        }
        None
    }

    /// What keeps a Job from having a Pod, where that may be read.
    async fn why_no_pod(&self, job: &str) -> Option<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let of_job =
            ListParams::default().fields(&format!("involvedObject.name={job},reason=FailedCreate"));
        let last = events.list(&of_job).await.ok()?.items.pop()?;
        Some(format!("waits for its Pod: {}", last.message?))
    }
}
