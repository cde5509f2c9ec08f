//! Whether a lock would come out differently today, found out without fetching what it names.

use std::{collections::BTreeMap, path::Path};

use crate::{
    Base, Cache, Digest, Error, Image, LibtorchSpec, Result, Sources,
    base::{apt, debian::PACKAGES},
    libtorch::{installed::installed, pip::Pip},
    lock::{
        BaseLock, DebPackage, LibtorchLock, Lock, Wheel, WheelsLock,
        changes::{Change, changes},
    },
    progress::Action,
    workload::{tch_workspace, toolchain},
};

/// A package: its version, and the digest of its file.
type Packages = BTreeMap<String, (String, Digest)>;

/// What locking the image again would change: packages that apt and pip offer in another version
/// or with other content, a base archive or an installed PyTorch that was changed, other
/// compilers, a spec that was edited. Nothing is downloaded but lists and metadata.
pub fn outdated(image: &Image, sources: &Sources, cache: &Cache) -> Result<Vec<Change>> {
    let Some(lock) = &image.lock else {
        return Err(Error::NoLock {
            image: image.reference.clone(),
        });
    };
    let mut found = values(&[("the spec", lock.spec, image.spec.digest())]);
    found.extend(base_changes(image, lock, cache)?);
    found.extend(match (&image.spec.libtorch, &lock.libtorch) {
        (LibtorchSpec::Wheels { version, .. }, LibtorchLock::Wheels(wheels)) => {
            wheel_changes(version, wheels, cache)?
        }
        (LibtorchSpec::Installed { folder, flavour }, LibtorchLock::Installed(_)) => {
            installed_changes(folder.as_deref(), *flavour, lock, cache)?
        }
        // What lies inside a base is pinned with it; of other pairs the spec's own line tells.
        _ => Vec::new(),
    });
    let torch = match &lock.libtorch {
        LibtorchLock::Wheels(wheels) => &wheels.version,
        LibtorchLock::Installed(installed) => &installed.version,
    };
    let here = toolchain::here(&sources.workspace, torch);
    found.extend(lock.toolchain.changes_to(&here));
    let compiled_from = lock.expected.image.as_ref().and_then(|image| image.sources);
    if let Some(old) = compiled_from {
        let new = tch_workspace::sources_digest(&sources.workspace, torch)?;
        found.extend(values(&[("the workload's sources", old, new)]));
    }
    Ok(found)
}

/// Those pairs that differ.
fn values<T: PartialEq + ToString>(pairs: &[(&str, T, T)]) -> Vec<Change> {
    pairs
        .iter()
        .filter(|(_, old, new)| old != new)
        .map(|(name, old, new)| Change {
            name: (*name).to_owned(),
            first: Some(old.to_string()),
            second: Some(new.to_string()),
        })
        .collect()
}

fn base_changes(image: &Image, lock: &Lock, cache: &Cache) -> Result<Vec<Change>> {
    Ok(match (&image.spec.base, &lock.base) {
        (Base::Debian, BaseLock::Debian(old)) => {
            let new = apt::resolve_newest(&PACKAGES, cache)?;
            package_changes(&debs(old), &debs(&new))
        }
        (Base::Archive(file), BaseLock::Archive(old)) => {
            let new = cache.digest_of(file)?;
            values(&[("the base archive", *old, new)])
        }
        _ => Vec::new(),
    })
}

fn wheel_changes(version: &str, lock: &WheelsLock, cache: &Cache) -> Result<Vec<Change>> {
    let pip = Pip::ready(cache)?;
    let _meter = cache.start(Action::Resolve, &format!("torch {version}"), None);
    let mut offered = pip.resolve(&[format!("torch=={version}")], cache)?;
    for header in &lock.headers {
        let series: Vec<&str> = header.version.split('.').take(2).collect();
        let requirement = format!("{}=={}.*", header.name, series.join("."));
        let found = pip.resolve(&[requirement], cache)?;
        offered.extend(found.into_iter().filter(|wheel| wheel.name == header.name));
    }
    let old: Vec<&Wheel> = lock.wheels.iter().chain(&lock.headers).collect();
    // Of the wheels that torch requires, the lock names those that hold something it takes.
    offered.retain(|wheel| old.iter().any(|old| old.name == wheel.name));
    Ok(package_changes(&wheels(old), &wheels(&offered)))
}

fn installed_changes(
    folder: Option<&Path>,
    flavour: crate::Flavour,
    lock: &Lock,
    cache: &Cache,
) -> Result<Vec<Change>> {
    let found = installed(folder, flavour, cache)?;
    let mut new = Packages::new();
    for library in &found.libraries {
        let digest = cache.digest_of(&library.path)?;
        new.insert(library.name.clone(), (found.name.clone(), digest));
    }
    let name = lock.libtorch.name();
    let old = lock
        .libtorch
        .libraries()
        .map(|(library, _, digest)| (library.to_owned(), (name.to_owned(), digest)))
        .collect();
    Ok(package_changes(&old, &new))
}

fn debs(packages: &[DebPackage]) -> Packages {
    packages
        .iter()
        .map(|package| {
            (
                package.name.clone(),
                (package.version.clone(), package.sha256),
            )
        })
        .collect()
}

fn wheels<'a>(wheels: impl IntoIterator<Item = &'a Wheel>) -> Packages {
    wheels
        .into_iter()
        .map(|wheel| (wheel.name.clone(), (wheel.version.clone(), wheel.sha256)))
        .collect()
}

/// By version; where that is the same and the content is not, by digest.
fn package_changes(old: &Packages, new: &Packages) -> Vec<Change> {
    let same_version = |name: &String| matches!((old.get(name), new.get(name)), (Some(old), Some(new)) if old.0 == new.0);
    let told = |packages: &Packages| {
        packages
            .iter()
            .map(|(name, (version, digest))| {
                let told = if same_version(name) {
                    format!("{version}, {digest}")
                } else {
                    version.clone()
                };
                (name.clone(), told)
            })
            .collect()
    };
    changes(&told(old), &told(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_a_changed_file_and_a_vanished_package_are_told_apart() {
        let packages = |list: &[(&str, &str, &[u8])]| -> Packages {
            list.iter()
                .map(|(name, version, content)| {
                    (
                        (*name).to_owned(),
                        ((*version).to_owned(), Digest::of(content)),
                    )
                })
                .collect()
        };
        let old = packages(&[
            ("libc6", "1", b"a"),
            ("same", "1", b"s"),
            ("rebuilt", "1", b"x"),
            ("gone", "1", b"g"),
        ]);
        let new = packages(&[
            ("libc6", "2", b"b"),
            ("same", "1", b"s"),
            ("rebuilt", "1", b"y"),
        ]);
        let found = package_changes(&old, &new);
        let told: Vec<(&str, Option<&str>, Option<&str>)> = found
            .iter()
            .map(|c| (c.name.as_str(), c.first.as_deref(), c.second.as_deref()))
            .collect();
        let (x, y) = (
            format!("1, {}", Digest::of(b"x")),
            format!("1, {}", Digest::of(b"y")),
        );
        assert_eq!(
            told,
            [
                ("gone", Some("1"), None),
                ("libc6", Some("1"), Some("2")),
                ("rebuilt", Some(x.as_str()), Some(y.as_str())),
            ]
        );
    }
}
