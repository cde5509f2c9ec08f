//! The process that runs the session, from both sides.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use bench_suite::{
    executors::{Executor, LocalRuntime, container::Container, process::Process},
    host::{self, LOCKS_VARIABLE},
    plan::{Plan, Request},
    session::{Progress, Session, Subscriber},
    suite::Suite,
};
use engine::{Endpoint, Engine};
use protocol::Device;
use record::{EngineFacts, Gpu, ImageFacts, Machine, RunPolicy, SessionFolder, Tool};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{engine_room::SOCKET, faults::MODES, image, say};

/// Set for the process that runs the session.
pub(crate) const VARIABLE: &str = "TORCHGAUGE_SOAK_WORKER";
/// Ended by itself with runs still to do, or without an engine: as `bench` exits.
const OPEN: u8 = 3;
const NO_ENGINE: u8 = 4;

/// The process.
pub(crate) struct Worker(Child);

/// What a stretch of its life comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    GoesOn,
    /// It ended by itself, its work done.
    Complete,
    /// It ended by itself, with runs still to do.
    Open,
}

impl Worker {
    pub(crate) fn start(home: &Path) -> Self {
        let child = Command::new(env::current_exe().expect("this program"))
            .env(VARIABLE, home)
            .env(LOCKS_VARIABLE, home.join("locks"))
            .stdin(Stdio::null())
            .spawn();
        Self(child.expect("the worker starts"))
    }

    /// Waits for its end, and no longer than this.
    pub(crate) fn lives_for(&mut self, life: Duration) -> Result<Life, String> {
        let began = Instant::now();
        while began.elapsed() < life {
            let ended = self.0.try_wait().map_err(|error| error.to_string())?;
            match ended.map(|status| (status.code(), status)) {
                None => thread::sleep(Duration::from_millis(10)),
                Some((Some(0), _)) => return Ok(Life::Complete),
                Some((Some(code), _)) if [OPEN, NO_ENGINE].map(i32::from).contains(&code) => {
                    return Ok(Life::Open);
                }
                Some((_, status)) => return Err(format!("the session ended with {status}")),
            }
        }
        Ok(Life::GoesOn)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // It may have ended by itself just now; the next life sees that nothing is left to do.
        let _ = pid.map(|pid| kill_process(pid, signal));
    }

    pub(crate) fn wait(&mut self) {
        let _ = self.0.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The session: begun or resumed, until it is complete or stopped.
pub(crate) fn work(home: &Path) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match runtime.block_on(session(home)) {
        Ok(code) => code,
        Err(problem) => {
            say(&problem);
            ExitCode::FAILURE
        }
    }
}

async fn session(home: &Path) -> Result<ExitCode, String> {
    let cancel = CancellationToken::new();
    let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let stop = cancel.clone();
    let stopped = tokio::spawn(async move {
        interrupted.recv().await;
        stop.cancel();
    });
    let gpu = Gpu {
        uuid: "GPU-soak".to_owned(),
        ..Gpu::default()
    };
    let _lock = host::local::open()
        .lock(Some(&gpu), "soak", false)
        .map_err(|error| error.to_string())?;
    // As `bench` does: the engine first, and what dead sessions left in it.
    let mut engine = None;
    let executor: Box<dyn Executor> = match fs::read_to_string(home.join(SOCKET)) {
        Err(_) => Box::new(processes(home)),
        Ok(socket) => match containers(home, &socket).await {
            Ok((executor, its_engine)) => {
                engine = Some(its_engine);
                Box::new(executor)
            }
            Err(error) if error.is_engine_gone() => return Ok(NO_ENGINE.into()),
            Err(error) => return Err(error.to_string()),
        },
    };
    let folder = home.join("session");
    let spec = spec(home);
    let mut session = if folder.join(SessionFolder::SESSION).exists() {
        Session::resume(&folder, spec)
    } else {
        Session::create(&folder, "soak", spec)
    }
    .map_err(|error| error.to_string())?;
    let totals = session
        .run(executor.as_ref(), &mut Silent, &cancel)
        .await
        .map_err(|error| error.to_string())?;
    stopped.abort();
    // As `bench` does: what could not be removed while the engine was away.
    if let Some(engine) = engine {
        let _ = engine.cleanup().await;
    }
    if cancel.is_cancelled() {
        std::process::exit(130);
    }
    Ok(if totals.is_complete() {
        ExitCode::SUCCESS
    } else {
        OPEN.into()
    })
}

fn processes(home: &Path) -> Process {
    let runtime = LocalRuntime {
        program: home.join("workload"),
        library_path: Vec::new(),
    };
    Process::new(
        host::local::open(),
        BTreeMap::from([("local".to_owned(), runtime)]),
    )
}

async fn containers(home: &Path, socket: &str) -> Result<(Container, Engine), engine::Error> {
    let engine = Engine::connect(&Endpoint::At(socket.into())).await?;
    engine.sweep_dead_owners().await?;
    let modes = fs::read_to_string(home.join(MODES)).expect("the modes");
    let image = image::with_mode(&format!("by-run:{modes}"));
    let images = BTreeMap::from([("local".to_owned(), image)]);
    Ok((
        Container::new(host::local::open(), engine.clone(), images, []),
        engine,
    ))
}

fn spec(home: &Path) -> Plan {
    let path = home.join("soak.yaml");
    let suite = Suite::read(&path).unwrap_or_else(|error| panic!("{}", error.render(false)));
    let plan = Plan::new(&Request {
        suites: &[suite],
        images: &["local".to_owned()],
        device: Device::Cpu,
        blocks: None,
        order_seed: Some(11),
    });
    let mut plan = plan.expect("a plan");
    plan.session = record::Session {
        images: vec![ImageFacts {
            name: "local".to_owned(),
            ..ImageFacts::default()
        }],
        hosts: [(
            "soak".into(),
            Machine {
                name: "soak".to_owned(),
                ..Machine::default()
            },
        )]
        .into(),
        engine: EngineFacts {
            kind: "process".to_owned(),
            ..EngineFacts::default()
        },
        tool: Tool::default(),
        policy: RunPolicy {
            shares_cpu: true,
            engine_retries: Some(2),
            ..RunPolicy::default()
        },
        ..plan.session
    };
    plan
}

/// Nobody looks on.
struct Silent;

impl Subscriber for Silent {
    fn tell(&mut self, _: Progress<'_>) {}
}
