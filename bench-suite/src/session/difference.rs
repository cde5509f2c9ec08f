//! What keeps a session from being resumed.

use std::fmt;

use record::{CellPlan, ImageFacts, Machine, Session};

use super::Spec;

/// Something that was otherwise when the session began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What.
    pub what: String,
    /// As it was.
    pub then: String,
    /// As it is.
    pub now: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: was {}, is {}", self.what, self.then, self.now)
    }
}

/// Collects what differs.
#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn compare(&mut self, what: &str, then: String, now: String) {
        if then != now {
            let what = what.to_owned();
            self.0.push(Difference { what, then, now });
        }
    }
}

/// Everything that differs between a session and what would continue it.
pub(super) fn between(session: &Session, spec: &Spec) -> Vec<Difference> {
    let mut found = Differences::default();
    found.compare(
        "device",
        session.device.to_string(),
        spec.plan.device.to_string(),
    );
    let gpus = |gpus: &[protocol::Device]| {
        let words: Vec<_> = gpus.iter().map(ToString::to_string).collect();
        if words.is_empty() {
            "one".to_owned()
        } else {
            words.join(", ")
        }
    };
    found.compare(
        "GPUs that runs are spread over",
        gpus(&session.conduct.gpus),
        gpus(&spec.plan.gpus()),
    );
    found.compare("Torchgauge", tool(&session.tool), tool(&spec.tool));
    let digest = |digest: Option<&String>| {
        digest.map_or("missing".into(), |digest| short(digest).to_owned())
    };
    for name in names(session.suites.keys(), spec.plan.suites.keys()) {
        let then = digest(session.suites.get(&name));
        let now = digest(spec.plan.suites.get(&name));
        found.compare(&format!("suite {name}"), then, now);
    }
    machines(&mut found, &session.machine, &spec.machine);
    let (then, now) = (&session.engine, &spec.engine);
    found.compare("engine", then.kind.clone(), now.kind.clone());
    found.compare(
        "engine version",
        said(then.version.as_ref()),
        said(now.version.as_ref()),
    );
    found.compare(
        "GPU path",
        said(then.gpu_path.as_ref()),
        said(now.gpu_path.as_ref()),
    );
    let named = |images: &[ImageFacts], name: &str| {
        let image_of = images.iter().find(|image| image.name == name);
        image_of.map_or("missing".into(), image)
    };
    let then = session.images.iter().map(|image| &image.name);
    let now = spec.images.iter().map(|image| &image.name);
    for name in names(then, now) {
        let then = named(&session.images, &name);
        found.compare(&format!("image {name}"), then, named(&spec.images, &name));
    }
    plans(&mut found, session, spec);
    found.0
}

fn machines(found: &mut Differences, then: &Machine, now: &Machine) {
    found.compare("machine", then.name.clone(), now.name.clone());
    found.compare("kernel", then.kernel.clone(), now.kernel.clone());
    let cpu = |machine: &Machine| {
        let cpu = &machine.cpu;
        format!("{} × {}", cpu.logical_cores, cpu.model)
    };
    found.compare("cpu", cpu(then), cpu(now));
    found.compare(
        "memory",
        then.memory_bytes.to_string(),
        now.memory_bytes.to_string(),
    );
    let driver = |machine: &Machine| said(machine.driver_version.as_ref());
    found.compare("driver", driver(then), driver(now));
    let gpus = |machine: &Machine| {
        let gpus: Vec<_> = machine.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        if gpus.is_empty() {
            "none".to_owned()
        } else {
            gpus.join(", ")
        }
    };
    found.compare("gpus", gpus(then), gpus(now));
}

fn plans(found: &mut Differences, session: &Session, spec: &Spec) {
    let (then, now) = (&session.cells, &spec.plan.cells);
    if then.len() != now.len() {
        let cells = |count: usize| format!("{count} cells");
        found.compare("plan", cells(then.len()), cells(now.len()));
        return;
    }
    if let Some((then, now)) = then.iter().zip(now).find(|(then, now)| **then != now.plan) {
        let cell = |cell: &CellPlan| {
            format!(
                "{} · {} · {} ({} + {} steps, seed {})",
                cell.image,
                cell.scenario,
                cell.variant,
                cell.steps.warmup,
                cell.steps.measured,
                cell.seed
            )
        };
        found.compare("plan", cell(then), cell(&now.plan));
    }
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

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

fn image(image: &ImageFacts) -> String {
    let part = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".into());
    format!(
        "{} with libtorch {}+{} and scenario {}",
        part(&image.id),
        image.libtorch_version,
        image.flavour,
        part(&image.scenario_sha256)
    )
}

fn names<'a>(
    then: impl Iterator<Item = &'a String>,
    now: impl Iterator<Item = &'a String>,
) -> std::collections::BTreeSet<String> {
    then.chain(now).cloned().collect()
}
