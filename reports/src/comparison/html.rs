//! Verdicts as a section of a page.

use judge::compare::Verdict;
use verdict::Verdicts;

use super::{
    FAMILY, cell_name, effect, failures, headline, images, interval, label, looks, lost, tally,
    value, warnings, what_would_help,
};
use crate::{format::clean, svg::escape};

/// Verdicts as the inside of a section: headline, warnings, and a table with every metric.
#[must_use]
pub fn html(verdicts: &Verdicts) -> String {
    let text = |text: &str| escape(&clean(text));
    let mut html = format!(
        "<h3>{}</h3><p>{}</p>",
        text(&headline(verdicts)),
        text(&tally(verdicts))
    );
    if let Some(looks) = looks(verdicts) {
        html += &format!("<p class=\"muted\">{looks}</p>");
    }
    let known = warnings(verdicts);
    if !known.is_empty() {
        let items = known
            .into_iter()
            .map(|known| format!("<li>{}</li>", text(&known)));
        let items: String = items.collect();
        html += &format!("<div class=\"warnings\"><ul>{items}</ul></div>");
    }
    html += &format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"cells\"><caption>Change: geometric \
         mean of the blocks' ratios, head to base, with its 95 % interval. In brackets: metrics \
         that fail no gate. {FAMILY}</caption><thead><tr>"
    );
    for head in [
        "metric",
        "base",
        "head",
        "change",
        "95 % interval",
        "verdict",
    ] {
        html += &format!("<th scope=\"col\">{head}</th>");
    }
    html += "</tr></thead>";
    for cell in &verdicts.cells {
        html += &format!(
            "<tbody><tr class=\"group\"><th scope=\"rowgroup\" colspan=\"6\">{}</th></tr>",
            text(&cell_name(cell))
        );
        if let Some((verdict, why)) = lost(cell) {
            let (class, sign) = look(verdict);
            html += &format!(
                "<tr><th scope=\"row\" class=\"name\">runs</th><td class=\"name\" colspan=\"4\">{}\
                 </td><td><span class=\"{class}\">{sign} {verdict}</span></td></tr>",
                text(&why)
            );
        } else if let Some(failed) = failures(cell).filter(|_| cell.quantities.is_empty()) {
            html += &format!(
                "<tr><th scope=\"row\" class=\"name\">runs</th><td class=\"name\" colspan=\"5\">{}\
                 </td></tr>",
                text(&failed)
            );
        }
        for found in &cell.quantities {
            let outcome = found.outcome();
            let (class, sign) = look(found.comparison.verdict);
            let word = match (found.gated, found.not_measured_in) {
                (true, None) => format!("<span class=\"{class}\">{sign} {outcome}</span>"),
                (true, Some(_)) => format!("<span class=\"muted\">{outcome}</span>"),
                (false, _) => format!("<span class=\"muted\">({outcome})</span>"),
            };
            let help = what_would_help(found)
                .filter(|_| found.gated)
                .map(|help| format!("<br><span class=\"muted why\">{}</span>", text(&help)))
                .unwrap_or_default();
            html += &format!(
                "<tr><th scope=\"row\" class=\"name\">{}</th><td>{}</td><td>{}</td><td>{}</td>\
                 <td>{}</td><td>{word}{help}</td></tr>",
                text(&label(found)),
                value(found, found.base),
                value(found, found.head),
                effect(found),
                interval(found),
            );
        }
        html += "</tbody>";
    }
    html + "</table></div>" + &image_changes(verdicts)
}

/// What the images differ in, folded: between a CPU and a CUDA flavour it is long.
fn image_changes(verdicts: &Verdicts) -> String {
    let rows = images::rows(verdicts);
    if rows.is_empty() {
        return String::new();
    }
    let heads = images::HEADS.map(|head| format!("<th scope=\"col\">{head}</th>"));
    let mut html = format!(
        "<details><summary>{}: {}</summary><div class=\"scroll\" tabindex=\"0\"><table>\
         <thead><tr>{}</tr></thead><tbody>",
        images::TITLE,
        rows.len(),
        heads.concat()
    );
    for row in rows {
        let cells = row.map(|cell| format!("<td>{}</td>", escape(&clean(&cell))));
        html += &format!("<tr>{}</tr>", cells.concat());
    }
    html + "</tbody></table></div></details>"
}

/// Class and sign: never colour alone.
fn look(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Regressed => ("verdict-regressed", "▼"),
        Verdict::Improved => ("verdict-improved", "▲"),
        Verdict::Unchanged => ("verdict-same", "="),
        Verdict::Inconclusive => ("verdict-unknown", "?"),
    }
}
