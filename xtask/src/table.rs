//! Tables as every command prints them.

use std::fmt;

use reports::{markdown::escape, text};

use crate::{cli::Format, printer};

/// Rows under a header, in the form that fits the format and the terminal.
pub(crate) struct Table {
    format: Format,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

pub(crate) fn table<T: Into<String>>(format: Format, header: impl IntoIterator<Item = T>) -> Table {
    Table {
        format,
        header: header.into_iter().map(Into::into).collect(),
        rows: Vec::new(),
    }
}

impl Table {
    pub(crate) fn add_row<T: Into<String>>(
        &mut self,
        row: impl IntoIterator<Item = T>,
    ) -> &mut Self {
        self.rows.push(row.into_iter().map(Into::into).collect());
        self
    }

    fn markdown(&self) -> String {
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = format!("|{}\n", "---|".repeat(self.header.len()));
        let rows: String = self.rows.iter().map(line).collect();
        line(&self.header) + &rule + &rows
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.format {
            Format::Markdown => self.markdown(),
            Format::Text | Format::Json => {
                text::columns(&self.header, &self.rows, printer::table_style())
            }
        };
        f.write_str(text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use reports::text::Style;

    use super::*;

    #[test]
    fn a_cell_ends_no_row_of_markdown() {
        let mut table = table(Format::Markdown, ["what", "found"]);
        table.add_row(["a|b", "`x`\n<b>"]);
        let expect = "| what | found |\n|---|---|\n| a\\|b | \\`x\\` &lt;b&gt; |";
        assert_eq!(table.to_string(), expect);
    }

    #[test]
    fn a_table_of_text_is_as_wide_as_a_log_reads_well() {
        let mut table = table(Format::Text, ["what", "found"]);
        table.add_row(["disk", &"five words of six letters ".repeat(12)]);
        let shown = text::columns(&table.header, &table.rows, Style::Plain);
        assert!(
            shown.lines().all(|line| line.chars().count() <= 100),
            "{shown}"
        );
    }
}
