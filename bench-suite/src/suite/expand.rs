//! From axes to variants.

use std::{
    path::{Component, Path},
    sync::Arc,
    time::Duration,
};

use protocol::{Axes, Steps, Trace, Variant, check, check_steps, check_traced};
use record::Workload;
use serde_json::Value;
use strict_yaml::{Document, Segment, Spot, YamlError};

use super::{
    axes::Choice,
    expect::{Exclude, Expected, expecting},
    file::{ScenarioFile, SuiteFile, WorkFile, work_of},
    limits::Limits,
    program::{ProgramFile, environment_of, is_environment},
    ranks::RANKS_AXIS,
    scenario::{DeviceKind, Scenario, ScenarioVariant, Work},
    values::{Given, Picked, one_value, values},
};

pub const MAX_CELLS: usize = 1000;

/// Most bytes of a trace.
const MOST_TRACE_BYTES: u64 = 16 << 20;

/// What a scenario's task does again, where a file says it.
fn trace(
    at: &Spot<'_>,
    scenario: &ScenarioFile,
    folder: Option<&Path>,
) -> Result<Option<Arc<Trace>>, YamlError> {
    let Some(name) = &scenario.trace else {
        return Ok(None);
    };
    let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let read = || {
        if scenario.program.is_some() || !Path::new(name).components().all(is_below) {
            let expected = "expected a path below the suite's folder, and no program";
            return Err(expected.to_owned());
        }
        let path = folder.unwrap_or(Path::new("")).join(name);
        let read = regular_file::read_own(&path, MOST_TRACE_BYTES);
        let text = read.map_err(|error| error.to_string())?;
        let trace = String::from_utf8_lossy(&text).parse::<Trace>();
        trace.map_err(|error| error.to_string())
    };
    let error = |why| {
        let message = format!("the trace `{name}`: {why}");
        at.key("trace").error(message, None)
    };
    read().map(|trace| Some(Arc::new(trace))).map_err(error)
}

/// Expands and checks every scenario.
pub(super) fn scenarios(
    document: &Document,
    file: &SuiteFile,
    folder: Option<&Path>,
) -> Result<Vec<Scenario>, YamlError> {
    let mut cells = 0;
    let read = |(place, scenario): (usize, &ScenarioFile)| {
        let at = document.top().key("scenarios").index(place);
        let room = (MAX_CELLS - cells) / scenario.ranks.counts().len().max(1);
        let defaults = &file.defaults;
        let steps = scenario.steps.unwrap_or(defaults.steps);
        let limits: Limits = scenario.limits.or(&defaults.limits).into();
        let holds = (steps, limits.time);
        let expansion = Expansion::new(at, (scenario, folder), holds, room)?;
        let variants = scenario.ranks.spread(expansion.variants()?);
        let workload = match expansion.work {
            WorkFile::Builtin(model, task) => Workload::builtin(model.name(), task.name()),
            WorkFile::Program(ProgramFile { command, .. }) => Workload::Program {
                command: command.clone(),
            },
        };
        cells += variants.len();
        Ok(Scenario {
            name: scenario.name.clone(),
            description: scenario.description.clone(),
            workload,
            steps,
            seed: scenario.seed.unwrap_or(defaults.seed),
            threads: scenario.threads.or(defaults.threads),
            limits,
            thresholds: scenario.thresholds.or(&defaults.thresholds),
            validity: scenario.validity.over(&defaults.validity),
            variants,
        })
    };
    YamlError::all(file.scenarios.iter().enumerate().map(read))
}

struct Expansion<'a> {
    at: Spot<'a>,
    scenario: &'a ScenarioFile,
    work: WorkFile<'a>,
    /// That of the suite, which its files may not lie outside of; `None`: they may lie anywhere.
    folder: Option<&'a Path>,
    /// What the task allocation makes.
    trace: Option<Arc<Trace>>,
    /// In the order of [`Variant::AXES`], a program's parameters behind them by name.
    axes: Vec<(&'a str, Vec<Given>)>,
    room: usize,
    steps: Steps,
    time: Duration,
}

impl<'a> Expansion<'a> {
    fn new(
        at: Spot<'a>,
        (scenario, folder): (&'a ScenarioFile, Option<&'a Path>),
        (steps, time): (Steps, Duration),
        room: usize,
    ) -> Result<Self, YamlError> {
        let work = work_of(&at, scenario)?;
        let reading = work.reading();
        let axes_at = at.key("axes");
        let mut axes = Vec::new();
        for (axis, value) in &scenario.axes.0 {
            let values = values(&axes_at, reading, axis, value)?;
            axes.push((axis.as_str(), values));
        }
        let rank = |axis: &str| {
            let mut known = Variant::AXES.iter();
            known.position(|known| *known == axis).unwrap_or(usize::MAX)
        };
        axes.sort_by_key(|(axis, _)| rank(axis));
        let trace = trace(&at, scenario, folder)?;
        let expansion = Self {
            at,
            scenario,
            work,
            folder,
            trace,
            axes,
            room,
            steps,
            time,
        };
        let mut axes = scenario.axes.0.keys();
        axes.try_for_each(|axis| expansion.is_used(&axes_at, axis))?;
        Ok(expansion)
    }

    fn variants(&self) -> Result<Vec<ScenarioVariant>, YamlError> {
        self.check_size()?;
        let exclusions = self.exclusions()?;
        let expected = self.expected()?;
        let included = self.included()?;
        let mended = self.at.mended();
        // Without one value of several there are fewer combinations; without anything else, others.
        let is_value = |way: &Vec<Segment>| match way.as_slice() {
            [Segment::Key(key), _, Segment::Index(_)] => key == "axes",
            _ => false,
        };
        if !mended.iter().all(is_value) {
            return Ok(Vec::new());
        }
        let mut used = vec![false; exclusions.len()];
        let mut variants: Vec<ScenarioVariant> = Vec::new();
        for picked in self.product() {
            let choice = self.variant(&picked)?;
            let mut devices = Vec::new();
            for device in &self.scenario.devices {
                let mut out = false;
                for (exclusion, used) in exclusions.iter().zip(&mut used) {
                    if exclusion.matches(*device, &picked) {
                        (out, *used) = (true, true);
                    }
                }
                if !out && !devices.contains(device) {
                    self.check(&choice, *device, &picked)?;
                    devices.push(*device);
                }
            }
            if !devices.is_empty() {
                variants.push(expecting(choice, devices, &picked, &expected));
            }
        }
        if !mended.is_empty() {
            return Ok(variants);
        }
        if let Some(idle) = used.iter().position(|used| !used) {
            let at = self.at.key("exclude").index(idle);
            let message = "this leaves nothing out: no combination matches it";
            let help = "drop it, or give values that are in `axes`".to_owned();
            return Err(at.error(message, Some(help)));
        }
        self.include(&mut variants, &included, &expected)?;
        if let Some((at, _)) = expected.iter().find(|(_, one)| !one.used.get()) {
            let message = "no variant fits this";
            let help = "drop it, or give values that are in `axes` or `include`".to_owned();
            return Err(at.error(message, Some(help)));
        }
        if variants.is_empty() {
            let message = format!("nothing is left of scenario `{}`", self.scenario.name);
            let help = "exclude less, or drop the scenario".to_owned();
            return Err(self.at.key("exclude").error(message, Some(help)));
        }
        Ok(variants)
    }

    fn check_size(&self) -> Result<(), YamlError> {
        let product = self.axes.iter().try_fold(
            self.scenario.include.len().max(1),
            |product, (_, values)| product.checked_mul(values.len()),
        );
        if product.is_some_and(|product| product <= self.room) {
            return Ok(());
        }
        let axes = self.axes.iter();
        let counts = axes.map(|(axis, values)| format!("{axis} {}", values.len()));
        let counts: Vec<_> = counts.collect();
        let message = format!("too many combinations: {}", counts.join(" × "));
        let expected = format!("expected at most {MAX_CELLS} cells in a suite");
        let help = "split the scenario into several, each with the axes that matter there";
        let at = self.at.key("axes").on_key();
        Err(at.expecting(message, expected, Some(help.to_owned())))
    }

    /// All combinations, the last axis fastest.
    fn product(&self) -> Vec<Picked<'_>> {
        let mut all = vec![Picked::new()];
        for (axis, values) in &self.axes {
            all = all
                .into_iter()
                .flat_map(|picked| {
                    values.iter().map(move |value| {
                        let mut picked = picked.clone();
                        picked.insert(axis, value);
                        picked
                    })
                })
                .collect();
        }
        all
    }

    fn variant(&self, picked: &Picked<'_>) -> Result<(Axes, Work), YamlError> {
        let (model, task) = match self.work {
            WorkFile::Builtin(model, task) => (model, task),
            WorkFile::Program(file) => return self.program(file, picked),
        };
        let given = picked.iter();
        let map = given.map(|(axis, given)| ((*axis).to_owned(), given.value.clone()));
        let variant: Variant = serde_json::from_value(Value::Object(map.collect()))
            .map_err(|error| self.at.clone().serde(&error))?;
        let axes = variant.axes();
        let work = Work::Builtin {
            model,
            task,
            variant,
            trace: self.trace.clone(),
        };
        Ok((axes, work))
    }

    fn program(&self, file: &ProgramFile, picked: &Picked<'_>) -> Result<(Axes, Work), YamlError> {
        let axes = picked
            .iter()
            .map(|(axis, given)| (*axis, given.canonical.as_str()));
        let axes: Axes = axes.collect();
        let folder = self.folder.unwrap_or(Path::new(""));
        let program = file.of(&axes, folder).map_err(|samples| {
            let at = self.at.key("program").key("samples_per_step");
            let expected = "expected a number above 0, or an axis of such";
            at.expecting(format!("`{samples}` samples"), expected, None)
        })?;
        if let Some((key, place)) = self.folder.and_then(|folder| program.outside(folder)) {
            let at = self.at.key("program").key(key).index(place);
            let message = "this leads out of the suite's folder";
            let expected =
                "expected a path below it; the command line takes any (--mount, --env-file)";
            return Err(at.expecting(message, expected, None));
        }
        let (program, variant) = (Box::new(program), environment_of(file, &axes));
        Ok((axes, Work::Program { program, variant }))
    }

    fn exclusions(&self) -> Result<Vec<Exclude>, YamlError> {
        let at = self.at.key("exclude");
        let read =
            |(place, exclusion)| Exclude::read(&at.index(place), self.work.reading(), exclusion);
        self.scenario.exclude.iter().enumerate().map(read).collect()
    }

    /// The entries of `expect`, with their places.
    fn expected(&self) -> Result<Vec<(Spot<'a>, Expected)>, YamlError> {
        let file = &self.scenario.expect;
        let read = |(place, entry)| {
            let mut at = self.at.key("expect");
            if file.is_list {
                at = at.index(place);
            }
            let read = Expected::read(&at, self.work.reading(), entry)?;
            Ok((at, read))
        };
        file.entries.iter().enumerate().map(read).collect()
    }

    /// The axes of each entry of `include`.
    fn included(&self) -> Result<Vec<Vec<(&str, Given)>>, YamlError> {
        let read = |(place, choice): (usize, &'a Choice)| {
            let at = self.at.key("include").index(place);
            let axes = choice.0.iter().map(|(axis, value)| {
                let given = one_value(&at, self.work.reading(), axis, value)?;
                self.is_used(&at, axis)?;
                Ok((axis.as_str(), given))
            });
            axes.collect()
        };
        self.scenario.include.iter().enumerate().map(read).collect()
    }

    fn include(
        &self,
        variants: &mut Vec<ScenarioVariant>,
        included: &[Vec<(&str, Given)>],
        expected: &[(Spot<'_>, Expected)],
    ) -> Result<(), YamlError> {
        let first = self.axes.iter().map(|(axis, values)| (*axis, &values[0]));
        let first: Picked<'_> = first.collect();
        for (place, own) in included.iter().enumerate() {
            let mut picked = first.clone();
            picked.extend(own.iter().map(|(axis, given)| (*axis, given)));
            let choice = self.variant(&picked)?;
            if variants.iter().any(|one| one.axes == choice.0) {
                let at = self.at.key("include").index(place);
                let message = format!("`{}` is among the combinations already", choice.0);
                return Err(at.error(message, Some("drop it, or change an axis".to_owned())));
            }
            let mut devices = self.scenario.devices.clone();
            devices.dedup();
            for device in &devices {
                self.check(&choice, *device, &picked)?;
            }
            variants.push(expecting(choice, devices, &picked, expected));
        }
        Ok(())
    }

    /// Refuses a combination that means nothing, at the value that makes it so.
    fn check(
        &self,
        (axes, work): &(Axes, Work),
        device: DeviceKind,
        picked: &Picked<'_>,
    ) -> Result<(), YamlError> {
        if let Err((key, message)) = work.check_steps(&self.steps, device.any()) {
            let own = self.scenario.steps.map(|_| self.at.clone());
            let at = own.unwrap_or_else(|| self.at.document().top().key("defaults"));
            return Err(at.key("steps").key(key).error(message, None));
        }
        let Work::Builtin {
            model,
            task,
            variant,
            trace,
        } = work
        else {
            return Ok(());
        };
        let (model, task) = (*model, *task);
        if let Err(reason) = check_traced(trace.as_deref(), task, variant) {
            let of_trace = trace.as_ref().map(|_| self.at.key("trace"));
            return Err(of_trace.as_ref().unwrap_or(&self.at).error(reason, None));
        }
        let fits = |device: DeviceKind| {
            check(model, task, variant, device.any())?;
            let mut counts = self.scenario.ranks.counts().iter();
            counts.try_for_each(|&ranks| variant.check_ranks(model, task, ranks))?;
            check_steps(variant, &self.steps, self.time)
        };
        let Err(refusal) = fits(device) else {
            return Ok(());
        };
        let document = self.at.document();
        let at = picked.get(refusal.axis).map_or_else(
            || self.at.key("model"),
            |given| document.at(given.at.clone()),
        );
        let device = device.word();
        let message = format!(
            "`{variant}` means nothing for {model} {task} on {device}: {}",
            refusal.reason
        );
        let value = axes.get(refusal.axis).cloned().unwrap_or_default();
        let others: Vec<_> = [DeviceKind::Cpu, DeviceKind::Cuda]
            .into_iter()
            .filter(|other| other.word() != device)
            .filter(|other| fits(*other).is_ok())
            .map(DeviceKind::word)
            .collect();
        // Nothing in `axes` mends a model or a task.
        let on_axis = Variant::AXES.contains(&refusal.axis);
        let help = on_axis.then(|| match others.as_slice() {
            [other] if self.scenario.devices.len() > 1 => format!(
                "leave it out there with `exclude: [{{device: {device}, {}: {value}}}]`, \
                 or run the scenario on {other} alone with `devices: [{other}]`",
                refusal.axis
            ),
            [other] => format!("it would run on {other}: `devices: [{other}]`"),
            _ if value.is_empty() => format!("give `{}` in `axes`", refusal.axis),
            _ if picked.get(refusal.axis).is_none() => {
                format!("`{}` is {value} unless `axes` sets it", refusal.axis)
            }
            _ => format!(
                "take the value out, or `exclude: [{{{}: {value}}}]`",
                refusal.axis
            ),
        });
        Err(at.error(message, help))
    }

    /// Refuses a parameter that a program does not use: all its values would be one.
    fn is_used(&self, at: &Spot<'_>, axis: &str) -> Result<(), YamlError> {
        let WorkFile::Program(program) = self.work else {
            return Ok(());
        };
        if axis == RANKS_AXIS {
            let message = "`ranks` is no parameter of a program";
            let expected = "expected `ranks: [1, 2]` beside `program`, not in `axes`";
            return Err(at.key(axis).on_key().expecting(message, expected, None));
        }
        let is_sound = self.at.key("program").is_sound();
        if program.uses(axis) || is_environment(axis) || !is_sound {
            return Ok(());
        }
        let message = format!("the program does not use the axis `{axis}`");
        let expected = format!(
            "expected `{{{axis}}}` in its command, its environment or its samples_per_step"
        );
        Err(at.key(axis).on_key().expecting(message, expected, None))
    }
}
