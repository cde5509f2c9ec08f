//! A session whose blocks run on nodes, each as a part of its own.
//!
//! A part is a folder as that of a session with one block, written where the session was planned and
//! carried out by `torchgauge node` on whatever node has it: with the node's facts, locks and
//! monitors, and without a word to anybody else. All runs that are compared within a block are of
//! one node and its GPUs, so that nodes that differ move both sides alike.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use record::{Asked, ImageFacts, Machine, Record, SessionFolder};

use super::{
    Difference, Session, SessionError, Totals, difference,
    runs::{AttemptLog, declare},
};
use crate::{
    executors::process,
    plan::{Plan, Run},
    suite::Program,
};

/// The folder of the parts, in that of their session.
pub const PARTS: &str = "parts";

/// Clocks closer than this count as the same; a shared folder rounds times.
const CLOCKS: Duration = Duration::from_secs(5);

/// One block of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The block, from 0.
    pub block: u32,
    pub folder: PathBuf,
    /// Whether all of its runs are done.
    pub is_complete: bool,
    /// The runs that may be still to do, in their order, each with its image's reference, or name
    /// where it has none: those that are open, and those that they are compared with, which run
    /// again on another node; all where none is open and the part was not closed.
    pub runs: Vec<Due>,
}

/// A run of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    pub name: String,
    pub image: String,
    /// The program of the user's that it runs, where it runs one.
    pub program: Option<Program>,
}

impl Session {
    /// The session's parts, written where they are not there yet, with `engine` as the one that
    /// nodes run them with, on this device.
    pub fn hand_over(&self, engine: &str, device: &str) -> Result<Vec<Part>, SessionError> {
        let all = self.folder.path().join(PARTS);
        let part = |block: u32| {
            let path = all.join(format!("{block:03}"));
            let folder = SessionFolder::at(&path);
            if !path.join(SessionFolder::SESSION).exists() || was_plain(&folder, engine) {
                self.write_part(block, &folder, engine, device)?;
            }
            let is_complete = folder.read_session()?.complete;
            let runs = if is_complete {
                Vec::new()
            } else {
                self.due(block, &folder.read_records()?.records)
            };
            Ok(Part {
                block,
                folder: path,
                is_complete,
                runs,
            })
        };
        self.plan.session.numbers().map(part).collect()
    }

    fn write_part(
        &self,
        block: u32,
        folder: &SessionFolder,
        engine: &str,
        device: &str,
    ) -> Result<(), SessionError> {
        folder.create()?;
        let whole = &self.plan.session;
        let asked = whole.asked.clone().unwrap_or_default();
        for suite in &asked.suites {
            copy(Path::new(suite), folder.path())?;
        }
        let asked = Asked {
            engine: engine.to_owned(),
            device: device.to_owned(),
            ..asked
        };
        folder.write_session(&record::Session {
            blocks: 1,
            first_block: Some(block),
            asked: Some(asked),
            hosts: BTreeMap::new(),
            notes: Vec::new(),
            ..whole.clone()
        })?;
        Ok(())
    }

    /// The runs of a block that may be still to do after these records.
    fn due(&self, block: u32, records: &[Record]) -> Vec<Due> {
        let (log, runs) = (AttemptLog::of(records), self.plan.block(block));
        let cell = |run: &Run| &self.plan.cells[run.cell].plan;
        let group = |run: &Run| (&cell(run).suite, &cell(run).scenario);
        let open = runs.iter().filter(|run| log.is_open(run)).map(group);
        let open: BTreeSet<_> = open.collect();
        let is_due = |run: &&Run| open.is_empty() || open.contains(&group(run));
        let due = runs.iter().filter(is_due);
        let of = |run: &Run| Due {
            name: run.name.clone(),
            image: self.reference(&cell(run).image),
            program: self.plan.cells[run.cell].work.program().cloned(),
        };
        due.map(of).collect()
    }

    fn reference(&self, image: &str) -> String {
        let mut images = self.plan.session.images.iter();
        let facts = images.find(|facts| facts.name == image);
        let reference = facts.and_then(|facts| facts.reference.clone());
        reference.unwrap_or_else(|| image.to_owned())
    }

    /// Takes over what the session's parts have recorded so far, which may be called again and again.
    ///
    /// # Errors
    /// Where a part ran other images than an earlier one, or another plan.
    pub fn gather(&mut self) -> Result<Totals, SessionError> {
        let mut are_complete = true;
        for block in self.plan.session.numbers() {
            if self.gathered.contains(&block) {
                continue;
            }
            let place = format!("{PARTS}/{block:03}");
            let folder = SessionFolder::at(self.folder.path().join(&place));
            if !folder.path().join(SessionFolder::SESSION).exists() {
                are_complete = false;
                continue;
            }
            let part = folder.read_session()?;
            are_complete &= part.complete;
            if part.hosts.is_empty() {
                continue;
            }
            self.take(&part, folder.path())?;
            for mut record in folder.read_records()?.records {
                if record.attempt <= self.attempts.count(&record.run) {
                    continue;
                }
                for file in [&mut record.log, &mut record.snapshot]
                    .into_iter()
                    .flatten()
                {
                    *file = format!("{place}/{file}");
                }
                self.folder.append(&record)?;
                self.attempts.note(&record);
            }
            if part.complete {
                self.gathered.insert(block);
            }
        }
        let totals = self.totals();
        let session = &mut self.plan.session;
        session.complete = totals.is_complete() && are_complete;
        session.ended_at = session.complete.then(jiff::Timestamp::now);
        self.folder.write_session(session)?;
        Ok(totals)
    }

    /// What a part says of its node and of what it ran there.
    fn take(&mut self, part: &record::Session, path: &Path) -> Result<(), SessionError> {
        let whole = &mut self.plan.session;
        let mut differences = Vec::new();
        if part.session != whole.session || part.cells != whole.cells {
            differences.push(Difference {
                what: "the part of the session".to_owned(),
                then: whole.session.clone(),
                now: part.session.clone(),
            });
        }
        if whole.hosts.is_empty() {
            whole.images.clone_from(&part.images);
            whole.engine.clone_from(&part.engine);
        }
        fill(&mut whole.images, &part.images);
        differences.extend(difference::of_images(&whole.images, &part.images));
        if !differences.is_empty() {
            return Err(SessionError::Different {
                path: path.to_owned(),
                differences,
            });
        }
        whole.hosts.extend(part.hosts.clone());
        declare(whole, part.metrics.clone());
        let node = part.machine_names();
        let notes: Vec<String> = part
            .notes
            .iter()
            .map(|note| format!("{node}: {note}"))
            .collect();
        add_notes(whole, &notes);
        Ok(())
    }
}

/// Whether a part that no node began was planned for plain processes, and now is not: the profile was
/// corrected in between. The other way a job that waits might isolate nothing.
fn was_plain(folder: &SessionFolder, engine: &str) -> bool {
    let plain = process::REGISTRATION.word;
    engine != plain
        && folder.read_session().is_ok_and(|part| {
            part.hosts.is_empty() && part.asked.is_some_and(|asked| asked.engine == plain)
        })
}

/// Takes over images of which nothing was known: inside of an image, nobody sees the others.
fn fill(images: &mut [ImageFacts], from: &[ImageFacts]) {
    for image in images.iter_mut().filter(|image| !image.is_known()) {
        if let Some(known) = from.iter().find(|known| known.name == image.name) {
            image.clone_from(known);
        }
    }
}

/// Copies a suite that is a file to where a node finds it that does not have the file.
fn copy(suite: &Path, part: &Path) -> Result<(), SessionError> {
    let Some(name) = suite.file_name().filter(|_| suite.is_absolute()) else {
        return Ok(());
    };
    let path = part.join(name);
    match fs::copy(suite, &path) {
        Ok(_) => Ok(()),
        Err(source) => Err(SessionError::Io { path, source }),
    }
}

pub(super) fn add_notes(session: &mut record::Session, notes: &[String]) {
    for note in notes {
        if !session.notes.contains(note) {
            session.notes.push(note.clone());
        }
    }
}

/// Fills in what one of both does not know yet: a part what its node is before it began there, a
/// plan of a session on nodes what these were. Gives the machines that a part ran on before it came
/// to this one, and whether something was begun here that goes on.
pub(super) fn settle(
    session: &mut record::Session,
    plan: &mut Plan,
) -> (BTreeMap<String, Machine>, bool) {
    let fresh = &mut plan.session;
    let was_begun = !session.hosts.is_empty() && !fresh.hosts.is_empty();
    if fresh.hosts.is_empty() {
        fresh.hosts.clone_from(&session.hosts);
        fresh.engine.clone_from(&session.engine);
        fresh.images.clone_from(&session.images);
    } else if session.first_block.is_some() {
        if session.hosts.is_empty() {
            session.engine.clone_from(&fresh.engine);
            session.images.clone_from(&fresh.images);
        }
        fill(&mut session.images, &fresh.images);
        let gpus = |hosts: &BTreeMap<String, Machine>| -> BTreeSet<(String, Option<String>)> {
            let of = |(name, machine): (&String, &Machine)| {
                let gpus = machine.gpus.iter().map(|gpu| (name.clone(), gpu.uuid()));
                gpus.chain([(name.clone(), None)]).collect::<Vec<_>>()
            };
            hosts.iter().flat_map(of).collect()
        };
        if session.device != fresh.device || gpus(&session.hosts) != gpus(&fresh.hosts) {
            session.device = fresh.device;
            session.policy.places = plan.places();
            let earlier = std::mem::replace(&mut session.hosts, plan.session.hosts.clone());
            return (earlier, was_begun);
        }
    }
    (BTreeMap::new(), was_begun)
}

/// Keeps the machines that a part ran on earlier beside this one, and says so.
pub(super) fn add_hosts(session: &mut record::Session, earlier: BTreeMap<String, Machine>) {
    if !earlier.is_empty() {
        let from: Vec<&str> = earlier.keys().map(String::as_str).collect();
        let to = session.machine_names();
        session.notes.push(format!(
            "begun on {}, goes on on {to}; scenarios that were not finished run there anew",
            from.join(", ")
        ));
    }
    for (name, machine) in earlier {
        session.hosts.entry(name).or_insert(machine);
    }
}

/// What to know where the clock of this node and that of the folder's file system, which wrote
/// this file a moment ago, differ.
pub(super) fn clock_note(file: &Path) -> Option<String> {
    let written = fs::metadata(file)
        .and_then(|metadata| metadata.modified())
        .ok()?;
    apart(written, SystemTime::now())
}

fn apart(folder: SystemTime, node: SystemTime) -> Option<String> {
    let (apart, word) = match node.duration_since(folder) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    (apart > CLOCKS).then(|| {
        format!(
            "the clock of this node is {} s {word} that of the shared folder, and so are the times \
             of its records; set both by NTP",
            apart.as_secs()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_for_plain_processes_are_written_anew_until_a_node_begins() {
        let here = tempfile::tempdir().unwrap();
        let folder = SessionFolder::at(here.path());
        folder.create().unwrap();
        let mut part = record::Session {
            version: record::VERSION,
            asked: Some(Asked {
                engine: "process".to_owned(),
                ..Asked::default()
            }),
            ..record::Session::default()
        };
        folder.write_session(&part).unwrap();
        folder.read_session().unwrap();
        assert!(was_plain(&folder, "podman"));
        assert!(!was_plain(&folder, "process"));
        part.hosts.insert("vm".to_owned(), Machine::default());
        folder.write_session(&part).unwrap();
        assert!(!was_plain(&folder, "podman"));
    }

    #[test]
    fn clocks_that_differ_are_named() {
        let now = SystemTime::now();
        let check = |node| apart(now, node).unwrap_or_default();
        assert_eq!(check(now + Duration::from_secs(3)), "");
        assert_eq!(check(now - Duration::from_secs(3)), "");
        insta::assert_snapshot!(check(now + Duration::from_secs(90)), @"the clock of this node is 90 s ahead of that of the shared folder, and so are the times of its records; set both by NTP");
        insta::assert_snapshot!(check(now - Duration::from_secs(7)), @"the clock of this node is 7 s behind that of the shared folder, and so are the times of its records; set both by NTP");
    }
}
