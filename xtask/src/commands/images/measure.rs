//! `images measure`: the table of what images take, in time and in bytes.

use std::{fs, sync::Arc, time::Instant};

use bench_suite::machine;
use bytesize::ByteSize;
use engine::{Endpoint, Engine};
use images::{Cache, Image, Sources, inventory, lock::LibtorchLock};
use serde::Serialize;

use crate::{
    cli::Format,
    commands::bench::prepare::{assembled, blocking},
    error::Result,
    printer::Printer,
    table::table,
};

/// What was measured, as it is printed.
#[derive(Debug, Serialize)]
struct Report {
    cpu: String,
    logical_cores: u32,
    memory_bytes: u64,
    os: String,
    kernel: String,
    engine: String,
    storage_driver: Option<String>,
    /// The most memory that this process held, whatever the images' size.
    peak_memory_bytes: Option<u64>,
    images: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    image: String,
    id: String,
    config_id: String,
    manifest_id: String,
    size_bytes: u64,
    downloads_bytes: Option<u64>,
    wheels_unpacked_bytes: Option<u64>,
    floor_seconds: f64,
    /// A first build with downloads in the cache and nothing else.
    assemble_seconds: f64,
    /// With unpacked libraries as well.
    assemble_unpacked_seconds: f64,
    /// With `--downloads`: packages were being downloaded, and what a first build took beyond that.
    downloading_seconds: Option<f64>,
    beyond_downloads_seconds: Option<f64>,
    load_seconds: f64,
    rebuild_seconds: f64,
    verify_seconds: f64,
}

pub(super) async fn run(
    images: Vec<Image>,
    sources: &Sources,
    downloads: bool,
    format: Format,
    printer: &Printer,
) -> Result<()> {
    let engine = Engine::connect(&Endpoint::auto()).await?;
    let cache = Cache::user()?;
    let mut rows = Vec::new();
    for image in images {
        rows.push(one(image, sources, &cache, downloads, &engine, printer).await?);
    }
    let machine = machine::facts(None);
    let report = Report {
        cpu: machine.cpu.model,
        logical_cores: machine.cpu.logical_cores,
        memory_bytes: machine.memory_bytes,
        os: machine.os,
        kernel: machine.kernel,
        engine: format!("{} {}", engine.facts().product, engine.facts().version),
        storage_driver: engine.facts().storage_driver.clone(),
        peak_memory_bytes: peak_memory_bytes(),
        images: rows,
    };
    if format == Format::Json {
        return printer.json(&report);
    }
    print(&report, format, printer);
    Ok(())
}

async fn one(
    image: Image,
    sources: &Sources,
    cache: &Cache,
    downloads: bool,
    engine: &Engine,
    printer: &Printer,
) -> Result<Row> {
    let assembly = assembled(image.clone(), sources, cache, printer).await?;
    let measured = {
        let (image, built, sources) = (image.clone(), Arc::clone(&assembly), sources.clone());
        let (cache, printer) = (cache.clone(), printer.clone());
        blocking(move || {
            Ok(images::measure(
                &image, &built, &sources, &cache, downloads, &printer,
            )?)
        })
        .await?
    };
    // Out of the engine, so that all of it is loaded.
    let mut there = inventory::list(engine).await?;
    there.retain(|present| present.image == image.name);
    inventory::remove(engine, there).await;
    let progress: Arc<dyn images::Progress> = Arc::new(printer.clone());
    let begun = Instant::now();
    let ready = images::ensure(engine, &assembly, cache, &progress).await?;
    let load_seconds = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    images::ensure(engine, &assembly, cache, &progress).await?;
    let found_seconds = begun.elapsed().as_secs_f64();
    let wheels = match &assembly.lock.libtorch {
        LibtorchLock::Wheels(wheels) => Some(wheels),
        LibtorchLock::Installed(_) => None,
    };
    Ok(Row {
        image: image.name,
        id: ready.id,
        config_id: assembly.config_id.to_string(),
        manifest_id: assembly.manifest_id.to_string(),
        size_bytes: assembly.facts.size_bytes(),
        downloads_bytes: wheels.map(|lock| lock.wheels.iter().map(|wheel| wheel.size_bytes).sum()),
        wheels_unpacked_bytes: wheels.map(|lock| lock.wheels_unpacked_bytes),
        floor_seconds: measured.floor_seconds,
        assemble_seconds: measured.build_seconds,
        assemble_unpacked_seconds: measured.unpacked_build_seconds,
        downloading_seconds: measured.download.map(|it| it.downloading_seconds),
        beyond_downloads_seconds: measured.download.map(|it| it.beyond_seconds),
        load_seconds,
        rebuild_seconds: measured.rebuild_seconds + found_seconds,
        verify_seconds: measured.verify_seconds,
    })
}

/// The kernel's own count for this process.
fn peak_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn print(report: &Report, format: Format, printer: &Printer) {
    let mut table = table(
        format,
        [
            "image",
            "image ID",
            "size",
            "wheels, unpacked",
            "its bytes written and hashed once",
            "downloading",
            "first build beyond it",
            "ratio",
            "first build, downloads there",
            "ratio",
            "libraries there, too",
            "ratio",
            "load",
            "rebuild",
            "verify",
        ],
    );
    let size = |bytes: u64| ByteSize::b(bytes).display().si().to_string();
    let seconds = |it: Option<f64>| it.map_or("–".to_owned(), |it| format!("{it:.1} s"));
    for row in &report.images {
        let ratio = |it: Option<f64>| {
            it.map_or("–".to_owned(), |it| {
                format!("{:.2}", it / row.floor_seconds)
            })
        };
        table.add_row([
            row.image.clone(),
            row.config_id.clone(),
            size(row.size_bytes),
            row.wheels_unpacked_bytes.map(size).unwrap_or_default(),
            seconds(Some(row.floor_seconds)),
            seconds(row.downloading_seconds),
            seconds(row.beyond_downloads_seconds),
            ratio(row.beyond_downloads_seconds),
            seconds(Some(row.assemble_seconds)),
            ratio(Some(row.assemble_seconds)),
            seconds(Some(row.assemble_unpacked_seconds)),
            ratio(Some(row.assemble_unpacked_seconds)),
            seconds(Some(row.load_seconds)),
            format!("{:.2} s", row.rebuild_seconds),
            seconds(Some(row.verify_seconds)),
        ]);
    }
    printer.line(&table.to_string());
    let driver = report.storage_driver.as_ref();
    printer.line(&format!(
        "\n{}, {} cores, {} of memory; {}, Linux {}; {}{}. The builder held {} at most.",
        report.cpu,
        report.logical_cores,
        size(report.memory_bytes),
        report.os,
        report.kernel,
        report.engine,
        driver
            .map(|name| format!(" with {name}"))
            .unwrap_or_default(),
        report.peak_memory_bytes.map_or("?".to_owned(), size),
    ));
}
