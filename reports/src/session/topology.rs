//! How the GPUs of a host reach each other, in the words of `nvidia-smi topo --matrix`.

use record::{Gpu, Link, Machine, PciPath};

use crate::{
    document::{Cell, Kind, Table, known},
    words::{
        format::{self, UNKNOWN, plural},
        lists::grouped,
    },
};

const HEADS: [&str; 16] = [
    "GPU 0", "GPU 1", "GPU 2", "GPU 3", "GPU 4", "GPU 5", "GPU 6", "GPU 7", "GPU 8", "GPU 9",
    "GPU 10", "GPU 11", "GPU 12", "GPU 13", "GPU 14", "GPU 15",
];

fn head(index: u32) -> Option<&'static str> {
    HEADS.get(index as usize).copied()
}

/// The word of a way, and what it means.
fn way(link: &Link) -> (String, String) {
    let (word, meaning) = match link.path {
        _ if link.nvlinks > 0 => {
            let meaning = plural(link.nvlinks as usize, "NVLink", "NVLinks");
            return (format!("NV{}", link.nvlinks), meaning);
        }
        Some(PciPath::Board) => ("PSB", "on one board"),
        Some(PciPath::Switch) => ("PIX", "through one PCIe switch"),
        Some(PciPath::Switches) => ("PXB", "through several PCIe switches"),
        Some(PciPath::HostBridge) => ("PHB", "through a host bridge"),
        Some(PciPath::Node) => ("NODE", "through host bridges of one NUMA node"),
        Some(PciPath::System) => ("SYS", "from one NUMA node to another"),
        None => (UNKNOWN, "not known"),
    };
    (word.to_owned(), meaning.to_owned())
}

/// The GPUs that know of ways to others.
fn linked(machine: &Machine) -> Vec<&Gpu> {
    let gpus = machine.gpus.iter();
    gpus.filter(|gpu| !gpu.links.is_empty() && head(gpu.index).is_some())
        .collect()
}

/// A row and a column for each GPU, and which CPUs each is next to.
pub(super) fn matrix(machine: &Machine) -> Option<Table> {
    let gpus = linked(machine);
    let links = || gpus.iter().flat_map(|gpu| &gpu.links);
    let row = |gpu: &&Gpu| {
        let to = |other: &&Gpu| {
            let link = gpu.links.iter().find(|link| link.to == other.index)?;
            let note = match link.peer_access {
                Some(false) => "no peer access",
                _ => "",
            };
            Some(Cell::from(way(link).0).noted(note))
        };
        let own = gpus.iter().filter_map(|other| {
            let cell = to(other).unwrap_or_else(|| known(None));
            Some(Kind::Word.cell(head(other.index)?, cell))
        });
        let name = head(gpu.index).unwrap_or_default();
        let numa = gpu.numa_node.map(|node| node.to_string());
        let near = [
            Kind::Number.cell("NUMA node", known(numa)),
            Kind::Name.cell("CPUs", known(gpu.near_cpus.as_deref().map(format::clean))),
        ];
        [Kind::Name.cell("from", name)]
            .into_iter()
            .chain(own)
            .chain(near)
            .collect()
    };
    let table = Table::of(gpus.iter().map(row).collect())?;
    let words = grouped(links().map(|link| (way(link), ()))).into_iter();
    let words = words.map(|((word, meaning), _)| format!("{word}: {meaning}"));
    let words = words.collect::<Vec<_>>().join("; ");
    Some(Table {
        caption: format!("How the GPUs reach each other. {words}."),
        ..table
    })
}

/// The same in a sentence; `None` of one GPU.
pub(super) fn in_short(machine: &Machine) -> Option<String> {
    const NAMED: usize = 4;
    let gpus = linked(machine);
    let pairs = gpus.iter().flat_map(|gpu| {
        let ways = gpu.links.iter().filter(|link| link.to > gpu.index);
        ways.map(|link| (way(link), format!("{}–{}", gpu.index, link.to)))
    });
    let ways = grouped(pairs);
    let only = ways.len() == 1;
    let told = ways.into_iter().map(|((word, meaning), pairs)| {
        let pairs = match pairs.len() {
            _ if !only => format::few(pairs, NAMED, ", ", "and "),
            1 => "both".to_owned(),
            count => format!("each of {count} pairs"),
        };
        format!("{word} ({meaning}) {pairs}")
    });
    let told = told.collect::<Vec<_>>().join("; ");
    (!told.is_empty()).then(|| format!("Between the GPUs: {told}."))
}
