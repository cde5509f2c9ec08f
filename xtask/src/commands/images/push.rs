//! `images push` and `images pull`.

use bytesize::ByteSize;
use engine::{Endpoint, Engine};
use images::{Compression, Digest, Image, Packed, Pushed, Sources};
use serde::Serialize;

use crate::{
    cli::{CompressionChoice, Format, PushArgs},
    commands::bench::prepare::{assembled, blocking, cache},
    error::Result,
    printer::Printer,
};

/// An image that would be pushed.
#[derive(Debug, Serialize)]
struct Would {
    reference: String,
    digest: Digest,
    size_bytes: u64,
}

/// What `--format json` prints.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Told {
    Pushed(Pushed),
    Would(Would),
}

pub(super) async fn run(
    images: Vec<Image>,
    args: &PushArgs,
    sources: &Sources,
    printer: &Printer,
) -> Result<()> {
    let cache = cache(printer)?;
    let mut to = args.to.clone();
    to.plain_http = args.plain_http;
    let by = match args.compression {
        CompressionChoice::Gzip => Compression::Gzip,
        CompressionChoice::Zstd => Compression::Zstd,
    };
    // What cannot be made is said before anything is sent.
    let mut ready = Vec::new();
    for image in images {
        let assembly = assembled(image, sources, &cache, printer).await?;
        let cache = cache.clone();
        let packed = blocking(move || Ok(Packed::new(&assembly, by, &cache)?)).await?;
        packed.check_lock()?;
        ready.push(packed);
    }
    let mut all = Vec::new();
    let mut failed = None;
    for packed in ready {
        let told = if args.dry_run {
            Told::Would(Would {
                reference: format!("{to}@{}", packed.digest()),
                digest: packed.digest(),
                size_bytes: packed.size_bytes(),
            })
        } else {
            match packed.push(&to, &cache).await {
                Ok(pushed) => Told::Pushed(pushed),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        };
        if args.format != Format::Json {
            printer.line(&told.line());
        }
        all.push(told);
    }
    if args.format == Format::Json {
        printer.json(&all)?;
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

impl Told {
    fn line(&self) -> String {
        match self {
            Self::Pushed(pushed) => format!(
                "{}  {}, {} of it sent",
                pushed.reference,
                ByteSize::b(pushed.size_bytes),
                ByteSize::b(pushed.sent_bytes)
            ),
            Self::Would(would) => format!(
                "{}  {}; nothing was sent",
                would.reference,
                ByteSize::b(would.size_bytes)
            ),
        }
    }
}

/// Has the engine pull complete images.
pub(super) async fn pull(references: &[String], printer: &Printer) -> Result<()> {
    let engine = Engine::connect(&Endpoint::auto()).await?;
    let cache = cache(printer)?;
    for reference in references {
        let image = images::ready_made(&engine, reference, &cache).await?;
        printer.line(&format!("{}  {}", image.reference, image.id));
    }
    Ok(())
}
