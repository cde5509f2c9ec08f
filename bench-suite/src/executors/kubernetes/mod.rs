//! Blocks as Jobs of a Kubernetes cluster: one Pod each, in which runs are containers one after
//! another, so that all of a block's have one node and its GPUs.
//!
//! Jobs are found again by their names, which follow from the session's: a submitter that dies loses
//! none. Each run's container hands over what it recorded, in its log.

mod job;
pub mod parcel;
mod profile;
mod state;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod},
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, LogParams, PostParams},
    config::KubeConfigOptions,
};
use record::SessionFolder;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    Executor, ExecutorError, Finding, Registration,
    nodes::{self, CLEAN_UP, Nodes, PAUSES, SILENCE, Scheduler},
};
use crate::session::Part;
use job::Step;
use profile::Profile;
use state::{State, refused, unavailable};

/// Says in a Pod which image a container is of.
pub const IMAGE_VARIABLE: &str = "TORCHGAUGE_IMAGE";

pub(super) const REGISTRATION: Registration = Registration {
    word: "kubernetes",
    help: "on the nodes of a Kubernetes cluster, each block as a Job",
    argument: Some("PROFILE"),
    aliases: &[],
    is_automatic: false,
    is_scheduler: true,
    is_hidden: false,
    open: |profile| Box::pin(open(profile)),
    examine: || Box::pin(examine()),
    sweep: |_| 0,
};

/// The most that a `ConfigMap` may hold.
const MOST_PART: usize = 1 << 20;
/// The most that is read of a container's log.
const MOST_LOG: i64 = 16 << 20;
/// How long kubelets may go on trying to pull an image, where it may come yet.
const PULLS: Duration = Duration::from_mins(5);
/// How often the results of a run are fetched that do not come whole.
const FETCHES: u32 = 3;

async fn open(file: String) -> Result<Box<dyn Executor>, ExecutorError> {
    if file.is_empty() {
        let message = "kubernetes needs a profile, a YAML file with at least `version: 1` and `program`: \
                       --engine kubernetes:FILE; docs/fleets.md describes it";
        return Err(ExecutorError::Argument(message.into()));
    }
    let profile = Profile::read(Path::new(&file))
        .map_err(|error| ExecutorError::Argument(error.to_string().into()))?;
    let (client, namespace) = connect(profile.context.as_ref()).await?;
    let (engine, gpus) = (profile.engine().to_owned(), profile.all_gpus());
    let cluster = Box::new(Cluster {
        client,
        namespace: profile.namespace.clone().unwrap_or(namespace),
        profile,
        file,
    });
    Ok(Box::new(Nodes::new(
        REGISTRATION.word,
        gpus,
        engine,
        cluster,
    )?))
}

/// By the kubeconfig, or, in a Pod, by its service account; with the namespace of either.
async fn connect(context: Option<&String>) -> Result<(Client, String), ExecutorError> {
    let no_cluster = |said: &dyn std::fmt::Display| {
        let message = format!(
            "no Kubernetes here: {said}; set KUBECONFIG, or run this where `kubectl get pods` works"
        );
        ExecutorError::Unavailable(message.into())
    };
    let mut config = match context {
        Some(_) => {
            let options = KubeConfigOptions {
                context: context.cloned(),
                ..KubeConfigOptions::default()
            };
            let config = Config::from_kubeconfig(&options).await;
            config.map_err(|error| {
                let message = format!(
                    "the profile's `context`: {error}; `kubectl config get-contexts` lists them"
                );
                ExecutorError::Argument(message.into())
            })?
        }
        None => Config::infer().await.map_err(|error| no_cluster(&error))?,
    };
    config.connect_timeout = Some(Duration::from_secs(10));
    config.read_timeout = Some(Duration::from_mins(1));
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|error| no_cluster(&error))?;
    Ok((client, namespace))
}

async fn examine() -> Vec<Finding> {
    let what = "Kubernetes";
    let version = async {
        let (client, _) = connect(None).await.map_err(|error| error.to_string())?;
        client
            .apiserver_version()
            .await
            .map_err(|error| error.to_string())
    };
    vec![match version.await {
        Ok(version) => Finding::ok(what, version.git_version),
        Err(said) => Finding::missing(what, said, "needed for --engine kubernetes alone"),
    }]
}

struct Cluster {
    client: Client,
    namespace: String,
    profile: Profile,
    /// Where the profile is.
    file: String,
}

/// A block that a Job carries out.
#[derive(Default)]
struct Block {
    /// Containers whose results were taken, and failed attempts at that.
    taken: BTreeSet<String>,
    failed: u32,
    /// Why runs were not carried out, where they say so.
    errors: Vec<String>,
    told: String,
    /// Since when it waits for a node, and for an image, with the kubelet's last words.
    waits: Option<Instant>,
    pulls: Option<(Instant, String)>,
}

impl Block {
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

type Tell<'a> = dyn FnMut(&str) + Send + 'a;
/// What the API server knows of a session.
type Known = (Vec<Job>, Vec<Pod>);

fn name_of(session: &str, block: u32) -> String {
    format!("torchgauge-{session}-{block:03}")
}

impl Cluster {
    fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn list(&self, session: &str) -> kube::Result<Known> {
        let of_session = ListParams::default().labels(&format!("{}={session}", job::SESSION));
        let (jobs, pods) = (self.jobs(), self.pods());
        let jobs = jobs.list(&of_session).await?;
        Ok((jobs.items, pods.list(&of_session).await?.items))
    }

    async fn submit(&self, session: &str, part: &Part) -> Result<(), ExecutorError> {
        let argument = |message: String| ExecutorError::Argument(message.into());
        let io = |error: &dyn std::fmt::Display| {
            argument(format!("cannot read {}: {error}", part.folder.display()))
        };
        let images = SessionFolder::at(&part.folder)
            .read_session()
            .map_err(|error| io(&error))?
            .images;
        let step = |(index, (run, image)): (usize, &(String, String))| {
            let facts = images.iter().find(|facts| facts.name == *image);
            let reference = facts.and_then(|facts| facts.reference.clone());
            let image = reference
                .filter(|reference| reference.contains("@sha256:"))
                .ok_or_else(|| {
                    argument(format!(
                        "the image {image} is not what every node would pull as the same; expected \
                     REGISTRY/REPOSITORY@sha256:DIGEST, as `images push` prints it"
                    ))
                })?;
            Ok(Step {
                container: format!("run-{index:04}"),
                run: run.clone(),
                image,
            })
        };
        let steps: Result<Vec<Step>, ExecutorError> =
            part.runs.iter().enumerate().map(step).collect();
        let archive = parcel::of_part(&part.folder).map_err(|error| io(&error))?;
        if archive.len() > MOST_PART {
            return Err(argument(format!(
                "block {} takes {} bytes, and a ConfigMap at most {MOST_PART}; give fewer cells at once",
                part.block,
                archive.len()
            )));
        }
        let name = name_of(session, part.block);
        let job = job::job(&name, session, &steps?, &self.profile);
        let job = job.map_err(|error| argument(format!("profile {}: {error}", self.file)))?;
        let (params, refused) = (PostParams::default(), |error| refused(&error, &self.file));
        let job = self.jobs().create(&params, &job).await.map_err(refused)?;
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        maps.create(&params, &job::config_map(&job, archive))
            .await
            .map_err(refused)?;
        Ok(())
    }

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
            if state::terminated(container).is_none()
                || block.taken.contains(name)
                || name == "program"
            {
                continue;
            }
            let params = LogParams {
                container: Some(name.clone()),
                limit_bytes: Some(MOST_LOG),
                ..LogParams::default()
            };
            let log = self.pods().logs(&pod.name_any(), &params).await;
            let took = log.map_err(|error| error.to_string()).and_then(|log| {
                let parcel = parcel::read(&log)?;
                if let Some(parcel) = &parcel {
                    parcel.unpack(&part.folder)?;
                    block.errors.extend(parcel.error.clone());
                }
                Ok(parcel.is_some())
            });
            match took {
                Ok(handed_over) => {
                    block.taken.insert(name.clone());
                    block.failed = 0;
                    if handed_over {
                        tell(&format!(
                            "block {}: {name} ended on {}",
                            part.block,
                            state::node(Some(pod))
                        ));
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
    async fn look(
        &self,
        (jobs, pods): &Known,
        name: &str,
        block: &mut Block,
        part: &Part,
        tell: &mut Tell<'_>,
    ) -> Option<(String, Option<String>)> {
        let job = jobs.iter().find(|job| job.name_any() == name);
        let uid = job.and_then(ResourceExt::uid);
        let is_of = |pod: &&Pod| {
            pod.owner_references()
                .iter()
                .any(|owner| Some(&owner.uid) == uid.as_ref())
        };
        // The first: another would begin where this one did.
        let pod = pods
            .iter()
            .filter(is_of)
            .min_by_key(|pod| pod.creation_timestamp());
        let node = state::node(pod).to_owned();
        if let Some(pod) = pod
            && let Err(said) = self.take(pod, block, part, tell).await
        {
            return Some((node, Some(said)));
        }
        let state = state::of(job, pod);
        if block.failed > 0 && matches!(state, State::Done | State::Ended(_)) {
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
                    words = self.why_no_pod(name).await.unwrap_or(words);
                }
                // It may be this session's own blocks that it waits for.
                if pods.iter().any(|pod| state::running(pod).is_some()) {
                    block.waits = None;
                }
                let limit = self.profile.start_within();
                if block.waits.get_or_insert_with(Instant::now).elapsed() > limit {
                    let next = "correct `gpus`, `resources`, `node_selector` or `tolerations`, or raise `start_within`";
                    return Some((
                        node,
                        Some(format!("{words}: not within {} s; {next}", limit.as_secs())),
                    ));
                }
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

    /// Deletes a Job, with its Pod and its `ConfigMap`.
    async fn delete(&self, name: &str) -> Result<(), kube::Error> {
        match self.jobs().delete(name, &DeleteParams::foreground()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            ended => ended.map(drop),
        }
    }

    /// Deletes all Jobs of a session and waits until nothing of them is left.
    async fn end(&self, session: &str, tell: &mut Tell<'_>) {
        let began = Instant::now();
        let mut said = "they are still ending".to_owned();
        while began.elapsed() < CLEAN_UP {
            match self.list(session).await {
                Ok((jobs, pods)) if jobs.is_empty() && pods.is_empty() => return,
                Ok((jobs, _)) => {
                    for job in jobs
                        .iter()
                        .filter(|job| job.metadata.deletion_timestamp.is_none())
                    {
                        if let Err(error) = self.delete(&job.name_any()).await {
                            said = error.to_string();
                        }
                    }
                }
                // Who may not even list them has not begun any.
                Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => return,
                Err(error) => said = error.to_string(),
            }
            sleep(PAUSES[0]).await;
        }
        let (namespace, label) = (&self.namespace, job::SESSION);
        tell(&format!(
            "Jobs are left ({said}); end them with `kubectl delete jobs --namespace {namespace} --selector {label}={session}`"
        ));
    }

    /// The blocks that Jobs carry out: those that a submitter before this one left, and new ones for
    /// what is left. What has ended meanwhile is taken first.
    async fn begin(
        &self,
        session: &str,
        parts: &[Part],
        tell: &mut Tell<'_>,
    ) -> Result<BTreeMap<u32, Block>, ExecutorError> {
        let known = self
            .list(session)
            .await
            .map_err(|error| refused(&error, &self.file))?;
        let mut open = BTreeMap::new();
        for part in parts.iter().filter(|part| !part.is_complete) {
            let (name, mut block) = (name_of(session, part.block), Block::default());
            if known.0.iter().any(|job| job.name_any() == name) {
                if self
                    .look(&known, &name, &mut block, part, tell)
                    .await
                    .is_none()
                {
                    open.insert(part.block, block);
                    continue;
                }
                self.end_one(session, &name).await?;
            }
            let now = SessionFolder::at(&part.folder).read_session();
            if now.is_ok_and(|now| now.complete) {
                continue;
            }
            self.submit(session, part).await?;
            tell(&format!(
                "block {} is the Job {name} in {}",
                part.block, self.namespace
            ));
            open.insert(part.block, block);
        }
        Ok(open)
    }

    /// Deletes one Job, and waits until its name is free.
    async fn end_one(&self, session: &str, name: &str) -> Result<(), ExecutorError> {
        self.delete(name)
            .await
            .map_err(|error| refused(&error, &self.file))?;
        let began = Instant::now();
        loop {
            let (jobs, _) = self
                .list(session)
                .await
                .map_err(|error| refused(&error, &self.file))?;
            if !jobs.iter().any(|job| job.name_any() == name) {
                return Ok(());
            }
            if began.elapsed() > CLEAN_UP {
                return Err(unavailable(&format!("the Job {name} does not go")));
            }
            sleep(PAUSES[0]).await;
        }
    }

    async fn carry_out(
        &self,
        session: &str,
        parts: &[Part],
        tell: &mut Tell<'_>,
        cancel: &CancellationToken,
    ) -> Result<(), ExecutorError> {
        let mut open = self.begin(session, parts, tell).await?;
        let (mut pause, mut answered) = (PAUSES[0], Instant::now());
        while !open.is_empty() {
            tokio::select! {
                () = sleep(pause) => pause = (pause * 3 / 2).min(PAUSES[1]),
                () = cancel.cancelled() => return Ok(()),
            }
            let known = match self.list(session).await {
                Ok(known) => known,
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    return Err(refused(&kube::Error::Api(status), &self.file));
                }
                Err(error) if answered.elapsed() > SILENCE => {
                    return Err(unavailable(&error.to_string()));
                }
                Err(_) => continue,
            };
            answered = Instant::now();
            for part in parts {
                let Some(block) = open.get_mut(&part.block) else {
                    continue;
                };
                let (name, before) = (
                    name_of(session, part.block),
                    (block.taken.len(), block.told.clone()),
                );
                let ended = self.look(&known, &name, block, part, tell).await;
                if before != (block.taken.len(), block.told.clone()) {
                    pause = PAUSES[0];
                }
                if let Some((node, why)) = ended {
                    open.remove(&part.block);
                    tell(&nodes::ended(part, &node, || {
                        why.unwrap_or_else(|| "has runs left; go on with `--resume`".to_owned())
                    }));
                    if let Err(error) = self.delete(&name).await {
                        tell(&format!("the Job {name} is left: {error}"));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Scheduler for Cluster {
    fn carry<'a>(
        &'a self,
        session: &'a str,
        parts: &'a [Part],
        tell: &'a mut (dyn FnMut(&str) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            let ended = self.carry_out(session, parts, tell, cancel).await;
            // Jobs go on where nobody can tell what is wrong with them.
            if !matches!(ended, Err(ExecutorError::Unavailable(_))) {
                self.end(session, tell).await;
            }
            ended
        })
    }

    fn by_hand(&self, _: &Path) -> Option<String> {
        None
    }
}
