//! The facts of a session as pairs of words: how it was run, on which machine.

use std::collections::BTreeMap;

use record::{Deciding, Gpu, ImageFacts, LookEnd, Machine, Record, command_line};

use super::topology;
use crate::{
    document::{Block, Card, Fact},
    model::{SessionSummary, View},
    words::{
        format::{self, UNKNOWN, bytes, count},
        lists::unique,
    },
};

/// All of a session: its notes, then how it was run, the machine, and the images.
pub(crate) fn blocks(session: &SessionSummary, view: &View) -> Vec<Block> {
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
        facts: image(of, nccl(session, view, &of.name)),
        layers: of.layers.clone(),
    }));
    let matrices = session.hosts.values().filter_map(topology::matrix);
    let notes = (!session.notes.is_empty()).then(|| Block::List(session.notes.clone()));
    let title = Block::Heading(format!("Session {}", session.session));
    [title]
        .into_iter()
        .chain(notes)
        .chain([Block::Cards(cards)])
        .chain(matrices.map(Block::Table))
        .collect()
}

/// Where a session ran and in what, in one sentence each: what stands under a verdict.
pub(crate) fn in_short(session: &SessionSummary) -> Vec<String> {
    let (device, gpu) = session.device_name();
    let machine = session.machine();
    let driver = machine.driver_version.as_ref().filter(|_| gpu.is_some());
    let place = join([
        Some(device.to_owned()),
        with("driver", driver),
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
    let start = session.started_at.strftime("%Y-%m-%d %H:%M:%S UTC");
    let lasted = session.ended_at.map_or_else(
        || "not ended".to_owned(),
        |end| format::duration(end.duration_since(session.started_at).as_secs_f64()),
    );
    let blocks = format::plural(session.blocks as usize, "block", "blocks");
    let runs = format::plural(session.runs, "run", "runs");
    let suites = session.suites.iter();
    let suites = suites.map(|(suite, digest)| format!("{suite} ({})", format::short(digest)));
    let engine = join([
        Some(engine.kind.clone()),
        engine.version.clone(),
        with("storage", engine.storage_driver.as_ref()),
        with("GPU by", engine.gpu_path.as_ref()),
    ]);
    let device = match &session.devices[..] {
        [] => session.device.to_string(),
        devices => devices.join(", "),
    };
    let command = (!tool.command.is_empty()).then(|| command_line(&tool.command));
    let mut facts = known([
        ("Began", Some(start.to_string())),
        ("Took", Some(lasted)),
        ("Command", command),
        (
            "Torchgauge",
            Some(join([Some(tool.version.clone()), tool.revision.clone()])),
        ),
    ]);
    facts.extend(suites.map(|suite| ("Suite", suite)));
    facts.extend(known([
        (
            "Plan",
            Some(format!("{blocks}, order from seed {}", session.order_seed)),
        ),
        (
            "Until decided",
            session.deciding.as_ref().map(until_decided),
        ),
        ("Runs", Some(format!("{runs}, {} failed", session.failed))),
        ("Engine", Some(engine)),
        ("Device", Some(device)),
    ]));
    facts
}

fn known<const N: usize>(facts: [(&'static str, Option<String>); N]) -> Vec<Fact> {
    let facts = facts.into_iter();
    facts
        .filter_map(|(name, fact)| Some((name, fact?)))
        .collect()
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
    let driver = [
        machine.driver_version.clone(),
        with("CUDA up to", machine.driver_cuda_version.as_ref()),
    ];
    let cpu = [
        Some(cpu.model.clone()),
        Some(format!("{} cores usable", cpu.logical_cores)),
        with("governor", cpu.governor.as_ref()),
    ];
    let system = [machine.os.clone(), format!("kernel {}", machine.kernel)];
    let mut facts = known([
        ("Host", Some(machine.name.clone())),
        ("System", Some(join(system.map(Some)))),
        ("Virtualization", machine.virtualization.clone()),
        ("CPU", Some(join(cpu))),
        ("Memory", Some(bytes(machine.memory_bytes as f64))),
        (
            "Driver",
            Some(join(driver)).filter(|driver| driver != UNKNOWN),
        ),
    ]);
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

/// NCCL in an image and what was set for it, as its runs of several ranks say, and what it chose for
/// the messages of its collectives.
fn nccl(session: &SessionSummary, view: &View, image: &str) -> [Option<String>; 2] {
    let is_own = |run: &&&Record| run.session == session.session && run.image == image;
    let of_runs = |word: &dyn Fn(&Record) -> Option<String>| {
        let runs = view.runs.iter().flatten().filter(is_own);
        let words = unique(runs.filter_map(|run| word(run)));
        (!words.is_empty()).then(|| format::few(words, SHOWN, "; ", "and "))
    };
    let version = of_runs(&|run| {
        let started = run.started.as_ref().filter(|_| !run.ranks.is_empty())?;
        let version = started.cuda.as_ref()?.nccl_version.clone()?;
        let set = started.nccl.iter();
        let set = set.map(|(name, value)| format!("{name}={value}"));
        let words: Vec<String> = [version].into_iter().chain(set).collect();
        Some(words.join(" "))
    });
    let choice = of_runs(&|run| {
        let choice = run.facts.get("nccl_choice")?;
        Some(format!("{choice} for {}", run.axes.without("precision")))
    });
    [version, choice]
}

fn image(image: &ImageFacts, [nccl, choice]: [Option<String>; 2]) -> Vec<Fact> {
    let or_not = |text| Some(format::known(text));
    let libtorch = [image.libtorch_version.clone(), image.flavour.clone()];
    let parts = image.parts.as_ref();
    known([
        ("Reference", or_not(image.reference.clone())),
        ("ID", or_not(image.id.clone())),
        ("Lock", image.lock.as_ref().map(ToString::to_string)),
        ("libtorch", Some(join(libtorch.map(Some)))),
        ("NCCL", nccl),
        ("NCCL chose", choice),
        ("Base", or_not(image.base.clone())),
        ("Size", or_not(size(image))),
        ("scenario binary", or_not(image.scenario_sha256.clone())),
        ("Versions", parts.map(|parts| listed(&parts.versions))),
        ("Packages", parts.map(|parts| listed(&parts.packages))),
    ])
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

/// A word before what is known.
fn with(word: &str, known: Option<impl std::fmt::Display>) -> Option<String> {
    known.map(|known| format!("{word} {known}"))
}

fn join<const N: usize>(words: [Option<String>; N]) -> String {
    let known = words.into_iter().flatten().filter(|word| !word.is_empty());
    let known = known.collect::<Vec<_>>().join(", ");
    format::known(Some(known).filter(|known| !known.is_empty()))
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
            let facts = ImageFacts {
                parts: Some(parts),
                ..ImageFacts::default()
            };
            let facts = image(&facts, [None, None]);
            let (_, shown) = facts.into_iter().find(|fact| fact.0 == "Packages").unwrap();
            shown
        };
        assert_eq!(shown(packages(2)), "p00 1, p01 1");
        let many = shown(packages(33));
        assert!(many.ends_with("p29 1, and 3 more"), "{many}");
        assert_eq!(shown(BTreeMap::new()), UNKNOWN);
    }
}
