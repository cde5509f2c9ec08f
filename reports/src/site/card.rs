//! What the index says of a page.

use std::collections::BTreeSet;

use record::fit::Fit;
use verdict::{FailOn, Verdicts};

use crate::{
    charts::Chart,
    counts,
    document::Block,
    fit,
    model::{Headline, View, headline},
    plots::{card, forest},
    session::sections,
    words::{comparison::arrow, format},
};

const MOST_ANSWERS: usize = 3;
const LONGEST: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Card {
    pub(super) title: String,
    /// Suite, machine, day and images.
    pub(super) subtitle: String,
    pub(super) told: Vec<Block>,
    /// Images, models, GPUs, verdicts and whatever else one looks for, in small letters.
    pub(super) words: String,
    pub(super) picture: Option<String>,
    pub(super) alt: String,
    pub(super) page: String,
    pub(super) markdown: String,
    /// What it is ordered by: the newest first.
    pub(super) time: String,
    /// The session's name; of no other page.
    pub(super) session: Option<String>,
    pub(super) compared: Vec<String>,
}

impl Card {
    /// Cut to what an index has room for, and with its picture.
    pub(super) fn with(mut self, chart: Option<Chart>) -> Self {
        for block in &mut self.told {
            match block {
                Block::Counts(counts) => counts.retain(|(count, ..)| *count > 0),
                Block::List(texts) => {
                    texts.truncate(MOST_ANSWERS);
                    for text in texts {
                        *text = format::shortened(text, LONGEST);
                    }
                }
                _ => {}
            }
        }
        let is_empty = |one: &Block| matches!(one, Block::Counts(counts) if counts.is_empty());
        self.told.retain(|one| !is_empty(one));
        let alt = chart.as_ref().map(Chart::description);
        let alt = alt.map_or_else(String::new, |alt| format::shortened(&alt, LONGEST));
        let picture = chart.map(|chart| chart.draw(true).standalone(&self.title, &alt));
        // What it came to can be looked for as well.
        let found = self.told.iter().map(|block| match block {
            Block::Counts(counts) => {
                let counts = counts.iter();
                let words = counts.map(|(_, word, mark)| format!("{}{word} ", mark.look().1));
                words.collect()
            }
            Block::Verdict(_, gate) => gate.clone(),
            _ => String::new(),
        });
        let words = [self.words].into_iter().chain(found);
        Self {
            words: format::clean(&words.collect::<Vec<_>>().join(" ")).to_lowercase(),
            picture,
            alt,
            ..self
        }
    }
}

pub(super) fn of_session(view: &View) -> Card {
    let headline = &view.report.headline;
    let title = match &headline.questions[..] {
        [] => headline.suites.join(", "),
        questions => questions.join(" "),
    };
    let session = view.report.sessions.first();
    let machine = session.map(|session| session.device_name().0.to_owned());
    let day = session.map(|session| session.started_at.strftime("%Y-%m-%d %H:%M").to_string());
    let mut images: Vec<&str> = view.contenders.iter().map(|one| &*one.image).collect();
    images.dedup();
    let images = images.join(", ");
    let suites = headline.suites.join(", ");
    let told = [Some(suites), machine, day, Some(images)];
    let told = told.into_iter().flatten().filter(|text| !text.is_empty());
    let has_claims = sections::has_claims(view);
    let mut headline = largest(headline.clone());
    headline.compared.clear();
    let has_effect = !has_claims && headline.worst.len() + headline.best.len() > 0;
    if headline.answers.is_empty() && !has_effect {
        headline.answers.clone_from(&view.report.summary);
    }
    let card = Card {
        title: format::clean(&title),
        subtitle: format::clean(&told.collect::<Vec<_>>().join(" · ")),
        told: counts::verdict(&headline, counts::of_report(&view.report), has_claims),
        words: words(view),
        page: "report.html".to_owned(),
        markdown: "report.md".to_owned(),
        time: session.map_or_else(String::new, |one| one.started_at.to_string()),
        session: session.map(|session| session.session.clone()),
        ..Card::default()
    };
    card.with(forest::gravest_of(view, forest::ON_A_CARD).or_else(|| card::chart(view)))
}

pub(super) fn of_comparison(verdicts: &Verdicts) -> Card {
    let (base, head) = (&verdicts.base, &verdicts.head);
    let headline = largest(headline::of_comparison(verdicts, FailOn::Regressed));
    let device = if base.device == head.device {
        head.device.clone()
    } else {
        format!("{} and {}", base.device, head.device)
    };
    let words = [base, head].map(|side| {
        let version = side.libtorch_version.as_deref().unwrap_or_default();
        let (session, image) = (&side.session, &side.image);
        format!(
            "{session} {image} {version} {} {}",
            side.machine, side.device
        )
    });
    let card = Card {
        title: format::clean(&arrow(verdicts)),
        subtitle: format::clean(&format!("comparison · {device}")),
        told: counts::of_comparison(&headline, head.choice.is_some()),
        words: words.join(" "),
        page: "comparison.html".to_owned(),
        markdown: "comparison.md".to_owned(),
        time: head.session.clone(),
        compared: vec![base.session.clone(), head.session.clone()],
        ..Card::default()
    };
    card.with(forest::of_comparison(verdicts, forest::ON_A_CARD))
}

pub(super) fn of_fit(fit: &Fit) -> Card {
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
        told: vec![Block::List(fit.advice.clone())],
        words,
        page: "fit.html".to_owned(),
        markdown: "fit.md".to_owned(),
        ..Card::default()
    };
    card.with(crate::plots::batches::card(fit))
}

/// With the largest of its effects for the worse and for the better alone.
fn largest(mut headline: Headline) -> Headline {
    headline.worst.truncate(1);
    headline.best.truncate(1);
    headline
}

fn words(view: &View) -> String {
    let mut words: BTreeSet<String> = BTreeSet::new();
    for session in &view.report.sessions {
        words.extend([session.session.clone(), session.machine_names()]);
        words.extend(session.suites.keys().cloned());
        words.extend(
            session
                .questions
                .values()
                .map(|asked| asked.question.clone()),
        );
        for machine in session.hosts.values() {
            words.insert(machine.cpu.model.clone());
            words.extend(machine.gpus.iter().map(|gpu| gpu.name.clone()));
        }
        let images = session.images.iter();
        words.extend(images.flat_map(|image| [image.name.clone(), image.libtorch_version.clone()]));
    }
    for cell in &view.report.cells {
        words.extend([cell.scenario.clone(), cell.workload.to_string()]);
    }
    Vec::from_iter(words).join(" ")
}
