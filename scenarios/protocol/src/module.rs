//! What a module of a model takes of one step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Values, bad_values, text::unnamed};

/// Most modules of a run.
pub const MOST_MODULES: usize = 2_048;

/// What a named module takes of one warm-up step, the modules inside it included. Those whose names
/// have no point, with what lies outside of modules, add up to the step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Module {
    /// Its name among the parameters', such as `encoder.layer.0.attention`, up to 200 letters.
    /// `[step]` is the whole step, by instruments of its own; `[loss]` the loss, `[outside modules]`
    /// all else.
    pub name: String,
    /// `parameter_bytes`, `gradient_bytes`, `optimizer_bytes`, `kept_bytes` (what forward keeps for
    /// backward), `forward_peak_bytes` and `backward_peak_bytes` (the peak above what was allocated
    /// on entry), `forward_seconds` and `backward_seconds`.
    pub values: Values,
}

impl Module {
    /// Most letters of a name.
    pub const LONGEST_NAME: usize = 200;
    /// The name of the whole step.
    pub const STEP: &str = "[step]";
    /// The name of all that belongs to no module.
    pub const OUTSIDE: &str = "[outside modules]";
    /// The values of all modules that add up to the step's.
    pub const ADD_UP: [&str; 6] = [
        "parameter_bytes",
        "gradient_bytes",
        "optimizer_bytes",
        "kept_bytes",
        "forward_seconds",
        "backward_seconds",
    ];

    /// Why it cannot be; `None` where it can.
    pub fn problem(&self) -> Option<String> {
        if let Some(problem) = unnamed("module", &self.name, Self::LONGEST_NAME) {
            return Some(problem);
        }
        let negative = self.values.iter().find(|(_, value)| **value < 0.0);
        let negative = negative.map(|(name, value)| format!("{name} is {value}"));
        let problem = bad_values(&self.values).or(negative)?;
        Some(format!("the module {}: {problem}", self.name))
    }

    /// Whether a module of this name lies inside no other one.
    pub fn is_outermost(name: &str) -> bool {
        name != Self::STEP && (name.starts_with('[') || !name.contains('.'))
    }

    /// What misses the step by more than 1 %; `None` where nothing does, or the step is not known.
    pub fn mismatch(all: &[Self]) -> Option<String> {
        let step = all.iter().find(|module| module.name == Self::STEP)?;
        Self::ADD_UP.into_iter().find_map(|name| {
            let whole = step.values.get(name)?;
            let outermost = all.iter().filter(|module| Self::is_outermost(&module.name));
            let sum: f64 = outermost.filter_map(|module| module.values.get(name)).sum();
            ((sum - whole).abs() > 0.01 * whole)
                .then(|| format!("{name} of all modules is {sum}, and of the step {whole}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, kept: f64) -> Module {
        Module {
            name: name.to_owned(),
            values: [("kept_bytes".to_owned(), kept)].into(),
        }
    }

    #[test]
    fn modules_add_up_to_the_step() {
        let mut all = vec![
            module("encoder", 600.0),
            module("encoder.layer.0", 500.0),
            module("[loss]", 300.0),
            module(Module::OUTSIDE, 100.0),
        ];
        assert_eq!(Module::mismatch(&all), None, "nothing to hold them against");
        all.push(module(Module::STEP, 1005.0));
        assert_eq!(Module::mismatch(&all), None);
        all[0].values.insert("kept_bytes".to_owned(), 580.0);
        let expect = "kept_bytes of all modules is 980, and of the step 1005";
        assert_eq!(Module::mismatch(&all).unwrap(), expect);
    }

    #[test]
    fn what_no_module_can_be_is_refused() {
        assert_eq!(module("a", 0.0).problem(), None);
        for (bad, expect) in [
            (module(" ", 0.0), "a module whose name is blank"),
            (
                module(&"a".repeat(201), 0.0),
                "a module whose name has 201 letters; expected at most 200",
            ),
            (module("a", -1.0), "the module a: kept_bytes is -1"),
            (module("a", f64::NAN), "the module a: kept_bytes is NaN"),
        ] {
            assert_eq!(bad.problem().as_deref(), Some(expect));
        }
    }
}
