//! `report.md`, for a pull request: GitHub's Markdown.

use crate::{
    claims, comparison,
    facts::{self, Fact},
    format,
    model::{Contaminated, Failure, View, stage_word},
    table as cell_table,
};

/// More failed runs than this are counted, not listed: a comment has an end.
const MOST_FAILURES: usize = 50;

/// The report as Markdown.
#[must_use]
pub fn render(view: &View) -> String {
    let mut text = String::from("## Torchgauge\n\n");
    for sentence in &view.report.summary {
        text += &format!("- {}\n", escape(sentence));
    }
    text += "\n";
    text += &cells(view);
    for session in &view.report.sessions {
        for verdicts in &session.comparisons {
            text += &comparison::markdown(verdicts).replacen("## ", "### Comparison: ", 1);
            text += "\n";
        }
        text += &claims::markdown(&session.claims);
    }
    text += &failures(view);
    text += &contaminated(view);
    text += &warnings(view);
    text += &details(view);
    text
}

/// A text that means itself in Markdown: no markup, no mention, no reference, no HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    let text = format::clean(text);
    let mut out = String::with_capacity(text.len());
    let chars: Vec<char> = text.chars().collect();
    for (index, &c) in chars.iter().enumerate() {
        let beside = |offset: usize| chars.get(offset).is_some_and(|c| c.is_alphanumeric());
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            '_' if index > 0 && beside(index - 1) && beside(index + 1) => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A table of GitHub's Markdown; entries are escaped here. The first `names` columns are
/// left-aligned, the others are metrics.
pub(crate) fn table(heads: &[String], names: usize, rows: &[Vec<String>]) -> String {
    let line = |entries: &[String]| {
        let entries: Vec<_> = entries.iter().map(|entry| escape(entry)).collect();
        format!("| {} |\n", entries.join(" | "))
    };
    let mut text = line(heads);
    let rule = heads
        .iter()
        .enumerate()
        .map(|(index, _)| if index < names { "---" } else { "---:" });
    text += &format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    for row in rows {
        text += &line(row);
    }
    text
}

fn cells(view: &View) -> String {
    let several = view.contenders.len() > 1;
    // The range is the CV once more, and a comment is narrow.
    let columns: Vec<_> = cell_table::columns(view)
        .into_iter()
        .filter(|column| column.head != cell_table::RANGE)
        .collect();
    let mut heads = vec!["scenario".to_owned(), "variant".to_owned()];
    if several {
        heads.push(view.contender_head().to_owned());
    }
    let names = heads.len();
    heads.extend(columns.iter().map(|column| column.head.to_owned()));
    let mut rows = Vec::new();
    for group in &view.groups {
        for row in &group.rows {
            for &cell in &row.cells {
                let mut entries = vec![group.scenario.clone(), row.label.clone()];
                if several {
                    entries.push(view.contenders[view.contender_of(cell)].label.clone());
                }
                let summary = &view.report.cells[cell];
                entries.extend(
                    columns
                        .iter()
                        .map(|column| cell_table::entry(column, summary)),
                );
                rows.push(entries);
            }
        }
    }
    if rows.is_empty() {
        String::new()
    } else {
        table(&heads, names, &rows) + "\n"
    }
}

fn failures(view: &View) -> String {
    let failures: Vec<&Failure> = view.report.own_failures().collect();
    if failures.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "### {}\n\n",
        format::plural(failures.len(), "failed run", "failed runs")
    );
    let heads = ["run", "image", "cell", "reason", "stage", "message", "log"].map(str::to_owned);
    let rows: Vec<Vec<String>> = failures
        .iter()
        .take(MOST_FAILURES)
        .map(|failure| {
            vec![
                failure.run.clone(),
                failure.image.clone(),
                failure.cell.clone(),
                failure.reason.word(),
                stage_word(failure.stage),
                failure.message.clone(),
                failure
                    .log
                    .clone()
                    .unwrap_or_else(|| format::UNKNOWN.to_owned()),
            ]
        })
        .collect();
    text += &table(&heads, heads.len(), &rows);
    if failures.len() > MOST_FAILURES {
        text += &format!(
            "\nand {} more in `report.html`.\n",
            failures.len() - MOST_FAILURES
        );
    }
    text + "\n"
}

fn contaminated(view: &View) -> String {
    let contaminated = &view.report.contaminated;
    if contaminated.is_empty() {
        return String::new();
    }
    let count = format::plural(contaminated.len(), "contaminated try", "contaminated tries");
    let mut text = format!("### {count}, in no metric and no verdict\n\n");
    let heads = ["run", "try", "image", "cell", "why", "what came of the run"].map(str::to_owned);
    let row = |one: &Contaminated| {
        vec![
            one.run.clone(),
            one.attempt.to_string(),
            one.image.clone(),
            one.cell.clone(),
            one.why.join("; "),
            one.came_to(),
        ]
    };
    let rows: Vec<Vec<String>> = contaminated.iter().take(MOST_FAILURES).map(row).collect();
    text += &table(&heads, heads.len(), &rows);
    if contaminated.len() > MOST_FAILURES {
        let more = contaminated.len() - MOST_FAILURES;
        text += &format!("\nand {more} more in `report.html`.\n");
    }
    text + "\n"
}

fn warnings(view: &View) -> String {
    let warnings = &view.report.warnings;
    if warnings.is_empty() {
        return String::new();
    }
    let lines: String = warnings
        .iter()
        .map(|warning| format!("- {}\n", escape(warning)))
        .collect();
    format!("### Before believing these metrics\n\n{lines}\n")
}

fn details(view: &View) -> String {
    let list = |facts: Vec<Fact>| -> String {
        facts
            .into_iter()
            .map(|(name, value)| format!("- {name}: {}\n", escape(&value)))
            .collect()
    };
    let mut text =
        String::from("<details><summary>Machine, images and how it was run</summary>\n\n");
    for session in &view.report.sessions {
        text += &format!("**Session {}**\n\n", escape(&session.session));
        text += &list(facts::run(session));
        text += &list(facts::machine(session));
        for note in &session.notes {
            text += &format!("- Note: {}\n", escape(note));
        }
        text += "\n";
        for image in &session.images {
            text += &format!("**Image {}**\n\n", escape(&image.name));
            text += &list(facts::image(image));
            for (holds, bytes) in &image.layers {
                text += &format!(
                    "- Layer: {}, {}\n",
                    escape(holds),
                    format::bytes(*bytes as f64)
                );
            }
            text += "\n";
        }
    }
    text + "</details>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_means_itself() {
        let check = |text: &str, expect: &str| assert_eq!(escape(text), expect);
        check("max_split_size_mb:64", "max_split_size_mb:64");
        check(
            "<script>alert(1)</script>",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
        );
        check(
            "a|b `c` *d* @someone #12",
            r"a\|b \`c\` \*d\* &#64;someone &#35;12",
        );
        check("_emphasis_", r"\_emphasis\_");
        check("line\nbreak", "line break");
        check("![x](y)", r"\!\[x\](y)");
    }
}
