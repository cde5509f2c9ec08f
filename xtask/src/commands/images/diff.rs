//! `images diff`: what stands behind a difference in the metrics of two images.

use bytesize::ByteSize;
use images::{Cache, Image, Sources};
use record::{ImageChange, ImageFacts, PartValue, image_changes};

use crate::{
    cli::Format,
    commands::bench::prepare::{blocking, cache, with_base},
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
    let cache = cache(printer)?;
    let names = images.each_ref().map(|image| image.name.clone());
    let [first, second] = images;
    let first = facts(first, sources, &cache).await?;
    let second = facts(second, sources, &cache).await?;
    let found = image_changes(&first, &second);
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

async fn facts(image: Image, sources: &Sources, cache: &Cache) -> Result<ImageFacts> {
    let image = with_base(image, cache).await?;
    let (sources, cache) = (sources.clone(), cache.clone());
    blocking(move || Ok(images::facts_below(&image, &sources, &cache)?)).await
}

fn print(found: &[ImageChange], names: &[String; 2], format: Format, printer: &Printer) {
    let value = |value: &Option<PartValue>| match value {
        None => "–".to_owned(),
        Some(PartValue::Bytes(bytes)) => ByteSize::b(*bytes).to_string(),
        Some(PartValue::Text(text)) => text.clone(),
    };
    let mut table = table(format, ["", "what", &names[0], &names[1]]);
    for change in found {
        table.add_row([
            change.part.to_string(),
            change.name.clone(),
            value(&change.base),
            value(&change.head),
        ]);
    }
    printer.line(&table.to_string());
}
