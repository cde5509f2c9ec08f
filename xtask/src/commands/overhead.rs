//! `cargo xtask overhead`: what an instrument costs, by the same runs with it and without.

use bench_suite::{
    overhead::{self, Instrument},
    plan::Plan,
    scratch_run::ScratchRuns,
    session,
};
use judge::compare::{Block, Direction, Kind, Measurement, Options, Verdict, compare};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{Format, OverheadArgs, OverheadOf},
    commands::{
        bench::{self, target::Target},
        scenarios,
    },
    error::{Error, Result},
    printer::Printer,
    table::table,
};

/// The share of throughput that an instrument may cost.
const THRESHOLD: f64 = 0.005;

/// Runs every cell with the instrument and without, and judges the pairs.
pub(crate) async fn run(args: &OverheadArgs, printer: &Printer) -> Result<()> {
    let suite = scenarios::catalog()?
        .load(&args.suite)
        .map_err(Error::Suite)?;
    let target = Target::find(&args.target, &[], printer).await?;
    let plan = target.plan(&[suite], Some(args.blocks), None)?;
    let name = session::fresh_name();
    let ready = target.ready(&name, false, printer, |_| Ok(())).await?;
    let folder = bench::scratch("overhead")?;
    let cancel = CancellationToken::new();
    let stopper = bench::stop_on_signal(cancel.clone(), printer.clone());
    let runs = ScratchRuns {
        machine: &target.machine,
        session: &name,
        folder: folder.path(),
    };
    let (instrument, what) = match args.of {
        OverheadOf::Monitors => (Instrument::Monitors, "monitors"),
        OverheadOf::Parts => (Instrument::StepTimers, "timed parts"),
    };
    let mut blocks = vec![vec![Block::default(); args.blocks as usize]; plan.cells.len()];
    let (mut failed, mut ran) = (0, 0);
    let ended = overhead::measure(
        instrument,
        &plan,
        runs,
        ready.executor.as_ref(),
        &cancel,
        &mut |ended| {
            ran += 1;
            failed += usize::from(!ended.outcome.passes());
            let block = &mut blocks[ended.number][ended.block as usize];
            let (side, how) = if ended.with {
                (&mut block.head, "with")
            } else {
                (&mut block.base, "without")
            };
            *side = ended.samples_per_second;
            let outcome = ended.outcome.word();
            let plan = &ended.cell.plan;
            printer.note(&format!(
                "block {}: {} {} {how} {what}: {outcome}",
                ended.block + 1,
                plan.scenario,
                plan.variant
            ));
        },
    )
    .await;
    stopper.abort();
    ready.executor.clean_up().await;
    let told = tell(what, &plan, blocks, printer);
    ended?;
    told?;
    if failed > 0 {
        return Err(Error::RunsFailed {
            failed,
            planned: ran,
        });
    }
    Ok(())
}

fn tell(what: &str, plan: &Plan, blocks: Vec<Vec<Block>>, printer: &Printer) -> Result<()> {
    let ratio = format!("with {what} ÷ without");
    let mut rows = table(
        Format::Text,
        [
            "scenario",
            "variant",
            &ratio,
            "95 % interval",
            "blocks",
            "verdict",
        ],
    );
    let mut failing = 0;
    for (cell, blocks) in plan.cells.iter().zip(blocks) {
        let metric = Measurement {
            blocks,
            direction: Direction::HigherIsBetter,
            kind: Kind::TimeLike,
            threshold: THRESHOLD,
            between: None,
        };
        let Ok(comparison) = compare(&metric, &Options::default()) else {
            continue;
        };
        failing += usize::from(comparison.verdict == Verdict::Regressed);
        let unknown = || "–".to_owned();
        rows.add_row([
            cell.plan.scenario.clone(),
            cell.plan.variant.to_string(),
            comparison
                .ratio
                .map_or_else(unknown, |ratio| format!("{ratio:.5}")),
            comparison.interval.map_or_else(unknown, |interval| {
                format!("{:.5} to {:.5}", interval.lo, interval.hi)
            }),
            comparison.blocks_used.to_string(),
            format!("{}: {}", comparison.verdict, comparison.reason),
        ]);
    }
    printer.line(&rows.to_string());
    if failing > 0 {
        return Err(Error::Gate { failing });
    }
    Ok(())
}
