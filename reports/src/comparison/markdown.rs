//! Verdicts for a pull request.

use judge::compare::Verdict;
use verdict::{CellVerdicts, QuantityVerdict, Verdicts};

use super::{
    FAMILY, GRAVEST_FIRST, came_to, cell_name, effect, headline, images, interval, label, looks,
    lost, tally, value, warnings, what_would_help,
};
use crate::{
    format::share,
    markdown::{escape, table},
};

/// Verdicts as GitHub's Markdown: what regressed first, what is the same folded away.
#[must_use]
pub fn markdown(verdicts: &Verdicts) -> String {
    let mut text = format!(
        "## {}\n\n{}\n\n",
        escape(&headline(verdicts)),
        escape(&tally(verdicts))
    );
    let known = warnings(verdicts);
    for known in &known {
        text += &format!("> **Note:** {}\n>\n", escape(known));
    }
    if !known.is_empty() {
        text += "\n";
    }
    text += &lost_cells(verdicts);
    for verdict in GRAVEST_FIRST {
        let of_verdict: Vec<_> = verdicts
            .all()
            .filter(|(cell, _)| lost(cell).is_none())
            .filter(|(_, found)| found.gated && came_to(found, verdict))
            .collect();
        if of_verdict.is_empty() {
            continue;
        }
        let title = format!("{}: {}", heading(verdict), of_verdict.len());
        let body = rows(verdict, &of_verdict);
        text += &if verdict == Verdict::Unchanged {
            format!("<details><summary>{title}</summary>\n\n{body}\n</details>\n\n")
        } else {
            format!("### {title}\n\n{body}\n")
        };
    }
    let one_sided: Vec<_> = verdicts
        .all()
        .filter(|(cell, found)| lost(cell).is_none() && found.not_measured_in.is_some())
        .filter(|(_, found)| found.gated)
        .collect();
    if !one_sided.is_empty() {
        let body = rows(Verdict::Unchanged, &one_sided);
        text += &format!(
            "### Measured on one side only: {}\n\n{body}\n",
            one_sided.len()
        );
    }
    let others: Vec<_> = verdicts.all().filter(|(_, found)| !found.gated).collect();
    if !others.is_empty() {
        let title = format!("Metrics that explain and fail no gate: {}", others.len());
        let body = rows(Verdict::Unchanged, &others);
        text += &format!("<details><summary>{title}</summary>\n\n{body}\n</details>\n\n");
    }
    let changes = images::rows(verdicts);
    if !changes.is_empty() {
        let title = format!("{}: {}", images::TITLE, changes.len());
        let heads = images::HEADS.map(str::to_owned);
        let rows: Vec<Vec<String>> = changes.into_iter().map(Vec::from).collect();
        let body = table(&heads, 2, &rows);
        text += &format!("<details><summary>{title}</summary>\n\n{body}\n</details>\n\n");
    }
    text + &format!("<sub>{}</sub>\n", method(verdicts))
}

/// Cells that work in the base and never in the head.
fn lost_cells(verdicts: &Verdicts) -> String {
    let rows: Vec<Vec<String>> = verdicts
        .cells
        .iter()
        .filter_map(|cell| {
            let (verdict, why) = lost(cell)?;
            Some(vec![cell_name(cell), verdict.to_string(), why])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads = ["cell", "verdict", "why"].map(str::to_owned);
    format!(
        "### Works no more: {}\n\n{}\n",
        rows.len(),
        table(&heads, 3, &rows)
    )
}

fn heading(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Regressed => "Regressed",
        Verdict::Improved => "Better",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Unchanged => "The unchanged",
    }
}

fn rows(verdict: Verdict, found: &[(&CellVerdicts, &QuantityVerdict)]) -> String {
    let mut heads = vec![
        "cell",
        "metric",
        "verdict",
        "base",
        "head",
        "change",
        "95 % interval",
    ];
    if verdict == Verdict::Inconclusive {
        heads.push("what would help");
    }
    let heads: Vec<String> = heads.into_iter().map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(cell, found)| {
            let mut row = vec![
                cell_name(cell),
                label(found),
                found.outcome(),
                value(found, found.base),
                value(found, found.head),
                effect(found),
                interval(found),
            ];
            if verdict == Verdict::Inconclusive {
                row.push(what_would_help(found).unwrap_or_default());
            }
            row
        })
        .collect();
    table(&heads, 3, &rows)
}

fn method(verdicts: &Verdicts) -> String {
    let thresholds = verdicts.all().map(|(_, found)| found.comparison.threshold);
    let (least, most) = thresholds.fold((f64::INFINITY, 0.0_f64), |(least, most), threshold| {
        (least.min(threshold), most.max(threshold))
    });
    let thresholds = if least > most {
        String::new()
    } else if (least - most).abs() < f64::EPSILON {
        format!(" Noise threshold {}.", share(most))
    } else {
        format!(
            " Noise thresholds from {} to {}, by metric.",
            share(least),
            share(most)
        )
    };
    format!(
        "Runs are paired by block; change is the geometric mean of the ratios head to base. \
         {FAMILY}{thresholds}{}",
        looks(verdicts).map_or_else(String::new, |looks| format!(" {looks}"))
    )
}
