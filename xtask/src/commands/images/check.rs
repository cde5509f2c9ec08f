//! `images verify` and `images lock --check`: does the same come out again?

use std::{sync::Arc, time::Instant};

use images::{Image, Sources, Verification, verify as build_again};
use record::ImageLock;
use serde::Serialize;

use crate::{
    cli::Format,
    commands::bench::prepare::{assembled, blocking, cache, lock_of},
    error::{Error, Result},
    printer::Printer,
    table::table,
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
            lock: lock_of(&first.facts.lock),
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
        Some((image, difference)) => Err(Error::NotReproducible {
            image,
            place: match difference.file {
                Some(file) => format!("the layer {} at {file}", difference.layer),
                None => format!("the layer {}", difference.layer),
            },
            what: difference.what,
        }),
    }
}

/// What locking an image again would change.
#[derive(Debug, Serialize)]
struct Outdated {
    image: String,
    changes: Vec<images::Change>,
}

/// Says what locking again would change.
pub(super) async fn outdated(
    images: Vec<Image>,
    sources: &Sources,
    format: Format,
    printer: &Printer,
) -> Result<()> {
    let cache = cache(printer)?;
    let mut all = Vec::new();
    for image in images {
        let (sources, cache) = (sources.clone(), cache.clone());
        all.push(
            blocking(move || {
                let changes = images::outdated(&image, &sources, &cache)?;
                Ok(Outdated {
                    image: image.name,
                    changes,
                })
            })
            .await?,
        );
    }
    let stale: Vec<String> = all
        .iter()
        .filter(|outdated| !outdated.changes.is_empty())
        .map(|outdated| outdated.image.clone())
        .collect();
    if format == Format::Json {
        printer.json(&all)?;
    } else {
        let mut table = table(format, ["image", "what", "locked", "now"]);
        for outdated in &all {
            for change in &outdated.changes {
                let value = |value: &Option<String>| value.clone().unwrap_or("–".to_owned());
                let (locked, now) = (value(&change.first), value(&change.second));
                table.add_row([outdated.image.clone(), change.name.clone(), locked, now]);
            }
        }
        if stale.is_empty() {
            printer.line("the locks are what locking would give today");
        } else {
            printer.line(&table.to_string());
        }
    }
    if stale.is_empty() {
        Ok(())
    } else {
        Err(Error::NewerResolution {
            images: stale.join(" "),
        })
    }
}
