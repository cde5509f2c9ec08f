//! What the model's modules take of a step, as icicles: one of memory, one of time.

use std::collections::BTreeMap;

use protocol::{Module, Values};

use super::plot::{Drawing, Plot, by_group};
use crate::{
    charts::{Chart, Node, Tree},
    model::{Group, View},
    svg::ink::Ink,
    words::format::Quantity,
};

pub(super) const PLOT: Plot = Plot {
    id: "modules",
    title: "Memory and time by module",
    about: "One warm-up step, attributed to the modules of the model: each as wide as what it takes, \
            the modules inside it below. Memory is parameters, gradients, optimizer state and what \
            forward keeps for backward. The table has each of them, how far memory rises above what \
            was allocated when the module was entered, and the time of forward and backward. The \
            modules add up to the step within 1 %, or are left out. Of a scenario with several \
            cells, that of the largest step is shown.",
    answers: &[],
    is_detail: true,
    draw,
};

/// Modules below this share of the step's memory and of its time are in the record alone.
const SMALLEST: f64 = 0.002;

const MEMORY: &[&str] = &[
    "parameter_bytes",
    "gradient_bytes",
    "optimizer_bytes",
    "kept_bytes",
];
const TIME: &[&str] = &["forward_seconds", "backward_seconds", "optimizer_seconds"];

/// Heads of the table.
const COLUMNS: [(&str, &str, Quantity); 8] = [
    ("parameters", "parameter_bytes", Quantity::Bytes),
    ("gradients", "gradient_bytes", Quantity::Bytes),
    ("optimizer state", "optimizer_bytes", Quantity::Bytes),
    ("forward keeps", "kept_bytes", Quantity::Bytes),
    ("forward rises by", "forward_peak_bytes", Quantity::Bytes),
    ("backward rises by", "backward_peak_bytes", Quantity::Bytes),
    ("forward", "forward_seconds", Quantity::Seconds),
    ("backward", "backward_seconds", Quantity::Seconds),
];

fn draw(view: &View) -> Drawing {
    let mut charts = by_group(view, |group| chart(view, group, true)).1;
    charts.extend(by_group(view, |group| chart(view, group, false)).1);
    (Vec::new(), charts)
}

fn sum(values: &Values, names: &[&str]) -> f64 {
    names.iter().filter_map(|name| values.get(*name)).sum()
}

/// The modules of a step, by name; the step itself among them.
type Modules<'a> = BTreeMap<&'a str, &'a Values>;

fn chart(view: &View, group: &Group, of_memory: bool) -> Option<Chart> {
    let attributed = group.lanes().filter_map(|(row, cell)| {
        let runs = view.good_runs(cell);
        let run = runs.into_iter().find(|run| !run.modules.is_empty())?;
        let modules = run.modules.iter();
        let modules: Modules = modules
            .map(|one| (one.name.as_str(), &one.values))
            .collect();
        let size = sum(modules.get(Module::STEP)?, MEMORY);
        Some((view.name_in(&row.label, cell), modules, size))
    });
    let (name, modules, _) = attributed.max_by(|(.., one), (.., other)| one.total_cmp(other))?;
    let (what, quantity, read) = if of_memory {
        ("memory", Quantity::Bytes, MEMORY)
    } else {
        ("time", Quantity::Seconds, TIME)
    };
    let step = *modules.get(Module::STEP)?;
    let outermost = modules.keys().filter(|name| Module::is_outermost(name));
    let parts = outermost.filter_map(|name| node(&modules, name, "", read, of_memory));
    let root = Node {
        ink: Some(Ink::Axis),
        more: columns(step, of_memory),
        ..Node::new("step", sum(step, read), in_order(parts.collect()))
    };
    (root.value > 0.0).then(|| Chart {
        subtitle: format!("{name}, the largest step: {what}"),
        ..Tree { quantity, root }.chart()
    })
}

/// A module with those inside it; `around` is the name of the one around it. `None` where it takes
/// too little of the step to be shown.
fn node(
    modules: &Modules<'_>,
    name: &str,
    around: &str,
    read: &[&str],
    of_memory: bool,
) -> Option<Node> {
    let (values, step) = (*modules.get(name)?, *modules.get(Module::STEP)?);
    let is_shown = |names| sum(values, names) >= SMALLEST * sum(step, names).max(f64::MIN_POSITIVE);
    if !is_shown(MEMORY) && !is_shown(TIME) {
        return None;
    }
    let inside = format!("{name}.");
    let within = modules.range(inside.as_str()..);
    let within = within.take_while(|(other, _)| other.starts_with(&inside));
    let direct = within.filter(|(other, _)| !other[inside.len()..].contains('.'));
    let direct: Vec<&str> = direct.map(|(other, _)| *other).collect();
    // A folder of modules with one inside is none of its own.
    if let [only] = direct[..]
        && modules[only] == values
    {
        return node(modules, only, around, read, of_memory);
    }
    let parts = direct
        .into_iter()
        .filter_map(|other| node(modules, other, &inside, read, of_memory));
    let own = name.strip_prefix(around).unwrap_or(name);
    Some(Node {
        more: columns(values, of_memory),
        ..Node::new(own, sum(values, read), in_order(parts.collect()))
    })
}

/// By number where the names are numbers: `2` before `10`.
fn in_order(mut parts: Vec<Node>) -> Vec<Node> {
    let number = |node: &Node| {
        let digits = node.name.split('.').next().unwrap_or_default();
        digits.parse::<u64>().ok()
    };
    parts.sort_by_key(number);
    parts
}

/// The columns of the table that has all of them; the other has its own size alone.
fn columns(values: &Values, of_memory: bool) -> Vec<(&'static str, Option<String>)> {
    let columns = COLUMNS.iter().filter(|_| of_memory);
    let columns = columns.map(|(head, name, quantity)| {
        let value = values.get(*name).copied();
        (*head, value.map(|value| quantity.write(value)))
    });
    columns.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_a_tree_in_which_folders_of_one_are_none() {
        let of = |kept: f64| Values::from([("kept_bytes".to_owned(), kept)]);
        let (step, encoder, first, tenth, small) =
            (of(1000.0), of(900.0), of(500.0), of(400.0), of(1.0));
        let modules: Modules = [
            (Module::STEP, &step),
            ("encoder", &encoder),
            ("encoder.layer", &encoder),
            ("encoder.layer.10", &tenth),
            ("encoder.layer.2", &first),
            ("encoder.layer.2.norm", &small),
        ]
        .into();
        let found = node(&modules, "encoder", "", MEMORY, true).unwrap();
        assert_eq!((found.name.as_str(), found.value), ("encoder.layer", 900.0));
        let inside: Vec<&str> = found.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(inside, ["2", "10"]);
        assert!(
            found.parts[0].parts.is_empty(),
            "smaller than what is shown"
        );
        assert_eq!(found.more[3], ("forward keeps", Some("900 B".to_owned())));
    }
}
