//! What each module takes of a step, out of what happened within it.
//!
//! Memory and time belong to the module that was entered last; in backward to the one whose
//! operation the node of the graph came from. A module has all that the modules inside it have.

use std::collections::{BTreeMap, HashMap};

use libtorch::attribution::{Happened, Kind};
use protocol::{Module, Values};

/// Marks: what comes next in the step.
pub const FORWARD: u32 = 0;
/// Backward of a micro-batch.
pub const BACKWARD: u32 = 1;
/// All after the last backward, which is no module's.
pub const OPTIMIZER: u32 = 2;

/// The values of modules, by name.
pub type Modules = BTreeMap<String, Values>;

/// The name and those of the modules around it, from the outermost on: `a`, `a.b`, `a.b.c`.
fn path(name: &str) -> impl Iterator<Item = &str> {
    // A name in brackets is no place in a tree.
    let is_tree = !name.starts_with('[');
    let points = name.match_indices('.').filter(move |_| is_tree);
    points.map(|(at, _)| &name[..at]).chain([name])
}

fn add(modules: &mut Modules, module: &str, value: &str, more: f64) {
    let values = modules.entry(module.to_owned()).or_default();
    *values.entry(value.to_owned()).or_default() += more;
}

/// Adds a value of a parameter, by its name, to its module and those around it.
pub fn add_parameter(modules: &mut Modules, parameter: &str, value: &str, bytes: u64) {
    let module = parameter.rsplit_once('.').map(|(module, _)| module);
    for name in path(module.unwrap_or(Module::OUTSIDE)) {
        add(modules, name, value, bytes as f64);
    }
}

/// Adds what happened, by modules of these names.
pub fn add_step(modules: &mut Modules, happened: &[Happened], names: &[String]) {
    let first = happened.iter().find(|one| one.kind == Kind::Allocated);
    let mut walk = Walk {
        names,
        total: first.map_or(0, |one| one.total.saturating_sub(one.amount)),
        ..Walk::default()
    };
    for one in happened {
        walk.take(*one);
    }
    for (name, taken) in walk.taken {
        let [forward, backward] = taken
            .nanoseconds
            .map(|nanoseconds| nanoseconds as f64 / 1e9);
        add(modules, name, "kept_bytes", taken.kept as f64);
        add(modules, name, "forward_seconds", forward);
        add(modules, name, "backward_seconds", backward);
        add(modules, name, "forward_peak_bytes", taken.peaks[0] as f64);
        add(modules, name, "backward_peak_bytes", taken.peaks[1] as f64);
    }
}

/// What a module took so far. Pairs are of forward and backward.
#[derive(Debug, Default)]
struct Taken {
    kept: u64,
    nanoseconds: [u64; 2],
    /// Most bytes above those on entry.
    peaks: [u64; 2],
    /// Bytes in tensors when it was entered, while it is computed.
    entry: Option<u64>,
}

#[derive(Debug, Default)]
struct Walk<'a> {
    names: &'a [String],
    taken: BTreeMap<&'a str, Taken>,
    phase: u32,
    /// Whether a micro-batch has begun to go backward.
    was_kept: bool,
    /// Modules that were entered and not left.
    entered: Vec<u32>,
    /// From which node on the graph belongs to which module, in order.
    nodes: Vec<(u64, Option<u32>)>,
    /// The module of the node that backward came to last.
    node: Option<u32>,
    /// Tensors that forward of the first micro-batch allocated, with their module, by address.
    alive: HashMap<u64, (u64, &'a str)>,
    total: u64,
    clock: Option<u64>,
}

impl<'a> Walk<'a> {
    fn take(&mut self, one: Happened) {
        if matches!(one.kind, Kind::Allocated | Kind::Freed) {
            self.total = one.total;
            self.alive.remove(&one.what);
            if one.kind == Kind::Allocated {
                self.rise();
                if self.phase == FORWARD && !self.was_kept {
                    self.alive.insert(one.what, (one.amount, self.module()));
                }
            }
            return;
        }
        // The time up to now is the module's.
        let since = self.clock.replace(one.at).unwrap_or(one.at);
        let phase = self.phase as usize;
        self.each_around(|taken, _| {
            if let Some(nanoseconds) = taken.nanoseconds.get_mut(phase) {
                *nanoseconds += one.at.saturating_sub(since);
            }
        });
        self.switch(one);
        // Modules that are computed from now on have been entered, all others have been left.
        let module = self.module();
        for (name, taken) in &mut self.taken {
            taken.entry = taken.entry.filter(|_| path(module).any(|one| one == *name));
        }
        self.each_around(|taken, total| _ = taken.entry.get_or_insert(total));
    }

    fn switch(&mut self, one: Happened) {
        let small = u32::try_from(one.what).unwrap_or(u32::MAX);
        match one.kind {
            Kind::Entered => self.entered.push(small),
            Kind::Left => _ = self.entered.pop(),
            Kind::Node => {
                let after = self.nodes.partition_point(|(first, _)| *first <= one.what);
                let owner = after.checked_sub(1).map(|place| self.nodes[place].1);
                self.node = owner.flatten();
                return;
            }
            _ => {
                if small == BACKWARD {
                    self.keep();
                }
                (self.phase, self.node) = (small, None);
                return;
            }
        }
        // Nodes that forward makes from here on are that module's. The second computation of a
        // checkpoint makes nodes that backward never comes to.
        if self.phase == FORWARD {
            let module = self.entered.last().copied();
            self.nodes.push((one.amount, module));
        }
    }

    fn module(&self) -> &'a str {
        let module = self.entered.last().copied().or(self.node);
        let name = module.and_then(|module| self.names.get(module as usize));
        name.map_or(Module::OUTSIDE, String::as_str)
    }

    /// The module and those around it, with the bytes in tensors.
    fn each_around(&mut self, act: impl Fn(&mut Taken, u64)) {
        for name in path(self.module()) {
            act(self.taken.entry(name).or_default(), self.total);
        }
    }

    /// More memory is in use.
    fn rise(&mut self) {
        let phase = self.phase as usize;
        self.each_around(|taken, total| {
            let above = total.saturating_sub(*taken.entry.get_or_insert(total));
            if let Some(peak) = taken.peaks.get_mut(phase) {
                *peak = above.max(*peak);
            }
        });
    }

    /// What forward of the first micro-batch allocated and is there at its end it keeps.
    fn keep(&mut self) {
        self.was_kept = true;
        for (bytes, module) in std::mem::take(&mut self.alive).into_values() {
            for name in path(module) {
                self.taken.entry(name).or_default().kept += bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened(kind: Kind, what: u64, amount: u64, last: u64) -> Happened {
        let is_memory = matches!(kind, Kind::Allocated | Kind::Freed);
        Happened {
            kind,
            what,
            amount,
            total: if is_memory { last } else { 0 },
            at: if is_memory { 0 } else { last },
        }
    }

    fn entered(module: u64, next_node: u64, at: u64) -> Happened {
        happened(Kind::Entered, module, next_node, at)
    }

    fn left(next_node: u64, at: u64) -> Happened {
        happened(Kind::Left, 0, next_node, at)
    }

    fn marked(mark: u32, at: u64) -> Happened {
        happened(Kind::Marked, mark.into(), 0, at)
    }

    fn allocated(address: u64, bytes: u64, total: u64) -> Happened {
        happened(Kind::Allocated, address, bytes, total)
    }

    fn freed(address: u64, bytes: u64, total: u64) -> Happened {
        happened(Kind::Freed, address, bytes, total)
    }

    #[expect(clippy::float_cmp, reason = "sums of whole numbers are exact")]
    #[test]
    fn what_happened_belongs_to_the_module_that_did_it() {
        let names = ["[loss]", "net.0", "net.0.fc"].map(str::to_owned);
        let node = |number, at| happened(Kind::Node, number, 0, at);
        let happened = [
            marked(FORWARD, 0),
            entered(1, 10, 100),
            entered(2, 10, 150),
            allocated(1, 40, 540),
            allocated(2, 60, 600),
            freed(1, 40, 560),
            left(12, 250),
            allocated(3, 5, 565),
            left(13, 300),
            allocated(4, 7, 572),
            marked(BACKWARD, 320),
            node(14, 330),
            node(12, 340),
            node(11, 400),
            // The second computation of a checkpoint.
            entered(1, 90, 410),
            allocated(5, 100, 672),
            freed(5, 100, 572),
            left(95, 440),
            freed(2, 60, 512),
            marked(OPTIMIZER, 500),
            allocated(6, 1000, 1512),
            marked(OPTIMIZER, 900),
        ];
        let mut modules = Modules::new();
        add_step(&mut modules, &happened, &names);
        add_parameter(&mut modules, "net.0.fc.weight", "parameter_bytes", 8);
        add_parameter(&mut modules, "token", "parameter_bytes", 2);
        let value = |name: &str, value: &str| {
            let found = modules[name].get(value).copied().unwrap_or_default();
            if value.ends_with("seconds") {
                (found * 1e9).round()
            } else {
                found
            }
        };
        for (name, kept, forward, backward, peaks, parameters) in [
            ("net", 65.0, 200.0, 160.0, [100.0, 100.0], 8.0),
            ("net.0", 65.0, 200.0, 160.0, [100.0, 100.0], 8.0),
            ("net.0.fc", 60.0, 100.0, 70.0, [100.0, 0.0], 8.0),
            (Module::OUTSIDE, 7.0, 120.0, 20.0, [7.0, 0.0], 2.0),
        ] {
            assert_eq!(value(name, "kept_bytes"), kept, "{name}");
            assert_eq!(value(name, "forward_seconds"), forward, "{name}");
            assert_eq!(value(name, "backward_seconds"), backward, "{name}");
            let found = [
                value(name, "forward_peak_bytes"),
                value(name, "backward_peak_bytes"),
            ];
            assert_eq!(found, peaks, "{name}");
            assert_eq!(value(name, "parameter_bytes"), parameters, "{name}");
        }
    }
}
