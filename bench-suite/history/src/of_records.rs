//! What a history keeps of a session and its records: the one place that reads them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use metrics::{Metric, Rows};
use record::{Labels, Machine, Outcome, Record, Session, usual_track};

use crate::file::{self, Attributes, Cell, CellFacts, Failure, Image, Run, SessionFile, Version};

/// What others did on the host meanwhile, as an attribute.
const MUCH: &str = "high";
const LITTLE: &str = "low";

pub(crate) fn session_file(session: &Session, records: &[Record], labels: &Labels) -> SessionFile {
    let machine = session.machine();
    let tracks = tracks(&images(session, records), &labels.tracks);
    let image = |(name, track): (&String, &String)| {
        let attributes = of_image(session, records, name);
        let track = track.clone();
        (name.clone(), Image { track, attributes })
    };
    let mut methods = BTreeMap::new();
    let mut cells: Vec<Cell> = Vec::new();
    let rows = Rows::with(&session.metrics);
    for record in records {
        let fresh = cell(session, record);
        let same = |other: &Cell| other.facts.key() == fresh.key();
        let place = cells.iter().position(same).unwrap_or_else(|| {
            if !fresh.method.is_empty() {
                methods.insert(fresh.method.clone(), record.method.clone());
            }
            cells.push(Cell {
                facts: Arc::new(fresh.clone()),
                runs: Vec::new(),
                metrics: BTreeMap::new(),
                failed: Vec::new(),
            });
            cells.len() - 1
        });
        add_run(&mut cells[place], &rows, record);
        let facts = Arc::make_mut(&mut cells[place].facts);
        for (name, value) in fresh.attributes {
            // One run beside which others were at work is enough.
            if value == MUCH {
                facts.attributes.insert(name, value);
            } else {
                facts.attributes.entry(name).or_insert(value);
            }
        }
    }
    SessionFile {
        version: Version,
        session: session.session.clone(),
        started: session.started_at,
        ended: session.ended_at,
        complete: session.complete,
        tool: file::Tool {
            version: session.tool.version.clone(),
            revision: session.tool.revision.clone(),
        },
        labels: labels.clone(),
        machine: file::Machine {
            name: session.machine_names(),
            cpu: machine.cpu.model.clone(),
            logical_cores: machine.cpu.logical_cores,
            gpus: machine.gpus.iter().map(|gpu| gpu.name.clone()).collect(),
            driver: machine.driver_version.clone(),
        },
        images: tracks.iter().map(image).collect(),
        methods,
        metrics: session.metrics.clone(),
        cells,
    }
}

/// The images that a session is of, those whose runs are still to come too.
pub(crate) fn images<'s>(session: &'s Session, records: &'s [Record]) -> BTreeSet<&'s str> {
    let planned = session.cells.iter().map(|cell| &cell.image);
    let told = session.images.iter().map(|image| &image.name);
    let ran = records.iter().map(|record| &record.image);
    planned.chain(told).chain(ran).map(String::as_str).collect()
}

/// The track of every image of a session: the one that it was given, or else the usual one. Where
/// images of one session have that in common they are followed side by side, each under its own name.
fn tracks(images: &BTreeSet<&str>, given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let free = || images.iter().filter(|image| !given.contains_key(**image));
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for track in given
        .values()
        .cloned()
        .chain(free().map(|image| usual_track(image)))
    {
        *taken.entry(track).or_default() += 1;
    }
    let usual = free().map(|image| {
        let usual = usual_track(image);
        let track = if taken[&usual] == 1 {
            usual
        } else {
            (*image).to_owned()
        };
        ((*image).to_owned(), track)
    });
    given.clone().into_iter().chain(usual).collect()
}

/// What is wrong with a session's records, if anything.
pub(crate) fn check(session: &Session, records: &[Record]) -> Result<(), String> {
    let name = &session.session;
    if name.is_empty() {
        return Err("its name is empty; `session` in session.json must name it".into());
    }
    if records.is_empty() {
        return Err("it has no record of a run; `bench --resume` runs what it planned".into());
    }
    let rows = Rows::with(&session.metrics);
    for record in records {
        let run = &record.run;
        if record.session != *name {
            return Err(format!(
                "run {run} belongs to session {}, but session.json is of {name}; the two files \
                 must be of one session",
                record.session
            ));
        }
        if let Some((metric, value)) = values(&rows, record).find(|(_, value)| *value < 0.0) {
            return Err(format!(
                "run {run}: {} is {value}, expected a number that is not negative; a record like \
                 this was changed or is broken, and a comparison refuses it as well: measure again",
                metric.name
            ));
        }
    }
    Ok(())
}

fn cell(session: &Session, record: &Record) -> CellFacts {
    let machine = session.machine_of(record);
    let plan = session.cells.iter().find(|plan| {
        (&plan.image, &plan.suite, &plan.scenario, &plan.axes)
            == (&record.image, &record.suite, &record.scenario, &record.axes)
            && !plan.thresholds.is_empty()
    });
    let thresholds = plan.into_iter().flat_map(|plan| &plan.thresholds);
    let device = match record.device {
        protocol::Device::Cpu => cpu(machine),
        protocol::Device::Cuda(index) => gpu(machine, index, record.gpu_uuid(machine).as_deref()),
    };
    let driver = machine.driver_version.clone();
    let driver = driver.filter(|_| record.device != protocol::Device::Cpu);
    // What was disturbed by others counts as failed.
    let others = session.others(record).filter(|_| record.outcome.is_ok());
    let load = others.map(|others| if others.is_much { MUCH } else { LITTLE }.to_owned());
    CellFacts {
        image: record.image.clone(),
        suite: record.suite.clone(),
        scenario: record.scenario.clone(),
        workload: record.workload.clone(),
        axes: record.axes.clone(),
        variant: record.axes.to_string(),
        device,
        method: record.method.fingerprint(),
        attributes: known([
            ("driver", driver),
            ("gpu", record.gpu_uuid(machine)),
            ("load", load),
        ]),
        thresholds: thresholds
            .map(|(name, share)| (name.clone(), *share))
            .collect(),
    }
}

fn add_run(cell: &mut Cell, rows: &Rows, record: &Record) {
    let run = Run {
        name: record.run.clone(),
        attempt: record.attempt,
        block: record.block,
        started: record.started_at,
    };
    match &record.outcome {
        Outcome::Ok => {
            for (metric, value) in values(rows, record) {
                let all = cell.metrics.entry(metric.name.to_owned()).or_default();
                all.resize(cell.runs.len(), None);
                all.push(Some(value));
            }
            cell.runs.push(run);
            for all in cell.metrics.values_mut() {
                all.resize(cell.runs.len(), None);
            }
        }
        Outcome::Expected(failure) | Outcome::Failed(failure) => {
            let reason = failure.reason.word();
            cell.failed.push(Failure { run, reason });
        }
    }
}

fn values(rows: &Rows, record: &Record) -> impl Iterator<Item = (&'static Metric, f64)> {
    rows.followed()
        .filter_map(|metric| Some((metric, metric.of(record)?)))
}

/// What all cells of an image have in common.
fn of_image(session: &Session, records: &[Record], name: &str) -> Attributes {
    let engine = &session.engine;
    let facts = session.images.iter().find(|image| image.name == name);
    let mut ids = records.iter().filter(|record| record.image == name);
    known([
        ("image", Some(name.to_owned())),
        ("image_id", ids.find_map(|record| record.image_id.clone())),
        (
            "libtorch",
            facts.map(|image| image.libtorch_version.clone()),
        ),
        ("kernel", Some(session.machine().kernel.clone())),
        (
            "engine",
            Some(match &engine.version {
                Some(version) => format!("{} {version}", engine.kind),
                None => engine.kind.clone(),
            }),
        ),
    ])
}

fn known<const N: usize>(attributes: [(&str, Option<String>); N]) -> Attributes {
    let known = attributes.into_iter().filter_map(|(name, value)| {
        Some((name.to_owned(), value.filter(|value| !value.is_empty())?))
    });
    known.collect()
}

fn cpu(machine: &Machine) -> String {
    let cores = machine.cpu.logical_cores;
    match &*machine.cpu.model {
        "" => format!("cpu, {cores} cores"),
        model => format!("{model}, {cores} cores"),
    }
}

/// CUDA and NVML may count GPUs in another order: the UUID decides where the workload told it.
fn gpu(machine: &Machine, cuda_index: u32, uuid: Option<&str>) -> String {
    let gpus = &machine.gpus;
    let found = uuid
        .and_then(|uuid| gpus.iter().find(|gpu| gpu.uuid().as_deref() == Some(uuid)))
        .or_else(|| gpus.iter().find(|gpu| gpu.index == cuda_index));
    match found {
        Some(gpu) if gpus.len() > 1 => format!("{} #{}", gpu.name, gpu.index),
        Some(gpu) => gpu.name.clone(),
        None => format!("cuda:{cuda_index}"),
    }
}

/// Since 1970-01-01 UTC.
pub(crate) fn seconds(time: Timestamp) -> f64 {
    time.as_nanosecond() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(images: &[&str], given: &[(&str, &str)], expect: &[&str]) {
        let owned = |(image, track): &(&str, &str)| ((*image).to_owned(), (*track).to_owned());
        let given = given.iter().map(owned).collect();
        let found = tracks(&images.iter().copied().collect(), &given);
        assert_eq!(found.into_values().collect::<Vec<_>>(), expect);
    }

    #[test]
    fn images_of_one_session_have_tracks_of_their_own() {
        let (old, new) = ("torch-2.8.0-cu128", "torch-2.9.1-cu128");
        check(&[new], &[], &["torch-cu"]);
        check(&[old, new], &[], &[old, new]);
        check(&[new, "torch-2.9.1-cpu"], &[], &["torch-cpu", "torch-cu"]);
        check(&[old, new], &[(new, "main")], &["torch-cu", "main"]);
        check(&[old, new], &[(new, "torch-cu")], &[old, "torch-cu"]);
    }
}
