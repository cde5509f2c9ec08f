//! Whether two sides were measured in the same place: what differs there differs in the figures.

use std::collections::BTreeSet;

use protocol::Device;
use record::{Card, Machine};

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
            let of_base = cards(base.machine, base_runs);
            let of_head = cards(head.machine, head_runs);
            !of_base.is_empty() && !of_head.is_empty() && of_base != of_head
        })
        .map(|(cell, ..)| *cell)
        .collect();
    // Cards of another machine have been told of above.
    if warnings.is_empty()
        && let Some(first) = moved.first()
    {
        warnings.push(Warning::OtherCards {
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

/// In what the places differ. Hosts of a cloud often share a name: their cards are told apart by
/// UUID. Runs on the processor know no such thing; its model and its cores have to do.
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
    // Other machines have other processors and cards.
    if !found.is_empty() || of_base.session == of_head.session {
        return found;
    }
    let mut compare = |what, base: String, head: String| {
        if base != head {
            found.push(Difference { what, base, head });
        }
    };
    let on_processor = |runs: &Runs<'_>| runs.values().any(|run| run.device == Device::Cpu);
    if common
        .iter()
        .any(|(_, base, head)| on_processor(base) && on_processor(head))
    {
        compare("processors", processor(base), processor(head));
    }
    let mut used = [BTreeSet::new(), BTreeSet::new()];
    for (_, base_runs, head_runs) in common {
        used[0].extend(cards(base.machine, base_runs));
        used[1].extend(cards(head.machine, head_runs));
    }
    let [of_base, of_head] = &used;
    let foreign = |used: &BTreeSet<String>, machine: &Machine, there: &BTreeSet<String>| {
        let known: BTreeSet<String> = machine.cards.iter().filter_map(Card::uuid).collect();
        used.iter()
            .any(|uuid| !known.contains(uuid) && !there.contains(uuid))
    };
    // A card that the other side's host has too is a card of one host, whichever ran what.
    if !of_base.is_empty()
        && !of_head.is_empty()
        && (foreign(of_base, head.machine, of_head) || foreign(of_head, base.machine, of_base))
    {
        let named = |uuids: &BTreeSet<String>| {
            let named: Vec<&str> = uuids.iter().map(String::as_str).collect();
            named.join(", ")
        };
        compare("cards", named(of_base), named(of_head));
    }
    found
}

fn processor(side: &Side<'_>) -> String {
    let processor = &side.machine.processor;
    format!("{} × {}", processor.logical_cores, processor.model)
}

/// UUIDs of the cards that these runs used, as far as is known.
fn cards(machine: &Machine, runs: &Runs<'_>) -> BTreeSet<String> {
    runs.values()
        .filter_map(|run| run.card_uuid(machine))
        .collect()
}
