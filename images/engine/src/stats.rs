//! What a container uses while it runs, as its engine counts it.

use std::{pin::Pin, time::Duration};

use bollard::{
    Docker,
    models::{ContainerBlkioStats, ContainerStatsResponse},
    query_parameters::StatsOptionsBuilder,
};
use futures_util::{Stream, StreamExt as _, future, stream};
use serde::{Deserialize, Serialize};
use tokio::time::MissedTickBehavior;

use crate::{
    container::Container,
    error::{Cause, Result},
    facts::Product,
};

/// Docker's own period.
const PERIOD: Duration = Duration::from_secs(1);
/// Readings in a row that must fail before a failure is believed.
const ATTEMPTS: u32 = 5;

type Reading = std::result::Result<ContainerStatsResponse, bollard::errors::Error>;

/// One reading. `None` where the engine does not have the counter, never 0.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// CPU time used since the start.
    pub cpu_time: Option<Duration>,
    /// CPUs in use on average since the last sample, such as 1.8; none for the first.
    pub cpus_used: Option<f64>,
    /// Memory in use less the file cache that can be given back at once, as `docker
    /// stats` shows it.
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    /// Read from block devices since the start.
    pub read_bytes: Option<u64>,
    /// Written to block devices since the start.
    pub written_bytes: Option<u64>,
}

pub type StatsStream = Pin<Box<dyn Stream<Item = Result<Sample>> + Send>>;

impl Container {
    /// Samples, about one a second. The stream ends with the container's end: when
    /// [`Container::wait`] or [`Container::remove`] comes back, the container is
    /// dropped, or the engine sends the empty reading of an ended container (Docker
    /// goes on sending those for ever).
    pub fn stats(&self) -> StatsStream {
        let readings = match self.engine.facts().product {
            Product::Docker => {
                let options = StatsOptionsBuilder::default().stream(true).build();
                let patient = self.engine.patient();
                patient.stats(&self.id, Some(options)).boxed()
            }
            Product::Podman => self.polled().boxed(),
        };
        let (engine, name) = (self.engine.clone(), self.name.clone());
        let mut ended = self.ended.subscribe();
        let end = async move {
            // An error says that the container is dropped: an end as well.
            drop(ended.wait_for(|ended| *ended).await);
        };
        let samples = readings
            .map(move |reading| match reading.map_err(Cause::from) {
                Ok(reading) => Some(Ok(reading)),
                Err(cause) if cause.has_status(404) || cause.has_status(409) => None,
                Err(cause) => Some(Err(engine.failed(
                    "read the resource use of container",
                    &name,
                    cause,
                ))),
            })
            .take_while(|reading| {
                future::ready(match reading {
                    None => false,
                    Some(Ok(reading)) => !is_of_ended(reading),
                    Some(Err(_)) => true,
                })
            })
            .filter_map(future::ready)
            .scan(None, |last: &mut Option<(f64, Duration)>, reading| {
                let sample = reading.map(|reading| {
                    let at = reading.read.as_deref().and_then(seconds);
                    let mut sample = Sample::from(reading);
                    let now = at.zip(sample.cpu_time);
                    if let (Some((then, before)), Some((at, used))) = (*last, now)
                        && at > then
                    {
                        let busy = used.saturating_sub(before).as_secs_f64();
                        sample.cpus_used = Some(busy / (at - then));
                    }
                    *last = now.or(*last);
                    sample
                });
                future::ready(Some(sample))
            });
        Box::pin(samples.take_until(end))
    }

    /// Podman's own stream has a reading every 5 s.
    fn polled(&self) -> impl Stream<Item = Reading> + Send + 'static + use<> {
        let (docker, id) = (self.engine.docker().clone(), self.id.clone());
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        stream::unfold((docker, id, ticks), |(docker, id, mut ticks)| async {
            let mut attempt = 1;
            loop {
                ticks.tick().await;
                let options = StatsOptionsBuilder::default()
                    .stream(false)
                    .one_shot(true)
                    .build();
                let mut readings = Box::pin(docker.stats(&id, Some(options)));
                let reading = readings.next().await?;
                drop(readings);
                // Once the container has ended, status 500 without words; on a busy machine some
                // time before Podman itself takes it for ended.
                if reading.is_err() {
                    if has_ended(&docker, &id).await {
                        return None;
                    }
                    if attempt < ATTEMPTS {
                        attempt += 1;
                        continue;
                    }
                }
                return Some((reading, (docker, id, ticks)));
            }
        })
    }
}

/// Anything but "it runs" counts: gone, or in a state that the API does not know.
async fn has_ended(docker: &Docker, id: &str) -> bool {
    match docker
        .inspect_container(id, None)
        .await
        .map_err(Cause::from)
    {
        Ok(container) => container.state.and_then(|state| state.running) != Some(true),
        Err(cause) => !cause.is_engine_gone(),
    }
}

/// Docker sends readings of year 1 once the container has ended, without pids
/// and CPU time.
fn is_of_ended(reading: &ContainerStatsResponse) -> bool {
    let never = reading
        .read
        .as_deref()
        .is_none_or(|read| read.starts_with("0001-"));
    let no_cpu = reading
        .cpu_stats
        .as_ref()
        .and_then(|cpu| cpu.cpu_usage.as_ref())
        .and_then(|usage| usage.total_usage)
        .is_none_or(|total| total == 0);
    never && no_cpu
}

impl From<ContainerStatsResponse> for Sample {
    fn from(reading: ContainerStatsResponse) -> Self {
        let cpu = reading.cpu_stats.unwrap_or_default();
        let memory = reading.memory_stats.unwrap_or_default();
        let stats = memory.stats.unwrap_or_default();
        // Version 2's name, then version 1's, as the docker command does.
        let cache = stats
            .get("total_inactive_file")
            .or(stats.get("inactive_file"));
        // No container uses no memory: 0 is how Go writes a counter that it lacks.
        let some = |value: Option<u64>| value.filter(|value| *value > 0);
        let usage = some(memory.usage);
        let io = reading.blkio_stats.unwrap_or_default();
        Self {
            cpu_time: cpu
                .cpu_usage
                .and_then(|usage| usage.total_usage)
                .map(Duration::from_nanos),
            cpus_used: None,
            memory_bytes: usage.map(|usage| match cache {
                Some(cache) if *cache < usage => usage - cache,
                _ => usage,
            }),
            pids: reading.pids_stats.and_then(|pids| some(pids.current)),
            read_bytes: transferred(&io, "read"),
            written_bytes: transferred(&io, "write"),
        }
    }
}

/// Sum over the devices; `None` where the engine lists none at all.
fn transferred(io: &ContainerBlkioStats, kind: &str) -> Option<u64> {
    let entries = io.io_service_bytes_recursive.as_ref();
    let entries = entries.filter(|entries| !entries.is_empty())?;
    // `Read` on version 1, `read` on version 2.
    let is_of_kind = |op: &String| op.eq_ignore_ascii_case(kind);
    let fitting = entries
        .iter()
        .filter(|entry| entry.op.as_ref().is_some_and(is_of_kind));
    Some(fitting.filter_map(|entry| entry.value).sum())
}

/// Seconds since the epoch of an RFC 3339 time.
fn seconds(time: &str) -> Option<f64> {
    let time: jiff::Timestamp = time.parse().ok()?;
    Some(time.as_duration().as_secs_f64())
}
