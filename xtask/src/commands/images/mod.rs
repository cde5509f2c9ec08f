//! `cargo xtask images`: everything to do with what is measured in.

mod driver;
mod make;
mod prune;
mod push;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use images::{Catalog, Image};

use crate::{
    cli::{Format, SourceArgs},
    commands::bench::prepare::sources,
    error::Result,
    printer::Printer,
    workspace,
};

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
    /// Print as JSON what an image is made of and which engines have it; nothing is built for it. With
    /// --driver, report from the layers of any image whether it would start there: exit code 1 where not
    Inspect {
        /// An image in `images/`, or a file; with --driver, an image of the engine's too, or an archive
        #[arg(value_name = "NAME|FILE")]
        name: String,
        /// Check against this version of the NVIDIA driver, such as 570 or 570.86.10
        #[arg(long, value_name = "VERSION")]
        driver: Option<images::Version>,
        /// Check the code for this GPU too, such as `sm_90`
        #[arg(long, value_name = "ARCHITECTURE", requires = "driver")]
        gpu: Option<images::GpuArchitecture>,
    },
    /// Remove what Torchgauge made from the engine; images of others stay
    Prune(PruneArgs),
    /// Write an image as an archive, for `docker load` or `podman load` elsewhere
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
    /// Write the Debian base as an archive, for --base-archive on a machine without apt
    Base {
        /// The archive
        #[arg(long, value_name = "FILE.tar")]
        to: PathBuf,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LockArgs {
    /// Images in `images/`, or files
    #[arg(required = true, value_name = "NAME|FILE")]
    pub(crate) names: Vec<String>,
    /// Keep every package as it is locked, and lock the scenario binary anew, and with it the
    /// image's ID: after an edit of the workload. Nothing is resolved
    #[arg(long)]
    pub(crate) workload: bool,
    /// Compress the layers as `push` does, and lock the digest that the image is pulled by
    #[arg(long)]
    pub(crate) push_digest: bool,
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

#[derive(Debug, Clone, Args)]
pub(crate) struct PruneArgs {
    /// Only images made from these specs; default: all that Torchgauge made
    #[arg(value_name = "NAME|FILE")]
    pub(crate) names: Vec<String>,
    /// Keep images made from this spec; may be given several times
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) keep: Vec<String>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Carries one of its commands out.
pub(crate) async fn run(command: &ImagesCommand, printer: &Printer) -> Result<()> {
    let root = workspace::root()?;
    match command {
        ImagesCommand::List { format } => show::list(&root, *format, printer).await,
        ImagesCommand::Build {
            names,
            locked,
            format,
            sources: args,
        } => {
            let mut sources = sources(args, &root);
            if *locked {
                sources.locks = images::LockUse::Required;
            }
            make::build(load(&root, names)?, &sources, *format, printer).await
        }
        ImagesCommand::Lock(args) => {
            let sources = sources(&args.sources, &root);
            let images = if args.workload {
                load(&root, &args.names)?
            } else {
                let catalog = Catalog::new(&root.join("images"));
                let names = args.names.iter();
                let images = names.map(|name| catalog.image_without_lock(name));
                images.collect::<Result<_, _>>()?
            };
            make::lock(images, sources, args.workload, args.push_digest, printer).await
        }
        ImagesCommand::Inspect { name, driver, gpu } => match driver {
            Some(driver) => driver::inspect(name, driver, *gpu, printer).await,
            None => show::inspect(&one(&root, name)?, printer).await,
        },
        ImagesCommand::Prune(args) => prune::run(&root, args, printer).await,
        ImagesCommand::Export {
            name,
            to,
            sources: args,
        } => make::export(one(&root, name)?, to, &sources(args, &root), printer).await,
        ImagesCommand::Push(args) => {
            let images = load(&root, &args.names)?;
            push::run(images, args, &sources(&args.sources, &root), printer).await
        }
        ImagesCommand::Pull { references } => push::pull(references, printer).await,
        ImagesCommand::Base { to } => make::base(to, printer).await,
    }
}

fn load(root: &Path, names: &[String]) -> Result<Vec<Image>> {
    names.iter().map(|name| one(root, name)).collect()
}

fn one(root: &Path, name: &str) -> Result<Image> {
    Ok(Catalog::new(&root.join("images")).image(name)?)
}
