//! The command that runs a cell again.

use std::path::Path;

use record::{Asked, Session, command_line};

use super::CellSummary;
use crate::format;

/// As the session was run, for this cell alone, quoted for a shell.
pub(super) fn command(session: &Session, cell: &CellSummary) -> String {
    let known = Asked::default();
    let asked = session.asked.as_ref().unwrap_or(&known);
    let mut words: Vec<String> = ["cargo", "xtask", "bench"].map(str::to_owned).to_vec();
    let mut say = |option: &str, value: &str| {
        let value = format::clean(value);
        // What begins like an option is no value to a command line.
        if value.starts_with('-') {
            words.push(format!("{option}={value}"));
        } else {
            words.extend([option.to_owned(), value]);
        }
    };
    let is_suite = |word: &&String| {
        let stem = Path::new(word.as_str()).file_stem();
        **word == cell.suite || stem.is_some_and(|stem| *stem == *cell.suite)
    };
    let suite = asked.suites.iter().find(is_suite);
    say("--suite", suite.unwrap_or(&cell.suite));
    say("--cell", &cell.cell);
    // What was asked for may be a reference or a file, in the order of the images.
    let place = session.images.iter().position(|one| one.name == cell.image);
    let given = place.and_then(|place| asked.images.get(place));
    let given = given.filter(|_| asked.images.len() == session.images.len());
    say("--image", given.unwrap_or(&cell.image));
    say("--device", &session.device.to_string());
    // Both engines of containers are one executor.
    say(
        "--engine",
        match (asked.engine.as_str(), session.engine.kind.as_str()) {
            ("", "podman") => "docker",
            ("", kind) => kind,
            (asked, _) => asked,
        },
    );
    for (option, path) in [
        ("--libtorch", &asked.libtorch),
        ("--scenario-binary", &asked.scenario_binary),
        ("--base-archive", &asked.base_archive),
    ] {
        if let Some(path) = path {
            say(option, &path.display().to_string());
        }
    }
    say("--blocks", &session.blocks.to_string());
    command_line(&words)
}
