//! `images diff`: what stands behind a difference in the figures of two images.

use images::{
    Cache, Image, Sources,
    diff::{Difference, Parts, diff},
};

use super::changes::{Unit, rows};
use crate::{
    cli::Format,
    commands::bench::prepare::{blocking, with_base},
    error::Result,
    printer::Printer,
    table::table,
};

/// Compares two images below the scenario binary, so that nothing is compiled for it.
pub(super) async fn run(
    images: [Image; 2],
    sources: &Sources,
    format: Format,
    printer: &Printer,
) -> Result<()> {
    let cache = Cache::user()?;
    let names = images.each_ref().map(|image| image.name.clone());
    let [first, second] = images;
    let first = parts(first, sources, &cache, printer).await?;
    let second = parts(second, sources, &cache, printer).await?;
    let found = diff(&first, &second);
    if format == Format::Json {
        return printer.json(&found);
    }
    if found.is_empty() {
        printer.line(&format!(
            "{} and {} are the same below the scenario binary",
            names[0], names[1]
        ));
        return Ok(());
    }
    print(&found, &names, format, printer);
    Ok(())
}

async fn parts(image: Image, sources: &Sources, cache: &Cache, printer: &Printer) -> Result<Parts> {
    let image = with_base(image, cache, printer).await?;
    let (sources, cache, printer) = (sources.clone(), cache.clone(), printer.clone());
    blocking(move || Ok(images::parts(&image, &sources, &cache, &printer)?)).await
}

fn print(found: &Difference, names: &[String; 2], format: Format, printer: &Printer) {
    let kinds = [
        ("version", &found.versions, Unit::Text),
        ("package", &found.packages, Unit::Text),
        ("library", &found.libraries, Unit::Bytes),
        ("environment", &found.environment, Unit::Text),
        ("layer", &found.layers, Unit::Bytes),
    ];
    let mut table = table(format, ["", "what", &names[0], &names[1]]);
    for (kind, changes, unit) in kinds {
        for [what, first, second] in rows(changes, unit) {
            table.add_row([kind.to_owned(), what, first, second]);
        }
    }
    printer.line(&table.to_string());
}
