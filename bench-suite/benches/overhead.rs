//! What an instrument costs: the same runs with it and without, side by side, as plain processes.
//!
//!     TORCHGAUGE_SCENARIO=FILE LIBTORCH=DIR \
//!         cargo bench -p bench-suite --bench overhead -- [monitors|parts] [SUITE] [DEVICE] [BLOCKS]
//!
//! `monitors` are the host's, and `parts` the timing of forward, backward and optimizer within each
//! step. Exit code 1 where one costs throughput, or a run failed.

#![expect(clippy::print_stdout, reason = "its table is what it is for")]

use std::{collections::BTreeMap, env, error::Error, process::ExitCode};

use bench_suite::{
    executors::{LocalRuntime, process::Process},
    host,
    plan::{Cell, Plan, Request},
    scratch_run::{self, ScratchRuns},
    suite::Catalog,
};
use judge::compare::{Block, Direction, Kind, Measurement, Options, Verdict, compare};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio_util::sync::CancellationToken;

/// The share of throughput that an instrument may cost.
const THRESHOLD: f64 = 0.005;
const IMAGE: &str = "local";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // cargo gives options of its own.
    let mut words = env::args().skip(1).filter(|word| !word.starts_with("--"));
    let what = words.next().unwrap_or_else(|| "monitors".to_owned());
    let set: fn(&mut ScratchRuns<'_>, &mut Cell, bool) = match what.as_str() {
        "monitors" => |runs, _, with| runs.is_watched = with,
        "parts" => |_, cell, with| cell.plan.steps.parts = with,
        other => return Err(format!("`{other}`; expected monitors or parts").into()),
    };
    let suite = words.next().unwrap_or_else(|| "smoke".to_owned());
    let suites = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
    let mut plan = Plan::new(&Request {
        suites: &[Catalog::of(suites).load(&suite)?],
        images: &[IMAGE.to_owned()],
        device: words.next().unwrap_or_else(|| "cpu".to_owned()).parse()?,
        blocks: Some(words.next().map_or(Ok(10), |blocks| blocks.parse())?),
        order_seed: None,
    })?;
    plan.cells.retain(|cell| cell.plan.expected.is_none());
    let program = env::var_os("TORCHGAUGE_SCENARIO").ok_or("set TORCHGAUGE_SCENARIO")?;
    let libtorch = env::var("LIBTORCH").map(|folder| format!("{folder}/lib").into());
    let runtime = LocalRuntime {
        program: program.into(),
        library_path: libtorch.into_iter().collect(),
    };
    let blocks = tokio::runtime::Runtime::new()?.block_on(measure(&plan, runtime, set))?;
    Ok(judge(&what, &plan, blocks))
}

/// Runs every cell twice in each block, with the instrument and without, in random order.
async fn measure(
    plan: &Plan,
    runtime: LocalRuntime,
    set: fn(&mut ScratchRuns<'_>, &mut Cell, bool),
) -> Result<Vec<Vec<Block>>, Box<dyn Error>> {
    let host = host::local::open();
    let machine = host.facts();
    let hosts = BTreeMap::from([(machine.name.clone(), machine)]);
    let executor = Process::new(host, BTreeMap::from([(IMAGE.to_owned(), runtime)]));
    let folder = tempfile::tempdir()?;
    let runs = ScratchRuns {
        hosts: &hosts,
        session: "overhead",
        folder: folder.path(),
        is_watched: true,
    };
    let cancel = CancellationToken::new();
    let mut random = ChaCha8Rng::seed_from_u64(plan.session.order_seed);
    let mut measured = vec![Vec::new(); plan.cells.len()];
    for block in 0..plan.session.blocks {
        for (number, cell) in plan.cells.iter().enumerate() {
            let mut pair = Block::default();
            let first = random.random_bool(0.5);
            for with in [first, !first] {
                let name = format!("b{block}-{number:03}-{with}");
                let (mut runs, mut cell) = (runs, cell.clone());
                set(&mut runs, &mut cell, with);
                let ran = scratch_run::run(runs, &cell, &name, &executor, &cancel).await?;
                let throughput = ran.values.get("throughput_samples_per_second").copied();
                let side = if with { &mut pair.head } else { &mut pair.base };
                *side = throughput;
                println!("{name} {}: {}", cell.plan.scenario, ran.outcome.word());
            }
            measured[number].push(pair);
        }
    }
    Ok(measured)
}

fn judge(what: &str, plan: &Plan, measured: Vec<Vec<Block>>) -> ExitCode {
    println!(
        "| scenario | variant | with {what} ÷ without | 98 % interval | blocks | verdict |\n\
         |---|---|---:|---:|---:|---|"
    );
    let mut is_free = true;
    for (cell, blocks) in plan.cells.iter().zip(measured) {
        is_free &= blocks
            .iter()
            .all(|block| block.base.is_some() && block.head.is_some());
        let measurement = Measurement {
            blocks,
            direction: Direction::HigherIsBetter,
            kind: Kind::TimeLike,
            threshold: THRESHOLD,
            between: None,
            metric: 0,
            past: None,
        };
        let Ok(found) = compare(&measurement, &Options::default()) else {
            continue;
        };
        is_free &= found.verdict != Verdict::Regressed;
        let interval = found.interval.map_or_else(
            || "–".to_owned(),
            |interval| format!("{:.5} to {:.5}", interval.lo, interval.hi),
        );
        println!(
            "| {} | {} | {:.5} | {interval} | {} | {}: {} |",
            cell.plan.scenario,
            cell.plan.axes,
            found.ratio.unwrap_or(f64::NAN),
            found.blocks_used,
            found.verdict,
            found.reason
        );
    }
    ExitCode::from(u8::from(!is_free))
}
