//! A session on nodes: hands its blocks over, waits, and gathers what they recorded.

use bench_suite::{
    executors::Scheduler,
    session::{Part, Session, Totals},
};
use reports::format::plural;
use tokio_util::sync::CancellationToken;

use crate::{error::Result, printer::Printer};

/// Has a scheduler carry out the blocks that are still to do.
pub(super) async fn carry(
    session: &mut Session,
    (scheduler, engine): (&dyn Scheduler, &str),
    printer: &Printer,
    cancel: &CancellationToken,
) -> Result<Totals> {
    let whole = session.session();
    let asked = whole.asked.as_ref().map(|asked| asked.device.clone());
    // One GPU is whichever the node gives.
    let device = match asked.unwrap_or_default() {
        one if one.starts_with("cuda") && !one.contains(',') => "cuda".to_owned(),
        other => other,
    };
    let name = whole.session.clone();
    let parts = session.hand_over(engine, &device)?;
    let mut gathered = session.gather();
    if parts.iter().any(|part| !part.is_complete) {
        let mut tell = |words: &str| {
            gathered = session.gather();
            let to_do = match &gathered {
                Ok(totals) => format!("; {} to do", plural(totals.remaining, "run", "runs")),
                Err(_) => String::new(),
            };
            printer.note(&format!("{words}{to_do}"));
        };
        scheduler.carry(&name, &parts, &mut tell, cancel).await?;
        gathered = session.gather();
    }
    let by_hand = |part: &Part| {
        let command = scheduler
            .by_hand(&part.folder)
            .filter(|_| !part.is_complete)?;
        Some(format!("  {command}"))
    };
    let commands: Vec<String> = parts.iter().filter_map(by_hand).collect();
    if !commands.is_empty() {
        let commands = commands.join("\n");
        printer.note(&format!(
            "each of these, on whatever node is free:\n{commands}"
        ));
    }
    Ok(gathered?)
}
