//! What keeps a session from being resumed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use record::{CellPlan, EngineFacts, ImageFacts, Machine, Place, Session};

use crate::plan::Plan;

/// Something that was otherwise when the session began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub what: String,
    pub then: String,
    pub now: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: was {}, is {}", self.what, self.then, self.now)
    }
}

/// Something about a machine, in words.
type Fact = (&'static str, fn(&Machine) -> String);

/// Everything that differs between a session and what would continue it.
pub(super) fn between(session: &Session, plan: &Plan) -> Vec<Difference> {
    let fresh = &plan.session;
    let mut found = Vec::new();
    let mut compare = |what: &str, then: String, now: String| {
        if then != now {
            let what = what.to_owned();
            found.push(Difference { what, then, now });
        }
    };
    let (then, now) = (session.device, fresh.device);
    compare("device", then.to_string(), now.to_string());
    let places = |places: &[Place]| listed(places.iter().map(ToString::to_string), "one");
    let (then, now) = (places(&session.policy.places), places(&plan.places()));
    compare("GPUs that runs are spread over", then, now);
    compare("Torchgauge", tool(&session.tool), tool(&fresh.tool));
    for name in names(session.suites.keys(), fresh.suites.keys()) {
        let digest = |suites: &BTreeMap<String, String>| match suites.get(&name) {
            Some(digest) => digest.get(..12).unwrap_or(digest).to_owned(),
            None => "missing".to_owned(),
        };
        let (then, now) = (digest(&session.suites), digest(&fresh.suites));
        compare(&format!("suite {name}"), then, now);
    }
    let facts: [Fact; 5] = [
        ("kernel", |machine| machine.kernel.clone()),
        ("cpu", |Machine { cpu, .. }| {
            format!("{} × {}", cpu.logical_cores, cpu.model)
        }),
        ("memory", |machine| machine.memory_bytes.to_string()),
        ("driver", |machine| said(machine.driver_version.as_ref())),
        ("gpus", |machine| {
            listed(machine.gpus.iter().map(|gpu| gpu.uuid.clone()), "none")
        }),
    ];
    for name in names(session.hosts.keys(), fresh.hosts.keys()) {
        let both = (session.hosts.get(&name), fresh.hosts.get(&name));
        let (Some(then), Some(now)) = both else {
            let there = |machine: Option<&Machine>| match machine {
                Some(_) => name.clone(),
                None => "missing".to_owned(),
            };
            compare("machine", there(both.0), there(both.1));
            continue;
        };
        for (what, of) in facts {
            compare(what, of(then), of(now));
        }
    }
    let (then, now) = (&session.engine, &fresh.engine);
    let version = |engine: &EngineFacts| said(engine.version.as_ref());
    let gpu_path = |engine: &EngineFacts| said(engine.gpu_path.as_ref());
    compare("engine", then.kind.clone(), now.kind.clone());
    compare("engine version", version(then), version(now));
    compare("GPU path", gpu_path(then), gpu_path(now));
    found.extend(of_images(&session.images, &fresh.images));
    if let Some((then, now)) = plans(session, plan) {
        let what = "plan".to_owned();
        found.push(Difference { what, then, now });
    }
    found
}

/// The images of both, as far as they differ.
pub(super) fn of_images(then: &[ImageFacts], now: &[ImageFacts]) -> Vec<Difference> {
    let names = names(
        then.iter().map(|image| &image.name),
        now.iter().map(|image| &image.name),
    );
    let difference = |name: String| {
        let of = |images: &[ImageFacts]| {
            let found = images.iter().find(|image| image.name == name);
            found.map_or("missing".into(), image)
        };
        let (then, now) = (of(then), of(now));
        let what = format!("image {name}");
        (then != now).then_some(Difference { what, then, now })
    };
    names.into_iter().filter_map(difference).collect()
}

/// The plans, as far as they differ.
fn plans(session: &Session, plan: &Plan) -> Option<(String, String)> {
    let (then, now) = (&session.cells, &plan.cells);
    if then.len() != now.len() {
        let cells = |count: usize| match count {
            1 => "1 cell".to_owned(),
            more => format!("{more} cells"),
        };
        return Some((cells(then.len()), cells(now.len())));
    }
    let mut pairs = then.iter().zip(now);
    let (then, now) = pairs.find(|(then, now)| **then != now.plan)?;
    let cell = |cell: &CellPlan| {
        let (warmup, measured) = (cell.steps.warmup, cell.steps.measured);
        let profiled = match cell.steps.profiled {
            0 => String::new(),
            profiled => format!(" + {profiled}"),
        };
        format!(
            "{} · {} · {} ({warmup} + {measured}{profiled} steps, seed {})",
            cell.image, cell.scenario, cell.axes, cell.seed
        )
    };
    Some((cell(then), cell(&now.plan)))
}

fn tool(tool: &record::Tool) -> String {
    match &tool.revision {
        Some(revision) => format!("{} ({revision})", tool.version),
        None => tool.version.clone(),
    }
}

fn said(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(|| "none".into())
}

fn listed(words: impl Iterator<Item = String>, none: &str) -> String {
    let words: Vec<_> = words.collect();
    if words.is_empty() {
        none.to_owned()
    } else {
        words.join(", ")
    }
}

fn image(image: &ImageFacts) -> String {
    format!(
        "{} with libtorch {} and scenario {}",
        said(image.id.as_ref()),
        image.flavour,
        said(image.scenario_sha256.as_ref())
    )
}

fn names<'a>(
    then: impl Iterator<Item = &'a String>,
    now: impl Iterator<Item = &'a String>,
) -> BTreeSet<String> {
    then.chain(now).cloned().collect()
}
