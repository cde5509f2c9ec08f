//! What the index says of a page.

use std::collections::BTreeSet;

use judge::compare::Verdict;
use record::fit::Fit;
use serde::{Deserialize, Serialize};
use verdict::{ClaimFound, FailOn, Verdicts};

use crate::{
    View, comparison,
    document::Mark,
    fit, format,
    model::{Change, changes, headline},
    plots::{card, forest},
    sections,
    svg::Svg,
};

/// Sentences of an answer on a card.
const MOST_ANSWERS: usize = 3;
/// Characters of one.
const LONGEST: usize = 200;

/// A card of the index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Card {
    /// The question.
    pub(super) title: String,
    /// Suite, machine, day and images.
    pub(super) subtitle: String,
    /// How many verdicts there are of each kind, with its class on a page.
    pub(super) counts: Vec<(usize, String, String)>,
    /// Whether the gate passes, in words, with its class on a page.
    pub(super) gate: Option<(String, String)>,
    /// What it came to, in sentences.
    pub(super) answers: Vec<String>,
    /// Images, models, GPUs and whatever else one looks for, in small letters.
    pub(super) words: String,
    /// What the picture shows.
    pub(super) alt: String,
    /// The page, in its folder.
    pub(super) page: String,
    /// The same as Markdown.
    pub(super) markdown: String,
    /// What it is ordered by: the newest first.
    pub(super) time: String,
    /// The session's name; of no other page.
    pub(super) session: Option<String>,
}

/// A card with its picture.
pub(super) struct Drawn {
    pub(super) card: Card,
    pub(super) picture: Option<String>,
}

impl Drawn {
    pub(super) fn new(card: Card, picture: Option<(Svg, String)>) -> Self {
        let Some((svg, alt)) = picture else {
            return Self {
                card,
                picture: None,
            };
        };
        let alt = format::shortened(&alt, LONGEST);
        Self {
            picture: Some(svg.standalone(&card.title, &alt)),
            card: Card { alt, ..card },
        }
    }
}

/// Of a session.
pub(super) fn of_session(view: &View) -> Drawn {
    let headline = &view.report.headline;
    let claims = view.report.sessions.iter().flat_map(|one| &one.claims);
    let claims: Vec<&ClaimFound> = claims.collect();
    let mut counts = match &headline.counts {
        _ if claims.iter().any(|one| one.is_measured()) => sections::of_claims(&claims),
        Some(counts) => sections::of_changes(counts).to_vec(),
        None => Vec::new(),
    };
    counts.push((headline.failed, "failed", Mark::Failure));
    let title = match &headline.questions[..] {
        [] => headline.suites.join(", "),
        questions => questions.join(" "),
    };
    let session = view.report.sessions.first();
    let machine = session.map(|session| {
        let gpu = session.machine.gpus.first();
        let gpu = gpu.filter(|_| session.device.is_cuda());
        gpu.map_or(&session.machine.cpu.model, |gpu| &gpu.name)
            .clone()
    });
    let day = session.map(|session| session.started_at.strftime("%Y-%m-%d %H:%M").to_string());
    let mut images: Vec<&str> = view.contenders.iter().map(|one| &*one.image).collect();
    images.dedup();
    let images = images.join(", ");
    let suites = headline.suites.join(", ");
    let told = [Some(suites), machine, day, Some(images)];
    let told = told.into_iter().flatten().filter(|text| !text.is_empty());
    let answers = match &headline.answers[..] {
        [] => &view.report.summary,
        answers => answers,
    };
    let card = Card {
        title: format::clean(&title),
        subtitle: format::clean(&told.collect::<Vec<_>>().join(" · ")),
        counts: shown(&counts),
        gate: headline.gate.as_ref().map(gate),
        answers: answers
            .iter()
            .take(MOST_ANSWERS)
            .map(|answer| format::shortened(answer, LONGEST))
            .collect(),
        words: words(view),
        page: "report.html".to_owned(),
        markdown: "report.md".to_owned(),
        time: session.map_or_else(String::new, |one| one.started_at.to_string()),
        session: session.map(|session| session.session.clone()),
        ..Card::default()
    };
    Drawn::new(card, forest::card(view).or_else(|| card::picture(view)))
}

/// Of a comparison.
pub(super) fn of_comparison(verdicts: &Verdicts) -> Drawn {
    let changes: Vec<Change> = changes::of_comparison(verdicts, false).collect();
    let counts = sections::of_changes(&headline::count(&changes));
    let gate_found = headline::gate(&[verdicts], FailOn::Regressed);
    let (base, head) = (&verdicts.base, &verdicts.head);
    let device = if base.device == head.device {
        head.device.clone()
    } else {
        format!("{} and {}", base.device, head.device)
    };
    let regressed = changes
        .iter()
        .filter(|one| one.verdict() == Verdict::Regressed);
    let worst = regressed.min_by(|a, b| a.gain().total_cmp(&b.gain()));
    let worst = worst.map(|one| format!("Worst: {}.", comparison::change_of(one)));
    let words = [base, head].map(|side| {
        let version = side.libtorch_version.as_deref().unwrap_or_default();
        let (session, image) = (&side.session, &side.image);
        format!(
            "{session} {image} {version} {} {}",
            side.machine, side.device
        )
    });
    let card = Card {
        title: format::clean(&comparison::arrow(verdicts)),
        subtitle: format::clean(&format!("comparison · {device}")),
        counts: shown(&counts),
        gate: gate_found.as_ref().map(gate),
        answers: worst
            .iter()
            .map(|text| format::shortened(text, LONGEST))
            .collect(),
        words: format::clean(&words.join(" ")).to_lowercase(),
        page: "comparison.html".to_owned(),
        markdown: "comparison.md".to_owned(),
        time: head.session.clone(),
        ..Card::default()
    };
    Drawn::new(card, forest::card_of_comparison(verdicts))
}

/// Of a search for the largest batch.
pub(super) fn of_fit(fit: &Fit) -> Drawn {
    let names = fit
        .found
        .iter()
        .flat_map(|one| [&one.image, &one.model, &one.scenario]);
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    let words = format!(
        "{} {} {}",
        Vec::from_iter(names).join(" "),
        fit.device,
        fit.machine
    );
    let card = Card {
        title: fit::title(fit),
        subtitle: format::clean(&format!("largest batch · {}", fit::place(fit))),
        answers: fit
            .advice
            .iter()
            .take(MOST_ANSWERS)
            .map(|text| format::shortened(text, LONGEST))
            .collect(),
        words: format::clean(&words).to_lowercase(),
        page: "fit.html".to_owned(),
        markdown: "fit.md".to_owned(),
        ..Card::default()
    };
    Drawn::new(card, crate::plots::batches::card(fit))
}

fn shown(counts: &[(usize, &str, Mark)]) -> Vec<(usize, String, String)> {
    let counts = counts.iter().filter(|(count, ..)| *count > 0);
    let shown = |(count, word, mark): &(usize, &str, Mark)| {
        let (class, sign) = mark.look();
        (*count, format!("{sign}{word}"), class.to_owned())
    };
    counts.map(shown).collect()
}

fn gate(found: &crate::model::GateOutcome) -> (String, String) {
    let (mark, word) = if found.passed {
        (Mark::Good, "passed")
    } else {
        (Mark::Bad, "failed")
    };
    let (class, sign) = mark.look();
    (
        format!("{sign}Gate {word}: {}.", found.why),
        class.to_owned(),
    )
}

/// What a session can be found by.
fn words(view: &View) -> String {
    let mut words: BTreeSet<String> = BTreeSet::new();
    for session in &view.report.sessions {
        words.extend([session.session.clone(), session.machine.name.clone()]);
        words.extend(session.suites.keys().cloned());
        words.extend(
            session
                .questions
                .values()
                .map(|asked| asked.question.clone()),
        );
        words.extend(session.machine.gpus.iter().map(|gpu| gpu.name.clone()));
        words.insert(session.machine.cpu.model.clone());
        let images = session.images.iter();
        words.extend(images.flat_map(|image| [image.name.clone(), image.libtorch_version.clone()]));
    }
    for cell in &view.report.cells {
        words.extend([cell.scenario.clone(), cell.model.to_string()]);
    }
    let words: Vec<String> = words.into_iter().collect();
    format::clean(&words.join(" ")).to_lowercase()
}
