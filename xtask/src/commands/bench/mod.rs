//! `cargo xtask bench`: run suites in images and draw the report.

pub(crate) mod prepare;
mod watch;

use std::{path::PathBuf, time::Duration};

use bench_suite::{
    device::Choice,
    gpu_lock::GpuLock,
    live::{self, Exposition, Live, Server},
    machine,
    plan::{Plan, Request},
    session::{self, Both, Session, SessionError, Spec, Totals},
    suite::{MAX_BLOCKS, Suite},
};
use protocol::Device;
use record::{Conduct, Deciding, Machine, SessionFolder, SidesCompared, Tool};
use tokio_util::sync::CancellationToken;

use self::{prepare::Place, watch::Watch};
use crate::{
    cli::{BenchArgs, Format},
    commands::scenarios,
    error::{Error, Result},
    printer::Printer,
    table::table,
    workspace,
};

/// How often a run is tried again that the engine and not the workload failed.
const ENGINE_RETRIES: u32 = 2;

/// How long `--until-decided` may take unless said otherwise.
const TIME_BUDGET: Duration = Duration::from_hours(1);

/// Plans, prepares, runs, reports.
pub(crate) async fn run(args: &BenchArgs, printer: &Printer) -> Result<()> {
    let root = workspace::root()?;
    let suites = load(&args.suite)?;
    let machine = machine::facts(None);
    let devices = devices(&args.device, &machine)?;
    let device = devices[0];
    let images = prepare::images(&args.image, device, &root)?;
    let names: Vec<String> = images.iter().map(|image| image.name.clone()).collect();
    let plan = Plan::new(&Request {
        suites: &suites,
        images: &names,
        device,
        // With --until-decided the suite's number of blocks says nothing.
        blocks: args.blocks.or(args.until_decided.then_some(1)),
        order_seed: None,
    })?
    .spread(&devices);
    for left_out in &plan.left_out {
        printer.note(&format!(
            "{}: {} variants of {} are for {} and not for {device}",
            left_out.suite,
            left_out.variants,
            left_out.scenario,
            left_out.device.word()
        ));
    }
    let deciding = deciding(args, &plan);
    if let Some(deciding) = &deciding {
        session::check_sides(&plan, &deciding.sides).map_err(SessionError::from)?;
    }
    if args.dry_run {
        show(&plan, args.until_decided, printer);
        return Ok(());
    }
    let name = match &args.resume {
        Some(folder) => SessionFolder::at(folder).read_session()?.session,
        None => session::fresh_name(),
    };
    // Held until the end, and taken before anything is started on the GPU.
    let _locks = lock(&devices, &machine, &name, args.share_gpu)?;
    let live = Live::default();
    let exposition = Exposition::new(live.clone());
    let _server = serve(args.metrics_listen.as_deref(), &exposition, printer).await?;
    let place = Place::choose(&args.engine, &live, printer).await?;
    let sources = prepare::sources(&args.sources, &root);
    let ready = prepare::ready(&place, images, &devices, sources, printer).await?;
    let spec = Spec {
        deciding,
        plan,
        images: ready.images,
        machine,
        engine: ready.engine,
        tool: tool(&root),
        conduct: Conduct {
            shares_gpu: args.share_gpu,
            ..Conduct::default()
        },
        engine_retries: ENGINE_RETRIES,
        notes: ready.notes,
    };
    let mut session = if let Some(folder) = &args.resume {
        Session::resume(folder, spec)?
    } else {
        let folder = args
            .out
            .clone()
            .unwrap_or_else(|| PathBuf::from("sessions").join(&name));
        Session::create(&folder, &name, spec)?
    };
    let folder = session.folder().clone();
    printer.note(&format!("session {name} in {}", folder.path().display()));

    let cancel = CancellationToken::new();
    let stopper = stop_on_signal(cancel.clone(), printer.clone());
    let mut subscribers = Both(Watch::new(printer), exposition);
    let totals = session
        .run(ready.executor.as_ref(), &mut subscribers, &cancel)
        .await;
    stopper.abort();
    place.clean_up().await;
    let totals = totals?;
    drop(session);
    report(&folder, printer)?;
    end(totals, &folder)
}

/// What `--until-decided` asks for.
fn deciding(args: &BenchArgs, plan: &Plan) -> Option<Deciding> {
    if !args.until_decided {
        return None;
    }
    let sides = match &args.by {
        Some(by) => SidesCompared::Axis {
            axis: by.axis.clone(),
            base: by.base.clone(),
            head: by.head.clone(),
        },
        None => SidesCompared::Images {
            base: plan.cells.first()?.plan.image.clone(),
        },
    };
    Some(session::until_decided(
        sides,
        args.time_budget.unwrap_or(TIME_BUDGET),
        args.blocks.unwrap_or(MAX_BLOCKS),
    ))
}

/// The devices that `--device` means on this machine; at least one.
pub(crate) fn devices(word: &str, machine: &Machine) -> Result<Vec<Device>> {
    let choice: Choice = word
        .parse()
        .map_err(|source| Error::Device(Box::new(source)))?;
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    choice
        .resolve(machine, visible.as_deref())
        .map_err(|source| Error::Device(Box::new(source)))
}

/// Takes the GPUs for a session of this name; on the CPU there is nothing to take.
pub(crate) fn lock(
    devices: &[Device],
    machine: &Machine,
    name: &str,
    share: bool,
) -> Result<Vec<GpuLock>> {
    devices
        .iter()
        .filter_map(|device| gpu_of(*device, machine))
        .map(|gpu| Ok(GpuLock::take(&gpu, name, share)?))
        .collect()
}

/// A folder for runs outside of a session, which goes with the command.
pub(crate) fn scratch(what: &str) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("torchgauge-{what}-"))
        .tempdir()
        .map_err(|source| Error::Write {
            path: std::env::temp_dir(),
            source,
        })
}

/// Serves the metrics where the user asked for it.
async fn serve(
    listen: Option<&str>,
    exposition: &Exposition,
    printer: &Printer,
) -> Result<Option<Server>> {
    let Some(listen) = listen else {
        return Ok(None);
    };
    let server = Server::listen(live::address(listen)?, exposition.clone()).await?;
    printer.note(&format!("metrics at http://{}/metrics", server.address()));
    Ok(Some(server))
}

/// The GPU that a session holds while it measures.
fn gpu_of(device: Device, machine: &Machine) -> Option<record::Gpu> {
    let Device::Cuda(index) = device else {
        return None;
    };
    let gpu = machine.gpus.iter().find(|gpu| gpu.index == index);
    gpu.cloned()
}

fn load(names: &[String]) -> Result<Vec<Suite>> {
    let catalog = scenarios::catalog()?;
    names
        .iter()
        .map(|name| catalog.load(name).map_err(Error::Suite))
        .collect()
}

fn show(plan: &Plan, until_decided: bool, printer: &Printer) {
    let mut table = table(
        Format::Text,
        ["image", "suite", "scenario", "variant", "warm-up", "steps"],
    );
    for cell in &plan.cells {
        let cell = &cell.plan;
        table.add_row([
            cell.image.clone(),
            cell.suite.clone(),
            cell.scenario.clone(),
            cell.variant.to_string(),
            cell.steps.warmup.to_string(),
            cell.steps.measured.to_string(),
        ]);
    }
    let (cells, blocks) = (plan.cells.len(), plan.blocks);
    let device = plan.device;
    let extent = if until_decided {
        format!("as many blocks as it takes on {device}")
    } else {
        let runs = cells * blocks as usize;
        format!("{blocks} blocks on {device}: {runs} runs")
    };
    printer.line(&format!(
        "{table}\n{cells} cells in {extent}; nothing was started"
    ));
}

/// The first signal lets the run in hand be cleaned up; the second ends at once.
pub(crate) fn stop_on_signal(
    cancel: CancellationToken,
    printer: Printer,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        signalled().await;
        printer.note("stopping: the run in hand is cleaned up; once more ends at once");
        cancel.cancel();
        signalled().await;
        std::process::exit(130);
    })
}

async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

fn report(folder: &SessionFolder, printer: &Printer) -> Result<()> {
    let sources = [reports::Source::read(folder)?];
    let view = reports::View::of(&sources);
    let style = if printer.is_live() {
        reports::text::Style::Terminal
    } else {
        reports::text::Style::Plain
    };
    printer.raw(&reports::text::table(&view, style));
    for session in &view.report.sessions {
        for verdicts in &session.comparisons {
            printer.raw("\n");
            printer.raw(&reports::comparison::text(verdicts, style));
        }
        if !session.claims.is_empty() {
            printer.raw("\n");
            printer.raw(&reports::claims::text(&session.claims, style));
        }
    }
    let written = reports::write(std::slice::from_ref(folder), folder.path())?;
    printer.line(&format!("report: {}", written.html.display()));
    Ok(())
}

fn end(totals: Totals, folder: &SessionFolder) -> Result<()> {
    if totals.remaining > 0 {
        return Err(Error::Unfinished {
            remaining: totals.remaining,
            folder: folder.path().to_owned(),
        });
    }
    if totals.failed > 0 {
        return Err(Error::RunsFailed {
            failed: totals.failed,
            planned: totals.planned,
        });
    }
    Ok(())
}

fn tool(root: &std::path::Path) -> Tool {
    let git = |words: &[&str]| {
        let output = std::process::Command::new("git")
            .args(words)
            .current_dir(root)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let revision = git(&["rev-parse", "HEAD"]).map(|commit| {
        let dirty = git(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty());
        if dirty {
            format!("{commit}-dirty")
        } else {
            commit
        }
    });
    Tool {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision,
        command: std::env::args().skip(1).collect(),
    }
}
