//! The facts of a session as pairs of words: how it was run, on which machine.

use record::{Deciding, Gpu, ImageFacts, LookEnd};

use crate::{
    format::{self, UNKNOWN, bytes, count},
    model::SessionSummary,
};

/// A name and what it is.
pub(crate) type Fact = (&'static str, String);

/// How a session was run.
pub(crate) fn run(session: &SessionSummary) -> Vec<Fact> {
    let mut facts = vec![(
        "Began",
        session
            .started_at
            .strftime("%Y-%m-%d %H:%M:%S UTC")
            .to_string(),
    )];
    match session.ended_at {
        Some(end) => facts.push((
            "Took",
            format::duration(end.duration_since(session.started_at).as_secs_f64()),
        )),
        None => facts.push(("Took", "not ended".to_owned())),
    }
    let tool = &session.tool;
    if !tool.command.is_empty() {
        facts.push(("Command", format::command_line(&tool.command)));
    }
    facts.push((
        "Torchgauge",
        join([Some(tool.version.clone()), tool.revision.clone()]),
    ));
    for (suite, digest) in &session.suites {
        facts.push((
            "Suite",
            format!("{suite} ({})", format::short_digest(digest)),
        ));
    }
    let blocks = format::plural(session.blocks as usize, "block", "blocks");
    facts.push((
        "Plan",
        format!("{blocks}, order from seed {}", session.order_seed),
    ));
    if let Some(deciding) = &session.deciding {
        facts.push(("Until decided", until_decided(deciding)));
    }
    let runs = format::plural(session.runs, "run", "runs");
    facts.push(("Runs", format!("{runs}, {} failed", session.failed)));
    let engine = &session.engine;
    facts.push((
        "Engine",
        join([
            Some(engine.kind.clone()),
            engine.version.clone(),
            engine
                .storage_driver
                .as_ref()
                .map(|driver| format!("storage {driver}")),
            engine
                .gpu_path
                .as_ref()
                .map(|path| format!("GPU by {path}")),
        ]),
    ));
    facts.push(("Device", session.device.to_string()));
    facts
}

/// How a session ended that added blocks until it was decided.
fn until_decided(deciding: &Deciding) -> String {
    let looks = format::plural(deciding.looks.len(), "look", "looks");
    let end = match deciding.end {
        None => "not at its end".to_owned(),
        Some(LookEnd::Decided) => "every gated metric is decided".to_owned(),
        Some(end) => {
            let undecided = deciding.looks.last().map_or(0, |look| look.undecided.len());
            let why = match end {
                LookEnd::Time => "the time is used up",
                _ => "the most blocks have run",
            };
            let metrics = format::plural(undecided, "metric", "metrics");
            format!("{why}, {metrics} undecided")
        }
    };
    format!(
        "{looks} in {} of {}: {end}",
        format::duration(deciding.spent_seconds),
        format::duration(deciding.time_budget_seconds)
    )
}

/// The machine of a session.
pub(crate) fn machine(session: &SessionSummary) -> Vec<Fact> {
    let machine = &session.machine;
    let cpu = &machine.cpu;
    let mut facts = vec![
        ("Host", machine.name.clone()),
        (
            "System",
            join([
                Some(machine.os.clone()),
                Some(format!("kernel {}", machine.kernel)),
            ]),
        ),
    ];
    if let Some(hypervisor) = &machine.virtualization {
        facts.push(("Virtualization", hypervisor.clone()));
    }
    facts.push((
        "CPU",
        join([
            Some(cpu.model.clone()),
            Some(format!("{} cores usable", cpu.logical_cores)),
            cpu.governor
                .as_ref()
                .map(|governor| format!("governor {governor}")),
        ]),
    ));
    facts.push(("Memory", bytes(machine.memory_bytes as f64)));
    if machine.driver_version.is_some() || machine.driver_cuda_version.is_some() {
        facts.push((
            "Driver",
            join([
                machine.driver_version.clone(),
                machine
                    .driver_cuda_version
                    .as_ref()
                    .map(|cuda| format!("CUDA up to {cuda}")),
            ]),
        ));
    }
    facts.extend(machine.gpus.iter().map(|one| ("GPU", gpu(one))));
    facts
}

fn gpu(gpu: &Gpu) -> String {
    let on = |name: &str, state: Option<bool>| {
        state.map(|on| format!("{name} {}", if on { "on" } else { "off" }))
    };
    let mhz = |clock: u32| format!("at most {} MHz", count(u64::from(clock)));
    join([
        Some(format!("{} {}", gpu.index, gpu.name)),
        Some(bytes(gpu.memory_bytes as f64)),
        gpu.power_limit_watts
            .map(|watts| format!("limit {}", format::Quantity::Watts.write(watts))),
        gpu.max_sm_clock_mhz.map(mhz),
        on("ECC", gpu.ecc),
        on("MIG", gpu.mig),
        on("persistence", gpu.persistence),
        Some(gpu.uuid.clone()),
    ])
}

/// One image.
pub(crate) fn image(image: &ImageFacts) -> Vec<Fact> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let libtorch = [image.libtorch_version.clone(), image.flavour.clone()];
    let size = image
        .size_bytes
        .map_or_else(|| UNKNOWN.to_owned(), |size| bytes(size as f64));
    let lock = image.lock.as_ref().map(|lock| ("Lock", lock.to_string()));
    let mut facts = vec![
        ("Reference", known(&image.reference)),
        ("ID", known(&image.id)),
    ];
    facts.extend(lock);
    facts.extend([
        ("libtorch", join(libtorch.map(Some))),
        ("Base", known(&image.base)),
        ("Size", size),
        ("scenario binary", known(&image.scenario_sha256)),
    ]);
    facts
}

/// What is known of these, one after the other.
fn join<const N: usize>(words: [Option<String>; N]) -> String {
    let known: Vec<String> = words
        .into_iter()
        .flatten()
        .filter(|word| !word.is_empty())
        .collect();
    if known.is_empty() {
        UNKNOWN.to_owned()
    } else {
        known.join(", ")
    }
}
