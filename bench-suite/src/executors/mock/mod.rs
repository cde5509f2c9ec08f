//! An executor without a workload, for tests of everything around it.

mod events;
mod script;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use protocol::Device;
use record::{EngineFacts, ImageFacts, Isolation, Reason};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use script::MockError;
use script::{Ending, Script};

use super::{
    Execution, Executor, ExecutorError, ImageSource, Order, Prepared, Registration, order::no_files,
};
use crate::{
    host::{Host, Target, Watch},
    outcome::End,
};

/// No workload; its argument is the script.
pub(super) const REGISTRATION: Registration = Registration {
    word: "mock",
    help: "nowhere: the metrics are invented",
    is_automatic: false,
    is_hidden: true,
    loads_images: false,
    open: |host, script| {
        Box::pin(async move {
            let mock = Mock::new(host, &script);
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
/// The command line reaches it as `--engine mock:SCRIPT`, hidden: tests of the real binary need a
/// session without containers, libtorch or a GPU. Its records say that nothing was measured.
#[derive(Debug, Clone)]
pub struct Mock {
    host: Arc<dyn Host>,
    script: Script,
}

impl Mock {
    /// Follows this script.
    pub fn new(host: Arc<dyn Host>, script: &str) -> Result<Self, MockError> {
        let script = Script::read(script)?;
        Ok(Self { host, script })
    }
}

impl Executor for Mock {
    fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    fn describe(&self) -> String {
        REGISTRATION.help.to_owned()
    }

    fn prepare<'a>(
        &'a mut self,
        images: &'a [String],
        _: &'a [Device],
        _: &'a dyn ImageSource,
    ) -> BoxFuture<'a, Result<Prepared, ExecutorError>> {
        let image = |name: &String| ImageFacts {
            name: name.clone(),
            libtorch_version: "2.11.0".to_owned(),
            flavour: REGISTRATION.word.to_owned(),
            ..ImageFacts::default()
        };
        let prepared = Prepared {
            engine: EngineFacts {
                kind: REGISTRATION.word.to_owned(),
                ..EngineFacts::default()
            },
            images: images.iter().map(image).collect(),
            notes: vec![NOTE.to_owned()],
        };
        Box::pin(async { Ok(prepared) })
    }

    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution> {
        Box::pin(async move {
            let mut execution = Execution::new(self.isolation());
            execution.notes.push(NOTE.to_owned());
            let ending = self.script.ending(order);
            let measured = events::measured_seconds(order, ending.speed());
            execution.wall_seconds = 0.25 + measured;
            // The GPU is watched as in a run, so that what others do on it is seen.
            let watch = if order.device.is_cuda() && self.host.gpu_obstacle().is_none() {
                let pid = std::process::id();
                let bystanders = self.host.gpu_processes(order.device);
                let target = Target::Process { pid };
                order.watch(self.host.as_ref(), execution.began, target, bystanders)
            } else {
                Watch::none()
            };
            let cut_off = match ending {
                Ending::Sleep(time) => tokio::select! {
                    () = sleep(time) => None,
                    message = watch.gpu_lost() => Some(End::ended(Reason::GpuLost, message)),
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
            execution.monitor = watch.end().monitor();
            execution.end = match cut_off {
                Some(end) => end,
                None => match events::write(order, &ending) {
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
