//! Whether two sides were measured in the same place: what differs there differs in the metrics.

use std::collections::BTreeSet;

use protocol::Device;
use record::{Gpu, Machine};

use crate::{
    CompareError, Warning,
    side::{Cell, Runs, Side},
};

/// What the reader must know of where the sides ran; an error where it was not in the same place
/// and nobody asked for that. `common` holds the cells that are compared, with the runs of base
/// and head.
pub(crate) fn check(
    base: &Side<'_>,
    head: &Side<'_>,
    common: &[(&Cell, &Runs<'_>, &Runs<'_>)],
    across_machines: bool,
) -> Result<Vec<Warning>, CompareError> {
    let mut warnings = Vec::new();
    for Difference { what, base, head } in differences(base, head, common) {
        if !across_machines {
            return Err(CompareError::Elsewhere { what, base, head });
        }
        warnings.push(Warning::AcrossMachines {
            what: format!("{what}: {base}, {head}"),
        });
    }
    let moved: Vec<&Cell> = common
        .iter()
        .filter(|(_, base_runs, head_runs)| {
            let of_base = gpus(base.machine, base_runs);
            let of_head = gpus(head.machine, head_runs);
            !of_base.is_empty() && !of_head.is_empty() && of_base != of_head
        })
        .map(|(cell, ..)| *cell)
        .collect();
    // GPUs of another machine have been told of above.
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

struct Difference {
    what: &'static str,
    base: String,
    head: String,
}

/// In what the places differ. Hosts of a cloud often share a name: their GPUs are told apart by
/// UUID. Runs on the CPU know no such thing; its model and its cores have to do.
fn differences(
    base: &Side<'_>,
    head: &Side<'_>,
    common: &[(&Cell, &Runs<'_>, &Runs<'_>)],
) -> Vec<Difference> {
    let mut found = Vec::new();
    let driver = |side: &Side<'_>| {
        let version = side.origin.driver_version.clone();
        version.unwrap_or_else(|| "none".into())
    };
    let (of_base, of_head) = (&base.origin, &head.origin);
    for (what, base, head) in [
        ("machines", of_base.machine.clone(), of_head.machine.clone()),
        ("devices", of_base.device.clone(), of_head.device.clone()),
        ("drivers", driver(base), driver(head)),
    ] {
        if base != head {
            found.push(Difference { what, base, head });
        }
    }
    // Other machines have other CPUs and GPUs.
    if !found.is_empty() || of_base.session == of_head.session {
        return found;
    }
    let mut compare = |what, base: String, head: String| {
        if base != head {
            found.push(Difference { what, base, head });
        }
    };
    let on_cpu = |runs: &Runs<'_>| runs.values().any(|run| run.device == Device::Cpu);
    if common
        .iter()
        .any(|(_, base, head)| on_cpu(base) && on_cpu(head))
    {
        compare("cpus", cpu(base), cpu(head));
    }
    let mut used = [BTreeSet::new(), BTreeSet::new()];
    for (_, base_runs, head_runs) in common {
        used[0].extend(gpus(base.machine, base_runs));
        used[1].extend(gpus(head.machine, head_runs));
    }
    let [of_base, of_head] = &used;
    let foreign = |used: &BTreeSet<String>, machine: &Machine, there: &BTreeSet<String>| {
        let known: BTreeSet<String> = machine.gpus.iter().filter_map(Gpu::uuid).collect();
        used.iter()
            .any(|uuid| !known.contains(uuid) && !there.contains(uuid))
    };
    // A GPU that the other side's host has too is a GPU of one host, whichever ran what.
    if !of_base.is_empty()
        && !of_head.is_empty()
        && (foreign(of_base, head.machine, of_head) || foreign(of_head, base.machine, of_base))
    {
        let named = |uuids: &BTreeSet<String>| {
            let named: Vec<&str> = uuids.iter().map(String::as_str).collect();
            named.join(", ")
        };
        compare("gpus", named(of_base), named(of_head));
    }
    found
}

fn cpu(side: &Side<'_>) -> String {
    let cpu = &side.machine.cpu;
    format!("{} × {}", cpu.logical_cores, cpu.model)
}

/// UUIDs of the GPUs that these runs used, as far as is known.
fn gpus(machine: &Machine, runs: &Runs<'_>) -> BTreeSet<String> {
    runs.values()
        .filter_map(|run| run.gpu_uuid(machine))
        .collect()
}
