//! `images push` and `images pull`.

use bytesize::ByteSize;
use engine::{Endpoint, Engine, Store};
use images::{Image, Packed, Sources};

use super::PushArgs;
use crate::{
    cli::Format,
    commands::bench::prepare::{assembled, blocking, cache},
    error::Result,
    printer::Printer,
};

pub(super) async fn run(
    images: Vec<Image>,
    args: &PushArgs,
    sources: &Sources,
    printer: &Printer,
) -> Result<()> {
    let cache = cache(printer)?;
    let mut to = args.to.clone();
    to.plain_http = args.plain_http;
    // What cannot be made is said before anything is sent.
    let mut ready = Vec::new();
    for image in images {
        let assembly = assembled(image, sources, &cache, printer).await?;
        let cache = cache.clone();
        let packed = blocking(move || Ok(Packed::new(&assembly, &cache)?)).await?;
        packed.check_lock()?;
        ready.push(packed);
    }
    let mut all = Vec::new();
    let mut failed = None;
    for packed in ready {
        let pushed = if args.dry_run {
            packed.unsent(&to)
        } else {
            match packed.push(&to, &cache).await {
                Ok(pushed) => pushed,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        };
        if args.format != Format::Json {
            let sent = ByteSize::b(pushed.sent_bytes);
            let size = ByteSize::b(pushed.size_bytes);
            printer.line(&format!("{}  {size}, {sent} of it sent", pushed.reference));
        }
        all.push(pushed);
    }
    if args.format == Format::Json {
        printer.json(&all)?;
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Has the engine pull complete images.
pub(super) async fn pull(references: &[String], printer: &Printer) -> Result<()> {
    let engine = Engine::connect(&Endpoint::Auto).await?;
    let cache = cache(printer)?;
    for reference in references {
        let image = images::ready_made(Store::Engine(&engine), reference, &cache).await?;
        printer.line(&format!("{}  {}", image.reference, image.id));
    }
    Ok(())
}
