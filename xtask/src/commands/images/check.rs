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
    config_id: String,
    second_config_id: String,
    lock: ImageLock,
    layers: Vec<VerifiedLayer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<VerifiedDifference>,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct VerifiedLayer {
    name: String,
    first: String,
    second: String,
}

#[derive(Debug, Serialize)]
struct VerifiedDifference {
    layer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    what: String,
}

impl Verified {
    fn new(image: &str, lock: ImageLock, found: &Verification, seconds: f64) -> Self {
        Self {
            image: image.to_owned(),
            identical: found.is_identical(),
            config_id: found.expected.to_string(),
            second_config_id: found.found.to_string(),
            lock,
            layers: found
                .layers
                .iter()
                .map(|(name, first, second)| VerifiedLayer {
                    name: name.clone(),
                    first: first.to_string(),
                    second: second.to_string(),
                })
                .collect(),
            difference: found.difference.as_ref().map(|found| VerifiedDifference {
                layer: found.layer.clone(),
                file: found.file.clone(),
                what: found.what.clone(),
            }),
            seconds,
        }
    }

    fn print(&self, printer: &Printer) {
        let verdict = if self.identical {
            "identical"
        } else {
            "NOT identical"
        };
        printer.line(&format!(
            "{}: {verdict}, {} ({:.1} s; {})",
            self.image, self.config_id, self.seconds, self.lock
        ));
        for layer in &self.layers {
            let told = if layer.first == layer.second {
                layer.first.clone()
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
        let verified = Verified::new(
            &name,
            lock_of(&first.facts.lock),
            &found,
            begun.elapsed().as_secs_f64(),
        );
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
        .find_map(|verified| Some((verified.image, verified.difference?)));
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
