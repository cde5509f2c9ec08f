//! One comparison of a search: a session of two images that adds blocks until it is decided.

use std::{collections::BTreeSet, path::Path, time::Duration};

use bench_suite::{
    bisect::{Asked, Bisection, Candidate, Change, Decision, Followed, Judgement, Purpose},
    plan::Plan,
    session,
    suite::Suite,
};
use judge::compare::Verdict;
use record::{Deciding, Reason, SessionFolder, SidesCompared};
use reports::format;
use verdict::{CellVerdicts, MetricVerdict, Verdicts};

use crate::{
    cli::{ShareArgs, TargetArgs},
    commands::{
        bench::{
            Job, Place, Suites,
            prepare::Chosen,
            references::is_reference,
            target::{Target, most_ranks, of_programs},
        },
        fit, program,
    },
    error::Result,
    printer::Printer,
};

use super::{error::SearchError, tell};

/// How often each of two is run where failing is what is followed: of what fails in 45 % of its runs
/// none of five does once in twenty times.
pub(super) const RUNS: u32 = 5;

/// The suite of a search.
pub(super) fn suite(asked: &Asked) -> Result<Suite> {
    match &asked.program {
        Some(text) => program::suite(text),
        None => fit::suite(&asked.suite),
    }
}

/// Refuses a metric that could only be refused after the first session.
pub(super) fn check(asked: &Asked, suite: &Suite) -> Result<()> {
    let rows = metrics::Rows::with(&suite.metrics);
    match asked.metric.as_deref() {
        Some(name) if rows.compared().all(|row| row.name != name) => {
            Err(verdict::CompareError::UnknownMetric {
                name: name.to_owned(),
                known: rows.compared().map(|row| row.name).collect(),
            }
            .into())
        }
        _ => Ok(()),
    }
}

/// Measures two candidates beside each other, and adds what came of it to the search.
pub(super) async fn carry_out(
    search: &mut Bisection,
    (base, head, purpose): (usize, usize, Purpose),
    folder: &Path,
    target: &TargetArgs,
    printer: &Printer,
) -> Result<()> {
    let names = [base, head].map(|place| search.candidates[place].name.clone());
    printer.note(&match purpose {
        Purpose::Ends => format!("the ends: {} and {}", names[0], names[1]),
        Purpose::Side => format!("on which side is {}?", names[1]),
        Purpose::Size => format!("neighbours: {} and {}", names[0], names[1]),
    });
    let name = search.next_session(base, head);
    let place = folder.join(&name);
    let error = search.next_error();
    let asked = Question { error, purpose };
    let session = measure(search, [base, head], asked, &place, target, printer).await?;
    let Some(session) = session else {
        return Err(SearchError::CutOff(folder.to_owned()).into());
    };
    reports::write(std::slice::from_ref(&session), Vec::new(), session.path())?;
    let read = session.read_session()?;
    let records = session.read_records()?.records;
    let options = read.deciding.as_ref().map(session::options);
    let verdicts = verdict::compare_session(&read, &records, &options.unwrap_or_default())?;
    let verdicts = verdicts.first();
    let mut decision = Decision {
        purpose,
        base,
        head,
        judgement: Judgement::Unmeasured,
        error,
        session: name,
        ratio: None,
        interval: None,
        blocks: read.blocks,
        failed: None,
        why: None,
    };
    let change = search.change.clone();
    match change.as_ref().map(|change| (change, &change.followed)) {
        None => ends(search, &mut decision, &read, verdicts, &place)?,
        Some((change, Followed::Failure { reasons })) => {
            decision.error = 0.0;
            let cell = verdicts.and_then(|all| cell_of(all, change));
            by_failures(&mut decision, cell, reasons, &names[0]);
        }
        Some((change, Followed::Metric { name, .. })) => {
            by_metric(&mut decision, verdicts, change, name);
        }
    }
    search.suite_sha256 = read.suites.into_values().next();
    printer.note(&tell::line(search, &decision));
    search.decisions.push(decision);
    Ok(())
}

/// What moved between the ends: what no longer runs at all, unless a metric was asked for, or else
/// what regressed most.
fn ends(
    search: &mut Bisection,
    decision: &mut Decision,
    session: &record::Session,
    verdicts: Option<&Verdicts>,
    folder: &Path,
) -> Result<()> {
    let end = search.candidates.len() - 1;
    let [good, bad] = [0, end].map(|place| search.candidates[place].name.clone());
    let asked = search.asked.metric.as_deref();
    let never_works =
        |cell: &CellVerdicts| cell.failures.as_ref().is_some_and(|all| all.head.all());
    let is_lost = |cell: &&CellVerdicts| {
        cell.lost() == Some(Verdict::Regressed) && never_works(cell) && is_sound(cell)
    };
    let lost = verdicts.and_then(|all| all.cells.iter().find(is_lost));
    let worst = verdicts.and_then(|all| worst(all, asked));
    let has_failures = |all: &Verdicts| all.cells.iter().any(|cell| cell.failures.is_some());
    let (cell, followed) = match (lost, worst) {
        (Some(cell), worst) if asked.is_none() || worst.is_none() => {
            let head = cell.failures.as_ref().map(|failures| &failures.head);
            decision.failed = head.map(ToString::to_string);
            decision.error = 0.0;
            let reasons = head.map(|head| head.reasons.keys().copied().collect());
            let reasons = reasons.unwrap_or_default();
            (cell, Followed::Failure { reasons })
        }
        (_, Some((cell, metric))) => {
            take(decision, metric);
            let ratio = metric.comparison.ratio.unwrap_or(1.0);
            let name = metric.metric.clone();
            (cell, Followed::Metric { name, ratio })
        }
        (_, None) => {
            let report = folder.join("report.html");
            // Where runs fail now and then, no figure says what an image does to them.
            return Err(if verdicts.is_some_and(has_failures) {
                SearchError::EndsFail { good, bad, report }.into()
            } else {
                SearchError::NoRegression { good, bad, report }.into()
            });
        }
    };
    let is_cell = |plan: &&record::CellPlan| {
        (&plan.suite, &plan.scenario) == (&cell.suite, &cell.scenario)
            && plan.axes.to_string() == cell.variant
    };
    let Some(plan) = session.cells.iter().find(is_cell) else {
        let report = folder.join("report.html");
        return Err(SearchError::NoRegression { good, bad, report }.into());
    };
    search.change = Some(Change::of(plan, followed));
    decision.judgement = Judgement::Bad;
    Ok(())
}

/// Whether every run of the base went well.
fn is_sound(cell: &CellVerdicts) -> bool {
    let base = cell.failures.as_ref().map(|failures| &failures.base);
    base.is_none_or(|base| base.failed + base.expected == 0 && base.runs > 0)
}

/// On which side a candidate is by its runs that failed: all, for the reasons for which the bad end
/// fails, or none.
fn by_failures(
    decision: &mut Decision,
    cell: Option<&CellVerdicts>,
    reasons: &BTreeSet<Reason>,
    base: &str,
) {
    let Some(cell) = cell else {
        decision.why = Some("none of its runs ended".to_owned());
        return;
    };
    let Some(failures) = &cell.failures else {
        decision.failed = Some(format!("0 of {}", decision.blocks));
        decision.judgement = Judgement::Good;
        return;
    };
    let head = &failures.head;
    decision.failed = Some(head.to_string());
    if !is_sound(cell) {
        decision.why = Some(format!("runs of {base} fail beside it: {}", failures.base));
    } else if head.failed + head.expected == 0 {
        decision.judgement = Judgement::Good;
    } else if !head.all() {
        decision.why = Some(format!("it fails now and then: {head}"));
    } else if !head.reasons.keys().all(|reason| reasons.contains(reason)) {
        decision.why = Some(format!("it fails otherwise than the bad end: {head}"));
    } else {
        decision.judgement = Judgement::Bad;
    }
}

/// On which side a candidate is by the metric that is followed.
fn by_metric(decision: &mut Decision, verdicts: Option<&Verdicts>, change: &Change, name: &str) {
    let cell = verdicts.and_then(|all| cell_of(all, change));
    // One whose runs fail now and then is not told by those that went well.
    if let Some(why) = cell.and_then(failed) {
        decision.why = Some(why);
        return;
    }
    let is_it = |found: &&MetricVerdict| found.metric == name && found.not_measured_in.is_none();
    let Some(metric) = cell.and_then(|cell| cell.metrics.iter().find(is_it)) else {
        decision.why = Some("no run of it yielded the metric".to_owned());
        return;
    };
    take(decision, metric);
    decision.judgement = match metric.comparison.verdict {
        Verdict::Inconclusive => Judgement::Unmeasured,
        Verdict::Regressed => Judgement::Bad,
        Verdict::Improved | Verdict::Unchanged => Judgement::Good,
    };
    if decision.judgement == Judgement::Unmeasured {
        let blocks = format::plural(decision.blocks as usize, "block", "blocks");
        let interval = tell::interval(decision);
        decision.why = Some(format!("{blocks} did not decide it ({interval})"));
    }
}

/// What one comparison is to decide.
#[derive(Clone, Copy)]
struct Question {
    error: f64,
    purpose: Purpose,
}

/// Carries the session out, or on; `None` where it was cut off.
async fn measure(
    search: &Bisection,
    sides: [usize; 2],
    question: Question,
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
    let counts = search
        .change
        .as_ref()
        .is_some_and(|change| change.metric().is_none());
    let plan = plan(search, &target, &suite, if counts { RUNS } else { 1 })?;
    let base = plan.cells.first().map(|cell| cell.plan.image.clone());
    let budget = Duration::from_secs_f64(search.asked.time_budget_seconds);
    let sides = SidesCompared::Images {
        base: base.unwrap_or_default(),
    };
    let change = search.change.as_ref();
    let metric = change.and_then(Change::metric).map(str::to_owned);
    let centre = |purpose| match purpose {
        Purpose::Side => change.and_then(Change::half),
        // Any change counts between neighbours.
        Purpose::Size => Some(1.0),
        Purpose::Ends => None,
    };
    let deciding = Deciding {
        metric: metric.or_else(|| search.asked.metric.clone()),
        ratio: centre(question.purpose),
        error: Some(question.error),
        ..session::until_decided(sides, budget, search.asked.most_blocks)
    };
    session::check_sides(&plan, &deciding.sides)
        .map_err(bench_suite::session::SessionError::from)?;
    let place = match begun {
        Some(session) => Place::Resume {
            folder: place.to_owned(),
            name: session.session,
        },
        None => Place::New {
            folder: place.to_owned(),
        },
    };
    let job = Job {
        suites: &match &search.asked.program {
            Some(text) => Suites::Program(text.clone()),
            None => Suites::Named(vec![search.asked.suite.clone()]),
        },
        cells: &[],
        plan,
        // Failures are counted over as many blocks as were planned.
        deciding: Some(deciding).filter(|_| !counts),
        share: ShareArgs {
            share_gpu: search.asked.share_gpu,
            share_cpu: search.asked.share_cpu,
        },
        place,
        target: &mut target,
    };
    let (folder, _) = job.carry_out(printer).await?;
    Ok(folder.read_session()?.complete.then_some(folder))
}

/// An image of a search, by the name that the search has for it.
fn choose(candidate: &Candidate, device: protocol::Device, root: &Path) -> Result<Chosen> {
    let Candidate { name, image } = candidate.clone();
    if is_reference(&image) {
        return Ok(Chosen::ReadyMade {
            name,
            reference: image,
            found: None,
        });
    }
    Chosen::spec(&image, device, root)
}

/// Every cell for the ends; then the one that is followed.
fn plan(search: &Bisection, target: &Target<'_>, suite: &Suite, blocks: u32) -> Result<Plan> {
    let mut plan = target.plan(std::slice::from_ref(suite), Some(blocks), None)?;
    let now = plan.session.suites.values().next();
    if search
        .suite_sha256
        .as_ref()
        .is_some_and(|then| Some(then) != now)
    {
        return Err(SearchError::SuiteChanged(search.asked.suite.clone()).into());
    }
    if let Some(change) = &search.change {
        plan.cells.retain(|cell| change.is_in(&cell.plan));
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

/// The cell that is followed.
fn cell_of<'a>(verdicts: &'a Verdicts, change: &Change) -> Option<&'a CellVerdicts> {
    let is_followed = |cell: &&CellVerdicts| {
        (&cell.suite, &cell.scenario) == (&change.suite, &change.scenario)
            && cell.variant == change.variant
    };
    verdicts.cells.iter().find(is_followed)
}

/// How many runs of a candidate failed.
fn failed(cell: &CellVerdicts) -> Option<String> {
    let head = &cell.failures.as_ref()?.head;
    let count = head.failed + head.expected;
    (count > 0).then(|| {
        format!(
            "{count} of its {} failed",
            format::plural(head.runs, "run", "runs")
        )
    })
}

fn take(decision: &mut Decision, metric: &MetricVerdict) {
    decision.ratio = metric.comparison.ratio;
    decision.interval = metric.comparison.interval;
}
