//! `cargo xtask doctor`: what works on this machine, and the fix where something does not.

use std::{path::Path, process::Command};

use bench_suite::machine;
use bytesize::ByteSize;
use engine::{Endpoint, Engine, GpuHost, gpu};
use record::Machine;
use serde::Serialize;

use crate::{
    cli::{DoctorArgs, Format},
    error::{Error, Result},
    printer::Printer,
    table::table,
};

/// Room that the CPU-only libtorch, its image in an engine and a build need together.
const ROOM_CPU: u64 = 6_000_000_000;
/// The same for CUDA.
const ROOM_CUDA: u64 = 25_000_000_000;
/// Memory with which torch-sys compiles and the smoke suite runs.
const MEMORY: u64 = 6_000_000_000;

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// Works.
    Ok,
    /// Not here, and not needed for everything.
    Missing,
    /// Not here, and needed.
    Broken,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "–",
            Self::Broken => "BROKEN",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            state: State::Ok,
            found: found.into(),
            fix: None,
        }
    }

    fn not(
        what: &'static str,
        state: State,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            what,
            state,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }
}

/// Looks at everything and prints it; fails where `bench` could not run at all.
pub(crate) async fn run(args: &DoctorArgs, printer: &Printer) -> Result<()> {
    let machine = machine::facts(None);
    let mut findings = vec![
        Finding::ok(
            "system",
            format!("{}, Linux {}", machine.os, machine.kernel),
        ),
        Finding::ok(
            "cpu",
            format!("{}, {} cores", machine.cpu.model, machine.cpu.logical_cores),
        ),
        memory(&machine),
        disk(&machine)?,
        gpu(&machine),
    ];
    findings.extend(engines().await);
    findings.extend(tools());
    match args.format {
        Format::Json => printer.json(&findings)?,
        Format::Text | Format::Markdown => {
            let mut table = table(args.format, ["what", "", "found", "what to do"]);
            for finding in &findings {
                table.add_row([
                    finding.what.to_owned(),
                    finding.state.word().to_owned(),
                    finding.found.clone(),
                    finding.fix.clone().unwrap_or_default(),
                ]);
            }
            printer.line(&table.to_string());
        }
    }
    let broken = findings
        .iter()
        .filter(|finding| finding.state == State::Broken)
        .count();
    if broken == 0 {
        Ok(())
    } else {
        Err(Error::Unfit { broken })
    }
}

fn memory(machine: &Machine) -> Finding {
    let all = ByteSize::b(machine.memory_bytes);
    match machine::available_memory_bytes() {
        Some(free) if free < MEMORY => Finding::not(
            "memory",
            State::Missing,
            format!("{all}, {} free", ByteSize::b(free)),
            format!(
                "compiling libtorch's bindings takes up to {}",
                ByteSize::b(MEMORY)
            ),
        ),
        Some(free) => Finding::ok("memory", format!("{all}, {} free", ByteSize::b(free))),
        None => Finding::ok("memory", all.to_string()),
    }
}

fn disk(machine: &Machine) -> Result<Finding> {
    let cache = images::Cache::user()?;
    let free = free_bytes(cache.root());
    let wanted = if machine.gpus.is_empty() {
        ROOM_CPU
    } else {
        ROOM_CUDA
    };
    let place = cache.root().display();
    Ok(match free {
        Some(free) if free < wanted => Finding::not(
            "disk",
            State::Missing,
            format!("{} free at {place}", ByteSize::b(free)),
            format!(
                "wheels, libtorch and images take about {}; make room, or set XDG_CACHE_HOME",
                ByteSize::b(wanted)
            ),
        ),
        Some(free) => Finding::ok("disk", format!("{} free at {place}", ByteSize::b(free))),
        None => Finding::ok("disk", format!("cannot tell how much is free at {place}")),
    })
}

/// Free bytes where the folder lies or would lie.
fn free_bytes(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|ancestor| ancestor.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

fn gpu(machine: &Machine) -> Finding {
    if let Err(why) = machine::nvml() {
        return Finding::not(
            "GPU",
            State::Missing,
            why,
            "runs use the CPU; for a GPU, install the NVIDIA driver",
        );
    }
    let gpus: Vec<_> = machine
        .gpus
        .iter()
        .map(|gpu| {
            format!(
                "{} {} ({})",
                gpu.index,
                gpu.name,
                ByteSize::b(gpu.memory_bytes)
            )
        })
        .collect();
    let driver = machine.driver_version.as_deref().unwrap_or("unknown");
    let cuda = machine.driver_cuda_version.as_deref().unwrap_or("unknown");
    let found = format!("{}; driver {driver}, up to CUDA {cuda}", gpus.join(", "));
    // CUDA 13 asks for this driver: NVIDIA's CUDA compatibility table.
    let major = driver
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(major) if major < 580 => Finding::not(
            "GPU",
            State::Missing,
            found,
            "images with CUDA 13 need driver 580 or newer; take one with CUDA 12, or a newer driver",
        ),
        _ => Finding::ok("GPU", found),
    }
}

async fn engines() -> Vec<Finding> {
    let engine = match Engine::connect(&Endpoint::auto()).await {
        Ok(engine) => engine,
        Err(error) => {
            return vec![Finding::not(
                "container engine",
                State::Missing,
                error.to_string(),
                "runs go without containers (--engine process); to have them, start an engine",
            )];
        }
    };
    let facts = engine.facts();
    let mut findings = vec![Finding::ok("container engine", facts.describe())];
    let host = GpuHost::discover();
    for candidate in gpu::candidates(facts, &host) {
        let what = "GPU in containers";
        let path = candidate.path.to_string();
        findings.push(match candidate.obstacle {
            None => Finding::ok(what, path),
            Some(obstacle) => Finding {
                what,
                state: State::Missing,
                found: format!("{path}: {obstacle}"),
                fix: None,
            },
        });
    }
    findings
}

fn tools() -> Vec<Finding> {
    let look =
        |what, program: &str, words: &[&str], state, fix: &str| match first_line(program, words) {
            Some(line) => Finding::ok(what, line),
            None => Finding::not(what, state, format!("`{program}` does not run"), fix),
        };
    vec![
        look(
            "pip",
            "python3",
            &["-m", "pip", "--version"],
            State::Missing,
            "fetches libtorch: apt-get install python3-pip; or give --libtorch DIR",
        ),
        look(
            "C++ compiler",
            "c++",
            &["--version"],
            State::Missing,
            "builds the workload: apt-get install g++; or give --scenario-binary FILE",
        ),
        look(
            "cargo",
            "cargo",
            &["--version"],
            State::Missing,
            "builds the workload: https://rustup.rs; or give --scenario-binary FILE",
        ),
        look(
            "apt",
            "apt-get",
            &["--version"],
            State::Missing,
            "fetches the base of images; on other systems give --base-archive FILE",
        ),
        look(
            "dpkg",
            "dpkg-deb",
            &["--version"],
            State::Missing,
            "as for apt",
        ),
    ]
}

fn first_line(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output
        .status
        .success()
        .then(|| text.lines().next().unwrap_or_default().to_owned())
}
