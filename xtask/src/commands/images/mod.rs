//! `cargo xtask images`: everything to do with what is measured in.

mod make;
mod prune;
mod push;
mod show;

use std::path::Path;

use images::{Catalog, Image};

use crate::{
    cli::ImagesCommand, commands::bench::prepare::sources, error::Result, printer::Printer,
    workspace,
};

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
        ImagesCommand::Inspect { name } => show::inspect(&one(&root, name)?, printer).await,
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
