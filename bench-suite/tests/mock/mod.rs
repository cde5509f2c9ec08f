//! An executor without a workload, for tests of everything around it.

mod events;
mod mock_host;
mod script;

use std::{sync::Arc, time::Instant};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use protocol::Device;
use record::{Isolation, Place, Reason};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use mock_host::MockHost;
pub use script::MockError;
use script::{Ending, Script};

use super::{
    Execution, Executor, ExecutorError, ImageSource, Order, Prepared, Registration, order::no_files,
};
use crate::{
    host::{self, Host, Samples, Target, Watch},
    outcome::End,
    suite::Program,
};

/// No workload; its argument is the script.
pub(super) const REGISTRATION: Registration = Registration {
    word: "mock",
    help: "nowhere: the metrics are invented",
    argument: Some("SCRIPT"),
    aliases: &[],
    is_automatic: false,
    is_scheduler: false,
    is_hidden: true,
    open: |script| {
        Box::pin(async move {
            let mock = Mock::new(&script);
            let mock = mock.map_err(|error| ExecutorError::Argument(Box::new(error)))?;
            Ok(Box::new(mock) as Box<dyn Executor>)
        })
    },
    examine: || Box::pin(async { Vec::new() }),
    sweep: |_| 0,
};

const NOTE: &str = "made by the mock engine; nothing was measured";

/// Runs nothing and tells invented metrics, as a script says.
///
/// The script is a list of rules, separated by `;` or line ends. A rule is `PATTERN=ENDING`; the
/// first whose pattern is part of `RUN IMAGE SCENARIO VARIANT` or is `*` decides, and a run that
/// no rule fits goes well. Endings: `ok`, `ok:X` (X times as fast), `oom`, `nan`, `libtorch`,
/// `exit:N`, `signal:N`, `host-oom`, `time-limit`, `hang`, `gpu-lost`, `garbage`, `torn`, `invalid`, `engine`, `image`,
/// `cancel` (the session is interrupted during this run), `fits:N` (memory runs out above a batch of
/// N), `sleep:MS` (goes well after that
/// long), `stubborn:MS` (as `sleep`, and does not let itself be interrupted).
///
/// `hosts=2,gpus=4` is no rule: runs then happen on two hosts that are not there, with four GPUs
/// each, in place of this machine.
///
/// The command line reaches it as `--engine mock:SCRIPT`, hidden: tests of the real binary need a
/// session without containers, libtorch or a GPU. Its records say that nothing was measured.
#[derive(Debug, Clone)]
pub struct Mock {
    hosts: Vec<Arc<dyn Host>>,
    script: Script,
}

impl Mock {
    pub fn new(script: &str) -> Result<Self, MockError> {
        let script = Script::read(script)?;
        let host = |number, gpus| Arc::new(MockHost::new(number, gpus)) as Arc<dyn Host>;
        let hosts = match script.hosts {
            None => vec![host::local::open()],
            Some((hosts, gpus)) => (1..=hosts).map(|number| host(number, gpus)).collect(),
        };
        Ok(Self { hosts, script })
    }

    fn uuid(&self, place: &Place) -> Option<String> {
        let facts = self.host(&place.host).facts();
        facts.gpu(place.device).map(|gpu| gpu.uuid.clone())
    }

    /// Watches every host of a run. The GPU is watched as in a run, so that what others do on it is
    /// seen.
    fn watch(&self, order: &Order, began: Instant) -> Vec<Watch> {
        let mut hosts: Vec<&dyn Host> = Vec::new();
        for place in order
            .cell
            .places
            .iter()
            .filter(|place| place.device.is_cuda())
        {
            let host = self.host(&place.host);
            let is_known = hosts.iter().any(|known| known.name() == host.name());
            if !is_known && host.gpu_obstacle().is_none() {
                hosts.push(host);
            }
        }
        let watch = |host: &dyn Host| {
            let target = Target::Process {
                pid: std::process::id(),
            };
            let bystanders = order.bystanders(host);
            order.watch(host, began, target, bystanders)
        };
        hosts.into_iter().map(watch).collect()
    }
}

impl Executor for Mock {
    fn hosts(&self) -> &[Arc<dyn Host>] {
        &self.hosts
    }

    fn takes(&self, program: &Program) -> Result<(), String> {
        program.check_files()
    }

    fn most_ranks(&self, _: Device) -> u32 {
        u32::MAX
    }

    fn describe(&self) -> String {
        REGISTRATION.help.to_owned()
    }

    fn prepare<'a>(
        &'a mut self,
        images: &'a [String],
        _: &'a [Place],
        _: &'a dyn ImageSource,
    ) -> BoxFuture<'a, Result<Prepared, ExecutorError>> {
        let mut prepared = Prepared::named(REGISTRATION.word, images);
        for image in &mut prepared.images {
            "2.11.0".clone_into(&mut image.libtorch_version);
            REGISTRATION.word.clone_into(&mut image.flavour);
        }
        prepared.notes.push(NOTE.to_owned());
        Box::pin(async { Ok(prepared) })
    }

    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution> {
        Box::pin(async move {
            let mut execution = Execution::new(self.isolation());
            execution.record.warnings.push(NOTE.to_owned());
            let ending = self.script.ending(order);
            let measured = events::measured_seconds(order, ending.speed());
            execution.record.wall_seconds = 0.25 + measured;
            let watches = self.watch(order, execution.began);
            let lost = watches.iter().map(|watch| Box::pin(watch.gpu_lost()));
            let mut lost: FuturesUnordered<_> = lost.collect();
            let cut_off = match ending {
                Ending::Sleep(time) => tokio::select! {
                    () = sleep(time) => None,
                    Some(message) = lost.next() => Some(End::ended(Reason::GpuLost, message)),
                    () = cancel.cancelled() => Some(End::interrupted()),
                },
                Ending::Stubborn(time) => {
                    sleep(time).await;
                    None
                }
                Ending::Cancel => {
                    cancel.cancel();
                    Some(End::interrupted())
                }
                _ => None,
            };
            let seen = watches.into_iter().map(Watch::end);
            execution.record.monitor = seen.reduce(Samples::or).unwrap_or_default().monitor();
            execution.end = match cut_off {
                Some(end) => end,
                None => match events::write(order, &ending, |place| self.uuid(place)) {
                    Ok(()) => match ending {
                        Ending::Seen(end) => end,
                        Ending::Told(_) => End::Exited(1),
                        _ => End::Exited(0),
                    },
                    Err(error) => no_files(&error),
                },
            };
            execution
        })
    }

    fn isolation(&self) -> Isolation {
        Isolation::without(
            "process",
            &["everything: nothing ran, the metrics are invented"],
        )
    }
}
