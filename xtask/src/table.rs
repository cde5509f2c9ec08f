//! Tables as every command prints them.

use comfy_table::{ContentArrangement, Row, Table, presets};

use crate::cli::Format;

/// An empty table with this header, in the form that fits the format.
pub(crate) fn table(format: Format, header: impl Into<Row>) -> Table {
    let style = match format {
        Format::Markdown => presets::ASCII_MARKDOWN,
        Format::Text | Format::Json => presets::UTF8_FULL_CONDENSED,
    };
    let mut table = Table::new();
    table
        .load_style(style)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}
