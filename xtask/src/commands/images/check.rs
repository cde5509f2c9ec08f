//! `images verify`: does the same come out again?

use std::{sync::Arc, time::Instant};

use images::{Image, Sources, Verification, verify as build_again};
use record::ImageLock;
use serde::Serialize;

use crate::{
    cli::Format,
    commands::bench::prepare::{assembled, blocking, cache},
    error::{Error, Result},
    printer::Printer,
};

/// What a second build gave, as it is printed.
#[derive(Debug, Serialize)]
struct Verified {
    image: String,
    identical: bool,
    lock: ImageLock,
    #[serde(flatten)]
    found: Verification,
    seconds: f64,
}

impl Verified {
    fn print(&self, printer: &Printer) {
        let verdict = if self.identical {
            "identical"
        } else {
            "NOT identical"
        };
        printer.line(&format!(
            "{}: {verdict}, {} ({:.1} s; {})",
            self.image, self.found.expected, self.seconds, self.lock
        ));
        for layer in &self.found.layers {
            let told = if layer.first == layer.second {
                layer.first.to_string()
            } else {
                format!("{} against {}", layer.first, layer.second)
            };
            printer.line(&format!("  {:<10} {told}", layer.name));
        }
    }
}

/// Builds images twice and compares. All are looked at before the first that differs ends it.
pub(super) async fn verify(
    images: Vec<Image>,
    sources: &Sources,
    format: Format,
    printer: &Printer,
) -> Result<()> {
    let cache = cache(printer)?;
    let mut all = Vec::new();
    for image in images {
        let first = assembled(image.clone(), sources, &cache, printer).await?;
        let begun = Instant::now();
        let (sources, cache) = (sources.clone(), cache.clone());
        let (again, name) = (Arc::clone(&first), image.name.clone());
        let found = blocking(move || Ok(build_again(&image, &again, &sources, &cache)?)).await?;
        let verified = Verified {
            image: name,
            identical: found.is_identical(),
            lock: first.facts.lock.clone().unwrap_or(ImageLock::Unlocked),
            found,
            seconds: begun.elapsed().as_secs_f64(),
        };
        if format != Format::Json {
            verified.print(printer);
        }
        all.push(verified);
    }
    if format == Format::Json {
        printer.json(&all)?;
    }
    let differing = all
        .into_iter()
        .find_map(|verified| Some((verified.image, verified.found.difference?)));
    match differing {
        None => Ok(()),
        Some((image, difference)) => Err(Error::Gate(format!(
            "the image {image} is not reproducible: a second build differs first in the layer {}: {}",
            difference.layer, difference.what
        ))),
    }
}
