//! Sessions: their folders, what a workload told, and series.

use std::{fs, io, path::Path};

use bench_suite::results::RankResults;
use jiff::Timestamp;
use judge::trend::{self, TrendOptions};
use protocol::{Device, Event, RunFile, Steps};
use record::{Session, SessionFolder};
use reports::{Source, View};

use super::{
    RUN,
    holds::{refused, said, same},
    split,
};

pub(super) fn records(input: &[u8], _: &Path) -> Result<bool, String> {
    let found = record::Records::of(input);
    for words in found.left_out() {
        said(&words)?;
    }
    let mut written = Vec::new();
    for record in &found.records {
        serde_json::to_writer(&mut written, record)
            .map_err(|error| format!("not written: {error}"))?;
        written.push(b'\n');
    }
    let again = record::Records::of(&written);
    if let Some(words) = again.left_out().first() {
        return Err(format!("refused once it was written: {words}"));
    }
    same(&found.records, &again.records)?;
    Ok(!found.records.is_empty())
}

/// Puts the two files of a session where they are read.
fn folder(input: &[u8], scratch: &Path) -> Result<SessionFolder, String> {
    let failed = |error: io::Error| format!("the scratch folder cannot be written: {error}");
    let (session, records) = split(input);
    let path = scratch.join("session");
    if path.exists() {
        fs::remove_dir_all(&path).map_err(failed)?;
    }
    fs::create_dir(&path).map_err(failed)?;
    fs::write(path.join(SessionFolder::SESSION), session).map_err(failed)?;
    fs::write(path.join(SessionFolder::RECORDS), records).map_err(failed)?;
    Ok(SessionFolder::at(path))
}

pub(super) fn session(input: &[u8], scratch: &Path) -> Result<bool, String> {
    let folder = folder(input, scratch)?;
    let broken = |error: record::FolderError| format!("a folder that was read is refused: {error}");
    let found = folder.read_records().map_err(broken)?;
    for words in found.left_out() {
        said(&words)?;
    }
    let first: Session = match folder.read_session() {
        Ok(session) => session,
        Err(error) => return refused(&error),
    };
    folder.write_session(&first).map_err(broken)?;
    let second = folder.read_session().map_err(broken)?;
    same(&first, &second)
}

pub(super) fn report(input: &[u8], scratch: &Path) -> Result<bool, String> {
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
    if let Err(error) = verdict::judge_claims(&source.session, records, claims, &[]) {
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

pub(super) fn csv(input: &[u8], _: &Path) -> Result<bool, String> {
    let Ok(text) = std::str::from_utf8(input) else {
        return Ok(false);
    };
    let mut points = match trend::csv::parse(text) {
        Ok(points) => points,
        Err(error) => return refused(&error),
    };
    trend::put_in_order(&mut points);
    match trend::change_points(&points, &TrendOptions::default()) {
        Ok(_) => Ok(true),
        Err(error) => refused(&error),
    }
}

pub(super) fn ledger(input: &[u8], _: &Path) -> Result<bool, String> {
    let Ok(text) = std::str::from_utf8(input) else {
        return Ok(false);
    };
    match history::fuzzing::ledgers(text) {
        Ok([first, second]) => same(&first, &second),
        Err(error) => refused(&error),
    }
}

pub(super) fn event(input: &[u8], _: &Path) -> Result<bool, String> {
    let results = bench_suite::fuzzing::results(input, RUN);
    let told = results.first();
    let phases = told.phases_since(Timestamp::UNIX_EPOCH, 2e9);
    if phases.values().any(|began| !(0.0..=2e9).contains(began)) {
        return Err("a phase that lies outside of its run".to_owned());
    }
    if let Some(fault) = &results.fault {
        said(&fault.to_string())?;
    }
    let values = bench_suite::fuzzing::values(&results, &asked(told)?, 2e9);
    if let Some((_, Some(why))) = values {
        said(&why)?;
    }
    if let Some(Err(failure)) = &told.end
        && !failure.message.trim().is_empty()
    {
        said(&failure.message)?;
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
fn asked(told: &RankResults) -> Result<RunFile, String> {
    let training = include_str!("../../seeds/run-file/training.json");
    let mut asked = RunFile::parse(training).map_err(|error| format!("training.json: {error}"))?;
    if told
        .started
        .as_ref()
        .is_none_or(|started| started.cuda.is_none())
    {
        asked.device = Device::Cpu;
    }
    asked.steps = Steps::new(0, u32::try_from(told.steps.len()).unwrap_or(u32::MAX));
    Ok(asked)
}
