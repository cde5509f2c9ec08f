//! The words of `cargo xtask images`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use bench_suite::executors;

use super::{EngineParser, Format, SourceArgs};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ImagesCommand {
    /// Name the images, with their locks and the engines that have them
    List {
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Make images and load them into the engine; only what is missing is made and loaded
    Build {
        /// Images in `images/`, or files
        #[arg(required = true, value_name = "NAME|FILE")]
        names: Vec<String>,
        /// Use nothing that the locks do not name: another package, library or base is refused
        #[arg(long)]
        locked: bool,
        /// How to print what was built
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        #[command(flatten)]
        sources: SourceArgs,
    },
    /// Resolve images anew and write down everything that goes into them
    Lock(LockArgs),
    /// Build images again from scratch in another folder, and compare them layer by layer;
    /// exits with 1 where a layer differs
    Verify {
        /// Images in `images/`, or files
        #[arg(required = true, value_name = "NAME|FILE")]
        names: Vec<String>,
        /// How to print what was found
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        #[command(flatten)]
        sources: SourceArgs,
    },
    /// Say what an image is made of and which engines have it; nothing is built for it
    Inspect {
        /// An image in `images/`, or a file
        #[arg(value_name = "NAME|FILE")]
        name: String,
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Say what two images differ in, below the scenario binary
    Diff {
        /// An image in `images/`, or a file
        #[arg(value_name = "A")]
        first: String,
        /// Another one
        #[arg(value_name = "B")]
        second: String,
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        #[command(flatten)]
        sources: SourceArgs,
    },
    /// Remove what Torchgauge made from the engine, or clear the cache; images of others stay
    Prune(PruneArgs),
    /// Write the software bill of materials of a locked image, as JSON
    Sbom {
        /// An image in `images/`, or a file
        #[arg(value_name = "NAME|FILE")]
        name: String,
        /// The file; default: standard output
        #[arg(long, value_name = "FILE.json")]
        to: Option<PathBuf>,
    },
    /// Write an image as an archive, for `images load`, `docker load` or `podman load` elsewhere
    Export {
        /// An image in `images/`, or a file
        #[arg(value_name = "NAME|FILE")]
        name: String,
        /// The archive; compressed by zstd where it ends in .zst
        #[arg(long, value_name = "FILE.tar[.zst]")]
        to: PathBuf,
        #[command(flatten)]
        sources: SourceArgs,
    },
    /// Push images to a registry, straight from their parts, and print what to pull each by; a layer
    /// that is there is not sent again
    Push(PushArgs),
    /// Have the engine pull complete images, and print the name that `bench --image` takes for each;
    /// nothing is built
    Pull {
        /// The images, by digest: `REGISTRY/REPOSITORY@sha256:…`
        #[arg(required = true, value_name = "REFERENCE")]
        references: Vec<String>,
    },
    /// Load an image that `images export` wrote elsewhere, and print the name that `bench --image`
    /// takes for it; nothing is built
    Load {
        /// The archive, or its pieces in their order
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Measure a slim image beside the whole one, to see that leaving out GPU code harmed nothing
    Slim(SlimArgs),
    /// Write the Debian base as an archive, for --base-archive on a machine without apt
    Base {
        /// The archive
        #[arg(long, value_name = "FILE.tar")]
        to: PathBuf,
    },
}

#[derive(Debug, Clone, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line, and clap says which exclude each other"
)]
pub(crate) struct LockArgs {
    /// Images in `images/`, or files
    #[arg(required = true, value_name = "NAME|FILE")]
    pub(crate) names: Vec<String>,
    /// Write nothing; say what locking again would change, and exit with 1 where that is anything
    #[arg(long)]
    pub(crate) check: bool,
    /// Leave out the scenario binary, and with it the image's ID: for a machine that cannot
    /// compile it
    #[arg(long, conflicts_with = "check")]
    pub(crate) without_scenario: bool,
    /// Keep every package as it is locked, and lock the scenario binary anew, and with it the
    /// image's ID: after an edit of the workload. Nothing is resolved
    #[arg(long, conflicts_with_all = ["check", "without_scenario"])]
    pub(crate) workload: bool,
    /// Compress the layers as `push` does, and lock the digest that the image is pulled by
    #[arg(long, conflicts_with_all = ["check", "without_scenario"])]
    pub(crate) push_digest: bool,
    /// How to print what --check finds
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct SlimArgs {
    /// A slim image in `images/`, or a file; the whole one is the spec that is the same but for
    /// `gpu_architectures`, or is made for the check where there is none
    #[arg(value_name = "NAME|FILE")]
    pub(crate) name: String,
    /// Run both in turn, and exit with 1 where a gated metric of the slim image regressed
    #[arg(long, required = true)]
    pub(crate) check: bool,
    /// A suite in `scenarios/`, or a file; may be given several times. Default: smoke
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) suite: Vec<String>,
    /// Of the suites this cell alone, as reports name it, or this scenario; may be given several
    /// times
    #[arg(long, value_name = "SCENARIO[ · VARIANT]")]
    pub(crate) cell: Vec<String>,
    /// How many times every cell runs; default: what the suite says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) blocks: Option<u32>,
    /// The session's folder; default: `sessions/` and the session's name
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Where runs execute; default: auto
    #[arg(long, value_name = "ENGINE", value_parser = EngineParser)]
    pub(crate) engine: Option<executors::Choice>,
    /// `auto`, `cpu`, `cuda` or `cuda:N`; default: auto
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PushArgs {
    /// Images in `images/`, or files
    #[arg(required = true, value_name = "NAME|FILE")]
    pub(crate) names: Vec<String>,
    /// Where to: the images become tags of this repository, each by its name
    #[arg(long, value_name = "REGISTRY/REPOSITORY")]
    pub(crate) to: images::Destination,
    /// How layers are compressed
    #[arg(long, value_enum, default_value_t = CompressionChoice::Gzip)]
    pub(crate) compression: CompressionChoice,
    /// Speak to the registry without TLS
    #[arg(long)]
    pub(crate) plain_http: bool,
    /// Compress, and print the digests; send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
}

/// How layers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionChoice {
    /// Every engine takes it
    Gzip,
    /// Smaller, and faster to unpack; Docker from 23, Podman from 4
    Zstd,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PruneArgs {
    /// Only images made from these specs, and what of the cache no other in `images/` or beside a
    /// file needs; default: all that Torchgauge made
    #[arg(value_name = "NAME|FILE")]
    pub(crate) names: Vec<String>,
    /// Keep images made from this spec; may be given several times
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) keep: Vec<String>,
    /// Clear the cache instead, of all or of what is named; nothing while a build or a session
    /// uses it
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        conflicts_with_all = ["names", "keep"]
    )]
    pub(crate) cache: Option<CacheChoice>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// What of the cache goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheChoice {
    /// Everything: downloads, and what was made of them
    All,
    /// What no image of this checkout is made of
    Unused,
}
