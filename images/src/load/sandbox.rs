//! Images as they run without an engine: unpacked once into the cache, by ID.

use std::{
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use engine::{Apptainer, ImageFacts, Unpacked};
use oci_spec::image::{ImageConfiguration, ImageIndex, ImageManifest};
use serde::de::DeserializeOwned;

use crate::{
    Assembly, Error, Result,
    base::{
        archive::bad_archive, filesystem::Filesystem, image::is_pinned, saved_image::image_layers,
    },
    error::at,
    load::blocking,
    program,
    progress::Action,
    store::{Cache, SANDBOXES, read_note},
};

/// Where an image comes from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Assembly(Arc<Assembly>),
    /// What `docker image save`, `podman save` or `images export` wrote.
    Archive(PathBuf),
    /// `REGISTRY/REPOSITORY@sha256:…`
    Registry(String),
}

impl Origin {
    /// What a word of the user's names; `None` where it is no file, and may come to mean another image.
    pub(crate) fn of(word: &str) -> Option<Self> {
        let file = Path::new(word);
        if file.is_file() {
            return Some(Self::Archive(file.to_owned()));
        }
        is_pinned(word).then(|| Self::Registry(word.to_owned()))
    }

    fn name(&self) -> String {
        match self {
            Self::Assembly(assembly) => assembly.reference.clone(),
            Self::Archive(file) => file.display().to_string(),
            Self::Registry(reference) => reference.clone(),
        }
    }

    /// What tells it from all others, and stays when a file's content does.
    fn key(&self, cache: &Cache) -> Result<String> {
        Ok(match self {
            Self::Assembly(assembly) => assembly.config_id.to_string(),
            Self::Archive(file) => cache.digest_of(file)?.to_string(),
            Self::Registry(reference) => reference.clone(),
        })
    }

    /// As Apptainer names it; an assembly's archive is written to this folder.
    fn source(&self, aside: &Path, cache: &Cache) -> Result<OsString> {
        let (format, file) = match self {
            Self::Assembly(assembly) => {
                let file = aside.join("image.tar");
                assembly.write_archive(&file, cache)?;
                ("docker-archive:", file)
            }
            Self::Archive(file) => {
                let files = Filesystem::of_archive(file).unwrap_or_default();
                let has = |name| files.file(name).is_some();
                let is_oci = has("oci-layout") && !has("manifest.json");
                let format = if is_oci {
                    "oci-archive:"
                } else {
                    "docker-archive:"
                };
                (format, file.clone())
            }
            Self::Registry(reference) => return Ok(format!("docker://{reference}").into()),
        };
        let mut source = OsString::from(format);
        source.push(file);
        Ok(source)
    }
}

/// An image in its own folder of the cache, as it is known there, and the seconds that it took to
/// unpack it where it was not there, `by` what is to run it. Two who want it at once make it once.
pub(crate) async fn sandbox(
    origin: Origin,
    by: &Unpacked,
    cache: &Cache,
) -> Result<(ImageFacts, Option<f64>)> {
    let cache = cache.clone();
    let by_apptainer = matches!(by, Unpacked::Apptainer(_));
    blocking(move || {
        let kind = if by_apptainer { "sandbox" } else { "root" };
        let note = cache.note_path(
            "layers",
            format!("{kind} {}", origin.key(&cache)?).as_bytes(),
        );
        let known = || {
            let facts = read_note::<ImageFacts>(&note)?;
            let root = facts.root.as_deref().filter(|root| root.is_dir())?;
            cache.used(root);
            Some(facts)
        };
        if let Some(facts) = known() {
            return Ok((facts, None));
        }
        let lock = note.file_stem().unwrap_or_default().to_string_lossy();
        let _lock = cache.lock(&format!("sandbox-{lock}"))?;
        if let Some(facts) = known() {
            return Ok((facts, None));
        }
        let began = Instant::now();
        let facts = if by_apptainer {
            unpack(&origin, &cache)?
        } else {
            write_root(&origin, &cache)?
        };
        cache.write_note(&note, &facts)?;
        Ok((facts, Some(began.elapsed().as_secs_f64())))
    })
    .await
}

fn unpack(origin: &Origin, cache: &Cache) -> Result<ImageFacts> {
    const ARCHIVE: &str = "give what `docker image save` or `podman save` wrote, uncompressed";
    let next = match origin {
        Origin::Registry(_) => "log in there (`apptainer registry login`), or give its archive",
        Origin::Assembly(_) | Origin::Archive(_) => ARCHIVE,
    };
    let name = origin.name();
    let scratch = cache.scratch()?;
    let aside = scratch.path();
    let source = origin.source(aside, cache)?;
    let root = aside.join("root");
    let mut command = Apptainer::unpacking(&source, &root, aside);
    let outcome = {
        let _meter = cache.start(Action::Unpack, &name, None);
        program::run(&mut command, "unpack images", next, |_| true)?
    };
    if !outcome.status.success() {
        let tail = &outcome.tail;
        let next = if tail.contains("no space left on device") {
            format!(
                "it is unpacked below {}: make room there, or set XDG_CACHE_HOME to a folder with more",
                cache.root().display()
            )
        } else {
            next.to_owned()
        };
        return Err(Error::Trouble(format!(
            "Apptainer cannot unpack the image {name}:\n{tail}\n{next}"
        )));
    }
    let facts = laid_out(&aside.join(Apptainer::BLOBS))?;
    if let Origin::Assembly(assembly) = origin
        && facts.id != assembly.config_id.to_string()
    {
        return Err(Error::Trouble(format!(
            "Apptainer unpacked {} for {name}, expected {}; run again",
            facts.id, assembly.config_id
        )));
    }
    keep(&root, facts, "", cache)
}

/// The same by this program alone, out of an archive.
fn write_root(origin: &Origin, cache: &Cache) -> Result<ImageFacts> {
    let scratch = cache.scratch()?;
    let file = match origin {
        Origin::Registry(reference) => {
            return Err(Error::Input(format!(
                "image {reference}: `--engine chroot` takes nothing from a registry; give its archive: \
                 `docker image save`, or `skopeo copy docker://{reference} docker-archive:FILE.tar`"
            )));
        }
        Origin::Archive(file) => file.clone(),
        Origin::Assembly(assembly) => {
            let file = scratch.path().join("image.tar");
            assembly.write_archive(&file, cache)?;
            file
        }
    };
    let members = Filesystem::of_archive(&file).map_err(|cause| bad_archive(&file, cause))?;
    let saved = image_layers(&file, &members, cache)?;
    let files = saved.filesystem(&file)?;
    let root = scratch.path().join("root");
    fs::create_dir(&root).map_err(at(&root))?;
    {
        let mut meter = cache.start(Action::Unpack, &origin.name(), Some(files.size_bytes()));
        let written = files.write_to(&root, |done| meter.advance_to(done));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::Other => bad_archive(&file, error.to_string()),
            _ => at(&root)(error),
        })?;
    }
    keep(
        &root,
        declared(saved.id.to_string(), &saved.config),
        "-root",
        cache,
    )
}

/// Puts an unpacked image into the cache.
fn keep(root: &Path, mut facts: ImageFacts, end: &str, cache: &Cache) -> Result<ImageFacts> {
    make_workdir(root, &facts.workdir)?;
    let name = facts.id.replace(':', "-") + end;
    let place = cache.folder(SANDBOXES).join(name);
    // The same image may have come from elsewhere: one folder is whole as the other.
    if !place.is_dir()
        && let Err(error) = fs::rename(root, &place)
        && !place.is_dir()
    {
        return Err(at(&place)(error));
    }
    cache.used(&place);
    facts.size_bytes = Cache::weigh(&place)?;
    facts.root = Some(place);
    Ok(facts)
}

/// Makes the folder that runs start in, as engines do when a container starts; nothing where a link
/// or `..` is in its way, which may lead out of the image.
fn make_workdir(root: &Path, workdir: &str) -> Result<()> {
    let mut place = root.to_owned();
    for part in Path::new(workdir.trim_start_matches('/')).components() {
        let Component::Normal(name) = part else {
            return Ok(());
        };
        place.push(name);
        match fs::symlink_metadata(&place) {
            Ok(facts) if facts.is_dir() => {}
            Ok(_) => return Ok(()),
            Err(_) => fs::create_dir(&place).map_err(at(&place))?,
        }
    }
    Ok(())
}

/// What the one image of an OCI layout declares; its ID is its configuration's digest, as engines
/// that load or pull it say.
fn laid_out(layout: &Path) -> Result<ImageFacts> {
    fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
        let bytes = fs::read(file).map_err(at(file))?;
        serde_json::from_slice(&bytes).map_err(|error| at(file)(error.into()))
    }
    let blob = |digest: &str| layout.join("blobs").join(digest.replace(':', "/"));
    let index = layout.join("index.json");
    let all: ImageIndex = read(&index)?;
    let Some(first) = all.manifests().first() else {
        return Err(at(&index)(io::Error::other("it names no image")));
    };
    let manifest: ImageManifest = read(&blob(first.digest().as_ref()))?;
    let id = manifest.config().digest().to_string();
    Ok(declared(id.clone(), &read(&blob(&id))?))
}

fn declared(id: String, image: &ImageConfiguration) -> ImageFacts {
    let config = image.config().clone().unwrap_or_default();
    let pair = |pair: &String| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    };
    ImageFacts {
        id,
        layers: image.rootfs().diff_ids().clone(),
        labels: config
            .labels()
            .clone()
            .unwrap_or_default()
            .into_iter()
            .collect(),
        environment: config.env().iter().flatten().map(pair).collect(),
        volumes: config.volumes().clone().unwrap_or_default(),
        entrypoint: config.entrypoint().clone().unwrap_or_default(),
        command: config.cmd().clone().unwrap_or_default(),
        user: config.user().clone().unwrap_or_default(),
        workdir: config.working_dir().clone().unwrap_or_default(),
        architecture: Some(image.architecture().to_string()),
        ..ImageFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_working_directory_is_made_in_the_image_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        for made in [&root, &outside] {
            fs::create_dir(made).unwrap();
        }
        symlink(&outside, root.join("link")).unwrap();
        for (workdir, made) in [
            ("", "."),
            ("/opt/a", "opt/a"),
            ("/opt/a", "opt/a"),
            ("/link/b", "../outside"),
            ("/opt/../../c", "opt"),
        ] {
            make_workdir(&root, workdir).unwrap();
            assert!(root.join(made).is_dir(), "{workdir}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(!folder.path().join("c").exists());
    }

    #[test]
    fn what_may_come_to_mean_another_image_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image.tar");
        fs::write(&file, "").unwrap();
        let of = |word: &str| Origin::of(word).map(|origin| origin.name());
        let word = file.to_str().unwrap();
        assert_eq!(of(word).as_deref(), Some(word));
        let pinned = format!("r:5000/team/x@sha256:{}", "0".repeat(64));
        assert_eq!(of(&pinned).as_deref(), Some(&*pinned));
        for word in ["team/x:1", "./absent.tar", "team/x"] {
            assert_eq!(of(word), None, "{word}");
        }
    }
}
