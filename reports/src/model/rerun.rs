//! The command that runs a cell again.

use std::path::Path;

use record::{Asked, Session, command_line};

use super::report::CellSummary;
use crate::words::format;

/// As the session was run, for this cell alone, quoted for a shell.
pub(super) fn command(session: &Session, cell: &CellSummary) -> String {
    if let Some(command) = of_program(session, cell) {
        return command;
    }
    let known = Asked::default();
    let asked = session.asked.as_ref().unwrap_or(&known);
    let mut words: Vec<String> = vec!["bench".to_owned()];
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
    say(
        "--engine",
        match asked.engine.as_str() {
            "" => &session.engine.kind,
            asked => asked,
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
    format!("{} {}", protocol::program(), command_line(&words))
}

/// What was typed for a program on the command line, for this cell and image alone; `None` where a
/// suite was asked for, or where only `--resume` is known.
fn of_program(session: &Session, cell: &CellSummary) -> Option<String> {
    session.asked.as_ref()?.program.as_ref()?;
    let typed = &session.tool.command;
    let end = typed.iter().position(|word| word == "--")?;
    let (options, command) = typed.split_at(end);
    let mut words: Vec<String> = Vec::new();
    let mut options = options.iter();
    while let Some(word) = options.next() {
        let is_ours = |option: &str| {
            let given = word.strip_prefix(option);
            given.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        if is_ours("--image") || is_ours("--out") || is_ours("--cell") {
            if !word.contains('=') {
                options.next();
            }
        } else {
            words.push(format::clean(word));
        }
    }
    words.push(format!("--image={}", format::clean(&cell.image)));
    words.push(format!("--cell={}", format::clean(&cell.cell)));
    words.extend(command.iter().map(|word| format::clean(word)));
    Some(format!("{} {}", protocol::program(), command_line(&words)))
}
