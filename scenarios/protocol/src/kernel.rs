//! What ran inside a step: the kernels of a GPU, or the operators of a CPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::unnamed;

/// Most kernels of a run, the sum of the rest included.
pub const MOST_KERNELS: usize = 256;

/// What a kernel takes of one step, on average over the profiled steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// Up to 200 letters. `[the rest]` is the sum of all that have no line of their own.
    pub name: String,
    /// How often a step runs it.
    pub count: f64,
    /// Its time in a step: how long a GPU's kernel ran, and a CPU's operator without those that it
    /// calls.
    pub seconds: f64,
}

impl Kernel {
    /// Most letters of a name; those of templates go on for thousands.
    pub const LONGEST_NAME: usize = 200;
    /// The name of the sum of all others.
    pub const REST: &str = "[the rest]";

    /// Why it cannot be; `None` where it can.
    pub fn problem(&self) -> Option<String> {
        let Self {
            name,
            count,
            seconds,
        } = self;
        if let Some(problem) = unnamed("kernel", name, Self::LONGEST_NAME) {
            return Some(problem);
        }
        let is_sound = |number: f64| number.is_finite() && number >= 0.0;
        (!is_sound(*count) || !is_sound(*seconds))
            .then(|| format!("a kernel that runs {count} times and takes {seconds} seconds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_kernel_can_be_is_refused() {
        let problem = |name: &str, count, seconds| {
            let name = name.to_owned();
            Kernel {
                name,
                count,
                seconds,
            }
            .problem()
        };
        assert_eq!(problem("void gemm<float>(int)", 1.5, 0.0), None);
        assert_eq!(problem(&"é".repeat(200), 1.0, 1e-6), None);
        for (name, expect) in [
            (" ", "a kernel whose name is blank"),
            (
                &*"a".repeat(201),
                "a kernel whose name has 201 letters; expected at most 200",
            ),
        ] {
            assert_eq!(problem(name, 1.0, 1.0).unwrap(), expect);
        }
        for (count, seconds, expect) in [
            (-1.0, 1.0, "a kernel that runs -1 times and takes 1 seconds"),
            (
                1.0,
                f64::NAN,
                "a kernel that runs 1 times and takes NaN seconds",
            ),
            (
                f64::INFINITY,
                1.0,
                "a kernel that runs inf times and takes 1 seconds",
            ),
        ] {
            let found = problem("a", count, seconds);
            assert_eq!(found.as_deref(), Some(expect));
        }
    }
}
