//! What keeps a session from being resumed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use record::{CellPlan, ImageFacts, Place, Session};

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
        let [then, now] = [&self.then, &self.now].map(|fact| match &**fact {
            "" => "unknown",
            fact => fact,
        });
        write!(f, "{}: was {then}, is {now}", self.what)
    }
}

/// What metrics depend on, in words, by what it is called.
type Facts = BTreeMap<String, String>;

/// Everything that differs between a session and what would continue it.
pub(super) fn between(session: &Session, plan: &Plan) -> Vec<Difference> {
    let then = facts(session, &session.policy.places);
    let mut found = differing(&then, &facts(&plan.session, &plan.places()));
    found.extend(of_images(&session.images, &plan.session.images));
    if let Some((then, now)) = plans(session, plan) {
        let what = "plan".to_owned();
        found.push(Difference { what, then, now });
    }
    found
}

/// The images of both, as far as they differ; an image that one side knows by its name alone does not.
pub(super) fn of_images(then: &[ImageFacts], now: &[ImageFacts]) -> Vec<Difference> {
    let known = |images: &[ImageFacts], others: &[ImageFacts]| {
        let in_both = |own: &&ImageFacts| {
            let mut others = others.iter();
            own.is_known() && others.all(|other| other.name != own.name || other.is_known())
        };
        images.iter().filter(in_both).map(image).collect()
    };
    differing(&known(then, now), &known(now, then))
}

fn differing(then: &Facts, now: &Facts) -> Vec<Difference> {
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let of = |facts: &Facts, what| facts.get(what).cloned().unwrap_or("missing".to_owned());
    let all = names.into_iter().map(|what| Difference {
        what: what.clone(),
        then: of(then, what),
        now: of(now, what),
    });
    all.filter(|one| one.then != one.now).collect()
}

fn facts(session: &Session, places: &[Place]) -> Facts {
    let engine = &session.engine;
    let places = places.iter().map(ToString::to_string);
    let fixed = [
        ("device", session.device.to_string()),
        ("GPUs that runs are spread over", listed(places, "one")),
        ("Torchgauge", tool(&session.tool)),
        ("machine", session.machine_names()),
        ("engine", engine.kind.clone()),
        ("engine version", said(engine.version.as_ref())),
        ("GPU path", said(engine.gpu_path.as_ref())),
    ];
    let fixed = fixed
        .map(|(what, fact)| (what.to_owned(), fact))
        .into_iter();
    let suites = session.suites.iter().map(|(name, digest)| {
        let digest = digest.get(..12).unwrap_or(digest);
        (format!("suite {name}"), digest.to_owned())
    });
    let several = session.hosts.len() > 1;
    let hosts = session.hosts.iter().flat_map(|(name, machine)| {
        let (cpu, gpus) = (
            &machine.cpu,
            machine.gpus.iter().map(|gpu| gpu.uuid.clone()),
        );
        let facts = [
            ("kernel", machine.kernel.clone()),
            ("cpu", format!("{} × {}", cpu.logical_cores, cpu.model)),
            ("memory", machine.memory_bytes.to_string()),
            ("driver", said(machine.driver_version.as_ref())),
            ("gpus", listed(gpus, "none")),
        ];
        let of = if several {
            format!(" of {name}")
        } else {
            String::new()
        };
        facts.map(|(what, fact)| (format!("{what}{of}"), fact))
    });
    fixed.chain(suites).chain(hosts).collect()
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

fn image(image: &ImageFacts) -> (String, String) {
    let fact = format!(
        "{} with libtorch {} and scenario {}",
        said(image.id.as_ref()),
        image.flavour,
        said(image.scenario_sha256.as_ref())
    );
    (format!("image {}", image.name), fact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_one_side_knows_by_name_alone_is_no_difference() {
        let image = |name: &str, scenario: Option<&str>| ImageFacts {
            name: name.to_owned(),
            scenario_sha256: scenario.map(str::to_owned),
            ..ImageFacts::default()
        };
        // As containers of a Pod do, each of which is one of the images.
        let (first, second) = (
            [image("a", Some("1")), image("b", None)],
            [image("a", None), image("b", Some("2"))],
        );
        assert_eq!(of_images(&first, &second), []);
        let found = of_images(&first, &[image("a", Some("3")), image("b", None)]);
        let names: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(names, ["image a"]);
        assert_eq!(of_images(&first, &second[..1]), []);
    }
}
