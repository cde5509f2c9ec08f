//! Going on with a session: what its command line asked for, and what a later one may not change.

use std::path::{Path, PathBuf};

use bench_suite::executors;
use record::{Asked, Session, SessionFolder, SidesCompared, command_line};

use super::references::is_reference;
use crate::{
    cli::BenchArgs,
    error::{Error, Result},
};

/// The arguments that the session in `folder` was begun with, and of the given ones what may be
/// said anew. Whatever else is given must be what the session was begun with.
pub(super) fn settled(given: &BenchArgs, folder: &Path) -> Result<(BenchArgs, Session)> {
    let session = SessionFolder::at(folder).read_session()?;
    let asked = session.asked.clone().unwrap_or_else(|| by_names(&session));
    let mut args = given.clone();
    // Names are all that an older session kept, and a file is no name.
    let is_known = session.asked.is_some();
    let check = |option: &'static str, given: Option<String>, then: &str| match given {
        Some(now) if is_known && now != then => Err(Error::ResumeDiffers {
            option,
            then: then.to_owned(),
            now,
        }),
        _ => Ok(()),
    };
    let listed = |words: &[String]| (!words.is_empty()).then(|| whole(words).join(", "));
    check("--suite", listed(&given.suite), &asked.suites.join(", "))?;
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
    let engine = target.engine.as_ref().and_then(executors::Choice::word);
    let asked_word = asked.engine.split(':').next().unwrap_or_default();
    check("--engine", engine.map(str::to_owned), asked_word)?;
    check_blocks(given, &session)?;

    if args.suite.is_empty() || is_known {
        args.suite = asked.suites;
    }
    if args.target.image.is_empty() || is_known {
        args.target.image = asked.images;
    }
    if is_known {
        args.cell = asked.cells;
    }
    args.target.device = device.or(Some(asked.device));
    if engine.is_none() {
        args.target.engine = asked.engine.parse().ok();
    }
    let sources = &mut args.target.sources;
    let or = |given: &mut Option<PathBuf>, then| *given = given.take().or(then);
    or(&mut sources.libtorch, asked.libtorch);
    or(&mut sources.scenario_binary, asked.scenario_binary);
    or(&mut sources.base_archive, asked.base_archive);
    args.share_gpu |= session.policy.shares_gpu;
    Ok((args, session))
}

/// What the session has of a number of blocks, a budget and its sides stays as it is.
fn check_blocks(given: &BenchArgs, session: &Session) -> Result<()> {
    let differs = |option, then: String, now: String| {
        if then == now {
            return Ok(());
        }
        Err(Error::ResumeDiffers { option, then, now })
    };
    let blocks = given.blocks.map(|blocks| blocks.to_string());
    let Some(deciding) = &session.deciding else {
        // A session of fixed length may go on until it is decided.
        return match blocks.filter(|_| !given.until_decided) {
            Some(now) => differs("--blocks", session.blocks.to_string(), now),
            None => Ok(()),
        };
    };
    if let Some(now) = blocks {
        differs("--blocks", deciding.most_blocks.to_string(), now)?;
    }
    if let Some(budget) = given.time_budget {
        let seconds = |seconds: f64| format!("{seconds} s");
        let then = seconds(deciding.time_budget_seconds);
        differs("--time-budget", then, seconds(budget.as_secs_f64()))?;
    }
    if let Some(by) = &given.by {
        let then = match &deciding.sides {
            SidesCompared::Axis { axis, base, head } => format!("{axis}={base},{head}"),
            SidesCompared::Images { .. } => "the images".to_owned(),
        };
        let now = format!("{}={},{}", by.axis, by.base, by.head);
        differs("--by", then, now)?;
    }
    Ok(())
}

/// What a session of before version 3 tells of its command line.
fn by_names(session: &Session) -> Asked {
    let gpus = &session.policy.gpus;
    let mut device = session.device.to_string();
    if gpus.len() > 1 {
        device = devices(gpus);
    }
    Asked {
        suites: session.suites.keys().cloned().collect(),
        images: session.images.iter().map(|one| one.name.clone()).collect(),
        device,
        engine: match session.engine.kind.as_str() {
            "podman" => "docker".to_owned(),
            other => other.to_owned(),
        },
        ..Asked::default()
    }
}

/// `cpu`, or GPUs as `cuda:0,1`.
pub(super) fn devices(devices: &[protocol::Device]) -> String {
    let words: Vec<String> = devices.iter().map(ToString::to_string).collect();
    words.join(",").replace(",cuda:", ",")
}

/// Names as they are, files with their whole path.
pub(crate) fn whole(words: &[String]) -> Vec<String> {
    let whole = |word: &String| {
        let is_file = !is_reference(word)
            && (word.contains('/') || Path::new(word).extension().is_some_and(|e| e == "yaml"));
        let path = std::path::absolute(word).ok().filter(|_| is_file);
        path.map_or_else(|| word.clone(), |path| path.display().to_string())
    };
    words.iter().map(whole).collect()
}

/// The command that goes on with what `bench` or `bisect` began in this folder, quoted for a shell.
pub(crate) fn command(command: &str, folder: &Path) -> String {
    let words = ["cargo", "xtask", command, "--resume"].map(str::to_owned);
    let folder = folder.display().to_string();
    command_line(&[words.as_slice(), &[folder]].concat())
}
