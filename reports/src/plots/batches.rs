//! Batch against memory: what a search for the largest batch attempted, and where it ended.

use record::fit::{Attempt, Fit, Found};

use super::plot::Drawing;
use crate::{
    charts::{Chart, Curve, Entry, Swept},
    document::Kind,
    fit::{budget, ended, is_too_large, names, peak, throughput, why_no_more, word},
    svg::{Look, Shape, ink::Ink},
    words::{
        format::{self, Quantity, plural},
        lists::grouped,
    },
};

pub(crate) const TITLE: &str = "Batch against memory";
pub(crate) const ABOUT: &str = "One panel for each combination of the axes. A dot is an attempt that \
    fits, at its peak memory; the diamond is the largest batch that fits. An attempt that was too \
    large is on the line of the limit, where it ran out; one that ended otherwise is at the \
    bottom.";

/// Combinations of one drawing; the table has the others.
const MOST: usize = 40;

/// A chart for each image and scenario, with a panel for each combination.
pub(crate) fn drawing(fit: &Fit) -> Drawing {
    let all = fit.found.iter();
    let all = grouped(all.map(|one| ((&one.image, &one.scenario), one)));
    let charts = all.iter().map(|(_, own)| chart(fit, own));
    let legend = swept(fit, &fit.found.iter().collect::<Vec<_>>()).legend();
    (legend, charts.collect())
}

fn chart(fit: &Fit, found: &[&Found]) -> Chart {
    let more = found.len().saturating_sub(MOST);
    let more = (more > 0).then(|| plural(more, "more combination", "more combinations"));
    let shown = &found[..found.len().min(MOST)];
    let columns = 2.min(shown.len());
    Chart {
        heading: format::clean(&found[0].scenario),
        subtitle: format::clean(&format!("{} in {}", found[0].model, found[0].image)),
        note: more.map(|more| format!("{more} in the table.")),
        entries: entries(found.iter().copied()),
        ..swept(fit, shown).chart(columns)
    }
}

pub(crate) fn card(fit: &Fit) -> Option<Chart> {
    let first = fit.found.first()?;
    let answer = Entry::new(format::clean(&first.combination), caption(first));
    let mut chart = swept(fit, &[first]).chart(1);
    chart.entries.insert(0, answer);
    Some(chart)
}

/// The answer: `largest: 103, peak 187 MiB; out of memory at 109`.
fn caption(found: &Found) -> String {
    let largest = match (found.largest_batch, found.largest_attempt().and_then(peak)) {
        (Some(batch), Some(peak)) => format!("largest: {batch}, peak {peak}"),
        (Some(batch), None) => format!("largest: {batch}"),
        (None, _) => "nothing fits".to_owned(),
    };
    format::clean(&format!("{largest}; {}", why_no_more(found)))
}

fn swept(fit: &Fit, found: &[&Found]) -> Swept {
    let panels = found.iter().map(|found| {
        let title = format::clean(&found.combination);
        (title, caption(found), curves(fit, found))
    });
    Swept {
        along: ("Batch", Quantity::Plain),
        up: ("Peak", Quantity::Bytes),
        limit: Some((format!("limit, {}", budget(fit)), fit.memory_bytes as f64)),
        ideal: None,
        panels: panels.collect(),
    }
}

/// Attempts by how they ended: those that fit at their peak, those that ran out of memory at the limit,
/// others at the bottom.
fn curves(fit: &Fit, found: &Found) -> Vec<Curve> {
    let is_answer = |one: &Attempt| one.outcome.is_ok() && found.largest_batch == Some(one.batch);
    let limit = fit.memory_bytes as f64;
    let height = |one: &Attempt| match (one.outcome.is_ok(), is_too_large(one)) {
        (true, _) => Some(one.peak_bytes? as f64),
        (_, true) => Some(limit),
        _ => Some(0.0),
    };
    let curve = |name: &str, look, size, is: &dyn Fn(&Attempt) -> bool| {
        let own = found.attempts.iter().filter(|one| is(one));
        let points = own.filter_map(|one| {
            let height = height(one)?;
            Some((f64::from(one.batch), height, entry(found, one)))
        });
        Curve {
            name: name.to_owned(),
            look,
            size,
            is_joined: false,
            points: points.collect(),
        }
    };
    let [fits, best, too_large, other] = [
        Look::of(Ink::Series(0), Shape::Disc),
        Look::of(Ink::Series(2), Shape::Diamond),
        Look::of(Ink::Danger, Shape::Triangle).hollow(true),
        Look::of(Ink::Muted, Shape::Square).hollow(true),
    ];
    vec![
        Curve {
            is_joined: true,
            ..curve("fits", fits, 6.0, &|one| one.outcome.is_ok())
        },
        curve("largest that fits", best, 11.0, &is_answer),
        curve("too large", too_large, 8.0, &|one| {
            !one.outcome.is_ok() && is_too_large(one)
        }),
        curve("ended otherwise", other, 7.0, &|one| {
            !one.outcome.is_ok() && !is_too_large(one)
        }),
    ]
}

pub(crate) fn entries<'a>(found: impl IntoIterator<Item = &'a Found>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for one in found {
        let mut attempts: Vec<&Attempt> = one.attempts.iter().collect();
        attempts.sort_by_key(|attempt| attempt.batch);
        entries.extend(attempts.into_iter().map(|attempt| entry(one, attempt)));
    }
    entries
}

fn entry(found: &Found, attempt: &Attempt) -> Entry {
    let names = names([&found.image, &found.scenario, &found.combination]);
    let entry = Entry {
        name: format::clean(&format!("{}, batch {}", found.combination, attempt.batch)),
        value: format::clean(&ended(attempt)),
        cells: names,
    };
    entry
        .numbers([("batch", Some(attempt.batch.to_string()))])
        .with(Kind::Message, [("came to", word(attempt).into())])
        .numbers([
            ("peak", peak(attempt)),
            ("throughput", throughput(attempt)),
            ("took", Some(format::duration(attempt.seconds))),
        ])
}
