//! Documents that people write: suites, specs, and what is made from them.

use std::path::Path;

use bench_suite::suite::{DeviceKind, Suite};
use images::lock::Lock;
use protocol::RunFile;

use super::holds::{refused, said, same};

pub(super) fn suite(input: &[u8], _: &Path) -> Result<bool, String> {
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
    // JSON is YAML too, and what libyaml writes is of YAML 1.1, where U+2028 ends a line.
    let text = document.value().to_string();
    let mut second = Suite::from_text(NAME, &text)
        .map_err(|error| format!("refused once it was written: {error}"))?;
    second.digest.clone_from(&first.digest);
    same(&first, &second)
}

pub(super) fn spec(input: &[u8], _: &Path) -> Result<bool, String> {
    let first = match images::fuzzing::spec("fuzz.yaml", input) {
        Ok(spec) => spec,
        Err(error) => return refused(&error),
    };
    let value = serde_json::to_value(&first).map_err(|error| format!("not written: {error}"))?;
    let second = images::fuzzing::spec("fuzz.yaml", value.to_string().as_bytes());
    let second = second.map_err(|error| format!("refused once it was written: {error}"))?;
    same(&first.digest(), &second.digest())?;
    same(&first, &second)
}

pub(super) fn lock(input: &[u8], _: &Path) -> Result<bool, String> {
    let read = |json: &[u8]| Lock::from_json(Path::new("fuzz.lock.json"), json);
    // With the old seal nothing behind the seal is reached.
    let value = serde_json::from_slice(input).ok();
    let sealed = value.and_then(|value| images::fuzzing::sealed(&value));
    let first = read(input).or_else(|error| sealed.map_or(Err(error), |json| read(&json)));
    let first = match first {
        Ok(lock) => lock,
        Err(error) => return refused(&error),
    };
    let json =
        serde_json::to_vec_pretty(&first).map_err(|error| format!("not written: {error}"))?;
    let second = read(&json).map_err(|error| format!("refused once it was written: {error}"))?;
    same(&first, &second)
}

pub(super) fn run_file(input: &[u8], _: &Path) -> Result<bool, String> {
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
