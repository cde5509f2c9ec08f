//! Blocks as Jobs of a Kubernetes cluster: one Pod each, in which runs are containers one after
//! another, so that all of a block's have one node and its GPUs.
//!
//! Jobs are found again by their labels, which name session and block: a submitter that dies loses
//! none. Each run's container hands over what it recorded, in its log.

mod block;
mod job;
pub mod parcel;
mod profile;
mod program;
mod state;

use std::{
    collections::BTreeMap,
    env,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    config::KubeConfigOptions,
};
use record::SessionFolder;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    Executor, ExecutorError, Finding, Registration,
    nodes::{self, CLEAN_UP, Nodes, PAUSES, SILENCE, Scheduler, inside},
};
use crate::session::Part;
use block::{Block, job_of};
use profile::Profile;
use state::{refused, unavailable};

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
        has_found: AtomicBool::new(false),
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
    let is_set = |variable| env::var_os(variable).is_some();
    let is_in_pod = is_set("KUBERNETES_SERVICE_HOST") && !is_set("KUBECONFIG");
    let mut config = if is_in_pod && context.is_none() {
        Config::incluster().map_err(|error| no_cluster(&error))?
    } else {
        let options = KubeConfigOptions {
            context: context.cloned(),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_kubeconfig(&options).await;
        config.map_err(|error| match context {
            Some(_) => {
                let message = format!(
                    "the profile's `context`: {error}; `kubectl config get-contexts` lists them"
                );
                ExecutorError::Argument(message.into())
            }
            None => no_cluster(&error),
        })?
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
    /// Whether Jobs of a submitter before this one go on.
    has_found: AtomicBool,
}

type Tell<'a> = dyn FnMut(&str) + Send + 'a;
/// What the API server knows of a session.
type Known = (Vec<Job>, Vec<Pod>);

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

    /// Makes a Job for a part; its name.
    async fn submit(&self, session: &str, part: &Part) -> Result<String, ExecutorError> {
        let argument = |message: String| ExecutorError::Argument(message.into());
        inside::check_images(part, "")?;
        let archives = program::archives(part)?;
        // Of its own: what is left of an earlier Job of this block may still be going.
        let now = jiff::Timestamp::now().as_second();
        let name = format!("torchgauge-{session}-{:03}-{now:x}", part.block);
        let of = (session, part.block);
        let job = job::job(&name, of, &part.runs, &self.profile);
        let job = job.map_err(|error| argument(format!("profile {}: {error}", self.file)))?;
        let made = self.jobs().create(&PostParams::default(), &job).await;
        let job = made.map_err(|error| refused(&error, &self.file))?;
        self.hand_over(&job, archives).await?;
        Ok(name)
    }

    /// Gives a Job its part, unless it has it: a submitter may have died in between.
    async fn hand_over(&self, job: &Job, archives: [Vec<u8>; 2]) -> Result<(), ExecutorError> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let map = job::config_map(job, archives);
        match maps.create(&PostParams::default(), &map).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            made => made.map(drop).map_err(|error| refused(&error, &self.file)),
        }
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
    /// what is left. What has ended meanwhile is taken before anything is submitted.
    async fn begin(
        &self,
        session: &str,
        parts: &[Part],
        tell: &mut Tell<'_>,
    ) -> Result<BTreeMap<u32, Block>, ExecutorError> {
        let known = self.list(session).await;
        let known = known.map_err(|error| refused(&error, &self.file))?;
        let mut open = BTreeMap::new();
        for part in parts.iter().filter(|part| !part.is_complete) {
            if let Some(job) = job_of(&known.0, part.block) {
                let mut block = Block::of(job.name_any());
                if self.look(&known, &mut block, part, tell).await.is_none() {
                    self.has_found.store(true, Ordering::Relaxed);
                    match program::archives(part) {
                        Ok(archives) => self.hand_over(job, archives).await?,
                        // It has its part, unless the submitter died between the two.
                        Err(error) => tell(&error.to_string()),
                    }
                    open.insert(part.block, block);
                } else {
                    let ended = self.delete(&block.job).await;
                    ended.map_err(|error| refused(&error, &self.file))?;
                }
            }
        }
        for part in parts.iter().filter(|part| !part.is_complete) {
            let now = SessionFolder::at(&part.folder).read_session();
            if open.contains_key(&part.block) || now.is_ok_and(|now| now.complete) {
                continue;
            }
            let job = self.submit(session, part).await?;
            tell(&format!(
                "block {} is the Job {job} in {}",
                part.block, self.namespace
            ));
            open.insert(part.block, Block::of(job));
        }
        Ok(open)
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
                () = cancel.cancelled() => {
                    self.take_all(session, &mut open, parts, tell).await;
                    return Ok(());
                }
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
                let before = (block.taken.len(), block.told.clone());
                let ended = self.look(&known, block, part, tell).await;
                if before != (block.taken.len(), block.told.clone()) {
                    pause = PAUSES[0];
                }
                if let Some((node, why)) = ended {
                    let name = std::mem::take(&mut block.job);
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

    /// What ended since it was last asked for.
    async fn take_all(
        &self,
        session: &str,
        open: &mut BTreeMap<u32, Block>,
        parts: &[Part],
        tell: &mut Tell<'_>,
    ) {
        let Ok(known) = self.list(session).await else {
            return;
        };
        for part in parts {
            if let Some(block) = open.get_mut(&part.block) {
                self.look(&known, block, part, tell).await;
            }
        }
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
            // Jobs go on where nobody can tell what is wrong with them, and those that were found
            // where another could not be submitted.
            let has_found = ended.is_err() && self.has_found.load(Ordering::Relaxed);
            if !has_found && !matches!(ended, Err(ExecutorError::Unavailable(_))) {
                self.end(session, tell).await;
            }
            ended
        })
    }

    fn container(&self) -> Option<&str> {
        Some("a Pod")
    }

    fn by_hand(&self, _: &Path) -> Option<String> {
        None
    }
}
