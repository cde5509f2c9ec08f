//! Sessions whose runs happen on nodes, each by `torchgauge node`: what every way of reaching nodes
//! shares, and the one where whoever has them starts it there.

pub(super) mod inside;

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use protocol::Device;
use record::{Gpu, Isolation, Machine, Place, Reason, SessionFolder, Stage};
use tokio_util::sync::CancellationToken;

use super::{
    Choice, Execution, Executor, ExecutorError, ImageSource, Order, Prepared, Registration,
};
use crate::{host::Host, outcome::End, session::Part, suite::Program};

/// The argument is the engine of the nodes.
pub(super) const REGISTRATION: Registration = Registration {
    word: "nodes",
    help: "on nodes that are yours to start: a folder for each block, for `torchgauge node`",
    argument: Some("ENGINE"),
    aliases: &[],
    is_automatic: false,
    is_scheduler: true,
    is_hidden: false,
    open: |engine| {
        Box::pin(async move {
            let engine = if engine.is_empty() {
                "auto".to_owned()
            } else {
                engine
            };
            let nodes = Nodes::new(REGISTRATION.word, MOST_GPUS, engine, Box::new(ByHand))?;
            Ok(Box::new(nodes) as Box<dyn Executor>)
        })
    },
    examine: || Box::pin(async { Vec::new() }),
    sweep: |_| 0,
};

/// GPUs that a node is taken to have before it is known.
const MOST_GPUS: u32 = 16;

/// How often a scheduler is asked: at first, and where nothing changes.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];
/// How long it may be silent before nothing is waited for any more; its jobs go on.
pub(super) const SILENCE: Duration = Duration::from_mins(10);
/// How long what was cancelled may take to clean up.
pub(super) const CLEAN_UP: Duration = Duration::from_mins(2);

/// What is to be told of a part that no job carries out any more.
pub(super) fn ended(part: &Part, node: &str, why: impl FnOnce() -> String) -> String {
    let at = if node.is_empty() {
        String::new()
    } else {
        format!(" on {node}")
    };
    let session = SessionFolder::at(&part.folder).read_session();
    if session.is_ok_and(|session| session.complete) {
        return format!("block {}{at} is done", part.block);
    }
    format!("block {}{at} {}", part.block, why())
}

/// What carries parts of a session to nodes.
pub trait Scheduler: Send + Sync {
    /// Has nodes carry these parts out, and comes back when nothing of them waits or runs any more,
    /// also where `cancel` ends them. `tell` takes what happens, in words, and has what is recorded
    /// so far gathered.
    ///
    /// # Errors
    /// Why parts could not be begun, with the next step. One that ended early is told.
    fn carry<'a>(
        &'a self,
        session: &'a str,
        parts: &'a [Part],
        tell: &'a mut (dyn FnMut(&str) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>>;

    /// What processes on its nodes are in, such as `a Pod`: there they run programs, too.
    fn container(&self) -> Option<&str> {
        None
    }

    /// What runs parts on its nodes, where this is the engine there.
    fn runs_by<'a>(&'a self, engine: &'a str) -> &'a str {
        engine
    }

    /// What is to be done with a part that nothing carries out; `None` where it can be begun anew.
    fn by_hand(&self, part: &Path) -> Option<String>;
}

/// Stands in a plan for the node that will carry it out, which locks its own: so many GPUs, of which
/// nothing is known.
#[derive(Debug)]
struct Absent {
    name: &'static str,
    gpus: u32,
}

impl Host for Absent {
    fn name(&self) -> &str {
        self.name
    }

    fn facts(&self) -> Machine {
        let gpu = |index| Gpu {
            index,
            ..Gpu::default()
        };
        Machine {
            name: self.name.to_owned(),
            gpus: (0..self.gpus).map(gpu).collect(),
            ..Machine::default()
        }
    }
}

/// Runs on nodes, of which nothing is known before they begin.
pub(super) struct Nodes {
    word: &'static str,
    hosts: [Arc<dyn Host>; 1],
    /// The engine that nodes run parts with.
    engine: String,
    scheduler: Box<dyn Scheduler>,
}

impl Nodes {
    pub(super) fn new(
        word: &'static str,
        gpus: u32,
        engine: String,
        scheduler: Box<dyn Scheduler>,
    ) -> Result<Self, ExecutorError> {
        let refused = |why: String| {
            let message = format!("the engine of nodes, `{engine}`: {why}");
            ExecutorError::Argument(message.into())
        };
        match engine.parse() {
            Ok(Choice::Named(of, _)) if of.is_scheduler => {
                return Err(refused("expected one that runs on a node".to_owned()));
            }
            Ok(_) => {}
            Err(why) => return Err(refused(why)),
        }
        let hosts = [Arc::new(Absent { name: word, gpus }) as Arc<dyn Host>];
        Ok(Self {
            word,
            hosts,
            engine,
            scheduler,
        })
    }
}

impl Executor for Nodes {
    fn hosts(&self) -> &[Arc<dyn Host>] {
        &self.hosts
    }

    /// Of other engines than processes, the nodes say.
    fn takes(&self, program: &Program) -> Result<(), String> {
        if self.engine != super::process::REGISTRATION.word {
            return program.check_files();
        }
        match self.scheduler.container() {
            Some(container) => inside::takes(program, container),
            None => Err(
                "nodes run no program by `process`; by `chroot` they run it in an image's unpacked root"
                    .to_owned(),
            ),
        }
    }

    fn most_ranks(&self, _: Device) -> u32 {
        u32::MAX
    }

    fn describe(&self) -> String {
        format!("on nodes, by {}", self.scheduler.runs_by(&self.engine))
    }

    fn prepare<'a>(
        &'a mut self,
        images: &'a [String],
        _: &'a [Place],
        _: &'a dyn ImageSource,
    ) -> BoxFuture<'a, Result<Prepared, ExecutorError>> {
        let prepared = Prepared::named(self.word, images);
        Box::pin(async { Ok(prepared) })
    }

    fn run<'a>(&'a self, _: &'a Order, _: &'a CancellationToken) -> BoxFuture<'a, Execution> {
        let message = "runs happen on nodes alone; expected another engine";
        let end = End::never(Reason::Engine, Stage::Create, message);
        Box::pin(async move { Execution::new(self.isolation()).ended(end) })
    }

    fn isolation(&self) -> Isolation {
        Isolation::without(self.word, &[])
    }

    fn scheduler(&self) -> Option<(&dyn Scheduler, &str)> {
        Some((self.scheduler.as_ref(), &self.engine))
    }
}

/// Whoever has the nodes.
struct ByHand;

impl Scheduler for ByHand {
    fn carry<'a>(
        &'a self,
        _: &'a str,
        _: &'a [Part],
        _: &'a mut (dyn FnMut(&str) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>> {
        Box::pin(async { Ok(()) })
    }

    fn by_hand(&self, part: &Path) -> Option<String> {
        let words = ["node".to_owned(), part.display().to_string()];
        Some(format!(
            "{} {}",
            protocol::program(),
            record::command_line(&words)
        ))
    }
}
