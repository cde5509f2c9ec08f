//! `images list` and `images inspect`: what there is, without making anything.

use std::path::Path;

use bytesize::ByteSize;
use engine::{Endpoint, Engine};
use images::{
    Base, Catalog, Digest, Image, LibtorchSpec,
    inventory::{self, Present},
    lock::{BaseLock, ExpectedLayer, LibtorchLock, Lock, PackageKind, Toolchain},
};
use serde::Serialize;

use crate::{cli::Format, error::Result, printer::Printer, table::table};

/// An engine that has an image.
#[derive(Debug, Serialize)]
struct Holder {
    engine: String,
    id: String,
    references: Vec<String>,
    size_bytes: u64,
    /// Whether it is the image that the lock expects.
    locked: bool,
}

#[derive(Debug, Serialize)]
struct Listed {
    image: String,
    description: String,
    /// `fits`, `outdated`, `none`, or `unreadable` where spec or lock is.
    lock: &'static str,
    size_bytes: Option<u64>,
    /// `None` where no engine answers, and where spec or lock cannot be read.
    engines: Option<Vec<Holder>>,
}

/// An image as it is printed.
#[derive(Debug, Serialize)]
struct Inspected {
    image: String,
    description: String,
    spec: String,
    base: String,
    libtorch: String,
    /// `fits`, `outdated` or `none`.
    lock: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    locked: Option<Locked>,
    /// `None` where no engine answers.
    engines: Option<Vec<Holder>>,
}

/// What a lock says of an image.
#[derive(Debug, Serialize)]
struct Locked {
    platform: String,
    toolchain: Toolchain,
    /// The image's ID on Docker's graph drivers and on Podman.
    config_id: Option<Digest>,
    /// The image's ID on Docker's containerd store.
    manifest_id: Option<Digest>,
    push_digest: Option<Digest>,
    size_bytes: u64,
    /// What the wheels hold that torch requires, unpacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    wheels_unpacked_bytes: Option<u64>,
    layers: Vec<ExpectedLayer>,
    /// Of a base that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    distribution: Option<String>,
    packages: Vec<Package>,
    libraries: Vec<LibraryWords>,
}

#[derive(Debug, Serialize)]
struct Package {
    name: String,
    version: String,
    /// What installed it in a base that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<PackageKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<Digest>,
}

#[derive(Debug, Serialize)]
struct LibraryWords {
    name: String,
    size_bytes: u64,
}

/// What each engine that answers has; `None` where none does: the specs are there without one.
async fn engines() -> Result<Option<Vec<(Engine, Vec<Present>)>>> {
    let engines = match Engine::connect_all(&Endpoint::auto()).await {
        Ok(engines) => engines,
        Err(engine::Error::NoEngine(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for engine in engines {
        let images = inventory::list(&engine).await?;
        found.push((engine, images));
    }
    Ok(Some(found))
}

fn holders(image: &Image, engines: Option<&[(Engine, Vec<Present>)]>) -> Option<Vec<Holder>> {
    let expected = image
        .lock
        .as_ref()
        .and_then(|lock| lock.expected.image.as_ref());
    let is_locked = |id: &str| {
        expected.is_some_and(|expected| {
            expected.config_id.to_string() == id || expected.manifest_id.to_string() == id
        })
    };
    let mut found = Vec::new();
    for (engine, images) in engines? {
        for present in images.iter().filter(|present| present.image == image.name) {
            found.push(Holder {
                engine: engine.facts().describe(),
                id: present.id.clone(),
                references: present.references.clone(),
                size_bytes: present.size_bytes,
                locked: is_locked(&present.id),
            });
        }
    }
    Some(found)
}

fn lock_word(image: &Image) -> &'static str {
    match &image.lock {
        None => "none",
        Some(_) if image.usable_lock().is_ok() => "fits",
        Some(_) => "outdated",
    }
}

pub(super) async fn list(root: &Path, format: Format, printer: &Printer) -> Result<()> {
    let catalog = Catalog::new(&root.join("images"));
    let engines = engines().await?;
    let mut all = Vec::new();
    // One that cannot be read hides no other, and ends the command as it would alone.
    let mut unreadable = None;
    for name in catalog.names()? {
        match catalog.image(&name) {
            Ok(image) => all.push(Listed {
                engines: holders(&image, engines.as_deref()),
                lock: lock_word(&image),
                size_bytes: image.lock.as_ref().map(locked_size),
                description: image.spec.description,
                image: name,
            }),
            Err(error) => {
                all.push(Listed {
                    image: name,
                    description: String::new(),
                    lock: "unreadable",
                    size_bytes: None,
                    engines: None,
                });
                unreadable.get_or_insert(error);
            }
        }
    }
    if format == Format::Json {
        printer.json(&all)?;
    } else {
        print_list(all, format, printer);
    }
    unreadable.map_or(Ok(()), |error| Err(error.into()))
}

fn print_list(all: Vec<Listed>, format: Format, printer: &Printer) {
    let mut table = table(
        format,
        ["image", "lock", "size", "in the engines", "what it is"],
    );
    for listed in all {
        let engines: Vec<String> = match &listed.engines {
            None if listed.lock == "unreadable" => Vec::new(),
            None => vec![NO_ENGINE.to_owned()],
            Some(holders) => holders.iter().map(in_words).collect(),
        };
        table.add_row([
            listed.image,
            listed.lock.to_owned(),
            listed
                .size_bytes
                .map(|bytes| ByteSize::b(bytes).to_string())
                .unwrap_or_default(),
            engines.join("\n"),
            listed.description,
        ]);
    }
    printer.line(&table.to_string());
}

const NO_ENGINE: &str = "no engine answers";

fn in_words(holder: &Holder) -> String {
    let product = holder.engine.split(' ').next().unwrap_or_default();
    let locked = if holder.locked { ", as locked" } else { "" };
    let digest = holder.id.trim_start_matches("sha256:");
    let id = digest.get(..12).unwrap_or(digest);
    let size = ByteSize::b(holder.size_bytes);
    format!("{product} {id} {size}{locked}")
}

pub(super) async fn inspect(image: &Image, format: Format, printer: &Printer) -> Result<()> {
    let inspected = Inspected {
        image: image.name.clone(),
        description: image.spec.description.clone(),
        spec: image.spec.digest().to_string(),
        base: match &image.spec.base {
            Base::Debian => "debian".to_owned(),
            Base::Archive(file) => format!("archive {}", file.display()),
            Base::Image(reference) => format!("image {reference}"),
        },
        libtorch: match &image.spec.libtorch {
            LibtorchSpec::Wheels { version, flavour } => format!("{version}, {flavour}, wheels"),
            LibtorchSpec::Installed { folder, flavour } => {
                let place = folder.as_ref().map_or("python3's".to_owned(), |folder| {
                    folder.display().to_string()
                });
                format!("installed, {flavour}, {place}")
            }
            LibtorchSpec::Inside { folder, flavour } => {
                let place = folder.as_ref().map(|folder| format!(" at /{folder}"));
                format!("inside the base{}, {flavour}", place.unwrap_or_default())
            }
        },
        lock: lock_word(image),
        locked: image.lock.as_ref().map(locked),
        engines: holders(image, engines().await?.as_deref()),
    };
    if format == Format::Json {
        return printer.json(&inspected);
    }
    print(&inspected, format, printer);
    Ok(())
}

fn locked_size(lock: &Lock) -> u64 {
    let top = lock.expected.image.iter().map(|image| &image.layer);
    lock.expected
        .layers
        .iter()
        .chain(top)
        .map(|layer| layer.size_bytes)
        .sum()
}

fn locked(lock: &Lock) -> Locked {
    let image = lock.expected.image.as_ref();
    let mut packages: Vec<Package> = match &lock.base {
        BaseLock::Debian(packages) => packages
            .iter()
            .map(|package| Package {
                name: package.name.clone(),
                version: package.version.clone(),
                kind: None,
                sha256: Some(package.sha256),
            })
            .collect(),
        BaseLock::Archive(_) | BaseLock::Image(_) => Vec::new(),
    };
    let mut wheels_unpacked_bytes = None;
    if let LibtorchLock::Wheels(wheels) = &lock.libtorch {
        wheels_unpacked_bytes = Some(wheels.wheels_unpacked_bytes);
        packages.extend(wheels.wheels.iter().map(|wheel| Package {
            name: wheel.name.clone(),
            version: wheel.version.clone(),
            kind: None,
            sha256: Some(wheel.sha256),
        }));
    }
    let contents = lock.contents.as_ref();
    let inside = contents.into_iter().flat_map(|contents| &contents.packages);
    packages.extend(inside.map(|package| Package {
        name: package.name.clone(),
        version: package.version.clone(),
        kind: Some(package.kind),
        sha256: None,
    }));
    Locked {
        platform: lock.platform.clone(),
        toolchain: lock.toolchain.clone(),
        config_id: image.map(|image| image.config_id),
        manifest_id: image.map(|image| image.manifest_id),
        push_digest: image.and_then(|image| image.push_digest),
        size_bytes: locked_size(lock),
        wheels_unpacked_bytes,
        layers: lock
            .expected
            .layers
            .iter()
            .chain(image.map(|image| &image.layer))
            .cloned()
            .collect(),
        distribution: contents.and_then(|contents| contents.distribution.clone()),
        packages,
        libraries: lock
            .libtorch
            .libraries()
            .map(|(name, size_bytes, _)| LibraryWords {
                name: name.to_owned(),
                size_bytes,
            })
            .collect(),
    }
}

fn print(inspected: &Inspected, format: Format, printer: &Printer) {
    let mut table = table(format, ["", inspected.image.as_str()]);
    let mut row = |what: &str, value: String| {
        table.add_row([what.to_owned(), value]);
    };
    row("what it is", inspected.description.clone());
    row("base", inspected.base.clone());
    row("libtorch", inspected.libtorch.clone());
    row("lock", inspected.lock.to_owned());
    if let Some(locked) = &inspected.locked {
        row("platform", locked.platform.clone());
        row(
            "built with",
            format!(
                "{}\n{}\ntch {}",
                locked.toolchain.rust, locked.toolchain.cxx, locked.toolchain.tch
            ),
        );
        let id = |id: Option<Digest>| id.map_or("not locked".to_owned(), |id| id.to_string());
        row("ID on Docker and Podman", id(locked.config_id));
        row("ID on containerd's store", id(locked.manifest_id));
        row("pulled by", id(locked.push_digest));
        let size = ByteSize::b(locked.size_bytes);
        row(
            "size",
            match locked.wheels_unpacked_bytes {
                Some(bytes) => format!("{size}, of wheels with {} unpacked", ByteSize::b(bytes)),
                None => size.to_string(),
            },
        );
        for layer in &locked.layers {
            row(
                &format!("layer {}", layer.name),
                format!("{}  {}", layer.digest, ByteSize::b(layer.size_bytes)),
            );
        }
        let packages: Vec<String> = locked
            .packages
            .iter()
            .map(|package| {
                let kind = package.kind.map(|kind| format!(" ({})", kind.word()));
                let kind = kind.unwrap_or_default();
                format!("{} {}{kind}", package.name, package.version)
            })
            .collect();
        if let Some(distribution) = &locked.distribution {
            row("distribution", distribution.clone());
        }
        row("packages", packages.join("\n"));
        let libraries: Vec<String> = locked
            .libraries
            .iter()
            .map(|library| format!("{} {}", library.name, ByteSize::b(library.size_bytes)))
            .collect();
        row("libraries", libraries.join("\n"));
    }
    for holder in inspected.engines.iter().flatten() {
        let locked = if holder.locked {
            "as locked"
        } else {
            "not the locked one"
        };
        row(
            &holder.engine,
            format!("{}\n{} ({locked})", holder.references.join(", "), holder.id),
        );
    }
    match inspected.engines.as_deref() {
        None => row("in the engines", NO_ENGINE.to_owned()),
        Some([]) => row("in the engines", "none has it".to_owned()),
        Some(_) => {}
    }
    printer.line(&table.to_string());
}
