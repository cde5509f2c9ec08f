//! One comparison of a search: a session of two images that adds blocks until it is decided.

use std::{path::Path, time::Duration};

use bench_suite::{
    bisect::{Asked, Bisection, Candidate, Change, Decision},
    plan::Plan,
    session,
    suite::Suite,
};
use judge::compare::Verdict;
use record::{Deciding, SessionFolder, SidesCompared};
use reports::format::plural;
use verdict::{CellVerdicts, MetricVerdict, Verdicts};

use crate::{
    cli::{ShareArgs, TargetArgs},
    commands::{
        bench::{
            Job, Place, Suites,
            prepare::Chosen,
            references::is_reference,
            resume::command,
            target::{Target, most_ranks, of_programs},
        },
        fit, program,
    },
    error::{Error, Result},
    printer::Printer,
};

use super::tell;

pub(super) fn suite(asked: &Asked) -> Result<Suite> {
    match &asked.program {
        Some(text) => program::suite(text),
        None => fit::suite(&asked.suite),
    }
}

/// Refuses a metric that could only be refused after the first session.
pub(super) fn check(asked: &Asked, suite: &Suite) -> Result<()> {
    let rows = metrics::Rows::with(&suite.metrics);
    let known: Vec<_> = rows.compared().map(|row| row.name).collect();
    match &asked.metric {
        Some(name) if !known.contains(&name.as_str()) => {
            let name = name.clone();
            Err(verdict::CompareError::UnknownMetric { name, known }.into())
        }
        _ => Ok(()),
    }
}

/// Measures two candidates beside each other, and adds what came of it to the search.
pub(super) async fn carry_out(
    search: &mut Bisection,
    sides: [usize; 2],
    folder: &Path,
    target: &TargetArgs,
    printer: &Printer,
) -> Result<()> {
    let [base, head] = sides.map(|side| search.candidates[side].name.as_str());
    printer.note(&match (search.centre(sides), sides) {
        (None, _) => format!("the ends: {base} and {head}"),
        (_, [0, _]) => format!("on which side is {head}?"),
        _ => format!("neighbours: {base} and {head}"),
    });
    let name = search.next_session(sides);
    let place = folder.join(&name);
    let Some(session) = measure(search, sides, &place, target, printer).await? else {
        return Err(Error::Undecided(format!(
            "the search was cut off; go on with: {}",
            command("bisect", folder)
        )));
    };
    reports::write(std::slice::from_ref(&session), session.path())?;
    let read = session.read_session()?;
    let records = session.read_records()?.records;
    let options = read.deciding.as_ref().map(session::options);
    let verdicts = verdict::compare_session(&read, &records, &options.unwrap_or_default())?;
    let verdicts = verdicts.first();
    let mut decision = Decision {
        base: sides[0],
        head: sides[1],
        is_bad: None,
        why: None,
        error: search.next_error(),
        session: name,
        ratio: None,
        interval: None,
        blocks: read.blocks,
    };
    match &search.change {
        None => search.change = Some(ends(search, &mut decision, verdicts, &place)?),
        Some(change) => match side(&mut decision, verdicts, change) {
            Ok(is_bad) => decision.is_bad = Some(is_bad),
            Err(why) => decision.why = Some(why),
        },
    }
    search.suite_sha256 = read.suites.into_values().next();
    printer.note(&tell::line(search, &decision));
    search.decisions.push(decision);
    Ok(())
}

/// What regressed most between the ends.
fn ends(
    search: &Bisection,
    decision: &mut Decision,
    verdicts: Option<&Verdicts>,
    folder: &Path,
) -> Result<Change> {
    let asked = search.asked.metric.as_deref();
    let Some((cell, found)) = verdicts.and_then(|all| worst(all, asked)) else {
        let [good, bad] = [decision.base, decision.head].map(|end| &search.candidates[end].name);
        let report = folder.join("report.html");
        let report = report.display();
        let mut cells = verdicts.iter().flat_map(|all| &all.cells);
        // Where runs fail, no figure says what an image does to them.
        return Err(if cells.any(|cell| cell.failures.is_some()) {
            Error::Undecided(format!(
                "runs of {good} or {bad} fail, and no figure is shown to have regressed; {report} \
                 lists which, and why. Begin anew with ends that run, or with a scenario that does"
            ))
        } else {
            Error::Gate(format!(
                "nothing is shown to have regressed from {good} to {bad}; {report} shows how certain that \
                 is. Begin anew with a suite or a --metric that shows the change, or with more \
                 --time-budget"
            ))
        });
    };
    take(decision, found);
    decision.is_bad = Some(true);
    Ok(Change {
        suite: cell.suite.clone(),
        scenario: cell.scenario.clone(),
        variant: cell.variant.clone(),
        metric: found.metric.clone(),
        ratio: found.comparison.ratio.unwrap_or(1.0),
    })
}

/// Whether a candidate is bad by the metric that is followed, or why that cannot be told.
fn side(
    decision: &mut Decision,
    verdicts: Option<&Verdicts>,
    change: &Change,
) -> Result<bool, String> {
    let is_followed = |cell: &&CellVerdicts| {
        (&cell.suite, &cell.scenario, &cell.variant)
            == (&change.suite, &change.scenario, &change.variant)
    };
    let cell = verdicts.and_then(|all| all.cells.iter().find(is_followed));
    // One whose runs fail now and then is not told by those that went well.
    if let Some(head) = cell.and_then(|cell| Some(&cell.failures.as_ref()?.head))
        && head.failed + head.expected > 0
    {
        let count = head.failed + head.expected;
        let runs = plural(head.runs, "run", "runs");
        return Err(format!("{count} of its {runs} failed"));
    }
    let is_it =
        |found: &&MetricVerdict| found.metric == change.metric && found.not_measured_in.is_none();
    let found = cell.and_then(|cell| cell.metrics.iter().find(is_it));
    let found = found.ok_or("no run of it yielded the metric")?;
    take(decision, found);
    match found.comparison.verdict {
        Verdict::Regressed => Ok(true),
        Verdict::Improved | Verdict::Unchanged => Ok(false),
        Verdict::Inconclusive => {
            let blocks = plural(decision.blocks as usize, "block", "blocks");
            let interval = tell::interval(decision);
            Err(format!("{blocks} did not decide it ({interval})"))
        }
    }
}

/// Carries the session out, or on; `None` where it was cut off.
async fn measure(
    search: &Bisection,
    sides: [usize; 2],
    place: &Path,
    target: &TargetArgs,
    printer: &Printer,
) -> Result<Option<SessionFolder>> {
    let begun = SessionFolder::at(place).read_session().ok();
    // It was decided, and the search cut off before it was noted.
    if begun.as_ref().is_some_and(|session| session.complete) {
        return Ok(Some(SessionFolder::at(place)));
    }
    let suite = suite(&search.asked)?;
    let suites = std::slice::from_ref(&suite);
    let opened = Target::open(target, most_ranks(suites)).await?;
    let mut target = match of_programs(suites) {
        Some(command) => {
            let images = sides.map(|side| search.candidates[side].image.clone());
            opened.with_own(&images, command, printer).await?
        }
        None => opened.with(|device, root| {
            let chosen = sides.map(|side| choose(&search.candidates[side], device, root));
            chosen.into_iter().collect()
        })?,
    };
    let plan = plan(search, &target, &suite)?;
    let base = plan.cells.first().map(|cell| cell.plan.image.clone());
    let budget = Duration::from_secs_f64(search.asked.time_budget_seconds);
    let compared = SidesCompared::Images {
        base: base.unwrap_or_default(),
    };
    let followed = search.change.as_ref().map(|change| change.metric.clone());
    let deciding = Deciding {
        metric: followed.or_else(|| search.asked.metric.clone()),
        ratio: search.centre(sides),
        error: Some(search.next_error()),
        ..session::until_decided(compared, budget, search.asked.most_blocks)
    };
    session::check_sides(&plan, &deciding.sides)?;
    let place = Place::at(place, begun.map(|session| session.session));
    let job = Job {
        suites: &Suites {
            named: match search.asked.program {
                Some(_) => Vec::new(),
                None => vec![search.asked.suite.clone()],
            },
            program: search.asked.program.clone(),
        },
        cells: &[],
        plan,
        deciding: Some(deciding),
        share: ShareArgs {
            share_gpu: search.asked.share_gpu,
            share_cpu: search.asked.share_cpu,
            allow_oversubscription: search.asked.allow_oversubscription,
        },
        place,
        target: &mut target,
    };
    let (folder, _) = job.carry_out(printer).await?;
    Ok(folder.read_session()?.complete.then_some(folder))
}

/// An image of a search, by the name that the search has for it.
fn choose(candidate: &Candidate, device: protocol::Device, root: &Path) -> Result<Chosen> {
    let Candidate { name, image } = candidate;
    if is_reference(image) {
        return Ok(Chosen::named(name, image));
    }
    Chosen::spec(image, device, root)
}

/// Every cell for the ends; then the one that is followed.
fn plan(search: &Bisection, target: &Target<'_>, suite: &Suite) -> Result<Plan> {
    let mut plan = target.plan(std::slice::from_ref(suite), Some(1), None)?;
    let (then, now) = (
        search.suite_sha256.as_ref(),
        plan.session.suites.values().next(),
    );
    if then.is_some() && then != now {
        return Err(Error::Input(format!(
            "the suite {} is another one than the search was begun with; put it back as it was, or \
             begin anew",
            search.asked.suite
        )));
    }
    if let Some(change) = &search.change {
        plan.cells.retain(|cell| {
            let cell = &cell.plan;
            (&cell.suite, &cell.scenario) == (&change.suite, &change.scenario)
                && cell.axes.to_string() == change.variant
        });
    }
    plan.session.claims.clear();
    Ok(plan.spread(&target.places)?)
}

/// What regressed most, beside its threshold.
fn worst<'a>(
    verdicts: &'a Verdicts,
    metric: Option<&str>,
) -> Option<(&'a CellVerdicts, &'a MetricVerdict)> {
    let weight = |found: &MetricVerdict| {
        let change = found.comparison.ratio.map_or(0.0, |ratio| ratio.ln().abs());
        change / found.comparison.threshold.max(1e-4)
    };
    verdicts
        .to_decide(metric)
        .filter(|(_, found)| found.comparison.verdict == Verdict::Regressed)
        .filter(|(_, found)| found.comparison.ratio.is_some_and(|ratio| ratio > 0.0))
        .max_by(|(_, one), (_, other)| weight(one).total_cmp(&weight(other)))
}

fn take(decision: &mut Decision, metric: &MetricVerdict) {
    decision.ratio = metric.comparison.ratio;
    decision.interval = metric.comparison.interval;
}
