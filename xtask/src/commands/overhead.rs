//! `cargo xtask overhead`: what a part of the measuring costs, by the same runs with it and without.

use bench_suite::{
    overhead::{self, Pair, Part},
    plan::Plan,
    scratch_run::ScratchRuns,
    session,
};
use judge::compare::{Block, Comparison, Direction, Kind, Metric, Options, Verdict, compare};
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

/// The share of throughput that a part of the measuring may cost.
const THRESHOLD: f64 = 0.005;

/// Runs every cell with the part and without, and judges the pairs.
pub(crate) async fn run(args: &OverheadArgs, printer: &Printer) -> Result<()> {
    let suite = scenarios::catalog()?
        .load(&args.suite)
        .map_err(Error::Suite)?;
    let target = Target::find(&args.target)?;
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
    let (part, what) = match args.of {
        OverheadOf::Monitors => (Part::Monitors, "monitors"),
        OverheadOf::Parts => (Part::StepParts, "timed parts"),
    };
    let (mut failed, mut ran) = (0, 0);
    let (pairs, ended) = overhead::measure(
        part,
        &plan,
        runs,
        ready.executor.as_ref(),
        &cancel,
        &mut |ended| {
            ran += 1;
            failed += usize::from(!ended.outcome.is_ok());
            let how = if ended.with { "with" } else { "without" };
            let outcome = match ended.outcome {
                record::Outcome::Ok => "ok".to_owned(),
                record::Outcome::Failed { reason, .. } => reason.word(),
            };
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
    let told = tell(what, &plan, &pairs, printer);
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

fn judged(pairs: &[Pair]) -> Option<Comparison> {
    let metric = Metric {
        blocks: pairs
            .iter()
            .map(|pair| Block {
                base: pair.without,
                head: pair.with,
            })
            .collect(),
        direction: Direction::HigherIsBetter,
        kind: Kind::TimeLike,
        threshold: THRESHOLD,
    };
    let compared = compare(&metric, &Options::default()).ok()?;
    (compared.blocks_used > 0).then_some(compared)
}

fn tell(what: &str, plan: &Plan, pairs: &[Vec<Pair>], printer: &Printer) -> Result<()> {
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
    for (cell, pairs) in plan.cells.iter().zip(pairs) {
        let names = [cell.plan.scenario.clone(), cell.plan.variant.to_string()];
        let Some(comparison) = judged(pairs) else {
            let unknown = ["–", "–", "0", "no two runs of a block have a throughput"];
            rows.add_row(names.into_iter().chain(unknown.map(str::to_owned)));
            continue;
        };
        let [scenario, variant] = names;
        let verdict = match comparison.verdict {
            Verdict::Unchanged => "within 0.5 %",
            Verdict::Regressed => "costs more than it may",
            Verdict::Improved => "faster with them: noise",
            Verdict::Inconclusive => "inconclusive; more blocks",
        };
        failing += usize::from(comparison.verdict == Verdict::Regressed);
        rows.add_row([
            scenario,
            variant,
            comparison
                .ratio
                .map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.5}")),
            comparison.interval.map_or_else(
                || "–".to_owned(),
                |interval| format!("{:.5} to {:.5}", interval.lo, interval.hi),
            ),
            comparison.blocks_used.to_string(),
            verdict.to_owned(),
        ]);
    }
    printer.line(&rows.to_string());
    if failing > 0 {
        return Err(Error::Gate { failing });
    }
    Ok(())
}
