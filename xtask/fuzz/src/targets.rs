//! What reads outside input, one target each.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bench_suite::{
    results::Results,
    suite::{DeviceKind, Suite},
};
use images::{Cache, lock::Lock};
use jiff::Timestamp;
use judge::trend::{self, TrendOptions};
use protocol::{Device, Event, Model, RunFile, Steps, Task};
use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use record::{MemoryParts, Session, SessionFolder};
use reports::{Source, View};
use serde_json::Value;

use crate::{
    Scratch,
    edit::{self, Material},
    seeds,
};

/// The run that event lines and run files are of.
pub(crate) const RUN: &str = "0001-b0-torch";

type Edit = fn(&[u8], u32, &Material, &mut ChaCha8Rng) -> Vec<u8>;

/// One parser of outside input.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What it reads, in a few words.
    pub about: &'static str,
    seeds: fn() -> Vec<Vec<u8>>,
    parts: fn(&[u8]) -> Vec<Value>,
    edit: Edit,
    check: fn(&[u8], &Scratch) -> Result<bool, String>,
}

impl Target {
    pub(crate) fn material(&self) -> Material {
        Material::of((self.seeds)(), self.parts)
    }

    pub(crate) fn edit(
        &self,
        start: &[u8],
        edits: u32,
        from: &Material,
        random: &mut ChaCha8Rng,
    ) -> Vec<u8> {
        (self.edit)(start, edits, from, random)
    }

    /// Has the parser read an input. Whether it was accepted, or what does not hold.
    pub(crate) fn check(&self, input: &[u8], scratch: &Scratch) -> Result<bool, String> {
        (self.check)(input, scratch)
    }
}

/// All targets.
#[must_use]
pub fn all() -> &'static [Target] {
    TARGETS
}

/// The target of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

const TARGETS: &[Target] = &[
    Target {
        name: "suite",
        about: "suites: YAML, its limits, axes to cells, claims",
        seeds: seeds::suites,
        parts: yaml_parts,
        edit: edit::yaml::edit,
        check: suite,
    },
    Target {
        name: "spec",
        about: "image specs",
        seeds: seeds::specs,
        parts: yaml_parts,
        edit: edit::yaml::edit,
        check: spec,
    },
    Target {
        name: "lock",
        about: "image locks, most of them sealed again after the edit",
        seeds: seeds::locks,
        parts: json_parts,
        edit: edit_lock,
        check: lock,
    },
    Target {
        name: "records",
        about: "lines of records.ndjson, of all versions",
        seeds: seeds::records,
        parts: lines_parts,
        edit: edit_lines,
        check: records,
    },
    Target {
        name: "session",
        about: "session folders: session.json and records.ndjson, repaired and written anew",
        seeds: seeds::session_folders,
        parts: folder_parts,
        edit: edit_folder,
        check: session,
    },
    Target {
        name: "report",
        about: "what is shown and judged of a session folder that could be read",
        seeds: seeds::session_folders,
        parts: folder_parts,
        edit: edit_folder,
        check: report,
    },
    Target {
        name: "csv",
        about: "series that `trend` imports, and the change points in them",
        seeds: seeds::series,
        parts: |_| Vec::new(),
        edit: edit::table::edit,
        check: csv,
    },
    Target {
        name: "event",
        about: "event lines of a workload",
        seeds: seeds::events,
        parts: lines_parts,
        edit: edit_lines,
        check: event,
    },
    Target {
        name: "run-file",
        about: "run files, as the workload reads them",
        seeds: seeds::run_files,
        parts: json_parts,
        edit: edit::json::edit,
        check: run_file,
    },
    Target {
        name: "wheel",
        about: "wheels: the zip archive, its list, what is taken out",
        seeds: seeds::wheels,
        parts: |_| Vec::new(),
        edit: edit::zip::edit,
        check: wheel,
    },
    Target {
        name: "archive",
        about: "bases as tar archives: members, links, packages, the C library",
        seeds: seeds::archives,
        parts: |_| Vec::new(),
        edit: edit::tar::edit,
        check: archive,
    },
    Target {
        name: "image",
        about: "images as `docker image save` writes them: manifest, configuration, layers",
        seeds: seeds::saved_images,
        parts: image_parts,
        edit: edit::tar::edit_image,
        check: archive,
    },
    Target {
        name: "elf",
        about: "dynamic sections of shared libraries",
        seeds: seeds::libraries,
        parts: |_| Vec::new(),
        edit: edit::elf::edit,
        check: elf,
    },
];

fn json_parts(document: &[u8]) -> Vec<Value> {
    serde_json::from_slice(document).into_iter().collect()
}

fn yaml_parts(document: &[u8]) -> Vec<Value> {
    serde_yaml::from_slice(document).into_iter().collect()
}

fn lines_parts(document: &[u8]) -> Vec<Value> {
    document
        .split(|byte| *byte == b'\n')
        .flat_map(json_parts)
        .collect()
}

fn folder_parts(folder: &[u8]) -> Vec<Value> {
    folder
        .split(|byte| *byte == 0)
        .flat_map(lines_parts)
        .collect()
}

fn image_parts(_: &[u8]) -> Vec<Value> {
    let words = [
        "manifest.json",
        "config.json",
        "0/layer.tar",
        "1/layer.tar",
        "LD_PRELOAD=x",
    ];
    words.map(Value::from).into()
}

fn edit_lock(document: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let edited = edit::json::edit(document, edits, from, random);
    // With the old seal nothing behind the seal is reached.
    let value = serde_json::from_slice(&edited)
        .ok()
        .filter(|_| random.random_bool(0.8));
    let sealed = value.and_then(|value| images::fuzzing::sealed(&value));
    sealed.unwrap_or(edited)
}

fn edit_lines(document: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = document
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    for _ in 0..edits {
        if lines.is_empty() {
            break;
        }
        let at = random.random_range(0..lines.len());
        match random.random_range(0..16) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = random.random_range(0..lines.len());
                lines.swap(at, other);
            }
            3 => {
                if let Some(other) = from.seeds.choose(random) {
                    lines.insert(at, other.clone());
                }
            }
            4 => drop(lines[at].pop()),
            _ => {
                let end = lines[at].ends_with(b"\n");
                lines[at] = edit::json::edit(&lines[at], 1, from, random);
                if end {
                    lines[at].push(b'\n');
                }
            }
        }
    }
    lines.concat()
}

fn edit_folder(folder: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let (session, records) = split(folder);
    let own = random.random_range(0..=edits);
    let mut edited = if own > 0 {
        edit::json::edit(session, own, from, random)
    } else {
        session.to_vec()
    };
    // The NUL stands between the two files and in neither.
    edited.retain(|byte| *byte != 0);
    edited.push(0);
    edited.extend(edit_lines(records, edits - own, from, random));
    edited
}

fn split(folder: &[u8]) -> (&[u8], &[u8]) {
    let middle = folder
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(folder.len());
    (
        &folder[..middle],
        folder.get(middle + 1..).unwrap_or_default(),
    )
}

/// An error ended it, as it should: in words that act on no terminal.
fn refused(error: &impl std::fmt::Display) -> Result<bool, String> {
    said(&error.to_string())?;
    Ok(false)
}

fn said(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("an error without words".to_owned());
    }
    let acts = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    match text.find(acts) {
        None => Ok(()),
        Some(_) => Err(format!("a control character reaches the reader: {text:?}")),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(first: &T, second: &T) -> Result<bool, String> {
    if first == second {
        return Ok(true);
    }
    let (first, second) = (format!("{first:?}"), format!("{second:?}"));
    let pairs = first.bytes().zip(second.bytes());
    let from = pairs.take_while(|(a, b)| a == b).count().saturating_sub(60);
    let part = |text: &str| text.chars().skip(from).take(160).collect::<String>();
    Err(format!(
        "read and written it is another: …{} became …{}",
        part(&first),
        part(&second)
    ))
}

fn yaml(value: &Value) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|error| format!("not written: {error}"))
}

fn suite(input: &[u8], _: &Scratch) -> Result<bool, String> {
    const NAME: &str = "fuzz.yaml";
    let document = match strict_yaml::Document::from_bytes(NAME, input) {
        Ok(document) => document,
        Err(error) => {
            said(&error.render(false))?;
            return refused(&error);
        }
    };
    let first = match Suite::from_text(NAME, document.text()) {
        Ok(suite) => suite,
        Err(error) => {
            said(&error.render(false))?;
            return refused(&error);
        }
    };
    let cells = first.cells(DeviceKind::Cpu) + first.cells(DeviceKind::Cuda);
    if cells == 0 || cells > 2 * bench_suite::suite::MAX_CELLS {
        return Err(format!("a suite of {cells} cells was accepted"));
    }
    let text = yaml(document.value())?;
    let mut second = Suite::from_text(NAME, &text)
        .map_err(|error| format!("refused once it was written: {error}"))?;
    second.digest.clone_from(&first.digest);
    same(&first, &second)
}

fn spec(input: &[u8], _: &Scratch) -> Result<bool, String> {
    let first = match images::fuzzing::spec("fuzz.yaml", input) {
        Ok(spec) => spec,
        Err(error) => return refused(&error),
    };
    let value = serde_json::to_value(&first).map_err(|error| format!("not written: {error}"))?;
    let text = yaml(&value)?;
    let second = images::fuzzing::spec("fuzz.yaml", text.as_bytes());
    let second = second.map_err(|error| format!("refused once it was written: {error}"))?;
    same(&first.digest(), &second.digest())?;
    same(&first, &second)
}

fn lock(input: &[u8], _: &Scratch) -> Result<bool, String> {
    let read = |json: &[u8]| Lock::from_json(Path::new("fuzz.lock.json"), json);
    let first = match read(input) {
        Ok(lock) => lock,
        Err(error) => return refused(&error),
    };
    let json =
        serde_json::to_vec_pretty(&first).map_err(|error| format!("not written: {error}"))?;
    let second = read(&json).map_err(|error| format!("refused once it was written: {error}"))?;
    if !first.changes_to(&second).is_empty() {
        return Err("a lock differs from itself".to_owned());
    }
    same(&first, &second)
}

fn records(input: &[u8], _: &Scratch) -> Result<bool, String> {
    let found = record::fuzzing::records(input);
    for words in found.left_out() {
        said(&words)?;
    }
    let mut written = Vec::new();
    for record in &found.records {
        serde_json::to_writer(&mut written, record)
            .map_err(|error| format!("not written: {error}"))?;
        written.push(b'\n');
    }
    let again = record::fuzzing::records(&written);
    if let Some(words) = again.left_out().first() {
        return Err(format!("refused once it was written: {words}"));
    }
    same(&found.records, &again.records)?;
    Ok(!found.records.is_empty())
}

/// Puts the two files of a session where they are read.
fn folder(input: &[u8], scratch: &Scratch) -> Result<SessionFolder, String> {
    let failed = |error: io::Error| format!("the scratch folder cannot be written: {error}");
    let (session, records) = split(input);
    let path = scratch.path("session");
    if path.exists() {
        fs::remove_dir_all(&path).map_err(failed)?;
    }
    fs::create_dir(&path).map_err(failed)?;
    fs::write(path.join(SessionFolder::SESSION), session).map_err(failed)?;
    fs::write(path.join(SessionFolder::RECORDS), records).map_err(failed)?;
    Ok(SessionFolder::at(path))
}

fn session(input: &[u8], scratch: &Scratch) -> Result<bool, String> {
    let folder = folder(input, scratch)?;
    let broken = |error: record::FolderError| format!("a folder that was read is refused: {error}");
    let found = folder.read_records().map_err(broken)?;
    for words in found.left_out() {
        said(&words)?;
    }
    folder.repair(&found).map_err(broken)?;
    let repaired = folder.read_records().map_err(broken)?;
    if !repaired.left_out().is_empty() {
        return Err("a repaired folder needs repair".to_owned());
    }
    same(&found.records, &repaired.records)?;
    let first: Session = match folder.read_session() {
        Ok(session) => session,
        Err(error) => return refused(&error),
    };
    folder.write_session(&first).map_err(broken)?;
    let second = folder.read_session().map_err(broken)?;
    same(&first, &second)
}

fn report(input: &[u8], scratch: &Scratch) -> Result<bool, String> {
    let folder = folder(input, scratch)?;
    let source = match Source::read(&folder) {
        Ok(source) => source,
        Err(error) => return refused(&error),
    };
    let options = verdict::Options::default();
    let records = &source.records.records;
    let judged = verdict::compare_session(&source.session, records, &options);
    if let Err(error) = &judged {
        said(&error.to_string())?;
    }
    let claims = &source.session.claims;
    if let Err(error) = verdict::judge_claims(&source.session, records, claims) {
        said(&error.to_string())?;
    }
    let sources = [source];
    let view = View::of(&sources);
    if reports::markdown::render(&view).is_empty() {
        return Err("an empty report.md".to_owned());
    }
    reports::json::render(&view.report).map_err(|error| format!("no report.json: {error}"))?;
    reports::html::render(&view).map_err(|error| format!("no report.html: {error}"))?;
    Ok(true)
}

fn csv(input: &[u8], _: &Scratch) -> Result<bool, String> {
    let Ok(text) = std::str::from_utf8(input) else {
        return Ok(false);
    };
    let mut points = match trend::csv::parse(text) {
        Ok(parsed) => parsed.points,
        Err(error) => return refused(&error),
    };
    let kept = history::fuzzing::kept(&points);
    let kept = kept.map_err(|error| format!("a history loses an import: {error}"))?;
    same(&points, &kept)?;
    trend::put_in_order(&mut points);
    match trend::change_points(&points, &TrendOptions::default()) {
        Ok(_) => Ok(true),
        Err(error) => refused(&error),
    }
}

fn event(input: &[u8], _: &Scratch) -> Result<bool, String> {
    let results = bench_suite::fuzzing::results(input, RUN);
    let phases = results.phases_since(Timestamp::UNIX_EPOCH, 2e9);
    if phases.values().any(|began| !(0.0..=2e9).contains(began)) {
        return Err("a phase that lies outside of its run".to_owned());
    }
    if let Some(fault) = &results.fault {
        said(&fault.to_string())?;
    }
    if let Some((metrics, Err(why))) =
        bench_suite::fuzzing::metrics(&results, &asked(&results), 2e9)
    {
        said(&why)?;
        MemoryParts::of(&metrics).and_then(|parts| parts.gpu_bytes());
    }
    if let Some(Event::Failed { message, .. }) = &results.end
        && !message.trim().is_empty()
    {
        said(message)?;
    }
    for line in input.split(|byte| *byte == b'\n') {
        let Ok(first) = serde_json::from_slice::<Event>(line) else {
            continue;
        };
        let text = serde_json::to_vec(&first).map_err(|error| format!("not written: {error}"))?;
        let second = serde_json::from_slice(&text)
            .map_err(|error| format!("refused once it was written: {error}"))?;
        same(&first, &second)?;
    }
    Ok(results.fault.is_none())
}

/// A run file that the results may be the answer to.
fn asked(results: &Results) -> RunFile {
    let batch = match &results.end {
        Some(Event::Finished(summary)) => summary.micro_batch,
        _ => 1,
    };
    let started = results.started.as_ref();
    let is_cuda = started.is_some_and(|started| started.cuda.is_some());
    let variant = serde_json::json!({ "batch": batch });
    RunFile {
        version: protocol::VERSION,
        run: RUN.to_owned(),
        model: Model::Resnet50,
        task: Task::Training,
        variant: serde_json::from_value(variant).unwrap_or_default(),
        device: if is_cuda {
            Device::Cuda(0)
        } else {
            Device::Cpu
        },
        steps: Steps::new(0, u32::try_from(results.steps.len()).unwrap_or(u32::MAX)),
        seed: 0,
        threads: None,
        gpu_memory_bytes: None,
        allocator_memory_bytes: None,
        deadline_seconds: None,
    }
}

fn run_file(input: &[u8], _: &Scratch) -> Result<bool, String> {
    let Ok(text) = std::str::from_utf8(input) else {
        return Ok(false);
    };
    let first = match RunFile::parse(text) {
        Ok(file) => file,
        Err(error) => return refused(&error),
    };
    let line = first
        .to_line()
        .map_err(|error| format!("not written: {error}"))?;
    let second =
        RunFile::parse(&line).map_err(|error| format!("refused once it was written: {error}"))?;
    same(&first, &second)
}

fn wheel(input: &[u8], scratch: &Scratch) -> Result<bool, String> {
    let failed = |error: io::Error| format!("the scratch folder cannot be written: {error}");
    let file = scratch.path("torch.whl");
    fs::write(&file, input).map_err(failed)?;
    // Deep enough for a path of `..` to end in a folder that is looked at.
    let top = scratch.path("wheel");
    if top.exists() {
        fs::remove_dir_all(&top).map_err(failed)?;
    }
    let folders = ["", "a", "a/b", "a/b/c"].map(|below| top.join(below));
    let found = images::fuzzing::wheel(&file, &top.join("a/b/c/d"));
    let entries = |folder: &PathBuf| fs::read_dir(folder).map_or(0, Iterator::count);
    if folders.iter().any(|folder| entries(folder) > 1) {
        return Err("a wheel wrote outside of its folder".to_owned());
    }
    match found {
        Ok(_) => Ok(true),
        Err(error) => refused(&error),
    }
}

fn archive(input: &[u8], scratch: &Scratch) -> Result<bool, String> {
    let failed = |error: io::Error| format!("the scratch folder cannot be written: {error}");
    let file = scratch.path("base.tar");
    fs::write(&file, input).map_err(failed)?;
    let home = scratch.path("cache");
    let cache = Cache::at(&home).map_err(|error| format!("no cache: {error}"))?;
    let found = images::fuzzing::archive(&file, &cache);
    // What layers were unpacked to.
    let kept = home.join("bases");
    for entry in fs::read_dir(&kept).map_err(failed)? {
        fs::remove_file(entry.map_err(failed)?.path()).map_err(failed)?;
    }
    match found {
        Ok((first, second)) => same(&first, &second),
        Err(error) => refused(&error),
    }
}

fn elf(input: &[u8], _: &Scratch) -> Result<bool, String> {
    match images::fuzzing::elf(input) {
        Ok(()) => Ok(true),
        Err(error) => refused(&error),
    }
}
