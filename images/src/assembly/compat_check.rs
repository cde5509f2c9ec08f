//! What would only show when a container starts, found when its image is made.

use std::collections::BTreeSet;

use crate::{
    Error, Libtorch, Result, ScenarioBinary, base::ready::ReadyBase, elf::Dynamic,
    libtorch::linkage::DRIVER,
};

/// Whether the base's glibc is new enough for the scenario binary.
pub(crate) fn check_glibc(scenario: &ScenarioBinary, base: &ReadyBase) -> Result<()> {
    match (scenario.glibc, base.glibc) {
        (Some(needs), Some(has)) if needs > has => Err(Error::GlibcTooOld {
            binary: scenario.path.clone(),
            needs,
            has,
        }),
        _ => Ok(()),
    }
}

/// Whether everything that is needed is in the image, or is part of the driver.
pub(crate) fn check_libraries(
    libtorch: &Libtorch,
    scenario: &ScenarioBinary,
    base: &ReadyBase,
) -> Result<()> {
    let mut there: BTreeSet<&str> = base.libraries.iter().map(String::as_str).collect();
    there.extend(
        libtorch
            .libraries
            .iter()
            .map(|library| library.name.as_str()),
    );
    there.extend(DRIVER);
    let mut missing = Vec::new();
    let mut needed_by = String::new();
    let files = libtorch
        .libraries
        .iter()
        .map(|library| library.path.as_path());
    for file in std::iter::once(scenario.path.as_path()).chain(files) {
        for name in Dynamic::of_file(file)?.needed {
            if !there.contains(name.as_str()) && !missing.contains(&name) {
                if missing.is_empty() {
                    needed_by = file.display().to_string();
                }
                missing.push(name);
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::MissingLibraries { missing, needed_by })
}
