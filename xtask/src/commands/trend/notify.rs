//! Tells a user's program which entries opened and closed.

use std::{
    io::{self, Write as _},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::ledger::Kept;
use crate::error::{Error, Result};

/// Longest that the program may take.
const MOST_TIME: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the program where there is something to tell.
pub(super) fn notify(command: &str, kept: &Kept, lines: &[(String, String)]) -> Result<()> {
    let night = &kept.night;
    let told = [
        &night.opened,
        &night.worsened,
        &night.reopened,
        &night.expired,
        &night.fixed,
    ];
    if told.iter().all(|ids| ids.is_empty()) {
        return Ok(());
    }
    let entries = |ids: &[String]| -> Vec<Value> {
        let about = kept.entries().iter();
        let about = about.filter(|entry| ids.contains(&entry.id));
        about
            .map(|entry| {
                let line = lines.iter().find(|(id, _)| *id == entry.id);
                json!({"id": entry.id, "line": line.map(|(_, line)| line), "entry": entry})
            })
            .collect()
    };
    let report = json!({
        "version": 1,
        "opened": entries(&night.opened),
        "worsened": entries(&night.worsened),
        "reopened": entries(&night.reopened),
        "expired": entries(&night.expired),
        "fixed": entries(&night.fixed),
        "open": entries(&night.open),
    });
    let failed = |what: String| {
        Error::Trouble(format!(
            "--notify: `{command}` {what}; the ledger is left as it was, so that the next run tells \
             the same again"
        ))
    };
    match run(command, &report.to_string()) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("ended with {status}"))),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn run(command: &str, report: &str) -> io::Result<ExitStatus> {
    // What it prints is no result of this command.
    let out = io::stderr().as_fd().try_clone_to_owned()?;
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(out)
        .process_group(0)
        .spawn()?;
    let stdin = child.stdin.take();
    let text = report.to_owned();
    // A program need not read; a full pipe must not keep this one.
    thread::spawn(move || {
        let _ = stdin.map(|mut stdin| stdin.write_all(text.as_bytes()));
    });
    wait(&mut child)
}

fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < MOST_TIME {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(PAUSE);
    }
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    let seconds = MOST_TIME.as_secs();
    Err(io::Error::other(format!(
        "took longer than {seconds} s and was ended"
    )))
}
