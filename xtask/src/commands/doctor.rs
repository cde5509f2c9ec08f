//! `cargo xtask doctor`: what works on this machine, and the fix where something does not.

use std::{path::Path, process::Command};

use bench_suite::{
    executors::{EXECUTORS, Finding, State},
    host::{self, Host},
};
use bytesize::ByteSize;
use clap::Args;
use record::Machine;

use crate::{cli::Format, error::Result, printer::Printer, table::table};

#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Room that the CPU-only libtorch, its image in an engine and a build need together.
const ROOM_CPU: u64 = 6_000_000_000;
/// The same for CUDA.
const ROOM_CUDA: u64 = 25_000_000_000;
/// Memory with which torch-sys compiles and the smoke suite runs.
const MEMORY: u64 = 6_000_000_000;

/// Looks at everything and prints it.
pub(crate) async fn run(args: &DoctorArgs, printer: &Printer) -> Result<()> {
    let host = host::local::open();
    let machine = host.facts();
    let mut findings = vec![
        Finding::ok(
            "system",
            format!("{}, Linux {}", machine.os, machine.kernel),
        ),
        Finding::ok(
            "cpu",
            format!("{}, {} cores", machine.cpu.model, machine.cpu.logical_cores),
        ),
        memory(host.as_ref(), &machine),
        disk(&images::Cache::user_folder()?, &machine),
        gpu(host.as_ref(), &machine),
    ];
    for executor in EXECUTORS {
        findings.extend((executor.examine)().await);
    }
    findings.extend(tools());
    match args.format {
        Format::Json => printer.json(&findings)?,
        Format::Text | Format::Markdown => {
            let mut table = table(args.format, ["what", "", "found", "what to do"]);
            for finding in &findings {
                table.add_row([
                    finding.what.to_owned(),
                    if finding.state == State::Ok {
                        "ok"
                    } else {
                        "–"
                    }
                    .to_owned(),
                    finding.found.clone(),
                    finding.fix.clone().unwrap_or_default(),
                ]);
            }
            printer.line(&table.to_string());
        }
    }
    Ok(())
}

fn memory(host: &dyn Host, machine: &Machine) -> Finding {
    let all = ByteSize::b(machine.memory_bytes);
    match host.available_memory_bytes() {
        Some(free) if free < MEMORY => Finding::missing(
            "memory",
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

fn disk(cache: &Path, machine: &Machine) -> Finding {
    if let Err(error) = images::Cache::at(cache) {
        return Finding::missing(
            "disk",
            error.to_string(),
            "give a folder that can be written to with XDG_CACHE_HOME",
        );
    }
    let free = free_bytes(cache);
    let has_gpu = !machine.gpus.is_empty();
    let wanted = if has_gpu { ROOM_CUDA } else { ROOM_CPU };
    let place = cache.display();
    match free {
        Some(free) if free < wanted => Finding::missing(
            "disk",
            format!("{} free at {place}", ByteSize::b(free)),
            format!(
                "wheels, libtorch and images take about {}; make room, or set XDG_CACHE_HOME",
                ByteSize::b(wanted)
            ),
        ),
        Some(free) => Finding::ok("disk", format!("{} free at {place}", ByteSize::b(free))),
        None => Finding::ok("disk", format!("free space at {place} is unknown")),
    }
}

/// Free bytes where the folder lies or would lie.
fn free_bytes(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|ancestor| ancestor.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

fn gpu(host: &dyn Host, machine: &Machine) -> Finding {
    if let Some(why) = host.gpu_obstacle() {
        return Finding::missing(
            "GPU",
            why,
            "runs use the CPU; for a GPU, install the NVIDIA driver",
        );
    }
    let gpus = machine.gpus.iter().map(|gpu| {
        let size = ByteSize::b(gpu.memory_bytes);
        format!("{} {} ({size})", gpu.index, gpu.name)
    });
    let gpus: Vec<_> = gpus.collect();
    let driver = machine.driver_version.as_deref().unwrap_or("unknown");
    let cuda = machine.driver_cuda_version.as_deref().unwrap_or("unknown");
    let found = format!("{}; driver {driver}, up to CUDA {cuda}", gpus.join(", "));
    // CUDA 13 asks for this driver: NVIDIA's CUDA compatibility table.
    match driver
        .split('.')
        .next()
        .and_then(|major| major.parse().ok())
    {
        Some(..580_u32) => Finding::missing(
            "GPU",
            found,
            "images with CUDA 13 need driver 580 or newer; take one with CUDA 12, or a newer driver",
        ),
        _ => Finding::ok("GPU", found),
    }
}

fn tools() -> Vec<Finding> {
    let of_pip = "fetches libtorch: apt-get install python3-pip; or give --libtorch DIR";
    let of_c = "builds the workload: apt-get install g++; or give --scenario-binary FILE";
    let of_cargo = "builds the workload: https://rustup.rs; or give --scenario-binary FILE";
    let of_apt = "fetches the base of images; on other systems give --base-archive FILE";
    let tools = [
        ("pip", "python3 -m pip", of_pip),
        ("C++ compiler", "c++", of_c),
        ("cargo", "cargo", of_cargo),
        ("apt", "apt-get", of_apt),
        ("dpkg", "dpkg-deb", "as for apt"),
    ];
    let look = |(what, line, fix): (_, &str, &str)| {
        let program = line.split(' ').next().unwrap_or(line);
        version_of(line).map_or_else(
            || Finding::missing(what, format!("`{program}` does not run"), fix),
            |version| Finding::ok(what, version),
        )
    };
    tools.into_iter().map(look).collect()
}

/// The first line that a program says of its version.
fn version_of(line: &str) -> Option<String> {
    let mut words = line.split(' ').chain(["--version"]);
    let output = Command::new(words.next()?).args(words).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output
        .status
        .success()
        .then(|| text.lines().next().unwrap_or_default().to_owned())
}
