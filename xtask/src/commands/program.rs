//! A program of the user's on the command line, as the suite that it stands for.

use std::{
    collections::BTreeMap,
    path::{Path, absolute},
    time::Duration,
};

use bench_suite::suite::{Launcher, Network, ProgramFile, Samples, Suite, is_variable, mount_of};
use clap::Args;
use protocol::{Until, bad_name};
use record::command_line;
use serde_json::{Value, json};

use crate::{
    cli::{time, word},
    error::{Result, reading, starting},
};

/// What the suite of a program on the command line is called.
pub(crate) const SUITE: &str = "program";

/// The metrics that answer what a program costs, those of them that it has.
const ANSWERED_BY: [&str; 5] = [
    "step_median_seconds",
    "time_to_first_step_seconds",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "program_seconds",
];

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "A program of your own")]
pub(crate) struct ProgramArgs {
    /// Give the program a file or folder of this machine to read; with `:rw` behind, a copy for each
    /// run to write to; may be given several times
    #[arg(long, value_name = "SOURCE:TARGET[:rw]", requires = "command", value_parser = mount)]
    mount: Vec<String>,
    /// The folder that it starts in; default: the image's own
    #[arg(long, value_name = "DIR", requires = "command")]
    workdir: Option<String>,
    /// Set a variable; may be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "command", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Set the variables of a file, a `NAME=VALUE` a line, which no record holds: for secrets
    #[arg(long, value_name = "FILE", requires = "command")]
    env_file: Vec<String>,
    /// The user that it runs as, `NAME` or `UID:GID`; default: the image's own
    #[arg(long, value_name = "USER", requires = "command")]
    user: Option<String>,
    /// What it has of a network; default: none
    #[arg(long, requires = "command", value_parser = word::<Network>(&[
        ("none", "None"),
        ("bridge", "The engine's: it reaches other machines"),
        ("host", "The host's own"),
    ]))]
    network: Option<Network>,
    /// Let it write to the container's file system, which goes with the run; without, /tmp alone is
    /// there to write to
    #[arg(long, requires = "command")]
    writable: bool,
    /// Size of /dev/shm, such as 8GiB, for the workers of a data loader; default: the engine's 64MiB
    #[arg(long, value_name = "SIZE", requires = "command")]
    shm: Option<bytesize::ByteSize>,
    /// Measure with each of these values in the place of `{NAME}` in the command, the variables and
    /// --samples-per-step; may be given several times, for all combinations
    #[arg(long, value_name = "NAME=VALUE,VALUE", requires = "command", value_parser = parameter)]
    parameter: Vec<(String, Vec<String>)>,
    /// Samples of one step of one process, or `{NAME}`, for the throughput
    #[arg(long, value_name = "N", requires = "command")]
    samples_per_step: Option<String>,
    /// Processes of a run, each on a GPU of its own; default: 1
    #[arg(long, value_name = "N", requires = "command",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ranks: Option<u32>,
    /// Who starts these processes; default: the command where that is torchrun or a launcher like
    /// it, else torchgauge
    #[arg(long, requires = "ranks", value_parser = word::<Launcher>(&[
        ("torchgauge", "The command once for each, with the variables that torchrun sets"),
        ("command", "The command starts them itself"),
    ]))]
    launcher: Option<Launcher>,
    /// Least steps before measuring; default: 3
    #[arg(long, value_name = "N", requires = "command",
          value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub(crate) warmup: Option<u32>,
    /// Measured steps; default: 20
    #[arg(long, value_name = "N", requires = "command",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) steps: Option<u32>,
    /// Steps after them under torch's profiler, for the kernels that run: a comparison lists those
    /// that are new, gone, slower or faster; default: 0
    #[arg(long, value_name = "N", requires = "command",
          value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) profiled_steps: Option<u32>,
    /// Let it run to its end, rather than end it after its measured steps
    #[arg(long, requires = "command")]
    pub(crate) until_exit: bool,
    /// Longest that a run may take, such as `90s` or `1h`; default: 10min
    #[arg(long, value_name = "TIME", requires = "command", value_parser = time)]
    pub(crate) time_limit: Option<Duration>,
    /// Leave the hook out, which reads steps and memory of a Python program: what is seen from
    /// outside alone, or what the program itself reports
    #[arg(long, requires = "command")]
    pub(crate) no_hook: bool,
    /// A program with its arguments to run in each image, in place of a suite
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

fn mount(text: &str) -> Result<String, String> {
    match mount_of(text, Path::new("/")) {
        Ok(_) => Ok(text.to_owned()),
        Err(expected) => Err(expected.to_owned()),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_variable(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE; for secrets take --env-file".to_owned()),
    }
}

fn parameter(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, values) = text.split_once('=').ok_or("expected NAME=VALUE,VALUE")?;
    if let Some(why) = bad_name(name) {
        return Err(format!("the name `{name}`: {why}"));
    }
    Ok((
        name.to_owned(),
        values.split(',').map(str::to_owned).collect(),
    ))
}

impl ProgramArgs {
    /// The suite file that says the same.
    pub(crate) fn suite_text(&self) -> Result<String> {
        let whole = |path: &str| {
            let whole = absolute(path).map_err(reading(path.as_ref()));
            whole.map(|path| path.display().to_string())
        };
        let here = whole(".")?;
        let mounts = self.mount.iter().filter_map(|mount| {
            let mount = mount_of(mount, Path::new(&here)).ok()?;
            let end = if mount.is_scratch { ":rw" } else { "" };
            Some(format!("{}:{}{end}", mount.source.display(), mount.target))
        });
        let files = self.env_file.iter();
        let files = files.map(|file| Ok(whole(file)?.into()));
        let samples = self.samples_per_step.as_ref().map(|text| {
            let number = text.parse::<f64>().ok().map(Into::into);
            Samples(number.unwrap_or_else(|| text.clone().into()))
        });
        let program = ProgramFile {
            environment: self.env.iter().cloned().collect(),
            environment_files: files.collect::<Result<_>>()?,
            mounts: mounts.collect(),
            workdir: self.workdir.clone(),
            user: self.user.clone(),
            network: self.network.unwrap_or_default(),
            writable: self.writable,
            hook: !self.no_hook,
            samples_per_step: samples,
            until: if self.until_exit {
                Until::Exit
            } else {
                Until::Measured
            },
            launcher: self.launcher,
            ..ProgramFile::new(self.command.clone())
        };
        let time = self
            .time_limit
            .map(|limit| format!("{}s", limit.as_secs_f64().ceil()));
        let shm = self.shm.map(|size| format!("{}", size.as_u64()));
        let line = command_line(&self.command);
        let rate = match self.samples_per_step {
            Some(_) => "throughput_samples_per_second",
            None => "throughput_steps_per_second",
        };
        let axes: BTreeMap<_, _> = self.parameter.iter().cloned().collect();
        let answered_by: Vec<&str> = [rate].into_iter().chain(ANSWERED_BY).collect();
        let mut text = json!({
            "version": 1,
            "question": format!("What does {line} cost in each image?"),
            "answered_by": answered_by,
            "description": line,
            "defaults": {
                "blocks": 3,
                "steps": {
                    "warmup": self.warmup.unwrap_or(3),
                    "measured": self.steps.unwrap_or(20),
                    "profiled": self.profiled_steps,
                },
            },
            "scenarios": [{
                "name": name_of(&self.command),
                "ranks": self.ranks,
                "program": program,
                "axes": axes,
                "limits": {"time": time, "shm": shm},
            }],
        });
        drop_nulls(&mut text);
        let what = "the program: no suite can be written of it";
        serde_yaml::to_string(&text).map_err(starting(what))
    }
}

/// Takes out what was not given.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

pub(crate) fn suite(text: &str) -> Result<Suite> {
    Ok(Suite::from_text(&format!("{SUITE}.yaml"), text)?)
}

/// The name of a scenario: of a script or a module its own, else that of the program.
fn name_of(command: &[String]) -> String {
    let mut words = command.iter();
    let script = words.find(|word| ends_as(word, "py") || ends_as(word, "sh"));
    let module = command.iter().skip_while(|word| *word != "-m").nth(1);
    let word = script.or(module).or(command.first());
    let word = word.map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let stem = word.split('.').next().unwrap_or(word);
    let letters = stem
        .chars()
        .map(|letter| match letter.to_ascii_lowercase() {
            letter @ ('a'..='z' | '0'..='9') => letter,
            _ => '-',
        });
    let name: String = letters.take(40).collect();
    match name.trim_matches('-') {
        "" => "program".to_owned(),
        name => name.to_owned(),
    }
}

fn ends_as(word: &str, end: &str) -> bool {
    Path::new(word).extension() == Some(end.as_ref())
}

/// The interpreter that a command names, or the one that images have.
pub(crate) fn python_of(command: &[String]) -> &str {
    let is_python = |word: &&String| {
        let name = word.rsplit('/').next().unwrap_or_default();
        name.starts_with("python") && !ends_as(name, "py")
    };
    command
        .iter()
        .find(is_python)
        .map_or("python3", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn scenarios_are_called_as_their_scripts() {
        for (command, name) in [
            ("python3 src/Train_Net.py --x", "train-net"),
            ("torchrun -m my.module", "my"),
            ("./bench --x", "bench"),
            ("...", "program"),
        ] {
            assert_eq!(name_of(&words(command)), name, "{command}");
        }
    }

    #[test]
    fn the_interpreter_is_the_command_s() {
        for (command, python) in [
            ("/opt/venv/bin/python train.py", "/opt/venv/bin/python"),
            ("torchrun train.py", "python3"),
            ("nice python3.12 python_x.py", "python3.12"),
        ] {
            assert_eq!(python_of(&words(command)), python, "{command}");
        }
    }

    #[test]
    fn a_command_line_is_the_suite_that_it_stands_for() {
        let args = ProgramArgs {
            parameter: vec![("batch".to_owned(), words("8 16"))],
            samples_per_step: Some("{batch}".to_owned()),
            mount: vec!["/src:/workspace:rw".to_owned()],
            env: vec![("A".to_owned(), "1=2".to_owned())],
            shm: Some(bytesize::ByteSize::gib(1)),
            command: words("python3 train.py --batch {batch}"),
            time_limit: Some(Duration::from_mins(2)),
            profiled_steps: Some(3),
            ..ProgramArgs::default()
        };
        let text = args.suite_text().unwrap();
        let suite = suite(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let scenario = &suite.scenarios[0];
        assert_eq!(
            (suite.name.as_str(), scenario.name.as_str()),
            ("program", "train")
        );
        let names: Vec<String> = scenario
            .variants
            .iter()
            .map(|one| one.axes.to_string())
            .collect();
        assert_eq!(names, ["bs8", "bs16"]);
        let steps = scenario.steps;
        assert_eq!((steps.warmup, steps.measured, steps.profiled), (3, 20, 3));
        assert_eq!(scenario.limits.shm_bytes, Some(1 << 30));
        assert_eq!(scenario.limits.time, Duration::from_mins(2));
    }
}
