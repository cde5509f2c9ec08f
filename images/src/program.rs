//! Starting other programs (pip, apt, dpkg, cargo) and keeping what they say.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
};

use crate::{Error, Result};

/// How many of a program's last lines an error shows.
const LINES_KEPT: usize = 30;

/// Ends the program when the work around it is given up.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a program ended, with its last lines.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    /// The last lines of standard output and error.
    pub(crate) tail: String,
}

/// Runs a program to its end. `line` hears each line of its standard output,
/// and says whether the line is worth keeping for an error.
pub(crate) fn run(
    command: &mut Command,
    purpose: &'static str,
    next: &'static str,
    mut line: impl FnMut(&str) -> bool,
) -> Result<Outcome> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let no_program = |source| absent(command, purpose, &source, next);
    let mut child = child.map_err(no_program)?;
    let errors = child
        .stderr
        .take()
        .map(|pipe| thread::spawn(|| last_lines(pipe)));
    let output = child.stdout.take();
    let mut guard = Guard(child);
    let mut kept = VecDeque::new();
    if let Some(output) = output {
        for text in lossy_lines(output) {
            if line(&text) {
                keep(&mut kept, text);
            }
        }
    }
    let status = guard.0.wait().map_err(no_program)?;
    let errors = errors
        .and_then(|reader| reader.join().ok())
        .unwrap_or_default();
    kept.extend(errors);
    Ok(Outcome {
        status,
        tail: Vec::from(kept).join("\n"),
    })
}

/// Runs a program and gives back its standard output; an error unless it ends well.
pub(crate) fn output(
    command: &mut Command,
    purpose: &'static str,
    next: &'static str,
) -> Result<String> {
    let mut text = String::new();
    let outcome = run(command, purpose, next, |line| {
        text.push_str(line);
        text.push('\n');
        false
    })?;
    if outcome.status.success() {
        return Ok(text);
    }
    Err(failed(command, outcome, next))
}

/// The error for a program that cannot be started.
pub(crate) fn absent(command: &Command, purpose: &str, why: &io::Error, next: &str) -> Error {
    let program = command.get_program().to_string_lossy();
    Error::Trouble(format!(
        "`{program}` is needed to {purpose}, and could not be started: {why}; {next}"
    ))
}

/// The error for a program that ended badly.
pub(crate) fn failed(command: &Command, outcome: Outcome, next: &str) -> Error {
    let mut what = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        what.push(' ');
        what.push_str(&argument.to_string_lossy());
    }
    let Outcome { status, tail } = outcome;
    Error::Trouble(format!("`{what}` failed ({status}):\n{tail}\n{next}"))
}

fn keep(lines: &mut VecDeque<String>, line: String) {
    if lines.len() == LINES_KEPT {
        lines.pop_front();
    }
    lines.push_back(line);
}

fn last_lines(pipe: impl Read) -> VecDeque<String> {
    let mut kept = VecDeque::new();
    for line in lossy_lines(pipe) {
        keep(&mut kept, line);
    }
    kept
}

fn lossy_lines(pipe: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(pipe)
        .split(b'\n')
        .map_while(std::io::Result::ok)
        .map(|line| String::from_utf8_lossy(&line).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failure_shows_the_last_lines_and_the_next_step() {
        let error = output(
            &mut shell("echo first >&2; echo why >&2; exit 3"),
            "test",
            "Try again",
        );
        let error = error.unwrap_err().to_string();
        for part in ["exit status: 3", "first\nwhy", "Try again"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let error =
            output(&mut Command::new("no-such-program"), "count", "install it").unwrap_err();
        let error = error.to_string();
        for part in ["`no-such-program`", "needed to count", "install it"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn much_on_both_pipes_does_not_hang() {
        let script = "i=0; while [ $i -lt 20000 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done";
        let mut lines = 0;
        let outcome = run(&mut shell(script), "test", "", |_| {
            lines += 1;
            false
        })
        .unwrap();
        assert_eq!(lines, 20000);
        assert!(outcome.tail.ends_with("err19999"), "{}", outcome.tail);
    }
}
