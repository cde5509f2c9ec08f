//! What runs, and in which order.
//!
//! A block is one run of every cell in random order. Blocks repeat, so that drift of the machine
//! hits all cells alike, and runs of one block can be compared with each other.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{Device, Until};
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use record::{
    CellPlan, DeclaredMetric, Isolation, MOST_CELLS, MOST_DECLARED, MOST_IMAGES, Method, Place,
    Session, ValidityLimits, cell_name,
};
use sha2::{Digest as _, Sha256};
use strict_yaml::most_similar;

use crate::executors::Executor;
use crate::suite::{
    DeviceKind, Launcher, Limits, MAX_BLOCKS, Program, RANKS_AXIS, Scenario, Suite, Work,
};

#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub suites: &'a [Suite],
    /// Names of the images; `local` for runs without one.
    pub images: &'a [String],
    pub device: Device,
    /// Blocks; `None`: the most that a suite asks for.
    pub blocks: Option<u32>,
    /// Seed of the order; `None`: by chance.
    pub order_seed: Option<u64>,
}

/// What runs, and in which order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The session's file, as far as it follows from what was asked for: device, suites, blocks and
    /// what the suites declare. Whoever begins the session adds machines, images and engine.
    pub session: Session,
    /// The cells; each runs once in every block.
    pub cells: Vec<Cell>,
    /// Scenarios with variants that are not for this device, or have too many ranks for it.
    pub left_out: Vec<LeftOut>,
    /// The run that is carried out this time, and no other; `None`: all.
    pub run: Option<String>,
}

/// One cell: image × scenario × variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What the session's file says of it.
    pub plan: CellPlan,
    pub work: Work,
    /// Where each rank of its runs works; at least one.
    pub places: Vec<Place>,
    pub limits: Limits,
    /// From when on the machine is not fit to measure on.
    pub validity: ValidityLimits,
    /// Threads for work on the CPU.
    pub threads: Option<u32>,
    /// Whether its unified memory may be more than a GPU has.
    pub oversubscribes: bool,
}

impl Cell {
    /// Where the first rank works, as its host counts.
    pub fn device(&self) -> Device {
        self.places[0].device
    }

    /// GPUs that a run of it needs where ranks run on GPUs.
    fn gpus(&self) -> u32 {
        self.work.variant().placement.gpus(self.plan.ranks)
    }

    /// How its runs are measured by this engine.
    pub fn method(&self, engine: &str, isolation: &Isolation) -> Method {
        let mut method = Method::default();
        method.set("engine", engine);
        method.set("isolation", isolation);
        method.set("seed", self.plan.seed);
        let ranks = Some(self.plan.ranks).filter(|ranks| *ranks > 1);
        method.set_or_none("ranks", ranks);
        method.set_steps(self.plan.steps);
        method.set_or_none("threads", self.threads);
        for (key, value) in self.limits.in_method() {
            method.set_or_none(&key, value);
        }
        if let Work::Builtin {
            trace: Some(trace), ..
        } = &self.work
        {
            let digest = format!("{:x}", Sha256::digest(trace.to_string()));
            method.set("trace", &digest[..12]);
        }
        if let Some(program) = self.work.program() {
            program.set_method(self.plan.ranks, &mut method);
            // Nothing else lasts until after the measured steps.
            let profiled = Some(self.plan.steps.profiled);
            let counts = |steps: &u32| program.file.until == Until::Exit && *steps > 0;
            method.set_or_none("steps.profiled", profiled.filter(counts));
        }
        method
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its name, unique in the session and fit for file and container names.
    pub name: String,
    /// Place in the session's order, from 0.
    pub order: u32,
    /// The block, from 0.
    pub block: u32,
    pub cell: usize,
}

/// Variants of a scenario that the session does not measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub suite: String,
    pub scenario: String,
    pub variants: usize,
    /// What they are for or need, and what there is.
    pub why: String,
}

/// Why there is nothing to run: what, where, what is expected, and the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

fn refused<T>(message: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError(message.into()))
}

/// The cells of a scenario on an image.
fn cells_of(
    suite: &Suite,
    scenario: &Scenario,
    image: &str,
    device: Device,
) -> impl Iterator<Item = Cell> {
    let kind = DeviceKind::from(device);
    scenario.variants_for(kind).map(move |one| Cell {
        plan: CellPlan {
            image: image.to_owned(),
            suite: suite.name.clone(),
            scenario: scenario.name.clone(),
            workload: scenario.workload.clone(),
            axes: one.axes.clone(),
            steps: scenario.steps,
            ranks: one.ranks,
            seed: scenario.seed,
            thresholds: scenario.thresholds.clone(),
            expected: one.expected.get(&kind).copied(),
        },
        work: one.work.clone(),
        // On the first host, until `spread` gives places.
        places: vec![Place {
            host: String::new(),
            device,
        }],
        limits: scenario.limits.clone(),
        validity: scenario.validity.limits(device),
        threads: scenario.threads,
        oversubscribes: false,
    })
}

/// What a session's record says of the suites.
fn session(request: &Request<'_>, blocks: u32) -> Result<Session, PlanError> {
    let suites = request.suites.iter();
    let digest = |suite: &Suite| (suite.name.clone(), suite.digest.clone());
    let question = |suite: &Suite| Some((suite.name.clone(), suite.question.clone()?));
    Ok(Session {
        device: request.device,
        blocks,
        order_seed: request.order_seed.unwrap_or_else(|| rand::rng().random()),
        metrics: declared(request.suites)?,
        suites: suites.clone().map(digest).collect(),
        questions: suites.clone().filter_map(question).collect(),
        claims: suites.flat_map(|suite| suite.claims.clone()).collect(),
        ..Session::default()
    })
}

/// The fewest warm-up steps of which one is attributed to modules.
pub const ATTRIBUTION_WARMUP: u32 = 3;

impl Plan {
    /// Plans every cell of every suite on every image.
    pub fn new(request: &Request<'_>) -> Result<Self, PlanError> {
        let Request { suites, images, .. } = *request;
        once("the suite", suites.iter().map(|suite| suite.name.as_str()))?;
        once("the image", images.iter().map(String::as_str))?;
        for (what, none) in [("suite", suites.is_empty()), ("image", images.is_empty())] {
            if none {
                return refused(format!("no {what} to measure; give at least one"));
            }
        }
        let asked = suites.iter().map(|suite| suite.blocks).max().unwrap_or(1);
        let blocks = request.blocks.unwrap_or(asked);
        if !(1..=MAX_BLOCKS).contains(&blocks) {
            return refused(format!("{blocks} blocks; expected 1 to {MAX_BLOCKS}"));
        }
        let kind = DeviceKind::from(request.device);
        let variants: usize = suites.iter().map(|suite| suite.cells(kind)).sum();
        if images.len() > MOST_IMAGES || variants.saturating_mul(images.len()) > MOST_CELLS {
            return refused(format!(
                "{variants} variants on {} images are {} cells; a session has at most {MOST_CELLS} \
                 cells and {MOST_IMAGES} images: give fewer suites or images at once",
                images.len(),
                variants.saturating_mul(images.len())
            ));
        }
        let mut cells = Vec::new();
        let mut left_out = Vec::new();
        for suite in suites {
            for scenario in &suite.scenarios {
                for image in images {
                    cells.extend(cells_of(suite, scenario, image, request.device));
                }
                let variants = scenario.variants.len() - scenario.variants_for(kind).count();
                if variants > 0 {
                    left_out.push(LeftOut {
                        suite: suite.name.clone(),
                        scenario: scenario.name.clone(),
                        variants,
                        why: match kind {
                            DeviceKind::Cpu => format!("for cuda, not for {}", request.device),
                            DeviceKind::Cuda => format!("for cpu, not for {}", request.device),
                        },
                    });
                }
            }
        }
        if cells.is_empty() {
            let names: Vec<_> = suites.iter().map(|suite| suite.name.as_str()).collect();
            return refused(format!(
                "nothing in {} is for {}; give another suite, or a device that their scenarios \
                 name under `devices`",
                names.join(", "),
                request.device
            ));
        }
        Ok(Self {
            session: session(request, blocks)?,
            cells,
            left_out,
            run: None,
        })
    }

    /// With these cells alone, each given as reports name it, such as `resnet50 · fp32 bs64`, or by
    /// its scenario; with all where none is given.
    pub fn only(mut self, wanted: &[String]) -> Result<Self, PlanError> {
        if wanted.is_empty() {
            return Ok(self);
        }
        let name = |cell: &Cell| cell_name(&cell.plan.scenario, &cell.plan.axes.to_string());
        let is_meant =
            |cell: &Cell, wanted: &String| cell.plan.scenario == *wanted || name(cell) == *wanted;
        for wanted in wanted {
            if self.cells.iter().any(|cell| is_meant(cell, wanted)) {
                continue;
            }
            let names: Vec<String> = self.cells.iter().map(name).collect();
            let likely = most_similar(wanted, names.iter().map(String::as_str));
            let likely = likely.map(|cell| format!(" (did you mean `{cell}`?)"));
            let suites: Vec<String> = self.session.suites.into_keys().collect();
            return refused(format!(
                "no cell `{wanted}` in {} for {}{}; expected a scenario, or a cell as reports name \
                 it; `bench --dry-run` without --cell lists them",
                suites.join(", "),
                self.session.device,
                likely.unwrap_or_default()
            ));
        }
        let cells = &mut self.cells;
        cells.retain(|cell| wanted.iter().any(|wanted| is_meant(cell, wanted)));
        Ok(self)
    }

    /// Attributes a warm-up step of each cell to the model's modules where that can be, if asked.
    pub fn attributed(mut self, is_asked: bool) -> Result<Self, PlanError> {
        let mut problem = is_asked.then_some("there is no cell");
        for cell in self.cells.iter_mut().filter(|_| is_asked) {
            let mut steps = cell.plan.steps;
            steps.attribution = true;
            let found = cell.work.check_attribution(&steps).err();
            cell.plan.steps.attribution |= found.is_none();
            problem = problem.and(found);
        }
        problem.map_or(Ok(self), |problem| {
            refused(format!("no step can be attributed to modules: {problem}"))
        })
    }

    /// With so many warm-up steps at least.
    #[must_use]
    pub fn warmed_up(mut self, least: u32) -> Self {
        for cell in &mut self.cells {
            let steps = &mut cell.plan.steps;
            steps.warmup = steps.warmup.max(least);
        }
        self
    }

    /// Attributes those cells that a session begun with this plan attributes beyond its suites, in as
    /// many warm-up steps as that took.
    #[must_use]
    pub fn attributed_as(mut self, begun: &[CellPlan]) -> Self {
        for (cell, then) in self.cells.iter_mut().zip(begun) {
            let steps = &mut cell.plan.steps;
            let is_more = then.steps.warmup > steps.warmup;
            if is_more && then.steps.warmup == ATTRIBUTION_WARMUP {
                steps.warmup = ATTRIBUTION_WARMUP;
            }
            steps.attribution |= then.steps.attribution;
        }
        self
    }

    /// Where the user allows it, unified memory may be more than a GPU has.
    #[must_use]
    pub fn oversubscribed(mut self, is_allowed: bool) -> Self {
        for cell in &mut self.cells {
            cell.oversubscribes = is_allowed && cell.work.variant().allocator.managed;
        }
        self
    }

    /// Leaves out what has more ranks than an executor's runs can have in these places, where its
    /// suite gives several counts, and refuses it where not.
    pub fn fit_ranks(
        mut self,
        most: u32,
        executor: &str,
        places: &[Place],
    ) -> Result<Self, PlanError> {
        let is_cuda = self.session.device.is_cuda();
        let of_cpu = "lower `ranks`";
        let next = if is_cuda { NEXT_OF_RANKS } else { of_cpu };
        let too_many = |cell: &Cell| {
            let ranks = cell.plan.ranks;
            if is_cuda && sets(places, cell.gpus() as usize).is_empty() {
                let given = places.len();
                return Some(format!("{ranks} ranks need as many GPUs, {given} given"));
            }
            let program = cell.work.program();
            let starts_own = program.is_some_and(|one| one.launcher == Launcher::Command);
            let words = format!("{ranks} ranks, but runs {executor} have at most {most} here");
            // Those that share a GPU are as many as anybody likes.
            let needed = if is_cuda { cell.gpus() } else { ranks };
            (needed > most && !starts_own).then_some(words)
        };
        let mut left_out: BTreeMap<(String, String, String), usize> = BTreeMap::new();
        let mut kept = Vec::new();
        for cell in self.cells {
            let plan = &cell.plan;
            match too_many(&cell) {
                None => kept.push(cell),
                Some(why) if plan.axes.contains_key(RANKS_AXIS) => {
                    let key = (plan.suite.clone(), plan.scenario.clone(), why);
                    *left_out.entry(key).or_default() += 1;
                }
                Some(why) => {
                    let (suite, scenario) = (&plan.suite, &plan.scenario);
                    return refused(format!("{suite}, scenario {scenario}: {why}; {next}"));
                }
            }
        }
        if kept.is_empty()
            && let Some(((suite, scenario, why), _)) = left_out.first_key_value()
        {
            return refused(format!(
                "nothing is left to measure: {suite}, scenario {scenario}: {why}; {next}"
            ));
        }
        self.cells = kept;
        let left_out = left_out.into_iter();
        self.left_out
            .extend(left_out.map(|((suite, scenario, why), variants)| LeftOut {
                suite,
                scenario,
                variants,
                why,
            }));
        Ok(self)
    }

    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.cells.iter().filter_map(|cell| cell.work.program())
    }

    /// Refuses programs that an executor does not take.
    pub fn check_programs(&self, executor: &dyn Executor) -> Result<(), PlanError> {
        let taken = self
            .programs()
            .try_for_each(|program| executor.takes(program));
        taken.or_else(refused)
    }

    /// Spreads the cells over these places, a GPU a rank unless they share one. Cells that are
    /// compared with each other, which are all of one scenario, stay in one place; the load is evened
    /// out by their number, the largest scenario first. Runs of fewer ranks than others of their
    /// scenario have take the first of its places. Ranks are on one host where one has as many GPUs.
    /// On the CPU all ranks share the first place. The same for the same cells and places, for ever.
    pub fn spread(mut self, places: &[Place]) -> Result<Self, PlanError> {
        let key = |cell: &Cell| (cell.plan.suite.clone(), cell.plan.scenario.clone());
        let mut groups: BTreeMap<(String, String), (usize, u32)> = BTreeMap::new();
        for cell in &self.cells {
            let (runs, most) = groups.entry(key(cell)).or_insert((0, 1));
            *runs += 1;
            *most = cell.gpus().max(*most);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by(|(one, (few, _)), (other, (many, _))| {
            many.cmp(few).then_with(|| one.cmp(other))
        });
        let mut loads: BTreeMap<&Place, usize> = places.iter().map(|place| (place, 0)).collect();
        let mut chosen = BTreeMap::new();
        for ((suite, scenario), (runs, gpus)) in groups {
            let taken: Vec<Place> = if self.session.device.is_cuda() {
                let sets = sets(places, gpus as usize);
                let load = |set: &&[Place]| set.iter().map(|place| loads[place]).sum::<usize>();
                let Some(lightest) = sets.into_iter().min_by_key(load) else {
                    return refused(format!(
                        "{suite}, scenario {scenario}: {gpus} ranks need as many GPUs, {} given; \
                         {NEXT_OF_RANKS}",
                        places.len()
                    ));
                };
                lightest.to_vec()
            } else {
                places[..1].to_vec()
            };
            for place in &taken {
                if let Some(load) = loads.get_mut(place) {
                    *load += runs;
                }
            }
            chosen.insert((suite, scenario), taken);
        }
        for cell in &mut self.cells {
            // On the CPU, and where they share a GPU, all in one place.
            let last = (cell.gpus() as usize).min(chosen[&key(cell)].len()) - 1;
            let ranks = 0..cell.plan.ranks as usize;
            let at = |rank: usize| chosen[&key(cell)][rank.min(last)].clone();
            cell.places = ranks.map(at).collect();
        }
        Ok(self)
    }

    /// The places that the cells are spread over; none where they all run on one device.
    pub fn places(&self) -> Vec<Place> {
        let used: BTreeSet<&Place> = self.cells.iter().flat_map(|cell| &cell.places).collect();
        if used.len() > 1 {
            used.into_iter().cloned().collect()
        } else {
            Vec::new()
        }
    }

    /// The runs of one block, from 0, in their order; of any block, planned or not. The same for the
    /// same cells and seed, for ever.
    pub fn block(&self, block: u32) -> Vec<Run> {
        let cells = self.cells.len();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most a thousand blocks of a few thousand cells"
        )]
        let first = block * cells as u32;
        let order = (first..).zip(shuffled(cells, self.session.order_seed, block));
        let resting = self.session.resting(block);
        let is_due = |cell: &usize| resting.is_none_or(|resting| !resting.contains(cell));
        let run = |(order, cell): (u32, usize)| {
            let CellPlan {
                image, scenario, ..
            } = &self.cells[cell].plan;
            Run {
                name: format!("{order:04}-b{block}-{}-{scenario}", slug(image)),
                order,
                block,
                cell,
            }
        };
        order.filter(|(_, cell)| is_due(cell)).map(run).collect()
    }
}

const NEXT_OF_RANKS: &str = "lower `ranks`, or name more, such as --device cuda:0,1";

fn declared(suites: &[Suite]) -> Result<Vec<DeclaredMetric>, PlanError> {
    let mut all: Vec<DeclaredMetric> = Vec::new();
    for metric in suites.iter().flat_map(|suite| &suite.metrics) {
        match all.iter().find(|known| known.name == metric.name) {
            Some(known) if known == metric => {}
            Some(_) => {
                return refused(format!(
                    "two suites declare the metric `{}`, and not the same; give it one unit, \
                     direction, threshold and gate, or two names",
                    metric.name
                ));
            }
            None => all.push(metric.clone()),
        }
    }
    if all.len() > MOST_DECLARED {
        let got = all.len();
        return refused(format!(
            "the suites declare {got} metrics; a session takes at most {MOST_DECLARED}"
        ));
    }
    Ok(all)
}

/// The sets of so many places that a run may have: side by side on one host where one has as many.
fn sets(places: &[Place], ranks: usize) -> Vec<&[Place]> {
    let hosts = places.chunk_by(|one, next| one.host == next.host);
    let of_hosts: Vec<&[Place]> = hosts.flat_map(|of| of.chunks_exact(ranks)).collect();
    if of_hosts.is_empty() {
        return places.chunks_exact(ranks).collect();
    }
    of_hosts
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
            return refused(format!("{what} `{name}` is given twice; give it once"));
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
        plan_of(TEXT, images, device, seed)
    }

    fn plan_of(
        text: &str,
        images: &[&str],
        device: Device,
        seed: Option<u64>,
    ) -> Result<Plan, PlanError> {
        let suite = Suite::from_text("s.yaml", text).unwrap();
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
    fn unified_memory_alone_may_be_more_than_a_gpu_has() {
        const SUITE: &str = "version: 1\ndescription: d\nscenarios:\n\
            - {name: a, model: vit-tiny, devices: [cuda], axes: {allocator: [native, managed]}}\n";
        let allowed = |is_allowed: bool| {
            let plan = plan_of(SUITE, &["local"], Device::Cuda(0), None).unwrap();
            let cells = plan.oversubscribed(is_allowed).cells.into_iter();
            let allowed = cells.filter(|cell| cell.oversubscribes);
            allowed
                .map(|cell| cell.plan.axes["allocator"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(allowed(true), ["managed"]);
        assert!(allowed(false).is_empty());
    }

    /// All else is read before they begin, and a session that has them is compared as any other.
    #[test]
    fn profiled_steps_count_for_programs_that_run_to_their_exit_alone() {
        let profiled = |workload: &str, steps: u32| {
            let text = format!(
                "version: 1\ndescription: d\ndefaults: {{steps: {{warmup: 1, measured: 2, profiled: \
                 {steps}}}}}\nscenarios: [{{name: a, {workload}}}]\n"
            );
            let plan = plan_of(&text, &["local"], Device::Cpu, None).unwrap();
            let method = plan.cells[0].method("docker", &Isolation::default());
            method.get("steps.profiled").map(str::to_owned)
        };
        let exit = "program: {command: [sh], until: exit}";
        assert_eq!(profiled(exit, 3).as_deref(), Some("3"));
        for (workload, steps) in [
            (exit, 0),
            ("program: {command: [sh]}", 3),
            ("model: vit-tiny", 3),
        ] {
            assert_eq!(profiled(workload, steps), None, "{workload}");
        }
    }

    #[test]
    fn every_cell_runs_once_in_every_block() {
        let plan = plan(&["local", "a/B:1"], Device::Cpu, Some(7)).unwrap();
        assert_eq!((plan.cells.len(), plan.session.blocks), (6, 4));
        let runs: Vec<_> = (0..plan.session.blocks)
            .flat_map(|block| plan.block(block))
            .collect();
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
             scenario, or a cell as reports name it; `bench --dry-run` without --cell lists them"
        );
        insta::assert_snapshot!(check(&["--x"]).unwrap_err(), @"no cell `--x` in s for cuda:0; expected a scenario, or a cell as reports name it; `bench --dry-run` without --cell lists them");
    }

    #[test]
    fn a_session_goes_on_with_the_steps_that_it_attributed() {
        let fresh = || {
            let mut plan = plan(&["local", "other"], Device::Cpu, Some(7)).unwrap();
            for (cell, warmup) in plan.cells.iter_mut().zip([1, 3, 5].into_iter().cycle()) {
                cell.plan.steps.warmup = warmup;
            }
            // As its suite says.
            plan.cells[2].plan.steps.attribution = true;
            plan
        };
        let check = |begun: Plan, attributed: &[bool]| {
            let cells = |plan: &Plan| -> Vec<CellPlan> {
                let cells = plan.cells.iter().map(|cell| cell.plan.clone());
                cells.collect()
            };
            let begun = cells(&begun);
            let found: Vec<bool> = begun.iter().map(|cell| cell.steps.attribution).collect();
            assert_eq!(found[..3], *attributed);
            assert_eq!(cells(&fresh().attributed_as(&begun)), begun);
        };
        check(fresh(), &[false, false, true]);
        check(fresh().attributed(true).unwrap(), &[false, true, true]);
        let warm = fresh()
            .warmed_up(ATTRIBUTION_WARMUP)
            .attributed(true)
            .unwrap();
        check(warm, &[true, true, true]);
    }

    /// So many GPUs on each of two hosts.
    fn places(gpus: u32) -> Vec<Place> {
        let on = |host: &str| {
            let host = host.to_owned();
            (0..gpus).map(move |index| Place {
                host: host.clone(),
                device: Device::Cuda(index),
            })
        };
        on("one").chain(on("two")).collect()
    }

    #[test]
    fn a_scenario_stays_on_one_gpu() {
        let places = places(1);
        let plan = plan(&["local", "other"], Device::Cuda(0), Some(7))
            .unwrap()
            .spread(&places)
            .unwrap();
        assert_eq!(plan.places(), places);
        for cell in &plan.cells {
            let expect = usize::from(cell.plan.scenario != "a");
            assert_eq!(cell.places, places[expect..=expect], "{:?}", cell.plan);
        }
    }

    #[test]
    fn ranks_are_on_one_host_where_one_has_the_gpus() {
        let check = |ranks: u32, gpus: u32, expect: &[&str]| {
            let mut plan = plan(&["local"], Device::Cuda(0), Some(7)).unwrap();
            for cell in &mut plan.cells {
                cell.plan.ranks = ranks;
            }
            let words = |plan: Plan| -> BTreeSet<String> {
                let words = plan.cells.iter().map(|cell| {
                    let places: Vec<String> = cell.places.iter().map(Place::to_string).collect();
                    format!("{} {}", cell.plan.scenario, places.join(" "))
                });
                words.collect()
            };
            let found = match plan.spread(&places(gpus)) {
                Ok(plan) => words(plan),
                Err(error) => [error.to_string()].into(),
            };
            assert_eq!(Vec::from_iter(found), expect);
        };
        check(
            2,
            2,
            &["a one/cuda:0 one/cuda:1", "b two/cuda:0 two/cuda:1"],
        );
        let all = "one/cuda:0 two/cuda:0";
        check(2, 1, &[&format!("a {all}"), &format!("b {all}")]);
        check(
            3,
            1,
            &[
                "s, scenario a: 3 ranks need as many GPUs, 2 given; lower `ranks`, or name more, \
                 such as --device cuda:0,1",
            ],
        );
    }

    #[test]
    fn counts_of_ranks_are_cells_and_those_without_room_are_left_out() {
        const SWEPT: &str = "version: 1\ndescription: d\nscenarios:\n\
            - {name: a, model: vit-tiny, axes: {batch: [1, 2]}, ranks: [1, 2, 4]}\n";
        let check = |device: Device, given: u32, most: u32, expect: &str| {
            let plan = plan_of(SWEPT, &["local"], device, None).unwrap();
            let places: Vec<Place> = places(given).into_iter().take(given as usize).collect();
            let fitted = plan.fit_ranks(most, "here", &places);
            let found = fitted.and_then(|plan| plan.spread(&places)).map(|plan| {
                let ranks = plan.cells.iter().map(|cell| {
                    assert_eq!(cell.places.len(), cell.plan.ranks as usize);
                    assert_eq!(cell.plan.axes["ranks"], cell.plan.ranks.to_string());
                    cell.plan.ranks.to_string()
                });
                let ranks: Vec<String> = ranks.collect();
                let why = plan
                    .left_out
                    .iter()
                    .map(|one| format!("; {} {}", one.variants, one.why));
                ranks.join(" ") + &why.collect::<String>()
            });
            assert_eq!(found.unwrap_or_else(|error| error.to_string()), expect);
        };
        check(Device::Cuda(0), 4, 8, "1 2 4 1 2 4");
        check(
            Device::Cuda(0),
            2,
            8,
            "1 2 1 2; 2 4 ranks need as many GPUs, 2 given",
        );
        check(
            Device::Cpu,
            1,
            3,
            "1 2 1 2; 2 4 ranks, but runs here have at most 3 here",
        );
        let name = plan_of(SWEPT, &["local"], Device::Cpu, None).unwrap().cells[2].clone();
        assert_eq!(name.plan.axes.to_string(), "fp32 bs1 ranks=4");
        let alone = SWEPT.replace("[1, 2, 4]", "[8]");
        let plan = plan_of(&alone, &["local"], Device::Cuda(0), None).unwrap();
        let error = plan.fit_ranks(8, "here", &places(2)[..2]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "nothing is left to measure: s, scenario a: 8 ranks need as many GPUs, 2 given; lower \
             `ranks`, or name more, such as --device cuda:0,1"
        );
    }

    #[test]
    fn ranks_that_are_packed_share_one_gpu() {
        const PACKED: &str = "version: 1\ndescription: d\nscenarios:\n\
            - {name: a, model: vit-tiny, devices: [cuda], axes: {placement: packed}, ranks: [1, 4]}\n";
        let plan = plan_of(PACKED, &["local"], Device::Cuda(0), None).unwrap();
        let places = &places(2)[..1];
        let plan = plan.fit_ranks(1, "here", places).unwrap();
        let plan = plan.spread(places).unwrap();
        let found: Vec<&[Place]> = plan.cells.iter().map(|cell| &cell.places[..]).collect();
        let four = vec![places[0].clone(); 4];
        assert_eq!(found, [places, &four[..]]);
        let seen = crate::device::environment(four.iter().map(|place| place.device), None);
        assert_eq!(seen[1].1, "0");
    }

    #[test]
    fn more_than_a_report_can_hold_is_refused_before_anything_runs() {
        let images: Vec<String> = (0..MOST_CELLS).map(|place| format!("i{place}")).collect();
        let plan = |count: usize| {
            let images: Vec<&str> = images[..count].iter().map(String::as_str).collect();
            plan(&images, Device::Cpu, None)
        };
        assert!(plan(2).is_ok());
        insta::assert_snapshot!(plan(MOST_IMAGES + 1).unwrap_err(), @"3 variants on 501 images are 1503 cells; a session has at most 10000 cells and 500 images: give fewer suites or images at once");
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
                why: "for cuda, not for cpu".into()
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
        insta::assert_snapshot!(error, @"nothing in s is for cpu; give another suite, or a device that their scenarios name under `devices`");
    }

    #[test]
    fn impossible_requests_are_named() {
        let twice = plan(&["a", "a"], Device::Cpu, None).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "the image `a` is given twice; give it once"
        );
        let none = plan(&[], Device::Cpu, None).unwrap_err();
        insta::assert_snapshot!(none, @"no image to measure; give at least one");
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
