//! Real noise: residuals of public series and of repeated runs.

use std::collections::BTreeMap;
use std::path::Path;

use judge::trend::{Point, csv};
use rand::Rng;

/// Every CSV of a folder, by name.
pub(crate) fn series(folder: &Path) -> Result<Vec<(String, Vec<Point>)>, String> {
    let at = |path: &Path, error: String| format!("{}: {error}", path.display());
    let entries = std::fs::read_dir(folder).map_err(|e| at(folder, e.to_string()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| at(folder, e.to_string()))?.path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            let text = std::fs::read_to_string(&path).map_err(|e| at(&path, e.to_string()))?;
            let points = csv::parse(&text).map_err(|e| at(&path, e.to_string()))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            files.push((name.into_owned(), points));
        }
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}

/// Log values of repeated runs less their median, one list a workload.
pub(crate) fn runs(file: &Path) -> Result<Vec<Vec<f64>>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut workloads = BTreeMap::<&str, Vec<f64>>::new();
    for (line, row) in text.lines().enumerate().skip(1) {
        let mut fields = row.rsplitn(2, ',');
        let value = fields.next().and_then(|v| v.parse::<f64>().ok());
        let workload = fields.next().and_then(|rest| rest.split_once(','));
        let (Some(value), Some((_, workload))) = (value, workload) else {
            return Err(format!(
                "{}: line {} cannot be read",
                file.display(),
                line + 1
            ));
        };
        workloads.entry(workload).or_default().push(value.ln());
    }
    Ok(workloads.into_values().map(|logs| centred(&logs)).collect())
}

/// Log residuals of a series around the median of each dozen points, so that neither
/// its changes nor its drift count as noise.
pub(crate) fn residuals(points: &[Point]) -> Vec<f64> {
    let logs: Vec<f64> = points.iter().map(|point| point.value.ln()).collect();
    logs.chunks(12).flat_map(centred).collect()
}

fn centred(logs: &[f64]) -> Vec<f64> {
    let median = judge::median(logs.iter().copied()).unwrap_or_default();
    logs.iter().map(|log| log - median).collect()
}

/// `n` values around 100 with noise drawn from a pool.
pub(crate) fn draw(rng: &mut impl Rng, pool: &[f64], n: usize) -> Vec<f64> {
    (0..n)
        .map(|_| 100.0 * pool[rng.random_range(0..pool.len())].exp())
        .collect()
}

/// The pool of a seed, every one in turn.
pub(crate) fn pick(pools: &[Vec<f64>], index: u64) -> &[f64] {
    &pools[usize::try_from(index % pools.len() as u64).unwrap_or(0)]
}
