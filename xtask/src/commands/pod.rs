//! `torchgauge pod`: what the containers of a Pod do, on behalf of `--engine kubernetes`, and what comes
//! before the container of a step of Slurm's.

use std::{fs, path::PathBuf, process::exit};

use bench_suite::executors::{mounts, parcel, step_spec};
use clap::Subcommand;

use super::{
    bench::prepare::cache,
    node::{self, NodeArgs},
};
use crate::{
    cli::SourceArgs,
    error::{Error, Result, reading, writing},
    printer::Printer,
};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PodCommand {
    /// Put the part into the Pod's folder, this program into one that is read-only for the others, and
    /// what is mounted into a third, with the copies `NUMBER:NAME,…` of it
    Begin {
        parcel: PathBuf,
        mounts: PathBuf,
        to: PathBuf,
        program: PathBuf,
        files: PathBuf,
        copies: String,
    },
    /// Carry out one run of the part and hand over what it recorded
    Run(NodeArgs),
    /// Copy what a run may write to
    Copy { from: PathBuf, to: PathBuf },
    /// Carry out a bundle in the namespaces of this process
    Enter { bundle: PathBuf },
    /// Write the OCI bundle of a run, with its image unpacked in the cache, and the mounts
    /// `SOURCE:TARGET[:ro],…`
    Bundle {
        image: String,
        to: PathBuf,
        mounts: String,
        #[arg(long)]
        workdir: Option<String>,
        #[arg(long)]
        writable: bool,
        #[command(flatten)]
        sources: SourceArgs,
    },
}

pub(crate) async fn run(command: &PodCommand, printer: &Printer) -> Result<()> {
    match command {
        PodCommand::Begin {
            parcel: from,
            mounts: packed,
            to,
            program,
            files,
            copies,
        } => {
            let archive = fs::read(from).map_err(reading(from))?;
            parcel::unpack_part(&archive, &to.join("part")).map_err(Error::Trouble)?;
            let packed = fs::read(packed).map_err(reading(packed))?;
            mounts::unpack(&packed, files, copies).map_err(Error::Trouble)?;
            let locks = to.join("locks");
            fs::create_dir_all(&locks).map_err(writing(&locks))?;
            let (own, copy) = (PathBuf::from("/proc/self/exe"), program.join("torchgauge"));
            fs::copy(&own, &copy).map_err(writing(&copy))?;
            Ok(())
        }
        // Whatever comes of this run, the next one begins: what is wrong is handed over.
        PodCommand::Run(args) => {
            let ended = node::carry_out(args, printer).await;
            let error = ended.err().map(|error| error.to_string());
            if let Some(error) = &error {
                printer.note(error);
            }
            let (folder, run) = (&args.folder, args.run.as_deref().unwrap_or_default());
            let lines = parcel::of_run(folder, run, error.as_deref());
            printer.raw(&lines.map_err(reading(folder))?);
            Ok(())
        }
        PodCommand::Copy { from, to } => {
            let above = to.parent().unwrap_or(to);
            fs::create_dir_all(above).map_err(writing(above))?;
            mounts::copy_to(from, to).map_err(|error| Error::Trouble(error.to_string()))
        }
        PodCommand::Bundle {
            image,
            to,
            mounts,
            workdir,
            writable,
            sources,
        } => {
            let cache = cache(printer)?;
            let found = images::unpacked_from(image, &cache).await?;
            cache.trim(sources.cache_size.0)?;
            let spec = step_spec(&found, mounts, workdir.as_deref(), *writable);
            Ok(engine::write_bundle(to, &found, &spec)?)
        }
        // As Apptainer writes what was not the command's own doing.
        PodCommand::Enter { bundle } => exit(engine::enter(bundle).unwrap_or_else(|error| {
            printer.note(&format!("FATAL: {error}"));
            255
        })),
    }
}
