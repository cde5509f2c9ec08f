//! The results file of one run: one event a line, as the workload wrote it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    io::Read as _,
    path::Path,
};

use jiff::Timestamp;
use protocol::{
    Event, Kernel, MOST_KERNELS, MOST_MODULES, MOST_VALUES, MemoryPoint, Module, Phase, Shortage,
    Source, Started, Step, VERSION, Values, bad_name, bad_values,
};
use record::{Better, Failure, Stage, Unit, printable};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};

/// Letters of a bad line that are quoted.
const QUOTED: usize = 80;

/// Most series of a run: each has a place for every step, whatever a step yields.
const MOST_SERIES: usize = 64;

/// Most facts of a run, and most letters of each.
const MOST_FACTS: usize = 64;
const LONGEST_FACT: usize = 200;

pub const MOST_RANKS: usize = 1_024;

/// What a run's processes reported, up to where it can be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// By rank; the first is always there.
    pub ranks: Vec<RankResults>,
    /// The first process that said that it failed: the failures of others may follow from its own.
    pub first_failed: Option<usize>,
    /// What is wrong with the file.
    pub fault: Option<Fault>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankResults {
    /// What ran; `None` where the workload never got so far.
    pub started: Option<Started>,
    /// Phases that ended, with their time in seconds.
    pub phase_seconds: BTreeMap<Phase, f64>,
    /// When each phase began, in seconds since 1970.
    pub phase_began: BTreeMap<Phase, f64>,
    pub phase: Option<Phase>,
    /// Memory at moments outside of measuring, in order.
    pub memory_points: Vec<MemoryPoint>,
    pub steps: Vec<Step>,
    /// What ran in a step after them, by name.
    pub kernels: BTreeMap<String, Kernel>,
    /// What modules take of a step before them, by name.
    pub modules: BTreeMap<String, Module>,
    /// What they yield, by name.
    pub series: BTreeSet<String>,
    pub values: Values,
    /// What a program says of its values, by name.
    pub reported: BTreeMap<String, Reported>,
    /// What a program's run was made with, by name.
    pub facts: BTreeMap<String, String>,
    /// How it says that it ended, well or not; `None` where it does not say.
    pub end: Option<Result<(), Failure>>,
    /// The allocation that failed, where memory ran out on a GPU.
    pub shortage: Option<Shortage>,
}

/// What a program says of one of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// What it is counted in; `None` where its name says so.
    pub unit: Option<Unit>,
    /// Which way it improves; `None` where it only describes.
    pub better: Option<Better>,
    pub source: Source,
}

/// What is wrong with a results file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the results file cannot be read: {0}")]
    Unreadable(String),
    #[error("the results file is empty")]
    Empty,
    /// It is larger than this many bytes, which is its limit.
    #[error("the results file is larger than {0} bytes; the limit is `limits.results`")]
    TooLarge(u64),
    /// A line is no event, or stands where it cannot.
    #[error("line {number} of the results file, `{text}`: {message}")]
    Line {
        /// The line, from 1.
        number: usize,
        text: String,
        message: String,
    },
    /// The last line has no end: the workload was cut off while it wrote.
    #[error("line {0} of the results file is torn: no line end")]
    Torn(usize),
    /// The last event is missing: the workload ended before it reported how.
    #[error("the results file ends without the event `finished` or `failed`{}", of_rank(*.0))]
    NoEnd(usize),
}

fn of_rank(rank: usize) -> String {
    match rank {
        0 => String::new(),
        rank => format!(" of rank {rank}"),
    }
}

/// Reads the results of the run `run` of so many processes, of at most `limit` bytes. Whatever is
/// wrong stands in [`Results::fault`], beside everything that could be read before it. All text is
/// made [printable], for the workload may be anybody's.
pub fn read(path: &Path, run: &str, ranks: usize, limit: u64) -> Results {
    match load(path, limit) {
        Ok(bytes) => parse(&bytes, run, ranks),
        Err(fault) => Results {
            fault: Some(fault),
            ..Results::of(ranks)
        },
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(title = "One line of events")]
struct Line {
    /// The process that wrote it, of a run of several: its rank, from 0.
    #[serde(default)]
    #[schemars(with = "usize", extend("default" = 0))]
    rank: Option<usize>,
    #[serde(flatten)]
    event: Event,
}

/// The JSON Schema of one line.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Line);
    serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
}

/// A name as one line of a table, wherever it is shown.
fn one_line(name: &str, longest: usize) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    printable(&words.join(" ")).chars().take(longest).collect()
}

fn load(path: &Path, limit: u64) -> Result<Vec<u8>, Fault> {
    let read = || {
        let mut bytes = Vec::new();
        let file = regular_file::open(path)?;
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    match read() {
        Ok(bytes) if bytes.len() as u64 > limit => Err(Fault::TooLarge(limit)),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(Fault::Unreadable(error.to_string())),
    }
}

pub(crate) fn parse(bytes: &[u8], run: &str, ranks: usize) -> Results {
    let mut results = Results::of(ranks);
    results.fault = results.take_all(bytes, run).err();
    results
}

impl Results {
    /// Of so many processes, none of which has reported anything.
    pub fn of(ranks: usize) -> Self {
        Self {
            ranks: vec![RankResults::default(); ranks.clamp(1, MOST_RANKS)],
            ..Self::default()
        }
    }

    /// Takes line after line, up to the first that is wrong.
    fn take_all(&mut self, bytes: &[u8], run: &str) -> Result<(), Fault> {
        for (place, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let number = place + 1;
            if line.last() != Some(&b'\n') {
                return Err(Fault::Torn(number));
            }
            self.take(line, run).map_err(|message| {
                let text = String::from_utf8_lossy(line.trim_ascii_end());
                let quote: String = text.chars().take(QUOTED).collect();
                let mut quote = printable(&quote).into_owned();
                if text.chars().count() > QUOTED {
                    quote.push('…');
                }
                Fault::Line {
                    number,
                    text: quote,
                    message: printable(&message).into_owned(),
                }
            })?;
        }
        // Where one failed, others may have been ended with it.
        let open = self.ranks.iter().position(|rank| rank.end.is_none());
        match open.filter(|_| self.failed().is_none()) {
            None => Ok(()),
            Some(_) if self.ranks.iter().all(|rank| rank.started.is_none()) => Err(Fault::Empty),
            Some(rank) => Err(Fault::NoEnd(rank)),
        }
    }

    pub fn first(&self) -> &RankResults {
        &self.ranks[0]
    }

    pub fn failed(&self) -> Option<&RankResults> {
        self.first_failed.map(|rank| &self.ranks[rank])
    }

    /// Whether every process says that it ended well.
    pub fn finished(&self) -> bool {
        self.ranks.iter().all(|rank| rank.end == Some(Ok(())))
    }

    /// Takes a file that is empty as that of a program with nothing to report; whether it is.
    pub(crate) fn pass_silence(&mut self) -> bool {
        let is_empty = self.fault == Some(Fault::Empty);
        if is_empty {
            self.fault = None;
            for rank in &mut self.ranks {
                rank.end = Some(Ok(()));
            }
        }
        is_empty
    }

    /// Takes one line in, of the process that it names.
    fn take(&mut self, line: &[u8], run: &str) -> Result<(), String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let rank = line.rank.unwrap_or_default();
        let ranks = self.ranks.len();
        let Some(results) = self.ranks.get_mut(rank) else {
            return Err(format!(
                "an event of rank {rank}; expected ranks below {ranks}"
            ));
        };
        // One that has finished may die after that, which it cannot say itself.
        let is_from_outside =
            matches!(&line.event, Event::Failed { reason, .. } if reason.is_from_outside());
        if results.end.is_some() && !(is_from_outside && results.end == Some(Ok(()))) {
            return Err("an event after the last one".into());
        }
        results.take(line.event, run)?;
        if let Some(Err(failure)) = &mut results.end {
            // A launcher that fails is no rank, and names none.
            if let Some(rank) = line.rank.filter(|_| ranks > 1) {
                failure.message = format!("rank {rank}: {}", failure.message);
            }
            if is_from_outside {
                self.first_failed = Some(rank);
            }
            self.first_failed.get_or_insert(rank);
        }
        Ok(())
    }
}

impl RankResults {
    /// When each phase began, in seconds since the run's start. None where a clock was set in the
    /// middle of the run: the phases lie outside of it then.
    pub fn phases_since(&self, start: Timestamp, wall_seconds: f64) -> BTreeMap<Phase, f64> {
        let start = start.as_duration().as_secs_f64();
        let began = self.phase_began.iter();
        let began: BTreeMap<Phase, f64> = began.map(|(phase, at)| (*phase, at - start)).collect();
        let is_within = |(phase, from): (&Phase, &f64)| {
            let to = from + self.phase_seconds.get(phase).unwrap_or(&0.0);
            *from >= 0.0 && to <= wall_seconds
        };
        Some(began)
            .filter(|began| began.iter().all(is_within))
            .unwrap_or_default()
    }

    /// Takes an event in; tells what is wrong with it.
    fn take(&mut self, event: Event, run: &str) -> Result<(), String> {
        if let Event::Started(started) = event {
            return self.take_start(*started, run);
        }
        // A run that fails before it has anything to tell begins with its failure.
        if self.started.is_none() && !matches!(event, Event::Failed { .. }) {
            return Err("expected `started` first".into());
        }
        match event {
            Event::Started(_) => {}
            Event::PhaseBegan { phase, at_seconds } => {
                self.phase = Some(phase);
                self.phase_began.extend(at_seconds.map(|at| (phase, at)));
            }
            Event::Heartbeat { phase, .. } => self.phase = Some(phase),
            Event::PhaseEnded { phase, seconds } => {
                if !seconds.is_finite() || seconds < 0.0 {
                    return Err(format!("a phase of {seconds} seconds"));
                }
                self.phase_seconds.insert(phase, seconds);
            }
            Event::Memory(point) => self.memory_points.push(point),
            Event::Step(step) => self.take_step(step)?,
            Event::Kernel(kernel) => self.take_kernel(kernel)?,
            Event::Module(module) => self.take_module(module)?,
            Event::Value {
                name,
                value,
                unit,
                better,
                source,
            } => {
                let reported = Reported {
                    unit: unit.map(word).transpose()?,
                    better: better.map(word).transpose()?,
                    source,
                };
                self.add([(name.clone(), value)].into())?;
                self.reported.insert(name, reported);
            }
            Event::Facts { facts } => self.add_facts(facts)?,
            Event::Finished { values } => self.ended(values, Ok(()))?,
            Event::Failed {
                reason,
                phase,
                message,
                values,
                shortage,
            } => {
                self.phase = Some(phase);
                self.shortage = shortage;
                let failure = Failure {
                    reason: reason.into(),
                    stage: Stage::Workload(phase),
                    message: printable(&message).into_owned(),
                };
                self.ended(values, Err(failure))?;
            }
        }
        Ok(())
    }

    fn take_start(&mut self, started: Started, run: &str) -> Result<(), String> {
        if self.started.is_some() {
            return Err("a second `started`".into());
        }
        if started.version != VERSION {
            let next = if started.version < VERSION {
                "build the image again"
            } else {
                "use a newer Torchgauge"
            };
            return Err(format!(
                "it is of version {}, and this Torchgauge reads version {VERSION}; {next}",
                started.version
            ));
        }
        if started.run != run {
            return Err(format!(
                "an event of the run `{}`; expected `{run}`",
                started.run
            ));
        }
        self.started = Some(shown(started));
        Ok(())
    }

    fn take_step(&mut self, step: Step) -> Result<(), String> {
        let expected = self.steps.len();
        bad_values(&step.values).map_or(Ok(()), Err)?;
        if step.index as usize != expected {
            return Err(format!("step {}, expected step {expected}", step.index));
        }
        for name in step.values.keys() {
            if !self.series.contains(name) {
                self.series.insert(name.clone());
            }
        }
        self.steps.push(step);
        at_most(MOST_SERIES, self.series.len(), "names in all steps")
    }

    fn take_kernel(&mut self, mut kernel: Kernel) -> Result<(), String> {
        kernel.problem().map_or(Ok(()), Err)?;
        kernel.name = one_line(&kernel.name, Kernel::LONGEST_NAME);
        self.kernels.insert(kernel.name.clone(), kernel);
        at_most(MOST_KERNELS, self.kernels.len(), "kernels in all")
    }

    fn take_module(&mut self, mut module: Module) -> Result<(), String> {
        module.problem().map_or(Ok(()), Err)?;
        module.name = one_line(&module.name, Module::LONGEST_NAME);
        self.modules.insert(module.name.clone(), module);
        at_most(MOST_MODULES, self.modules.len(), "modules in all")
    }

    fn ended(&mut self, values: Values, end: Result<(), Failure>) -> Result<(), String> {
        self.add(values)?;
        self.end = Some(end);
        Ok(())
    }

    fn add(&mut self, values: Values) -> Result<(), String> {
        bad_values(&values).map_or(Ok(()), Err)?;
        self.values.extend(values);
        at_most(MOST_VALUES, self.values.len(), "values in all")
    }

    fn add_facts(&mut self, facts: BTreeMap<String, String>) -> Result<(), String> {
        for (name, fact) in facts {
            if let Some(why) = bad_name(&name) {
                return Err(format!("the name `{name}`: {why}"));
            }
            if fact.chars().count() > LONGEST_FACT {
                return Err(format!(
                    "the fact `{name}` has more than {LONGEST_FACT} letters"
                ));
            }
            self.facts.insert(name, printable(&fact).into_owned());
        }
        at_most(MOST_FACTS, self.facts.len(), "facts in all")
    }
}

fn at_most(most: usize, count: usize, what: &str) -> Result<(), String> {
    if count > most {
        return Err(format!("more than {most} {what}"));
    }
    Ok(())
}

/// A word of a program's for one of ours; serde's words name those that there are.
fn word<T: DeserializeOwned>(word: String) -> Result<T, String> {
    serde_json::from_value(word.into()).map_err(|error| error.to_string())
}

fn shown(mut started: Started) -> Started {
    let cuda = started.cuda.iter_mut().flat_map(|cuda| {
        [
            &mut cuda.device_name,
            &mut cuda.uuid,
            &mut cuda.capability,
            &mut cuda.runtime_version,
            &mut cuda.driver_cuda_version,
        ]
        .into_iter()
        .chain(&mut cuda.cudnn_version)
        .chain(&mut cuda.nccl_version)
    });
    let rest = [&mut started.scenario_version, &mut started.libtorch_version];
    for text in cuda.chain(rest).chain(&mut started.allocator) {
        *text = printable(text).into_owned();
    }
    let nccl = std::mem::take(&mut started.nccl).into_iter();
    let nccl = nccl.map(|pair| [pair.0, pair.1].map(|text| printable(&text).into_owned()));
    started.nccl = nccl.map(<(String, String)>::from).collect();
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: &str = r#"{"event":"started","version":4,"run":"r","scenario_version":"0.1.0","libtorch_version":"2.11.0","threads":2,"cuda":null,"allocator":null}"#;
    const VALUE: &str = r#"{"event":"value","name":"bleu","value":1.5,"unit":"ratio","better":"more","source":"helper"}"#;
    const FAILED: &str =
        r#"{"event":"failed","reason":"out-of-memory","phase":"warmup","message":"m"}"#;

    /// The message of the process that failed.
    fn why(results: &Results) -> &str {
        let end = results.failed().and_then(|rank| rank.end.as_ref());
        &end.expect("an end").as_ref().unwrap_err().message
    }

    fn fault(lines: &[&str]) -> String {
        let text = [lines, &[""]].concat().join("\n");
        let fault = parse(text.as_bytes(), "r", 1).fault;
        fault.map_or_else(|| "fine".into(), |fault| fault.to_string())
    }

    #[test]
    fn what_cannot_be_is_named_with_its_line() {
        assert_eq!(fault(&[STARTED, FAILED]), "fine");
        assert_eq!(fault(&[FAILED]), "fine");
        let heartbeat = r#"{"event":"heartbeat","phase":"warmup","step":1}"#;
        let step = r#"{"event":"step","index":1,"values":{"step_seconds":0.5}}"#;
        let negative = r#"{"event":"phase-ended","phase":"warmup","seconds":-1.0}"#;
        let faults = [
            fault(&[]),
            fault(&[STARTED]),
            fault(&["garbage"]),
            fault(&[STARTED, "{}"]),
            fault(&[STARTED, STARTED]),
            fault(&[&STARTED.replace("\"r\"", "\"x\"")]),
            fault(&[&STARTED.replace("\"version\":4", "\"version\":9")]),
            fault(&[STARTED, FAILED, FAILED]),
            fault(&[heartbeat]),
            fault(&[STARTED, step]),
            fault(&[STARTED, &"x".repeat(5000)]),
            fault(&[STARTED, negative]),
        ];
        insta::assert_snapshot!(faults.join("\n"), @r#"
        the results file is empty
        the results file ends without the event `finished` or `failed`
        line 1 of the results file, `garbage`: expected value at line 1 column 1
        line 2 of the results file, `{}`: missing field `event` at line 1 column 2
        line 2 of the results file, `{"event":"started","version":4,"run":"r","scenario_version":"0.1.0","libtorch_ve…`: a second `started`
        line 1 of the results file, `{"event":"started","version":4,"run":"x","scenario_version":"0.1.0","libtorch_ve…`: an event of the run `x`; expected `r`
        line 1 of the results file, `{"event":"started","version":9,"run":"r","scenario_version":"0.1.0","libtorch_ve…`: it is of version 9, and this Torchgauge reads version 4; use a newer Torchgauge
        line 3 of the results file, `{"event":"failed","reason":"out-of-memory","phase":"warmup","message":"m"}`: an event after the last one
        line 1 of the results file, `{"event":"heartbeat","phase":"warmup","step":1}`: expected `started` first
        line 2 of the results file, `{"event":"step","index":1,"values":{"step_seconds":0.5}}`: step 1, expected step 0
        line 2 of the results file, `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`: expected value at line 1 column 1
        line 2 of the results file, `{"event":"phase-ended","phase":"warmup","seconds":-1.0}`: a phase of -1 seconds
        "#);
    }

    #[test]
    fn a_program_s_values_and_facts_come_one_by_one() {
        let program = r#"{"event":"started","version":4,"run":"r"}"#;
        let again = VALUE.replace("1.5", "2.5").replace("helper", "hook");
        let facts = r#"{"event":"facts","facts":{"torch":"2.11.0","odd":"\u001b[2J"}}"#;
        let finished = r#"{"event":"finished","values":{"measured_seconds":3}}"#;
        let lines = [program, VALUE, &again, facts, finished, ""].join("\n");
        let results = parse(lines.as_bytes(), "r", 1);
        assert_eq!(results.fault, None);
        let told = results.first();
        let values = [("bleu", 2.5), ("measured_seconds", 3.0)];
        let values = values.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(told.values, Values::from(values));
        let expect = Reported {
            unit: Some(Unit::Ratio),
            better: Some(Better::More),
            source: Source::Hook,
        };
        assert_eq!(told.reported["bleu"], expect);
        assert_eq!(told.facts["torch"], "2.11.0");
        assert_eq!(told.facts["odd"], "\\u{1b}[2J");
        let faults = [
            VALUE.replace("ratio", "furlong"),
            VALUE.replace("more", "up"),
            VALUE.replace("bleu", "Bleu"),
            VALUE.replace("1.5", "1e999"),
            facts.replace("2.11.0", &"a".repeat(201)),
            facts.replace("odd", "an odd"),
        ]
        .map(|line| fault(&[program, &line]));
        insta::assert_snapshot!(faults.join("\n"), @r#"
        line 2 of the results file, `{"event":"value","name":"bleu","value":1.5,"unit":"furlong","better":"more","sou…`: unknown variant `furlong`, expected one of `samples-per-second`, `steps-per-second`, `tokens-per-second`, `requests-per-second`, `bytes-per-second`, `operations-per-second`, `seconds`, `bytes`, `count`, `joules`, `watts`, `ratio`, `plain`
        line 2 of the results file, `{"event":"value","name":"bleu","value":1.5,"unit":"ratio","better":"up","source"…`: unknown variant `up`, expected `less` or `more`
        line 2 of the results file, `{"event":"value","name":"Bleu","value":1.5,"unit":"ratio","better":"more","sourc…`: the name `Bleu`: expected up to 64 of a-z, 0-9 and _, a letter first
        line 2 of the results file, `{"event":"value","name":"bleu","value":1e999,"unit":"ratio","better":"more","sou…`: number out of range at line 1 column 44
        line 2 of the results file, `{"event":"facts","facts":{"torch":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…`: the fact `torch` has more than 200 letters
        line 2 of the results file, `{"event":"facts","facts":{"torch":"2.11.0","an odd":"\u001b[2J"}}`: the name `an odd`: expected up to 64 of a-z, 0-9 and _, a letter first
        "#);
        let many = |of: &dyn Fn(usize) -> String, count: usize| {
            let lines: Vec<String> = (0..count).map(of).collect();
            fault(
                &[
                    &[program][..],
                    &lines.iter().map(String::as_str).collect::<Vec<_>>(),
                ]
                .concat(),
            )
        };
        let value = |i| VALUE.replace("bleu", &format!("v{i}"));
        insta::assert_snapshot!(many(&value, 1001), @r#"line 1002 of the results file, `{"event":"value","name":"v1000","value":1.5,"unit":"ratio","better":"more","sour…`: more than 1000 values in all"#);
        let fact = |i| format!(r#"{{"event":"facts","facts":{{"f{i}":"x"}}}}"#);
        insta::assert_snapshot!(many(&fact, 65), @r#"line 66 of the results file, `{"event":"facts","facts":{"f64":"x"}}`: more than 64 facts in all"#);
    }

    #[test]
    fn kernels_are_bounded_and_act_on_nobody() {
        const KERNEL: &str = r#"{"event":"kernel","name":"gemm","count":2.5,"seconds":1e-6}"#;
        let mut faults = vec![fault(&[KERNEL])];
        for line in [
            KERNEL.replace("gemm", ""),
            KERNEL.replace("gemm", &"x".repeat(201)),
            KERNEL.replace("2.5", "-1"),
            KERNEL.replace("1e-6", "1e999"),
            KERNEL.replace("1e-6", "null"),
        ] {
            faults.push(fault(&[STARTED, &line]));
        }
        let kernel = |i: usize| KERNEL.replace("gemm", &format!("k{i}"));
        let all: Vec<String> = (0..257).map(kernel).collect();
        let lines: Vec<&str> = [STARTED]
            .into_iter()
            .chain(all.iter().map(|line| &**line))
            .collect();
        assert!(fault(&lines[..257]).ends_with("or `failed`"), "256 will do");
        faults.push(fault(&lines));
        insta::assert_snapshot!(faults.join("\n"), @r#"
        line 1 of the results file, `{"event":"kernel","name":"gemm","count":2.5,"seconds":1e-6}`: expected `started` first
        line 2 of the results file, `{"event":"kernel","name":"","count":2.5,"seconds":1e-6}`: a kernel whose name is blank
        line 2 of the results file, `{"event":"kernel","name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`: a kernel whose name has 201 letters; expected at most 200
        line 2 of the results file, `{"event":"kernel","name":"gemm","count":-1,"seconds":1e-6}`: a kernel that runs -1 times and takes 0.000001 seconds
        line 2 of the results file, `{"event":"kernel","name":"gemm","count":2.5,"seconds":1e999}`: number out of range at line 1 column 59
        line 2 of the results file, `{"event":"kernel","name":"gemm","count":2.5,"seconds":null}`: invalid type: null, expected f64 at line 1 column 59
        line 258 of the results file, `{"event":"kernel","name":"k256","count":2.5,"seconds":1e-6}`: more than 256 kernels in all
        "#);
        let hostile = KERNEL.replace("gemm", r"a\n::error::b\u001b[2J\tc");
        let again = KERNEL.replace("2.5", "3");
        // What is escaped takes more room.
        let long = KERNEL.replace("gemm", &r"\u001b".repeat(200));
        let lines = [STARTED, KERNEL, &hostile, &again, &long, FAILED, ""].join("\n");
        let results = parse(lines.as_bytes(), "r", 1);
        let mut found = results.first().kernels.values();
        assert!(found.clone().all(|one| one.problem().is_none()));
        assert_eq!(found.next().unwrap().name.len(), 200);
        let found: Vec<_> = found.map(|one| (one.name.as_str(), one.count)).collect();
        assert_eq!(found, [("a ::error::b\\u{1b}[2J c", 2.5), ("gemm", 3.0)]);
    }

    #[test]
    fn processes_are_kept_apart_and_all_of_them_end() {
        const FINISHED: &str = r#"{"event":"finished","values":{"samples_count":4.0}}"#;
        let of_rank = |line: &str, rank: u32| line.replacen('{', &format!("{{\"rank\":{rank},"), 1);
        let parse = |lines: &[String]| parse((lines.join("\n") + "\n").as_bytes(), "r", 2);
        let lines = [
            STARTED.to_owned(),
            of_rank(STARTED, 1),
            of_rank(FINISHED, 1),
            FINISHED.to_owned(),
        ];
        let both = parse(&lines);
        assert_eq!(both.fault, None);
        assert!(both.finished());
        insta::assert_snapshot!(parse(&lines[..3]).fault.unwrap(), @"the results file ends without the event `finished` or `failed`");
        let one = parse(&[lines[0].clone(), lines[1].clone(), lines[3].clone()]);
        insta::assert_snapshot!(one.fault.unwrap(), @"the results file ends without the event `finished` or `failed` of rank 1");
        let unknown = parse(&[of_rank(STARTED, 2)]).fault.unwrap();
        insta::assert_snapshot!(unknown, @r#"line 1 of the results file, `{"rank":2,"event":"started","version":4,"run":"r","scenario_version":"0.1.0","li…`: an event of rank 2; expected ranks below 2"#);
        let failed = parse(&[of_rank(FAILED, 1)]);
        assert_eq!(failed.fault, None, "the first may have been ended with it");
        assert!(failed.failed().is_some() && !failed.finished());
        let both = parse(&[of_rank(FAILED, 1), FAILED.to_owned()]);
        assert_eq!(
            why(&both),
            "rank 1: m",
            "the other may have lost it as its peer"
        );
        let launcher = parse(&[FAILED.to_owned()]);
        assert_eq!(why(&launcher), "m", "a launcher is no rank");
    }

    #[test]
    fn a_rank_that_could_not_speak_is_the_cause_whoever_spoke_before() {
        let crash = |rank: u32| {
            format!(
                r#"{{"event":"failed","rank":{rank},"reason":"rank-crash","phase":"warmup","message":"ended by signal 9"}}"#
            )
        };
        let check = |lines: &[String], expect: &str| {
            let results = parse((lines.join("\n") + "\n").as_bytes(), "r", 2);
            assert_eq!(results.fault, None);
            assert_eq!(why(&results), expect);
        };
        check(&[FAILED.to_owned(), crash(1)], "rank 1: ended by signal 9");
        // Or died after it had finished.
        let started = STARTED.replacen('{', r#"{"rank":1,"#, 1);
        let finished = r#"{"event":"finished","rank":1,"values":{}}"#.to_owned();
        check(&[started, finished, crash(1)], "rank 1: ended by signal 9");
        let twice = parse((crash(1) + "\n" + &crash(1) + "\n").as_bytes(), "r", 2);
        assert!(twice.fault.is_some());
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let bad = r#"{"event":"finished","values":{"Loss":1.0}}"#;
        let no_number = r#"{"event":"finished","values":{"loss":null}}"#;
        let step = |index: u32, from: u32| {
            let values = (from..from + 40).map(|i| format!("\"v{i}\":1.0"));
            let values = values.collect::<Vec<_>>().join(",");
            format!(r#"{{"event":"step","index":{index},"values":{{{values}}}}}"#)
        };
        assert_eq!(fault(&[STARTED, &step(0, 0), &step(1, 0), FAILED]), "fine");
        let faults = [
            fault(&[STARTED, bad]),
            fault(&[STARTED, no_number]),
            fault(&[STARTED, &step(0, 0), &step(1, 40)]),
        ];
        insta::assert_snapshot!(faults.join("\n"), @r#"
        line 2 of the results file, `{"event":"finished","values":{"Loss":1.0}}`: the name `Loss`: expected up to 64 of a-z, 0-9 and _, a letter first
        line 2 of the results file, `{"event":"finished","values":{"loss":null}}`: invalid type: null, expected f64 at line 1 column 43
        line 3 of the results file, `{"event":"step","index":1,"values":{"v40":1.0,"v41":1.0,"v42":1.0,"v43":1.0,"v44…`: more than 64 names in all steps
        "#);
    }

    #[test]
    fn what_an_image_says_acts_on_nobody_who_shows_it() {
        let hostile = r"\u001b]0;owned\u0007\n::error::x\u202e";
        let failed = FAILED.replace("\"m\"", &format!("\"{hostile}\""));
        let started = STARTED.replace("0.1.0", hostile);
        let results = parse(format!("{started}\n{failed}\n").as_bytes(), "r", 1);
        let expect = "\\u{1b}]0;owned\\u{7}\n\\::error::x\\u{202e}";
        assert_eq!(why(&results), expect);
        let started = results.first().started.as_ref().unwrap();
        assert_eq!(started.scenario_version, expect);
        // What is no event is quoted, and quoted by whoever says what is wrong with it.
        let unknown = STARTED.replace("started", hostile);
        let fault = fault(&[&unknown]);
        assert!(
            !fault.contains('\u{1b}') && !fault.contains('\u{202e}'),
            "{fault}"
        );
        insta::assert_snapshot!(fault, @r#"
        line 1 of the results file, `{"event":"\u001b]0;owned\u0007\n::error::x\u202e","version":4,"run":"r","scenari…`: unknown variant `\u{1b}]0;owned\u{7}
        \::error::x\u{202e}`, expected one of `started`, `phase-began`, `phase-ended`, `heartbeat`, `memory`, `step`, `kernel`, `module`, `value`, `facts`, `finished`, `failed` at line 1 column 168
        "#);
        let raw = super::parse(b"\x1b[2J\n", "r", 1).fault.unwrap();
        insta::assert_snapshot!(raw, @r"line 1 of the results file, `\u{1b}[2J`: expected value at line 1 column 1");
    }

    #[test]
    fn a_file_above_its_limit_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("events");
        std::fs::write(&path, format!("{STARTED}\n{FAILED}\n")).unwrap();
        assert_eq!(read(&path, "r", 1, 1 << 20).fault, None);
        assert_eq!(read(&path, "r", 1, 50).fault, Some(Fault::TooLarge(50)));
    }

    #[test]
    fn a_torn_line_keeps_what_stood_before_it() {
        let text = format!("{STARTED}\n{}", &FAILED[..20]);
        let results = parse(text.as_bytes(), "r", 1);
        assert_eq!(results.fault, Some(Fault::Torn(2)));
        assert_eq!(results.first().started.as_ref().unwrap().threads, 2);
    }

    #[test]
    fn a_file_that_is_not_there_says_so() {
        let fault = read(Path::new("/no/such/file"), "r", 1, 1 << 20)
            .fault
            .unwrap();
        insta::assert_snapshot!(fault, @"the results file cannot be read: No such file or directory (os error 2)");
        let home = tempfile::tempdir().unwrap();
        let fault = read(home.path(), "r", 1, 1 << 20).fault.unwrap();
        let fault = fault.to_string();
        insta::assert_snapshot!(fault.replace(home.path().to_str().unwrap(), "/home"), @"the results file cannot be read: it is a directory; expected a file");
    }
}
