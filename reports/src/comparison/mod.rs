//! Verdicts as text, Markdown, JSON, `JUnit` XML, GitHub annotations, and a section of a page.
//!
//! [`verdict::Verdicts`] says of every cell and quantity whether it is improved, regressed, unchanged
//! within the noise threshold, or whether nobody can tell; here it gets a form. Which quantities fail a
//! gate, and how strictly, is [`verdict::Gate`]'s to say.

mod annotations;
mod html;
mod images;
mod junit;
mod markdown;
mod text;

use std::collections::BTreeMap;

use judge::compare::Verdict;
use metrics::Metric;
use verdict::{CellVerdicts, Origin, QuantityVerdict, Verdicts, Warning};

pub use annotations::annotations;
pub use html::html;
pub use junit::{JunitError, junit};
pub use markdown::markdown;
pub use text::{text, text_styled};

use crate::format::{self, UNKNOWN, plural};

/// Verdicts as JSON, a line break at its end.
pub fn json(verdicts: &Verdicts) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(verdicts)? + "\n")
}

/// All verdicts, the gravest first.
const GRAVEST_FIRST: [Verdict; 4] = [
    Verdict::Regressed,
    Verdict::Improved,
    Verdict::Inconclusive,
    Verdict::Unchanged,
];

/// What was compared with what.
fn headline(verdicts: &Verdicts) -> String {
    format!(
        "{} against {}",
        side(&verdicts.head, &verdicts.base),
        side(&verdicts.base, &verdicts.head)
    )
}

/// The image, with what else tells it from the other side.
fn side(of: &Origin, other: &Origin) -> String {
    let mut name = of.image.clone();
    if let Some(choice) = &of.choice {
        name += &format!(" with {choice}");
    }
    if of.session != other.session {
        name += &format!(" @ {}", of.session);
    }
    name
}

/// `2 regressed, 1 improved, 9 unchanged, 3 inconclusive` of the gated quantities.
fn tally(verdicts: &Verdicts) -> String {
    let gated = || verdicts.all().filter(|(_, found)| found.gated);
    let counts = GRAVEST_FIRST.iter().map(|verdict| {
        let count = gated()
            .filter(|(_, found)| came_to(found, *verdict))
            .count();
        format!("{count} {verdict}")
    });
    let missing = gated()
        .filter(|(_, found)| found.not_measured_in.is_some())
        .count();
    let missing = (missing > 0).then(|| format!("{missing} measured on one side only"));
    let counts = counts.chain(missing).collect::<Vec<_>>().join(", ");
    let cells = plural(verdicts.cells.len(), "cell", "cells");
    let metrics = plural(gated().count(), "metric", "metrics");
    let lost = verdicts.cells.iter().filter_map(lost).count();
    let lost = match lost {
        0 => String::new(),
        count => format!(
            " {} in the base and never in the head.",
            plural(count, "cell works", "cells work")
        ),
    };
    format!("{metrics} of {cells} can fail the gate: {counts}.{lost}")
}

/// Whether the quantity was measured on both sides and came to this verdict.
fn came_to(found: &QuantityVerdict, verdict: Verdict) -> bool {
    found.not_measured_in.is_none() && found.comparison.verdict == verdict
}

/// Of a cell that works in the base and never in the head: what that is for a gate, and why.
fn lost(cell: &CellVerdicts) -> Option<(Verdict, String)> {
    let head = &cell.failures.as_ref()?.head;
    let why = format!("works in the base, fails in the head: runs failed {head}");
    Some((cell.lost()?, why))
}

/// How many runs of a cell failed, on which side, and why; `None` where none did.
fn failures(cell: &CellVerdicts) -> Option<String> {
    let failures = cell.failures.as_ref()?;
    Some(format!(
        "runs failed: base {}, head {}",
        failures.base, failures.head
    ))
}

fn cell_name(cell: &CellVerdicts) -> String {
    format!("{} · {}", cell.scenario, cell.variant)
}

/// The quantity in words for people.
fn label(found: &QuantityVerdict) -> String {
    Metric::named(&found.quantity).map_or_else(
        || found.quantity.clone(),
        |quantity| quantity.label.to_owned(),
    )
}

/// A value of the quantity with its unit.
fn value(found: &QuantityVerdict, value: Option<f64>) -> String {
    let write = |value| format::Quantity::of_metric(&found.quantity).write(value);
    value.map_or_else(|| UNKNOWN.to_owned(), write)
}

/// A ratio as a change: `+1.20 %`; `no change` where it is 1 to the last bit.
fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent == 0.0 {
        return "0 %".to_owned();
    }
    if percent.abs() >= 1000.0 {
        return format!("× {}", format::significant(ratio, 3));
    }
    let decimals = if percent.abs() < 0.01 { 4 } else { 2 };
    format!("{percent:+.decimals$} %")
}

/// The effect, `+1.20 %`.
fn effect(found: &QuantityVerdict) -> String {
    found
        .comparison
        .ratio
        .map_or_else(|| UNKNOWN.to_owned(), change)
}

/// Its interval, `+0.9 … +1.5 %`.
fn interval(found: &QuantityVerdict) -> String {
    found.comparison.interval.map_or_else(
        || UNKNOWN.to_owned(),
        |interval| format!("{} … {}", change(interval.lo), change(interval.hi)),
    )
}

/// Why nobody can tell, and what would help; nothing where there is nothing to compare.
fn what_would_help(found: &QuantityVerdict) -> Option<String> {
    let comparison = &found.comparison;
    if !came_to(found, Verdict::Inconclusive) {
        return None;
    }
    let seen = comparison
        .smallest_detectable_change
        .map(|least| format!("these blocks show changes from {} on", format::share(least)));
    let needed = comparison.blocks_needed.map(|blocks| {
        format!(
            "about {blocks} blocks would show the noise threshold of {}",
            format::share(comparison.threshold)
        )
    });
    let words: Vec<String> = [seen, needed].into_iter().flatten().collect();
    Some(if words.is_empty() {
        comparison.reason.clone()
    } else {
        words.join("; ")
    })
}

/// How many metrics at once are judged.
pub(crate) const FAMILY: &str = "Of all that is called improved or regressed, at most 2 % is so by chance \
    on average (Benjamini and Hochberg, over all metrics of the comparison that vary from run to \
    run); memory that repeats to the byte is compared to the byte.";

/// How the number of blocks came about, where the session chose it by its own metrics.
fn looks(verdicts: &Verdicts) -> Option<String> {
    (verdicts.looks > 0).then(|| {
        format!(
            "The session looked at its metrics {} to know when to end. That is paid for: all looks \
             together err as seldom as one comparison would, and intervals are as much wider.",
            plural(verdicts.looks, "time", "times")
        )
    })
}

/// What the reader must know, in words. Cells that one side alone has become one sentence: with
/// two values of an axis they are often many.
fn warnings(verdicts: &Verdicts) -> Vec<String> {
    let mut alone: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut texts: Vec<String> = verdicts
        .cells
        .iter()
        .filter(|cell| cell.lost().is_none())
        .filter_map(|cell| {
            Some(format!(
                "{}: {}; these are left out.",
                cell_name(cell),
                failures(cell)?
            ))
        })
        .collect();
    for known in &verdicts.warnings {
        match known {
            Warning::OneSided { cell, only_in } => alone.entry(only_in).or_default().push(cell),
            other => texts.push(warning(other)),
        }
    }
    texts.extend(alone.into_iter().map(|(only_in, cells)| {
        let count = match cells.len() {
            1 => "was".to_owned(),
            2..=MOST_NAMED => "were".to_owned(),
            more => format!("and {} more were", more - MOST_NAMED),
        };
        let named: Vec<&str> = cells.into_iter().take(MOST_NAMED).collect();
        format!("{} {count} measured in {only_in} only.", named.join("; "))
    }));
    texts
}

/// At most so many cells of one side alone are named.
const MOST_NAMED: usize = 3;

fn warning(warning: &Warning) -> String {
    match warning {
        Warning::NotInterleaved => {
            "The two sides ran one after the other and not in turn: drift of \
             the machine counts as effect. Measure both images in one session."
                .to_owned()
        }
        Warning::AcrossMachines { what } => format!(
            "Measured in different places ({what}): what differs there differs here. Between \
             hosts, Welch's t has been seen to call half of all identical configurations different."
        ),
        Warning::OneSided { cell, only_in } => format!("{cell} was measured in {only_in} only."),
        Warning::ThresholdsDiffer { cells } => format!(
            "The suites of the two sides set other noise thresholds in {}; the head's are used.",
            plural(*cells, "cell", "cells")
        ),
        Warning::OtherGpus { cell, cells } => {
            let which = match cells {
                0 | 1 => format!("{cell} ran"),
                more => format!(
                    "{cell} and {} ran",
                    plural(more - 1, "more cell", "more cells")
                ),
            };
            format!(
                "{which} on another GPU of the host in the head than in the base: GPUs of one \
                 model differ too."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_one_side_alone_are_one_sentence() {
        let origin = Origin {
            session: "s".into(),
            image: "a".into(),
            image_id: None,
            libtorch_version: None,
            machine: "m".into(),
            device: "d".into(),
            driver_version: None,
            choice: None,
        };
        let told = |cells: &[&str]| {
            let alone = cells.iter().map(|&cell| Warning::OneSided {
                cell: cell.into(),
                only_in: "s:a".into(),
            });
            let verdicts = Verdicts {
                version: verdict::VERSION,
                base: origin.clone(),
                head: origin.clone(),
                warnings: alone.chain([Warning::NotInterleaved]).collect(),
                looks: 0,
                image_changes: Vec::new(),
                cells: Vec::new(),
            };
            let told = warnings(&verdicts);
            assert_eq!(told.len(), 2);
            told[1].clone()
        };
        assert_eq!(told(&["x"]), "x was measured in s:a only.");
        assert_eq!(told(&["x", "y"]), "x; y were measured in s:a only.");
        assert_eq!(
            told(&["v", "w", "x", "y", "z"]),
            "v; w; x and 2 more were measured in s:a only."
        );
    }

    #[test]
    fn ratios_read_as_changes() {
        let check = |ratio: f64, expect: &str| assert_eq!(change(ratio), expect);
        check(1.0, "0 %");
        check(1.012, "+1.20 %");
        check(0.5, "-50.00 %");
        check(1.000_05, "+0.0050 %");
        check(40.0, "× 40.0");
    }
}
