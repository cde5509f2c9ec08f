//! `images inspect --driver`: whether an image would start on a driver, before anything is pulled to a
//! machine that has it.

use std::path::{Path, PathBuf};

use engine::{Endpoint, Engine};
use images::{Cache, DriverCheck, GpuArchitecture, Version, inventory};

use crate::{
    commands::bench::prepare::{blocking, cache},
    error::{Error, Result},
    printer::Printer,
};

pub(super) async fn inspect(
    name: &str,
    driver: &Version,
    gpu: Option<GpuArchitecture>,
    printer: &Printer,
) -> Result<()> {
    let cache = cache(printer)?;
    let file = archive(name, &cache).await?;
    let version = driver.clone();
    let checks = blocking(move || Ok(images::check_driver(&file, &version, gpu, &cache)?)).await?;
    for DriverCheck {
        what,
        starts,
        found,
    } in &checks
    {
        let word = if *starts { "ok" } else { "fails" };
        printer.line(&format!("{word:5}  {what}: {found}"));
    }
    let failed = checks.iter().filter(|check| !check.starts);
    let failed: Vec<&str> = failed.map(|check| check.what).collect();
    if failed.is_empty() {
        printer.line(&format!("{name} starts on driver {driver}"));
        return Ok(());
    }
    Err(Error::Gate(format!(
        "{name} would not start on driver {driver}: {}",
        failed.join(", ")
    )))
}

/// The archive itself, or one of the image that an engine has by this name.
async fn archive(name: &str, cache: &Cache) -> Result<PathBuf> {
    if Path::new(name).extension().is_some_and(|end| end == "tar") {
        return Ok(name.into());
    }
    let engine = Engine::connect(&Endpoint::Auto).await?;
    let own = inventory::list(&engine).await?;
    let own = own.into_iter().find(|present| present.image == name);
    let reference = own.map_or_else(|| name.to_owned(), |present| present.id);
    Ok(images::saved_image(&engine, &reference, cache).await?)
}
