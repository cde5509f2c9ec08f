//! Claims for a pull request.

use verdict::ClaimFound;

use super::{HEADS, METHOD, label, lines, not_measured, tally};
use crate::markdown::{escape, table};

/// Claims as GitHub's Markdown; nothing where there are none.
#[must_use]
pub fn markdown(found: &[ClaimFound]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut text = format!("### Claims\n\n{}\n\n", escape(&tally(found)));
    let heads: Vec<String> = ["claim", "metric"]
        .iter()
        .chain(&HEADS)
        .map(|head| (*head).to_owned())
        .collect();
    let mut rows = Vec::new();
    let mut unmeasured = Vec::new();
    for one in found {
        if one.pairs.is_empty() {
            unmeasured.push(one);
        }
        for line in lines(one) {
            let mut row = vec![one.claim.statement.clone(), label(&one.claim)];
            row.extend(line.words());
            rows.push(row);
        }
    }
    if !rows.is_empty() {
        text += &table(&heads, 5, &rows);
        text += "\n";
    }
    for one in unmeasured {
        text += &format!(
            "- {}: {}\n",
            escape(&one.claim.statement),
            escape(&not_measured(&one.claim))
        );
    }
    text += "\n<details><summary>Who claims it</summary>\n\n";
    for one in found {
        text += &format!(
            "- {}: {}\n",
            escape(&one.claim.statement),
            escape(&one.claim.source)
        );
    }
    text + &format!("\n</details>\n\n<sub>{METHOD}</sub>\n\n")
}
