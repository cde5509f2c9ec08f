//! Claims as a section of a page.

use judge::claims::Outcome;
use verdict::ClaimFound;

use super::{HEADS, METHOD, label, lines, not_measured, tally};
use crate::{format::clean, svg::escape};

/// Claims as the inside of a section: a table with every pair of every claim.
#[must_use]
pub fn html(found: &[ClaimFound]) -> String {
    let text = |text: &str| escape(&clean(text));
    let mut html = format!(
        "<p>{}</p><div class=\"scroll\" tabindex=\"0\"><table class=\"cells claims\">\
         <caption>{METHOD}</caption><thead><tr>",
        text(&tally(found))
    );
    for head in HEADS {
        html += &format!("<th scope=\"col\">{head}</th>");
    }
    html += "</tr></thead>";
    for one in found {
        html += &format!(
            "<tbody><tr class=\"group\"><th scope=\"rowgroup\" colspan=\"6\">{} {} \
             <span class=\"muted\">{}; {}</span></th></tr>",
            text(&one.claim.statement),
            badge(one.outcome),
            text(&label(&one.claim)),
            text(&one.claim.source)
        );
        if one.pairs.is_empty() {
            html += &format!(
                "<tr><td class=\"name muted\" colspan=\"6\">{}</td></tr>",
                text(&not_measured(&one.claim))
            );
        }
        for line in lines(one) {
            let outcome = line.outcome;
            let [scenario, baseline, treated, claimed, measured, _] = line.words();
            html += &format!(
                "<tr><th scope=\"row\" class=\"name\">{}</th><td class=\"name\">{}</td>\
                 <td class=\"name\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                text(&scenario),
                text(&baseline),
                text(&treated),
                text(&claimed),
                text(&measured),
                badge(outcome)
            );
        }
        html += "</tbody>";
    }
    html + "</table></div>"
}

/// Word and sign: never colour alone.
fn badge(outcome: Outcome) -> String {
    let (class, sign) = match outcome {
        Outcome::Holds => ("verdict-improved", "✓"),
        Outcome::Refuted => ("verdict-regressed", "✗"),
        Outcome::Inconclusive => ("verdict-unknown", "?"),
    };
    format!("<span class=\"{class}\">{sign} {outcome}</span>")
}
