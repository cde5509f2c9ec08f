//! What each module takes of a step, out of what happened within it.
//!
//! Memory and time belong to the module that was entered last; in backward to the one whose
//! operation the node of the graph came from. A module has all that the modules inside it have.

use std::collections::{BTreeMap, HashMap};

use libtorch::attribution::Happened;
use protocol::{Module, Values};

/// Marks: what comes next in the step.
pub const FORWARD: u32 = 0;
/// Backward of a micro-batch.
pub const BACKWARD: u32 = 1;
/// All after the last backward, which is no module's.
pub const OPTIMIZER: u32 = 2;

/// The values of modules, by name.
#[derive(Debug, Default)]
pub struct Attribution(BTreeMap<String, Values>);

/// The name and those of the modules around it, from the outermost on: `a`, `a.b`, `a.b.c`.
fn path(name: &str) -> impl Iterator<Item = &str> {
    // A name in brackets is no place in a tree.
    let is_tree = !name.starts_with('[');
    let points = name.match_indices('.').filter(move |_| is_tree);
    points.map(|(at, _)| &name[..at]).chain([name])
}

impl Attribution {
    /// Adds a value of a parameter, by its name, to its module and those around it.
    pub fn add_parameter(&mut self, parameter: &str, value: &str, bytes: u64) {
        let module = parameter.rsplit_once('.').map(|(module, _)| module);
        for name in path(module.unwrap_or(Module::OUTSIDE)) {
            self.add(name, value, bytes as f64);
        }
    }

    fn add(&mut self, module: &str, value: &str, more: f64) {
        let values = self.0.entry(module.to_owned()).or_default();
        *values.entry(value.to_owned()).or_default() += more;
    }

    /// Adds what happened, by modules of these names.
    pub fn add_step(&mut self, happened: &[Happened], names: &[String]) {
        let mut walk = Walk {
            names,
            total: happened.iter().find_map(before).unwrap_or_default(),
            ..Walk::default()
        };
        for one in happened {
            walk.take(*one);
        }
        for (name, taken) in walk.taken {
            let [forward, backward] = taken
                .nanoseconds
                .map(|nanoseconds| nanoseconds as f64 / 1e9);
            let [forward_peak, backward_peak] = taken.peaks.map(|bytes| bytes as f64);
            for (value, amount) in [
                ("kept_bytes", taken.kept as f64),
                ("forward_seconds", forward),
                ("backward_seconds", backward),
                ("forward_peak_bytes", forward_peak),
                ("backward_peak_bytes", backward_peak),
            ] {
                self.add(name, value, amount);
            }
        }
    }

    /// All of them, with those of the whole step.
    #[must_use]
    pub fn finish(mut self, step: Values) -> Vec<Module> {
        self.0.insert(Module::STEP.to_owned(), step);
        let all = self.0.into_iter();
        all.map(|(name, values)| Module { name, values }).collect()
    }
}

/// Bytes in tensors before something that is about memory.
fn before(one: &Happened) -> Option<u64> {
    match *one {
        Happened::Allocated { bytes, total, .. } => total.checked_sub(bytes),
        Happened::Freed { bytes, total, .. } => Some(total + bytes),
        _ => None,
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
    /// Micro-batches that began to go backward.
    backwards: u32,
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
        match one {
            Happened::Allocated {
                address,
                bytes,
                total,
            } => {
                self.total = total;
                self.rise();
                if self.phase == FORWARD && self.backwards == 0 {
                    self.alive.insert(address, (bytes, self.module()));
                }
            }
            Happened::Freed { address, total, .. } => {
                self.total = total;
                if self.backwards == 0 {
                    self.alive.remove(&address);
                }
            }
            Happened::Entered {
                module,
                next_node,
                at,
            } => {
                self.until(at);
                self.entered.push(module);
                self.own_nodes(next_node);
            }
            Happened::Left { next_node, at } => {
                self.until(at);
                self.entered.pop();
                self.own_nodes(next_node);
            }
            Happened::Node { number, at } => {
                self.until(at);
                let after = self.nodes.partition_point(|(first, _)| *first <= number);
                let owner = after.checked_sub(1).map(|place| self.nodes[place].1);
                self.node = owner.flatten();
            }
            Happened::Marked { mark, at } => {
                self.until(at);
                if mark == BACKWARD {
                    self.backwards += 1;
                    self.keep();
                }
                self.phase = mark;
                self.node = None;
            }
        }
        if !matches!(one, Happened::Allocated { .. } | Happened::Freed { .. }) {
            self.arrive();
        }
    }

    fn module(&self) -> &'a str {
        let module = self.entered.last().copied().or(self.node);
        let name = module.and_then(|module| self.names.get(module as usize));
        name.map_or(Module::OUTSIDE, String::as_str)
    }

    /// Nodes that forward makes from this one on belong to the module that is entered. The second
    /// computation of a checkpoint makes nodes that backward never comes to.
    fn own_nodes(&mut self, next: u64) {
        if self.phase == FORWARD {
            self.nodes.push((next, self.entered.last().copied()));
        }
    }

    /// The time up to now is the module's.
    fn until(&mut self, at: u64) {
        let since = self.clock.replace(at).unwrap_or(at);
        let phase = self.phase as usize;
        for name in path(self.module()) {
            let taken = self.taken.entry(name).or_default();
            if let Some(nanoseconds) = taken.nanoseconds.get_mut(phase) {
                *nanoseconds += at.saturating_sub(since);
            }
        }
    }

    /// Modules that are computed from now on have been entered, all others have been left.
    fn arrive(&mut self) {
        let module = self.module();
        let is_around = |name: &str| path(module).any(|around| around == name);
        for (name, taken) in &mut self.taken {
            if !is_around(name) {
                taken.entry = None;
            }
        }
        for name in path(module) {
            let taken = self.taken.entry(name).or_default();
            taken.entry.get_or_insert(self.total);
        }
    }

    /// More memory is in use.
    fn rise(&mut self) {
        let phase = self.phase as usize;
        for name in path(self.module()) {
            let taken = self.taken.entry(name).or_default();
            let entry = *taken.entry.get_or_insert(self.total);
            if let Some(peak) = taken.peaks.get_mut(phase) {
                *peak = (*peak).max(self.total.saturating_sub(entry));
            }
        }
    }

    /// What forward of the first micro-batch allocated and is there at its end it keeps.
    fn keep(&mut self) {
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

    fn entered(module: u32, next_node: u64, at: u64) -> Happened {
        Happened::Entered {
            module,
            next_node,
            at,
        }
    }

    fn left(next_node: u64, at: u64) -> Happened {
        Happened::Left { next_node, at }
    }

    fn marked(mark: u32, at: u64) -> Happened {
        Happened::Marked { mark, at }
    }

    fn allocated(address: u64, bytes: u64, total: u64) -> Happened {
        Happened::Allocated {
            address,
            bytes,
            total,
        }
    }

    fn freed(address: u64, bytes: u64, total: u64) -> Happened {
        Happened::Freed {
            address,
            bytes,
            total,
        }
    }

    #[test]
    fn what_happened_belongs_to_the_module_that_did_it() {
        let names = ["[loss]", "net.0", "net.0.fc"].map(str::to_owned);
        let node = |number, at| Happened::Node { number, at };
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
        let mut attribution = Attribution::default();
        attribution.add_step(&happened, &names);
        attribution.add_parameter("net.0.fc.weight", "parameter_bytes", 8);
        attribution.add_parameter("token", "parameter_bytes", 2);
        let modules = attribution.finish(Values::new());
        let value = |name: &str, value: &str| {
            let module = modules.iter().find(|module| module.name == name).unwrap();
            let found = module.values.get(value).copied().unwrap_or_default();
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
