//! Going on with a session: what its command line asked for, and what a later one may not change.

use std::path::{Path, PathBuf};

use bench_suite::executors::Choice;
use images::Catalog;
use record::{Place, Session, SessionFolder, SidesCompared, command_line};

use super::{
    BenchArgs,
    references::{is_archive, is_reference},
};
use crate::{
    cli::{ShareArgs, SourceArgs},
    error::{Error, Result},
};

/// The arguments that the session in `folder` was begun with, and of the given ones what may be
/// said anew. Whatever else is given must be what the session was begun with.
pub(crate) fn settled(given: &BenchArgs, folder: &Path) -> Result<(BenchArgs, Session)> {
    let session = SessionFolder::at(folder).read_session()?;
    let Some(asked) = session.asked.clone() else {
        return Err(Error::Input(format!(
            "{} does not have what its session was asked for; begin a new session",
            folder.display()
        )));
    };
    let mut args = given.clone();
    let check = |option: &str, given: Option<String>, then: &str| match given {
        Some(now) => same(option, then, &now),
        None => Ok(()),
    };
    let listed = |words: &[String]| (!words.is_empty()).then(|| whole(words).join(", "));
    check("--suite", listed(&given.suite), &asked.suites.join(", "))?;
    if !given.program.command.is_empty() {
        let now = given.program.suite_text()?;
        check(
            "COMMAND",
            Some(now),
            asked.program.as_deref().unwrap_or("a suite"),
        )?;
    }
    let cells = |cells: &[String]| (!cells.is_empty()).then(|| cells.join(", "));
    check("--cell", cells(&given.cell), &asked.cells.join(", "))?;
    let target = &given.target;
    check("--image", listed(&target.image), &asked.images.join(", "))?;
    let device = target.device.clone().filter(|word| word != "auto");
    // `cuda` may be the same GPU; whether it is, the session's own check says.
    check(
        "--device",
        device.clone().filter(|word| word != "cuda"),
        &asked.device,
    )?;
    // The session's own check says whether it is the same engine, and what its argument comes to.
    let engine = target.engine.as_ref().and_then(Choice::word);
    let begun_with = asked.engine.parse().ok().as_ref().and_then(Choice::word);
    check(
        "--engine",
        engine.map(str::to_owned),
        begun_with.unwrap_or_default(),
    )?;
    check_blocks(given, &session)?;

    args.suite = asked.suites;
    args.program_suite = asked.program;
    args.target.image = asked.images;
    args.cell = asked.cells;
    args.target.device = device.or(Some(asked.device));
    if engine.is_none() {
        args.target.engine = asked.engine.parse().ok();
    }
    as_begun(&session, &mut args.target.sources, &mut args.share);
    Ok((args, session))
}

/// What is not said anew of the parts of images and of sharing is as the session was begun.
pub(crate) fn as_begun(session: &Session, sources: &mut SourceArgs, share: &mut ShareArgs) {
    let asked = session.asked.clone().unwrap_or_default();
    let or = |given: &mut Option<PathBuf>, then| *given = given.take().or(then);
    or(&mut sources.libtorch, asked.libtorch);
    or(&mut sources.scenario_binary, asked.scenario_binary);
    or(&mut sources.base_archive, asked.base_archive);
    share.share_gpu |= session.policy.shares_gpu;
    share.share_cpu |= session.policy.shares_cpu;
    share.allow_oversubscription |= session.policy.oversubscribes_gpu;
}

/// Refuses an option that says something else than the session was begun with.
fn same(option: &str, then: &str, now: &str) -> Result<()> {
    if then == now {
        return Ok(());
    }
    Err(Error::Input(format!(
        "{option} {now} contradicts the session, which was begun with {then}; leave {option} out, or \
         begin a new session"
    )))
}

/// What the session has of a number of blocks, a budget and its sides stays as it is.
fn check_blocks(given: &BenchArgs, session: &Session) -> Result<()> {
    let blocks = given.blocks.map(|blocks| blocks.to_string());
    let Some(deciding) = &session.deciding else {
        // A session of fixed length may go on until it is decided.
        return match blocks.filter(|_| !given.until_decided) {
            Some(now) => same("--blocks", &session.blocks.to_string(), &now),
            None => Ok(()),
        };
    };
    if let Some(now) = blocks {
        same("--blocks", &deciding.most_blocks.to_string(), &now)?;
    }
    if let Some(budget) = given.time_budget {
        let seconds = |seconds: f64| format!("{seconds} s");
        let then = seconds(deciding.time_budget_seconds);
        same("--time-budget", &then, &seconds(budget.as_secs_f64()))?;
    }
    if let Some(by) = &given.by {
        let then = match &deciding.sides {
            SidesCompared::Axis { axis, base, head } => format!("{axis}={base},{head}"),
            SidesCompared::Images { .. } => "the images".to_owned(),
        };
        let now = format!("{}={},{}", by.axis, by.base, by.head);
        same("--by", &then, &now)?;
    }
    Ok(())
}

/// `cpu`, or GPUs as `cuda:0,1`: those of the first host are those of each.
pub(super) fn devices(places: &[Place]) -> String {
    let here = places.iter().filter(|place| place.host == places[0].host);
    let words: Vec<String> = here.map(|place| place.device.to_string()).collect();
    words.join(",").replace(",cuda:", ",")
}

/// Names as they are, files with their whole path.
pub(crate) fn whole(words: &[String]) -> Vec<String> {
    let whole = |word: &String| {
        let is_file = is_archive(word) || !is_reference(word) && Catalog::is_file(word);
        let path = std::path::absolute(word).ok().filter(|_| is_file);
        path.map_or_else(|| word.clone(), |path| path.display().to_string())
    };
    words.iter().map(whole).collect()
}

/// The command that goes on with what `bench`, `bisect` or `node` began in this folder, quoted for a
/// shell.
pub(crate) fn command(command: &str, folder: &Path) -> String {
    let mut words = vec![command.to_owned(), folder.display().to_string()];
    if command != "node" {
        words.insert(1, "--resume".to_owned());
    }
    format!("{} {}", protocol::program(), command_line(&words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_the_folder_to_go_on_in() {
        const FOLDER: &str = "it's one folder; $HOME";
        let command = command("bench", Path::new(FOLDER));
        let script = format!("printf '%s\\n' {command}");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output();
        let output = output.expect("a shell");
        let words = String::from_utf8_lossy(&output.stdout);
        let last = format!("bench\n--resume\n{FOLDER}\n");
        assert!(words.ends_with(&last), "{words}");
    }
}
