//! What runs, and in which order.
//!
//! A block is one run of every cell in random order. Blocks repeat, so that drift of the machine
//! hits all cells alike, and runs of one block can be compared with each other.

use std::collections::{BTreeMap, BTreeSet};

use bytesize::ByteSize;
use protocol::Device;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use record::{CellPlan, Claim, Isolation, Method, Session, SuiteQuestion, ValidityLimits};
use strict_yaml::most_similar;

use crate::suite::{DeviceKind, Ipc, Limits, MAX_BLOCKS, Suite, Ulimit};

/// What to plan.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The suites.
    pub suites: &'a [Suite],
    /// Names of the images; `local` for runs without one.
    pub images: &'a [String],
    /// Where the work runs.
    pub device: Device,
    /// Blocks; `None`: the most that a suite asks for.
    pub blocks: Option<u32>,
    /// Seed of the order; `None`: by chance.
    pub order_seed: Option<u64>,
}

/// What runs, and in which order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where the work runs.
    pub device: Device,
    /// The cells; each runs once in every block.
    pub cells: Vec<Cell>,
    /// How many blocks.
    pub blocks: u32,
    /// Seed of the order within blocks.
    pub order_seed: u64,
    /// The suites, by name, with the SHA-256 of their text.
    pub suites: BTreeMap<String, String>,
    /// What the suites ask, by name.
    pub questions: BTreeMap<String, SuiteQuestion>,
    /// What the suites claim.
    pub claims: Vec<Claim>,
    /// Scenarios with variants that are not for this device.
    pub left_out: Vec<LeftOut>,
}

/// One cell: image × scenario × variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What the session's file says of it.
    pub plan: CellPlan,
    /// Where it runs.
    pub device: Device,
    /// What a run may use.
    pub limits: Limits,
    /// From when on the machine is not fit to measure on.
    pub validity: ValidityLimits,
    /// Threads for work on the CPU.
    pub threads: Option<u32>,
}

impl Cell {
    /// How its runs are measured by this engine.
    #[must_use]
    pub fn method(&self, engine: &str, isolation: &Isolation) -> Method {
        let limits = &self.limits;
        let mut method = Method::default();
        method.set("engine", engine);
        method.set("isolation", isolation);
        method.set("seed", self.plan.seed);
        method.set_steps(self.plan.steps);
        method.set_or_none("threads", self.threads);
        method.set_or_none("limits.cpus", limits.cpus);
        method.set_or_none("limits.cpuset", limits.cpuset.as_ref());
        method.set_or_none("limits.pids", limits.pids);
        method.set(
            "limits.ipc",
            match limits.ipc {
                Ipc::Private => "private",
                Ipc::Host => "host",
            },
        );
        let size = |bytes| ByteSize(bytes).display().iec().to_string();
        // A share of the machine's memory unless a suite says more: rounded, so that machines of a
        // kind and their next boot count as the same.
        method.set_or_none("limits.memory", limits.memory_bytes.map(size));
        method.set_or_none("limits.shm", limits.shm_bytes.map(size));
        // Peaks are held against these.
        let exact = |bytes| match size(bytes) {
            text if text.parse() == Ok(ByteSize(bytes)) => text,
            _ => format!("{bytes} B"),
        };
        for (key, bytes) in [
            ("limits.gpu_memory", limits.gpu_memory_bytes),
            ("limits.allocator_memory", limits.allocator_memory_bytes),
        ] {
            method.set_or_none(key, bytes.map(exact));
        }
        for (name, Ulimit { soft, hard }) in &limits.ulimits {
            method.set(&format!("limits.ulimits.{name}"), format!("{soft}:{hard}"));
        }
        method
    }
}

/// One run of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its name, unique in the session and fit for file and container names.
    pub name: String,
    /// Place in the session's order, from 0.
    pub order: u32,
    /// The block, from 0.
    pub block: u32,
    /// Index of its cell.
    pub cell: usize,
}

/// Variants of a scenario that are not for the session's device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The suite.
    pub suite: String,
    /// The scenario.
    pub scenario: String,
    /// How many variants.
    pub variants: usize,
    /// Where they would run.
    pub device: DeviceKind,
}

/// Why there is nothing to run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No cell is for the device.
    #[error(
        "nothing in {suites} is for {device}; \
         give another suite, or a device that their scenarios name under `devices`"
    )]
    NothingToRun {
        /// The suites.
        suites: String,
        /// The device.
        device: Device,
    },
    /// The same suite or image twice.
    #[error("{what} `{name}` is given twice; give it once")]
    Twice {
        /// `the suite` or `the image`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Blocks out of range.
    #[error("{got} blocks; expected 1 to {MAX_BLOCKS}")]
    Blocks {
        /// What was asked for.
        got: u32,
    },
    /// A cell that the suites do not have.
    #[error(
        "no cell `{name}` in {suites} for {device}{}; expected a scenario, or a cell as reports \
         name it; --dry-run without --cell lists them",
        .likely.as_ref().map_or_else(String::new, |cell| format!(" (did you mean `{cell}`?)"))
    )]
    NoCell {
        /// What was asked for.
        name: String,
        /// The suites.
        suites: String,
        /// The device.
        device: Device,
        /// A cell of nearly this name.
        likely: Option<String>,
    },
    /// No image or no suite.
    #[error("no {what} to measure; give at least one")]
    Nothing {
        /// `suite` or `image`.
        what: &'static str,
    },
}

impl Plan {
    /// Plans every cell of every suite on every image.
    pub fn new(request: &Request<'_>) -> Result<Self, PlanError> {
        let Request { suites, images, .. } = *request;
        once("the suite", suites.iter().map(|suite| suite.name.as_str()))?;
        once("the image", images.iter().map(String::as_str))?;
        for (what, none) in [("suite", suites.is_empty()), ("image", images.is_empty())] {
            if none {
                return Err(PlanError::Nothing { what });
            }
        }
        let asked = suites.iter().map(|suite| suite.blocks).max().unwrap_or(1);
        let blocks = request.blocks.unwrap_or(asked);
        if !(1..=MAX_BLOCKS).contains(&blocks) {
            return Err(PlanError::Blocks { got: blocks });
        }
        let kind = DeviceKind::from(request.device);
        let mut cells = Vec::new();
        let mut left_out = Vec::new();
        for suite in suites {
            for scenario in &suite.scenarios {
                for image in images {
                    cells.extend(scenario.variants_for(kind).map(|one| Cell {
                        plan: CellPlan {
                            image: image.clone(),
                            suite: suite.name.clone(),
                            scenario: scenario.name.clone(),
                            model: scenario.model,
                            task: scenario.task,
                            variant: one.variant.clone(),
                            steps: scenario.steps,
                            seed: scenario.seed,
                            thresholds: scenario.thresholds.clone(),
                            expected: one.expected.get(&kind).copied(),
                        },
                        device: request.device,
                        limits: scenario.limits.clone(),
                        validity: scenario.validity.clone(),
                        threads: scenario.threads,
                    }));
                }
                let variants = scenario.variants.len() - scenario.variants_for(kind).count();
                if variants > 0 {
                    left_out.push(LeftOut {
                        suite: suite.name.clone(),
                        scenario: scenario.name.clone(),
                        variants,
                        device: match kind {
                            DeviceKind::Cpu => DeviceKind::Cuda,
                            DeviceKind::Cuda => DeviceKind::Cpu,
                        },
                    });
                }
            }
        }
        if cells.is_empty() {
            let names: Vec<_> = suites.iter().map(|suite| suite.name.as_str()).collect();
            return Err(PlanError::NothingToRun {
                suites: names.join(", "),
                device: request.device,
            });
        }
        Ok(Self {
            device: request.device,
            cells,
            blocks,
            order_seed: request.order_seed.unwrap_or_else(|| rand::rng().random()),
            suites: suites
                .iter()
                .map(|suite| (suite.name.clone(), suite.digest.clone()))
                .collect(),
            questions: suites
                .iter()
                .filter_map(|suite| Some((suite.name.clone(), suite.question.clone()?)))
                .collect(),
            claims: suites
                .iter()
                .flat_map(|suite| suite.claims.clone())
                .collect(),
            left_out,
        })
    }

    /// With these cells alone, each given as reports name it, such as `resnet50 · fp32 bs64`, or by
    /// its scenario; with all where none is given.
    pub fn only(mut self, wanted: &[String]) -> Result<Self, PlanError> {
        if wanted.is_empty() {
            return Ok(self);
        }
        let name = |cell: &Cell| format!("{} · {}", cell.plan.scenario, cell.plan.variant);
        let is_meant =
            |cell: &Cell, wanted: &String| cell.plan.scenario == *wanted || name(cell) == *wanted;
        for wanted in wanted {
            if self.cells.iter().any(|cell| is_meant(cell, wanted)) {
                continue;
            }
            let names: Vec<String> = self.cells.iter().map(name).collect();
            let likely = most_similar(wanted, names.iter().map(String::as_str));
            return Err(PlanError::NoCell {
                name: wanted.clone(),
                suites: self.suites.into_keys().collect::<Vec<_>>().join(", "),
                device: self.device,
                likely: likely.map(str::to_owned),
            });
        }
        let cells = &mut self.cells;
        cells.retain(|cell| wanted.iter().any(|wanted| is_meant(cell, wanted)));
        Ok(self)
    }

    /// Spreads the cells over these GPUs. Cells that are compared with each other, which are all
    /// of one scenario, stay on one GPU; the load is evened out by their number, the largest
    /// scenario first. The same for the same cells and GPUs, for ever.
    #[must_use]
    pub fn spread(mut self, gpus: &[Device]) -> Self {
        if gpus.len() < 2 {
            return self;
        }
        let key = |cell: &Cell| (cell.plan.suite.clone(), cell.plan.scenario.clone());
        let mut sizes: BTreeMap<(String, String), usize> = BTreeMap::new();
        for cell in &self.cells {
            *sizes.entry(key(cell)).or_default() += 1;
        }
        let mut groups: Vec<_> = sizes.into_iter().collect();
        groups.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        let mut loads = vec![0; gpus.len()];
        let mut places = BTreeMap::new();
        for (group, size) in groups {
            let lightest = (0..gpus.len()).min_by_key(|&gpu| loads[gpu]).unwrap_or(0);
            loads[lightest] += size;
            places.insert(group, gpus[lightest]);
        }
        for cell in &mut self.cells {
            cell.device = places[&key(cell)];
        }
        self
    }

    /// The GPUs that the cells are spread over; none where they all run on one device.
    #[must_use]
    pub fn gpus(&self) -> Vec<Device> {
        let used: BTreeSet<Device> = self.cells.iter().map(|cell| cell.device).collect();
        if used.len() > 1 {
            used.into_iter().collect()
        } else {
            Vec::new()
        }
    }

    /// All runs in their order: the same for the same cells, blocks and seed, for ever.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        (0..self.blocks)
            .flat_map(|block| self.block(block))
            .collect()
    }

    /// The runs of one block, from 0, in their order; of any block, planned or not.
    #[must_use]
    pub fn block(&self, block: u32) -> Vec<Run> {
        let plans: Vec<&CellPlan> = self.cells.iter().map(|cell| &cell.plan).collect();
        runs_of(&plans, self.order_seed, block)
    }
}

/// The names of all runs that a session plans, in their order.
#[must_use]
pub fn planned_runs(session: &Session) -> Vec<String> {
    let plans: Vec<&CellPlan> = session.cells.iter().collect();
    let runs = (0..session.blocks).flat_map(|block| runs_of(&plans, session.order_seed, block));
    runs.map(|run| run.name).collect()
}

fn runs_of(plans: &[&CellPlan], order_seed: u64, block: u32) -> Vec<Run> {
    let cells = plans.len();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most a thousand blocks of a few thousand cells"
    )]
    let first = block * cells as u32;
    let order = shuffled(cells, order_seed, block);
    (first..)
        .zip(order)
        .map(|(order, cell)| {
            let plan = plans[cell];
            Run {
                name: format!(
                    "{order:04}-b{block}-{}-{}",
                    slug(&plan.image),
                    plan.scenario
                ),
                order,
                block,
                cell,
            }
        })
        .collect()
}

/// Fisher and Yates's shuffle of `0..count`, written out so that a plan of today is resumed in
/// the same order whatever a library does to its own.
fn shuffled(count: usize, seed: u64, block: u32) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(u64::from(block));
    let mut places: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        // The product's upper half: even to 2^-64 per place, far below what any order shows.
        let wide = u128::from(random.next_u64()) * (last as u128 + 1);
        #[expect(clippy::cast_possible_truncation, reason = "at most `last`")]
        let pick = (wide >> 64) as usize;
        places.swap(last, pick);
    }
    places
}

/// The part of an image's name that is fit for file names.
fn slug(name: &str) -> String {
    let fit = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        }
    };
    let slug: String = name.chars().map(fit).take(40).collect();
    slug.trim_matches(['-', '.']).to_ascii_lowercase()
}

fn once<'a>(what: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), PlanError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            let name = name.to_owned();
            return Err(PlanError::Twice { what, name });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "version: 1\ndescription: d\ndefaults: {blocks: 4}\nscenarios:\n\
        - {name: a, model: vit-tiny, axes: {batch: [1, 2, 3]}}\n\
        - {name: b, model: vit-tiny, devices: [cuda], axes: {precision: [tf32, amp-fp16]}}\n";

    fn plan(images: &[&str], device: Device, seed: Option<u64>) -> Result<Plan, PlanError> {
        let suite = Suite::from_text("s.yaml", TEXT).unwrap();
        let images: Vec<_> = images.iter().map(|&image| image.to_owned()).collect();
        Plan::new(&Request {
            suites: &[suite],
            images: &images,
            device,
            blocks: None,
            order_seed: seed,
        })
    }

    #[test]
    fn limits_that_peaks_are_held_against_are_read_back_exactly() {
        let mut cell = plan(&["local"], Device::Cpu, None).unwrap().cells.remove(0);
        for (bytes, text) in [(8 << 30, "8.0 GiB"), (7_864_320_001, "7864320001 B")] {
            cell.limits.gpu_memory_bytes = Some(bytes);
            cell.limits.allocator_memory_bytes = Some(bytes);
            let method = cell.method("docker", &Isolation::default());
            for key in ["limits.gpu_memory", "limits.allocator_memory"] {
                assert_eq!(method.get(key), Some(text));
                assert_eq!(method.bytes(key), Some(bytes as f64));
            }
        }
    }

    #[test]
    fn every_cell_runs_once_in_every_block() {
        let plan = plan(&["local", "a/B:1"], Device::Cpu, Some(7)).unwrap();
        assert_eq!((plan.cells.len(), plan.blocks), (6, 4));
        let runs = plan.runs();
        assert_eq!(runs.len(), 24);
        for (block, runs) in (0..).zip(runs.chunks(6)) {
            let mut cells: Vec<_> = runs.iter().map(|run| run.cell).collect();
            cells.sort_unstable();
            assert_eq!(cells, [0, 1, 2, 3, 4, 5]);
            assert!(runs.iter().all(|run| run.block == block));
        }
        let names: BTreeSet<_> = runs.iter().map(|run| &run.name).collect();
        assert_eq!(names.len(), 24);
        assert!(
            names.iter().any(|name| name.ends_with("-b0-a-b-1-a")),
            "{names:?}"
        );
    }

    #[test]
    fn cells_are_chosen_by_their_names_or_their_scenario() {
        let check = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
            let plan = plan(&["local", "other"], Device::Cuda(0), Some(7)).unwrap();
            plan.only(&wanted).map(|plan| plan.cells.len())
        };
        assert_eq!(check(&[]), Ok(10));
        assert_eq!(check(&["a"]), Ok(6));
        assert_eq!(check(&["a · fp32 bs2"]), Ok(2));
        assert_eq!(check(&["a · fp32 bs2", "a", "b · tf32 bs1"]), Ok(8));
        let error = check(&["a", "a · fp32bs2"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "no cell `a · fp32bs2` in s for cuda:0 (did you mean `a · fp32 bs2`?); expected a \
             scenario, or a cell as reports name it; --dry-run without --cell lists them"
        );
        assert!(!check(&["--x"]).unwrap_err().to_string().contains("mean"));
    }

    #[test]
    fn a_scenario_stays_on_one_gpu() {
        let gpus = [Device::Cuda(0), Device::Cuda(3)];
        let plan = plan(&["local", "other"], Device::Cuda(0), Some(7))
            .unwrap()
            .spread(&gpus);
        assert_eq!(plan.gpus(), gpus);
        for cell in &plan.cells {
            let expect = if cell.plan.scenario == "a" { 0 } else { 3 };
            assert_eq!(cell.device, Device::Cuda(expect), "{:?}", cell.plan);
        }
    }

    #[test]
    fn what_is_for_another_device_is_told() {
        let plan = plan(&["local"], Device::Cpu, None).unwrap();
        assert_eq!(
            plan.left_out,
            [LeftOut {
                suite: "s".into(),
                scenario: "b".into(),
                variants: 2,
                device: DeviceKind::Cuda
            }]
        );
        let suite = Suite::from_text(
            "s.yaml",
            "version: 1\ndescription: d\nscenarios: [{name: b, model: vit-tiny, devices: [cuda]}]",
        )
        .unwrap();
        let error = Plan::new(&Request {
            suites: &[suite],
            images: &["local".into()],
            device: Device::Cpu,
            blocks: None,
            order_seed: None,
        })
        .unwrap_err();
        assert!(
            error.to_string().contains("nothing in s is for cpu"),
            "{error}"
        );
    }

    #[test]
    fn impossible_requests_are_named() {
        let twice = plan(&["a", "a"], Device::Cpu, None).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "the image `a` is given twice; give it once"
        );
        let none = plan(&[], Device::Cpu, None).unwrap_err();
        assert!(none.to_string().contains("no image to measure"));
    }

    #[test]
    fn an_order_stays_what_it_was() {
        // Recorded once; a session of then is resumed by it.
        assert_eq!(shuffled(8, 42, 0), [4, 7, 0, 1, 3, 2, 6, 5]);
        assert_eq!(shuffled(8, 42, 1), [6, 3, 7, 0, 4, 2, 1, 5]);
    }

    #[test]
    fn every_cell_is_first_about_equally_often() {
        let mut first = [0_u32; 5];
        for seed in 0..2000 {
            first[shuffled(5, seed, 0)[0]] += 1;
        }
        // 400 expected, standard deviation 18: five of them.
        assert!(
            first.iter().all(|count| (310..490).contains(count)),
            "{first:?}"
        );
    }

    proptest! {
        #[test]
        fn a_shuffle_loses_nothing(count in 0_usize..200, seed: u64, block in 0_u32..1000) {
            let mut places = shuffled(count, seed, block);
            prop_assert_eq!(&places, &shuffled(count, seed, block));
            places.sort_unstable();
            prop_assert_eq!(places, (0..count).collect::<Vec<_>>());
        }
    }
}
