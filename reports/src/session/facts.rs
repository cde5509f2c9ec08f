//! The facts of a session as pairs of words: how it was run, on which machine.

use std::collections::BTreeMap;

use record::{Deciding, Gpu, ImageFacts, LookEnd, Machine, command_line};

use crate::{
    document::{Block, Card, Fact},
    model::SessionSummary,
    words::format::{self, UNKNOWN, bytes, count},
};

/// All of a session: its notes, then how it was run, the machine, and the images.
pub(crate) fn blocks(session: &SessionSummary) -> Vec<Block> {
    let card = |title: &str, facts| Card {
        title: title.to_owned(),
        facts,
        layers: Vec::new(),
    };
    let mut cards = vec![card("How it was run", run(session))];
    cards.extend(
        session
            .hosts
            .values()
            .map(|one| card("Machine", machine(one))),
    );
    cards.extend(session.images.iter().map(|of| Card {
        title: format!("Image {}", of.name),
        facts: image(of),
        layers: of.layers.clone(),
    }));
    let notes = (!session.notes.is_empty()).then(|| Block::List(session.notes.clone()));
    let title = Block::Heading(format!("Session {}", session.session));
    [title]
        .into_iter()
        .chain(notes)
        .chain([Block::Cards(cards)])
        .collect()
}

/// Where a session ran and in what, in one sentence each: what stands under a verdict.
pub(crate) fn in_short(session: &SessionSummary) -> Vec<String> {
    let (device, gpu) = session.device_name();
    let machine = session.machine();
    let driver = machine.driver_version.as_ref().filter(|_| gpu.is_some());
    let place = join([
        Some(device.to_owned()),
        driver.map(|driver| format!("driver {driver}")),
        Some(format!("{} cores", machine.cpu.logical_cores)),
        Some(match &session.engine.version {
            Some(version) => format!("{} {version}", session.engine.kind),
            None => session.engine.kind.clone(),
        }),
    ]);
    let image = |image: &ImageFacts| {
        let libtorch = Some(&image.libtorch_version).filter(|version| !version.is_empty());
        let libtorch = libtorch.map(|version| format!("libtorch {version}"));
        let facts = join([libtorch, size(image)]);
        format!("{} ({facts})", image.name)
    };
    let images = format::few(session.images.iter().map(image).collect(), SHOWN, "; ", "");
    let images = (!images.is_empty()).then(|| format!("Images: {images}."));
    [format!("Machine: {place}.")]
        .into_iter()
        .chain(images)
        .collect()
}

const SHOWN: usize = 4;

/// The size of an image, and how long the engine took to load it where it had to.
pub(super) fn size(image: &ImageFacts) -> Option<String> {
    let load = image.load_seconds.map(|seconds| {
        let part = image
            .loaded_bytes
            .filter(|sent| image.size_bytes > Some(*sent));
        let part = part.map(|sent| format!("{} of it ", bytes(sent as f64)));
        let seconds = format::seconds(seconds);
        format!("{}loaded in {seconds}", part.unwrap_or_default())
    });
    let size = image.size_bytes.map(|size| bytes(size as f64));
    let known: Vec<String> = size.into_iter().chain(load).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

fn run(session: &SessionSummary) -> Vec<Fact> {
    let (tool, engine) = (&session.tool, &session.engine);
    let start = session
        .started_at
        .strftime("%Y-%m-%d %H:%M:%S UTC")
        .to_string();
    let lasted = session.ended_at.map_or_else(
        || "not ended".to_owned(),
        |end| format::duration(end.duration_since(session.started_at).as_secs_f64()),
    );
    let command = (!tool.command.is_empty()).then(|| command_line(&tool.command));
    let version = join([Some(tool.version.clone()), tool.revision.clone()]);
    let suites = session.suites.iter();
    let suites = suites.map(|(suite, digest)| format!("{suite} ({})", format::short(digest)));
    let blocks = format::plural(session.blocks as usize, "block", "blocks");
    let plan = format!("{blocks}, order from seed {}", session.order_seed);
    let deciding = session.deciding.as_ref().map(until_decided);
    let runs = format::plural(session.runs, "run", "runs");
    let storage = engine
        .storage_driver
        .as_ref()
        .map(|driver| format!("storage {driver}"));
    let gpu_path = engine
        .gpu_path
        .as_ref()
        .map(|path| format!("GPU by {path}"));
    let runs = format!("{runs}, {} failed", session.failed);
    let engine = [
        Some(engine.kind.clone()),
        engine.version.clone(),
        storage,
        gpu_path,
    ];
    let device = match &session.devices[..] {
        [] => session.device.to_string(),
        devices => devices.join(", "),
    };
    let mut facts = vec![("Began", start), ("Took", lasted)];
    facts.extend(command.map(|command| ("Command", command)));
    facts.push(("Torchgauge", version));
    facts.extend(suites.map(|suite| ("Suite", suite)));
    facts.push(("Plan", plan));
    facts.extend(deciding.map(|deciding| ("Until decided", deciding)));
    facts.extend([("Runs", runs), ("Engine", join(engine)), ("Device", device)]);
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

fn machine(machine: &Machine) -> Vec<Fact> {
    let cpu = &machine.cpu;
    let cores = Some(format!("{} cores usable", cpu.logical_cores));
    let governor = cpu
        .governor
        .as_ref()
        .map(|governor| format!("governor {governor}"));
    let cuda = machine
        .driver_cuda_version
        .as_ref()
        .map(|cuda| format!("CUDA up to {cuda}"));
    let driver = [machine.driver_version.clone(), cuda];
    let driver = driver.iter().any(Option::is_some).then(|| join(driver));
    let kernel = Some(format!("kernel {}", machine.kernel));
    let mut facts = vec![
        ("Host", machine.name.clone()),
        ("System", join([Some(machine.os.clone()), kernel])),
    ];
    facts.extend(
        machine
            .virtualization
            .iter()
            .map(|one| ("Virtualization", one.clone())),
    );
    facts.push(("CPU", join([Some(cpu.model.clone()), cores, governor])));
    facts.push(("Memory", bytes(machine.memory_bytes as f64)));
    facts.extend(driver.map(|driver| ("Driver", driver)));
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

fn image(image: &ImageFacts) -> Vec<Fact> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let libtorch = [image.libtorch_version.clone(), image.flavour.clone()];
    let mut facts = vec![
        ("Reference", known(&image.reference)),
        ("ID", known(&image.id)),
    ];
    facts.extend(image.lock.as_ref().map(|lock| ("Lock", lock.to_string())));
    facts.extend([
        ("libtorch", join(libtorch.map(Some))),
        ("Base", known(&image.base)),
        ("Size", known(&size(image))),
        ("scenario binary", known(&image.scenario_sha256)),
    ]);
    if let Some(parts) = &image.parts {
        facts.push(("Versions", listed(&parts.versions)));
        facts.push(("Packages", listed(&parts.packages)));
    }
    facts
}

/// Names with their versions, as many as can be read; `report.json` has them all.
fn listed(versions: &BTreeMap<String, String>) -> String {
    const SHOWN: usize = 30;
    let named = versions.iter();
    let named = named.map(|(name, version)| format!("{name} {version}"));
    match versions.len() {
        0 => UNKNOWN.to_owned(),
        _ => format::few(named.collect(), SHOWN, ", ", "and "),
    }
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

#[cfg(test)]
mod tests {
    use record::ImageParts;

    use super::*;

    #[test]
    fn what_an_image_is_made_of_is_told_as_far_as_it_can_be_read() {
        let packages = |count: usize| -> BTreeMap<String, String> {
            let names = (0..count).map(|n| (format!("p{n:02}"), "1".to_owned()));
            names.collect()
        };
        let shown = |packages: BTreeMap<String, String>| {
            let parts = ImageParts {
                packages,
                ..ImageParts::default()
            };
            let facts = image(&ImageFacts {
                parts: Some(parts),
                ..ImageFacts::default()
            });
            let (_, shown) = facts.into_iter().find(|fact| fact.0 == "Packages").unwrap();
            shown
        };
        assert_eq!(shown(packages(2)), "p00 1, p01 1");
        let many = shown(packages(33));
        assert!(many.ends_with("p29 1, and 3 more"), "{many}");
        assert_eq!(shown(BTreeMap::new()), UNKNOWN);
    }
}
