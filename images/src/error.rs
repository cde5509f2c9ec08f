//! What can go wrong with images. Each error names what, where, what was expected, and the next step.

use std::{io, path::PathBuf};

use crate::{Digest, Glibc};

/// The result of anything to do with images.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
#[non_exhaustive]
pub enum Error {
    /// Neither a home folder nor `XDG_CACHE_HOME`.
    #[error("there is no home folder to keep a cache in; set HOME or XDG_CACHE_HOME")]
    NoHome,

    /// The cache cannot be written.
    #[error(
        "the cache folder {} cannot be used: {source}; make it writable, or set XDG_CACHE_HOME \
         to a folder that is",
        folder.display()
    )]
    CacheUnusable { folder: PathBuf, source: io::Error },

    /// The cache cannot be cleared now.
    #[error(
        "the cache folder {} is used by a build or a session that runs; nothing was removed: run \
         again once that has ended",
        folder.display()
    )]
    CacheInUse { folder: PathBuf },

    /// A file or folder could not be read or written.
    #[error("{}: {source}{}", path.display(), disk_hint(source))]
    Io { path: PathBuf, source: io::Error },

    /// A file's content is not what was locked.
    #[error("{what} has the wrong content: expected {expected}, found {found}; {next}")]
    WrongHash {
        what: String,
        expected: Digest,
        found: Digest,
        next: &'static str,
    },

    /// A registry did not do what was asked of it.
    #[error("{registry}: {cause}")]
    Registry {
        /// The registry, and its repository where one was asked for.
        registry: String,
        /// Why, with what to do about it.
        cause: String,
    },

    /// A compressed layer of the cache is another one by now.
    #[error(
        "the compressed layer {layer} was {expected}, and is {found} now: it was damaged in the cache, \
         and is removed. Run again"
    )]
    DamagedBlob {
        /// The layer.
        layer: String,
        /// Its digest when it was compressed.
        expected: Digest,
        /// Its digest now.
        found: Digest,
    },

    /// A layer's bytes are not those that were hashed.
    #[error(
        "the layer {layer} was hashed as {expected}, and its bytes are {found} now: a file below it \
         was changed and kept its size, time and inode, or a hash in the cache is damaged. The old \
         hashes were dropped: run again"
    )]
    StaleLayer {
        layer: String,
        expected: Digest,
        found: Digest,
    },

    /// A wheel that is no readable zip archive, or lacks a file.
    #[error(
        "the wheel {} cannot be unpacked{}: {cause}; run again to fetch it anew",
        wheel.display(),
        member.as_ref().map(|m| format!(" at `{m}`")).unwrap_or_default()
    )]
    BadWheel {
        wheel: PathBuf,
        member: Option<String>,
        cause: String,
    },

    /// A file that should be an ELF binary.
    #[error("{} is not a readable ELF file: {cause}", file.display())]
    NotElf { file: PathBuf, cause: String },

    /// What was unpacked is not what was packed.
    #[error(
        "{} is not as it was packed: {cause}; unpack the archive again (`sha256sum --check SHA256SUMS` \
         names all that differs)",
        file.display()
    )]
    Unpacked { file: PathBuf, cause: String },

    /// A program that would not start everywhere.
    #[error("{} does not run on a bare Debian 12: {cause}", file.display())]
    NotPortable { file: PathBuf, cause: String },

    /// The locked image, compressed to other bytes than those that were locked.
    #[error(
        "{image} would be pulled by {found}, and its lock says {locked}: its layers are the locked \
         ones and are compressed otherwise than they were then; to take that up: cargo xtask images \
         lock --workload --push-digest {image}"
    )]
    OtherPushDigest {
        image: String,
        locked: Digest,
        found: Digest,
    },

    /// A program that is needed is not there.
    #[error("`{program}` is needed to {purpose}, and could not be started: {source}; {next}")]
    NoProgram {
        program: String,
        purpose: &'static str,
        source: io::Error,
        next: &'static str,
    },

    /// A program ended with an error.
    #[error("{what} failed ({status}):\n{output}\n{next}")]
    ProgramFailed {
        what: String,
        status: String,
        output: String,
        next: String,
    },

    /// Python's pip does not offer what was asked for.
    #[error(
        "pip offers no {what} for this platform:\n{output}\nCheck the version, the network, \
         and pip's index settings (`python3 -m pip config list`)"
    )]
    NotOffered { what: String, output: String },

    /// A spec that cannot be read.
    #[error(transparent)]
    Yaml(#[from] strict_yaml::YamlError),

    /// The engine could not do what was asked.
    #[error(transparent)]
    Engine(#[from] engine::Error),

    /// A base image without a digest.
    #[error("{error}{}", known.as_ref().map(|known| format!("; {known}")).unwrap_or_default())]
    Unpinned {
        reference: String,
        known: Option<String>,
        error: Box<strict_yaml::YamlError>,
    },

    /// A base image that no engine here has.
    #[error(
        "the base image {reference} is not in {engine}, and cannot be pulled: {cause}. Where no \
         registry can be reached, save the image on a machine that has it (`docker image save`) \
         and load it here, or write `base: {{archive: FILE}}`"
    )]
    NoBaseImage {
        reference: String,
        engine: String,
        cause: String,
    },

    /// A complete image that the engine does not have, and that nothing pins.
    #[error(
        "{engine} has no image {reference}, and pulls a complete image by its digest alone; load it \
         out of its archive (`cargo xtask images load FILE`), or give what `cargo xtask images push` \
         printed: REGISTRY/REPOSITORY@sha256:DIGEST"
    )]
    NotInEngine { reference: String, engine: String },

    /// A complete image that the engine could not pull.
    #[error(
        "the image {reference} is not in {engine}, and cannot be pulled: {cause}. Where no registry \
         can be reached, write it to a file where it can be built (`cargo xtask images export`) and \
         load that here (`cargo xtask images load FILE`)"
    )]
    NotPulled {
        reference: String,
        engine: String,
        cause: String,
    },

    /// A base image that was not taken out of an engine yet.
    #[error(
        "the base image {reference} is not in the cache yet; `cargo xtask images build` takes it \
         out of the engine"
    )]
    BaseNotFetched { reference: String },

    /// A base that should hold a libtorch and does not.
    #[error("no libtorch {} the base: {cause}; {next}", place.as_ref().map_or("in".to_owned(), |place| format!("at {place} in")))]
    NothingInside {
        place: Option<String>,
        cause: String,
        next: &'static str,
    },

    /// There is no spec of this name.
    #[error(
        "there is no image `{name}` in {}{hint}; there are {known}",
        folder.display()
    )]
    UnknownImage {
        name: String,
        hint: String,
        known: String,
        folder: PathBuf,
    },

    /// A spec's file name cannot be part of an image's name.
    #[error(
        "`{name}` cannot name an image; expected lower-case letters and digits with single \
         `.`, `_` or `-` between them, as in torch-2.11.0-cpu.yaml"
    )]
    BadName { name: String },

    /// A lock that cannot be believed.
    #[error(
        "the lock {} cannot be used: {cause}; restore it, or make it anew with \
         `cargo xtask images lock`",
        file.display()
    )]
    BadLock { file: PathBuf, cause: String },

    /// The lock does not fit the spec or what there is.
    #[error(
        "the lock of image {image} does not fit: {cause}; run `cargo xtask images lock {image}`"
    )]
    LockDiffers { image: String, cause: String },

    /// An image cannot be built without a lock where one is required.
    #[error("image {image} has no lock; run `cargo xtask images lock {image}`")]
    NoLock { image: String },

    /// apt does not offer a package, or not in the locked version.
    #[error("apt offers no {what}: {cause}; {next}")]
    NoPackage {
        what: String,
        cause: String,
        next: &'static str,
    },

    /// An image of the engine's that cannot be run as it is.
    #[error("the image {reference} cannot be run as it is: {problem}")]
    UnfitImage { reference: String, problem: String },

    /// A file that `images load` cannot take.
    #[error(
        "{} is no archive of an image of Torchgauge's: {cause}; give what `cargo xtask images \
         export` wrote, all pieces in their order",
        file.display()
    )]
    BadArchive { file: PathBuf, cause: String },

    /// A base archive that cannot be used.
    #[error("the base archive {} cannot be used: {cause}; {next}", file.display())]
    BadBase {
        file: PathBuf,
        cause: String,
        next: &'static str,
    },

    /// The engine has another image than the one that was loaded.
    #[error(
        "the engine says that it loaded {reference}, and has {found} under that name; expected \
         {expected}. The name was taken away again; run the build once more, and if it stays so, \
         check the engine's storage"
    )]
    LoadedWrong {
        reference: String,
        found: String,
        expected: String,
    },

    /// The file that names the images to take where none is named does not.
    #[error("{} cannot be used: {cause}; expected `cpu`, `cuda` and `installed`, each the name of a spec", file.display())]
    BadDefaults { file: PathBuf, cause: String },

    /// A torch version that there is no tch for.
    #[error("no tch compiles against torch {version}; expected {oldest} or newer, such as 2.11.0")]
    UnknownTorch { version: String, oldest: String },

    /// No PyTorch is installed, or not where it was said to be.
    #[error("no installed PyTorch {place}: {cause}; {next}")]
    NoTorch {
        place: String,
        cause: String,
        next: &'static str,
    },

    /// A folder that should hold a libtorch does not.
    #[error("{} is no libtorch folder: {cause}; expected lib/libtorch_cpu.so and lib/libc10.so in it", folder.display())]
    NoLibtorch { folder: PathBuf, cause: String },

    /// The flavour that was asked for is not what is there.
    #[error("{} holds no CUDA libtorch (lib/libtorch_cuda.so is missing); use the cpu flavour, or another libtorch", folder.display())]
    NoCuda { folder: PathBuf },

    /// A library needs others that neither libtorch nor the base has.
    #[error(
        "the image would lack {}, needed by {needed_by}; add the package that has it to the base, \
         or use another libtorch",
        missing.join("; ")
    )]
    MissingLibraries {
        missing: Vec<String>,
        needed_by: String,
    },

    /// A base that would change what is measured.
    #[error(
        "the base of {image} changes what runs measure by {}; set it under `environment` in the \
         spec, or allow it: `allow: [{}]`",
        found.join(", "), found.join(", ")
    )]
    BaseChangesRuns { image: String, found: Vec<String> },

    /// The scenario binary needs a newer glibc than the base has.
    #[error(
        "the scenario binary {} needs glibc {needs}, and the image's base has {has}; build it on a \
         system as old as the base (Debian 12 has glibc 2.36), or take a newer base",
        binary.display()
    )]
    GlibcTooOld {
        binary: PathBuf,
        needs: Glibc,
        has: Glibc,
    },

    /// A file that was given as the scenario binary and cannot be it.
    #[error(
        "{} is no scenario binary: {cause}; expected the program `scenario` of a Torchgauge \
         checkout, for x86-64 Linux, as `cargo xtask images build` compiles it to \
         target/scenario/LIBTORCH/release/scenario. Leave `--scenario-binary` and \
         TORCHGAUGE_SCENARIO away to have it compiled",
        file.display()
    )]
    NoScenario { file: PathBuf, cause: String },

    /// The scenario binary could not be built.
    #[error("building the scenario binary for libtorch {flavour} failed:\n{output}")]
    ScenarioBuild { flavour: String, output: String },
}

fn disk_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "; free some space there and run again (what is finished is kept)"
        }
        io::ErrorKind::PermissionDenied => "; check who owns it",
        _ => "",
    }
}

/// Names the file that an I/O error is about.
pub(crate) fn at(path: &std::path::Path) -> impl Fn(io::Error) -> Error + '_ {
    |source| Error::Io {
        path: path.to_owned(),
        source,
    }
}
