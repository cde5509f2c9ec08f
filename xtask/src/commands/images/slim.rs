//! `images slim --check`: a slim image beside the whole one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use images::{Catalog, Image, Spec};
use verdict::{FailOn, Gate};

use crate::{
    cli::{BenchArgs, SlimArgs, TargetArgs},
    commands::bench,
    error::{Error, Result},
    printer::{Printer, table_style},
};

/// Measures both in turn, prints how they compare, and fails where the slim one is worse.
pub(super) async fn check(
    slim: Image,
    args: &SlimArgs,
    root: &Path,
    printer: &Printer,
) -> Result<()> {
    if slim.spec.gpu_architectures.is_empty() {
        return Err(Error::NotSlim { image: slim.name });
    }
    let scratch = bench::scratch("slim")?;
    let whole = whole(&slim, root, scratch.path())?;
    let asked = BenchArgs {
        suite: args.suite.clone(),
        cell: args.cell.clone(),
        target: TargetArgs {
            image: vec![whole, args.name.clone()],
            engine: args.engine.clone(),
            device: args.device.clone(),
            sources: args.sources.clone(),
        },
        share_gpu: false,
        blocks: args.blocks,
        until_decided: false,
        time_budget: None,
        by: None,
        out: args.out.clone(),
        resume: None,
        metrics_listen: None,
        dry_run: false,
    };
    let Some((folder, totals)) = bench::measure(&asked, printer).await? else {
        return Ok(());
    };
    let session = folder.read_session()?;
    let records = folder.read_records()?.records;
    let verdicts = verdict::compare_session(&session, &records, &verdict::Options::default())?;
    for compared in &verdicts {
        printer.raw(&reports::comparison::text(compared, table_style()));
    }
    bench::end(totals, &folder)?;
    let failing: usize = verdicts
        .iter()
        .map(|compared| Gate::read(compared, FailOn::Regressed).count())
        .sum();
    if failing > 0 {
        return Err(Error::Gate { failing });
    }
    Ok(())
}

/// The image that is the same but for the GPU code: one that has a spec, else one that is made for
/// the check.
fn whole(slim: &Image, root: &Path, scratch: &Path) -> Result<String> {
    let catalog = Catalog::new(&root.join("images"));
    for name in catalog.names()? {
        let spec = catalog.image_without_lock(&name)?.spec;
        if is_whole_of(&spec, &slim.spec) {
            return Ok(name);
        }
    }
    let spec = Spec {
        gpu_architectures: std::collections::BTreeSet::new(),
        ..slim.spec.clone()
    };
    let file: PathBuf = scratch.join(format!("{}-whole.yaml", slim.name));
    // Everything that is JSON is YAML.
    let text = serde_json::to_string(&spec).map_err(std::io::Error::from);
    let written = text.and_then(|text| fs::write(&file, text));
    written.map_err(|source| Error::Write {
        path: file.clone(),
        source,
    })?;
    Ok(file.display().to_string())
}

/// Whether two specs make the same image but for the GPU code that is kept.
fn is_whole_of(spec: &Spec, slim: &Spec) -> bool {
    spec.gpu_architectures.is_empty()
        && (&spec.base, &spec.libtorch, &spec.environment, &spec.allow)
            == (&slim.base, &slim.libtorch, &slim.environment, &slim.allow)
}
