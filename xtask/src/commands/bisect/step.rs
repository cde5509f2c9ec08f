//! One comparison of a search: a session of two images that adds blocks until it is decided.

use std::{path::Path, time::Duration};

use bench_suite::{
    bisect::{Asked, Bisection, Change, Decision, Judgement, Purpose},
    live::Exposition,
    plan::Plan,
    session,
    suite::Suite,
};
use judge::compare::Verdict;
use record::{Deciding, SessionFolder, SidesCompared};
use reports::format;
use verdict::{CellVerdicts, MetricVerdict, Verdicts};

use crate::{
    cli::TargetArgs,
    commands::{
        bench::{
            Job, Place,
            prepare::Chosen,
            target::{Target, is_reference},
        },
        fit,
    },
    error::{Error, Result},
    printer::Printer,
};

use super::tell;

/// Refuses what could only be refused after the first build.
pub(super) fn check(asked: &Asked) -> Result<()> {
    fit::suite(&asked.suite)?;
    match asked.metric.as_deref() {
        Some(name) if metrics::Metric::named(name).is_none_or(|one| !one.is_compared()) => {
            let name = name.to_owned();
            Err(verdict::CompareError::UnknownMetric { name }.into())
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
        return Err(Error::SearchCutOff {
            folder: folder.to_owned(),
        });
    };
    reports::write(std::slice::from_ref(&session), session.path())?;
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
        why: None,
    };
    if purpose == Purpose::Ends {
        let (change, metric) = moved(&read, verdicts, search, &place)?;
        search.change = Some(change);
        decision.judgement = Judgement::Bad;
        take(&mut decision, metric);
    } else if let Some(why) = verdicts.and_then(|all| failed(all, search)) {
        // One whose runs fail now and then is not told by those that went well.
        decision.why = Some(why);
    } else if let Some(metric) = verdicts.and_then(|all| followed(all, search)) {
        take(&mut decision, metric);
        decision.judgement = match metric.comparison.verdict {
            Verdict::Inconclusive => Judgement::Unmeasured,
            Verdict::Regressed => Judgement::Bad,
            Verdict::Improved | Verdict::Unchanged => Judgement::Good,
        };
        if decision.judgement == Judgement::Unmeasured {
            let blocks = format::plural(read.blocks as usize, "block", "blocks");
            decision.why = Some(format!(
                "{blocks} did not decide it ({})",
                tell::interval(&decision)
            ));
        }
    } else {
        decision.why = Some("no run of it yielded the metric".to_owned());
    }
    search.suite_sha256 = read.suites.into_values().next();
    printer.note(&tell::line(search, &decision));
    search.decisions.push(decision);
    Ok(())
}

/// What regressed most between the ends.
fn moved<'a>(
    session: &record::Session,
    verdicts: Option<&'a Verdicts>,
    search: &Bisection,
    folder: &Path,
) -> Result<(Change, &'a MetricVerdict)> {
    let last = search.candidates.len() - 1;
    let [good, bad] = [0, last].map(|place| search.candidates[place].name.clone());
    let has_failures = |all: &&Verdicts| all.cells.iter().any(|cell| cell.failures.is_some());
    let found = verdicts.and_then(|all| worst(all, search.asked.metric.as_deref()));
    let Some((cell, metric)) = found else {
        let report = folder.join("report.html");
        // Where runs fail, no figure says what an image does to them.
        return Err(match verdicts.filter(has_failures) {
            Some(_) => Error::EndsFail { good, bad, report },
            None => Error::NoRegression { good, bad, report },
        });
    };
    let is_cell = |plan: &&record::CellPlan| {
        (&plan.suite, &plan.scenario) == (&cell.suite, &cell.scenario)
            && plan.variant.to_string() == cell.variant
    };
    let plan = session.cells.iter().find(is_cell);
    let change = plan.zip(metric.comparison.ratio);
    let change = change.map(|(cell, ratio)| Change::of(cell, &metric.metric, ratio));
    change
        .map(|change| (change, metric))
        .ok_or(Error::NoRegression {
            good,
            bad,
            report: folder.join("report.html"),
        })
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
    let chosen = sides.map(|side| choose(search, side));
    let target = Target::with(target, |device, root| {
        let chosen = chosen.into_iter().map(|one| one.resolve(device, root));
        chosen.collect()
    })?;
    let suite = fit::suite(&search.asked.suite)?;
    let plan = plan(search, &target, &suite)?;
    let base = plan.cells.first().map(|cell| cell.plan.image.clone());
    let budget = Duration::from_secs_f64(search.asked.time_budget_seconds);
    let sides = SidesCompared::Images {
        base: base.unwrap_or_default(),
    };
    let change = search.change.as_ref();
    let metric = change.map(|change| change.metric.clone());
    let centre = |purpose| match purpose {
        Purpose::Side => change.map(Change::half),
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
        suites: std::slice::from_ref(&search.asked.suite),
        cells: &[],
        plan,
        deciding: Some(deciding),
        share_gpu: search.asked.share_gpu,
        place,
        target: &target,
    };
    let exposition = Exposition::new(job.target.host.live());
    let (folder, _) = job.carry_out(exposition, printer).await?;
    Ok(folder.read_session()?.complete.then_some(folder))
}

/// An image of a search, by the name that the search has for it.
struct Choice {
    name: String,
    image: String,
}

impl Choice {
    fn resolve(self, device: protocol::Device, root: &Path) -> Result<Chosen> {
        if is_reference(&self.image) {
            let Self { name, image } = self;
            return Ok(Chosen::ReadyMade {
                name,
                reference: image,
            });
        }
        Chosen::spec(&self.image, device, root)
    }
}

fn choose(search: &Bisection, side: usize) -> Choice {
    let candidate = &search.candidates[side];
    Choice {
        name: candidate.name.clone(),
        image: candidate.image.clone().unwrap_or_default(),
    }
}

/// Every cell for the ends; then the one that is followed.
fn plan(search: &Bisection, target: &Target<'_>, suite: &Suite) -> Result<Plan> {
    let mut plan = target.plan(std::slice::from_ref(suite), Some(1), None)?;
    let now = plan.suites.values().next();
    if search
        .suite_sha256
        .as_ref()
        .is_some_and(|then| Some(then) != now)
    {
        return Err(Error::SuiteChanged {
            suite: search.asked.suite.clone(),
        });
    }
    if let Some(change) = &search.change {
        plan.cells.retain(|cell| change.is_in(&cell.plan));
    }
    plan.claims.clear();
    Ok(plan.spread(&target.devices))
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

/// The metric that is followed.
fn followed<'a>(verdicts: &'a Verdicts, search: &Bisection) -> Option<&'a MetricVerdict> {
    let change = search.change.as_ref()?;
    let mut all = verdicts.all().map(|(_, found)| found);
    all.find(|found| found.metric == change.metric && found.not_measured_in.is_none())
}

/// How many runs of a candidate failed.
fn failed(verdicts: &Verdicts, search: &Bisection) -> Option<String> {
    let change = search.change.as_ref()?;
    let is_followed = |cell: &&CellVerdicts| {
        (&cell.suite, &cell.scenario) == (&change.suite, &change.scenario)
            && cell.variant == change.variant
    };
    let cell = verdicts.cells.iter().find(is_followed)?;
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
