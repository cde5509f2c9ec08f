//! Whether two sides were measured on the same machine, GPU and driver, and in the same way: limits,
//! threads, steps, seed, engine. What differs there differs in the metrics.

use std::collections::{BTreeMap, BTreeSet};

use protocol::Device;
use record::{Gpu, MethodDifference, MethodKey, Session};

use crate::{
    CompareError, Warning,
    side::{Cell, Origin, Runs, Side},
};

/// Warnings about where the sides ran; an error where it was not in the same environment and
/// nobody asked for that. `common` holds the cells that are compared, with the runs of base and
/// head.
pub(crate) fn check(
    base: &Side<'_>,
    head: &Side<'_>,
    common: &[(&Cell, &Runs<'_>, &Runs<'_>)],
    across_machines: bool,
) -> Result<Vec<Warning>, CompareError> {
    let mut warnings = Vec::new();
    for (what, base, head) in differences(base, head, common) {
        if !across_machines {
            return Err(CompareError::EnvironmentsDiffer { what, base, head });
        }
        warnings.push(Warning::AcrossMachines {
            what: format!("{what}: {base}, {head}"),
        });
    }
    let moved: Vec<&Cell> = common
        .iter()
        .filter(|(_, base_runs, head_runs)| {
            let of_base = gpus(base.session(), base_runs);
            let of_head = gpus(head.session(), head_runs);
            !of_base.is_empty() && !of_head.is_empty() && of_base != of_head
        })
        .map(|(cell, ..)| *cell)
        .collect();
    // GPUs of another machine are among the differences.
    if warnings.is_empty()
        && let Some(first) = moved.first()
    {
        warnings.push(Warning::OtherGpus {
            cell: first.label(),
            cells: moved.len(),
        });
    }
    if base.origin.session != head.origin.session {
        warnings.push(Warning::NotInterleaved);
    }
    Ok(warnings)
}

/// Warnings about differences that are ignored; an error where one is not. `common` holds the
/// cells that are compared, with the runs of base and head.
pub(crate) fn check_methods<'a>(
    common: &[(&Cell, &Runs<'a>, &Runs<'a>)],
    ignore: &[MethodKey],
) -> Result<Vec<Warning>, CompareError> {
    let mut found: BTreeMap<String, MethodDifference> = BTreeMap::new();
    for (_, base_runs, head_runs) in common {
        let first = |runs: &Runs<'a>| runs.values().next().map(|run| &run.method);
        if let Some((one, other)) = first(base_runs).zip(first(head_runs)) {
            for difference in one.differences(other) {
                found.entry(difference.key.clone()).or_insert(difference);
            }
        }
    }
    let is_ignored = |found: &MethodDifference| MethodKey::any_covers(ignore, &found.key);
    let (ignored, differences): (Vec<_>, Vec<_>) = found.into_values().partition(is_ignored);
    if !differences.is_empty() {
        return Err(CompareError::MethodsDiffer { differences });
    }
    let warning = |difference| Warning::MethodIgnored { difference };
    Ok(ignored.into_iter().map(warning).collect())
}

/// What differs, on the base side and on the head side.
type Difference = (&'static str, String, String);

/// Hosts of a cloud often share a name: their GPUs are told apart by UUID. Runs on the CPU know no
/// such thing; its model and its cores have to do.
fn differences(
    base: &Side<'_>,
    head: &Side<'_>,
    common: &[(&Cell, &Runs<'_>, &Runs<'_>)],
) -> Vec<Difference> {
    let driver = |origin: &Origin| origin.driver_version.clone().unwrap_or("none".into());
    let (of_base, of_head) = (&base.origin, &head.origin);
    let mut found: Vec<Difference> = vec![
        ("machines", of_base.machine.clone(), of_head.machine.clone()),
        ("devices", of_base.device.clone(), of_head.device.clone()),
        ("drivers", driver(of_base), driver(of_head)),
    ];
    found.retain(|(_, base, head)| base != head);
    // Other machines have other CPUs and GPUs.
    if !found.is_empty() || of_base.session == of_head.session {
        return found;
    }
    let on_cpu = |runs: &Runs<'_>| runs.values().any(|run| run.device == Device::Cpu);
    let mut on_cpus = common.iter();
    if on_cpus.any(|(_, base, head)| on_cpu(base) && on_cpu(head)) {
        found.push(("CPUs", cpu(base), cpu(head)));
    }
    let limits = |side: &Side<'_>, runs: &mut dyn Iterator<Item = &Runs<'_>>| {
        let all: BTreeSet<String> = runs
            .flat_map(|runs| power_limits(side.session(), runs))
            .collect();
        Vec::from_iter(all).join(", ")
    };
    let of_base = limits(base, &mut common.iter().map(|(_, runs, _)| *runs));
    let of_head = limits(head, &mut common.iter().map(|(.., runs)| *runs));
    // Older sessions do not know them.
    if !of_base.is_empty() && !of_head.is_empty() {
        found.push(("GPU power limits", of_base, of_head));
    }
    let (mut of_base, mut of_head) = (BTreeSet::new(), BTreeSet::new());
    for (_, base_runs, head_runs) in common {
        of_base.extend(gpus(base.session(), base_runs));
        of_head.extend(gpus(head.session(), head_runs));
    }
    let foreign = |used: &BTreeSet<String>, session: &Session, there: &BTreeSet<String>| {
        let gpus = session.hosts.values().flat_map(|machine| &machine.gpus);
        let known: BTreeSet<String> = gpus.filter_map(Gpu::uuid).collect();
        used.iter()
            .any(|uuid| !known.contains(uuid) && !there.contains(uuid))
    };
    // A GPU that the other side's host has too is a GPU of one host, whichever ran what.
    if !of_base.is_empty()
        && !of_head.is_empty()
        && (foreign(&of_base, head.session(), &of_head)
            || foreign(&of_head, base.session(), &of_base))
    {
        let named = |uuids: BTreeSet<String>| Vec::from_iter(uuids).join(", ");
        found.push(("GPUs", named(of_base), named(of_head)));
    }
    found.retain(|(_, base, head)| base != head);
    found
}

fn cpu(side: &Side<'_>) -> String {
    let cpu = &side.session().machine().cpu;
    format!("{} × {}", cpu.logical_cores, cpu.model)
}

/// Power limits of the GPUs that these runs used, as far as is known.
fn power_limits(session: &Session, runs: &Runs<'_>) -> BTreeSet<String> {
    runs.values()
        .filter_map(|run| session.machine_of(run).gpu(run.device)?.power_limit_watts)
        .map(|watts| format!("{watts} W"))
        .collect()
}

/// UUIDs of the GPUs that these runs used, as far as is known.
fn gpus(session: &Session, runs: &Runs<'_>) -> BTreeSet<String> {
    runs.values()
        .filter_map(|run| run.gpu_uuid(session.machine_of(run)))
        .collect()
}
