//! From axes to variants.

use std::collections::BTreeMap;

use protocol::{Variant, check};
use serde_json::{Map, Value};
use strict_yaml::{Document, KeyPath, YamlError};

use super::{
    DeviceKind, MAX_CELLS, Scenario, ScenarioVariant,
    expect::{Exclude, Expected, expecting},
    file::{ScenarioFile, SuiteFile},
    values::{Given, one_value, values},
};

/// Expands and checks every scenario.
pub(super) fn scenarios(document: &Document, file: &SuiteFile) -> Result<Vec<Scenario>, YamlError> {
    let mut cells = 0;
    let mut scenarios = Vec::new();
    for (place, scenario) in file.scenarios.iter().enumerate() {
        let at = KeyPath::root().key("scenarios").index(place);
        let room = MAX_CELLS - cells;
        let variants = Expansion::new(document, at, scenario, room)?.variants()?;
        cells += variants.len();
        let defaults = &file.defaults;
        scenarios.push(Scenario {
            name: scenario.name.clone(),
            description: scenario.description.clone(),
            model: scenario.model,
            task: scenario.task,
            steps: scenario.steps.unwrap_or(defaults.steps),
            seed: scenario.seed.unwrap_or(defaults.seed),
            threads: scenario.threads.or(defaults.threads),
            limits: scenario.limits.or(&defaults.limits).into(),
            thresholds: scenario.thresholds.or(&defaults.thresholds),
            validity: scenario.validity.or(&defaults.validity).into(),
            variants,
        });
    }
    Ok(scenarios)
}

pub(super) type Picked<'a> = BTreeMap<&'a str, &'a Given>;

struct Expansion<'a> {
    document: &'a Document,
    at: KeyPath,
    scenario: &'a ScenarioFile,
    /// In the order of [`Variant::AXES`].
    axes: Vec<(&'a str, Vec<Given>)>,
    room: usize,
}

impl<'a> Expansion<'a> {
    fn new(
        document: &'a Document,
        at: KeyPath,
        scenario: &'a ScenarioFile,
        room: usize,
    ) -> Result<Self, YamlError> {
        let axes_at = at.clone().key("axes");
        let mut axes = Vec::new();
        for (axis, value) in &scenario.axes.0 {
            axes.push((axis.as_str(), values(document, &axes_at, axis, value)?));
        }
        let rank = |axis: &str| Variant::AXES.iter().position(|known| *known == axis);
        axes.sort_by_key(|(axis, _)| rank(axis));
        Ok(Self {
            document,
            at,
            scenario,
            axes,
            room,
        })
    }

    fn variants(&self) -> Result<Vec<ScenarioVariant>, YamlError> {
        self.check_size()?;
        let exclusions = self.exclusions()?;
        let expected = self.expected()?;
        let mut used = vec![false; exclusions.len()];
        let mut variants: Vec<ScenarioVariant> = Vec::new();
        for picked in self.product() {
            let variant = self.variant(&picked)?;
            let mut devices = Vec::new();
            for device in &self.scenario.devices {
                let mut out = false;
                for (exclusion, used) in exclusions.iter().zip(&mut used) {
                    if exclusion.matches(*device, &picked) {
                        (out, *used) = (true, true);
                    }
                }
                if !out && !devices.contains(device) {
                    self.check(&variant, *device, &picked)?;
                    devices.push(*device);
                }
            }
            if !devices.is_empty() {
                variants.push(expecting(variant, devices, &picked, &expected));
            }
        }
        if let Some(idle) = used.iter().position(|used| !used) {
            let at = self.at.clone().key("exclude").index(idle);
            let message = "this leaves nothing out: no combination matches it";
            let help = "drop it, or give values that stand in `axes`".to_owned();
            return Err(self.document.error_at(&at, message, Some(help)));
        }
        self.include(&mut variants, &expected)?;
        if let Some((at, _)) = expected.iter().find(|(_, one)| !one.used.get()) {
            let message = "no variant fits this";
            let help = "drop it, or give values that stand in `axes` or `include`".to_owned();
            return Err(self.document.error_at(at, message, Some(help)));
        }
        if variants.is_empty() {
            let at = self.at.clone().key("exclude");
            let message = format!("nothing is left of scenario `{}`", self.scenario.name);
            let help = "exclude less, or drop the scenario".to_owned();
            return Err(self.document.error_at(&at, message, Some(help)));
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
        let counts: Vec<_> = self
            .axes
            .iter()
            .map(|(axis, values)| format!("{axis} {}", values.len()))
            .collect();
        Err(self.document.error_at_key(
            &self.at.clone().key("axes"),
            format!("too many combinations: {}", counts.join(" × ")),
            format!("expected at most {MAX_CELLS} cells in a suite"),
            Some("split the scenario into several, each with the axes that matter there".into()),
        ))
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

    fn variant(&self, picked: &Picked<'_>) -> Result<Variant, YamlError> {
        let map: Map<String, Value> = picked
            .iter()
            .map(|(axis, given)| ((*axis).to_owned(), given.value.clone()))
            .collect();
        serde_json::from_value(Value::Object(map))
            .map_err(|error| self.document.error_from_serde(&self.at, &error))
    }

    fn exclusions(&self) -> Result<Vec<Exclude>, YamlError> {
        let at = self.at.clone().key("exclude");
        self.scenario
            .exclude
            .iter()
            .enumerate()
            .map(|(place, exclusion)| {
                Exclude::read(self.document, &at.clone().index(place), exclusion)
            })
            .collect()
    }

    /// The entries of `expect`, with their places.
    fn expected(&self) -> Result<Vec<(KeyPath, Expected)>, YamlError> {
        let file = &self.scenario.expect;
        let at = self.at.clone().key("expect");
        let places = file.entries.iter().enumerate();
        places
            .map(|(place, entry)| {
                let at = if file.is_list {
                    at.clone().index(place)
                } else {
                    at.clone()
                };
                let read = Expected::read(self.document, &at, entry)?;
                Ok((at, read))
            })
            .collect()
    }

    fn include(
        &self,
        variants: &mut Vec<ScenarioVariant>,
        expected: &[(KeyPath, Expected)],
    ) -> Result<(), YamlError> {
        let first: Picked<'_> = self
            .axes
            .iter()
            .map(|(axis, values)| (*axis, &values[0]))
            .collect();
        for (place, choice) in self.scenario.include.iter().enumerate() {
            let at = self.at.clone().key("include").index(place);
            let mut own = Vec::new();
            for (axis, value) in &choice.0 {
                own.push((axis.as_str(), one_value(self.document, &at, axis, value)?));
            }
            let mut picked = first.clone();
            picked.extend(own.iter().map(|(axis, given)| (*axis, given)));
            let variant = self.variant(&picked)?;
            if variants.iter().any(|one| one.variant == variant) {
                let message = format!("`{variant}` is among the combinations already");
                let help = "drop it, or change an axis".to_owned();
                return Err(self.document.error_at(&at, message, Some(help)));
            }
            let mut devices = self.scenario.devices.clone();
            devices.dedup();
            for device in &devices {
                self.check(&variant, *device, &picked)?;
            }
            variants.push(expecting(variant, devices, &picked, expected));
        }
        Ok(())
    }

    /// Refuses a combination that means nothing, at the value that makes it so.
    fn check(
        &self,
        variant: &Variant,
        device: DeviceKind,
        picked: &Picked<'_>,
    ) -> Result<(), YamlError> {
        let ScenarioFile { model, task, .. } = self.scenario;
        let Err(refusal) = check(*model, *task, variant, device.any()) else {
            return Ok(());
        };
        let at = picked
            .get(refusal.axis)
            .map_or_else(|| self.at.clone().key("model"), |given| given.at.clone());
        let device = device.word();
        let message = format!(
            "`{variant}` means nothing for {model} {task} on {device}: {}",
            refusal.reason
        );
        let value = variant.axes().remove(refusal.axis).unwrap_or_default();
        let others: Vec<_> = [DeviceKind::Cpu, DeviceKind::Cuda]
            .into_iter()
            .filter(|other| other.word() != device)
            .filter(|other| check(*model, *task, variant, other.any()).is_ok())
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
            _ if picked.get(refusal.axis).is_none() => {
                format!("`{}` is {value} unless `axes` says otherwise", refusal.axis)
            }
            _ => format!(
                "take the value out, or `exclude: [{{{}: {value}}}]`",
                refusal.axis
            ),
        });
        Err(self.document.error_at(&at, message, help))
    }
}
