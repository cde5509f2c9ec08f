//! What the model's modules take of a step, as an icicle of memory; its table has the time too.

use std::collections::BTreeMap;

use protocol::{Module, Values};

use super::plot::{Drawing, Plot, by_group};
use crate::{
    charts::{Chart, Node, Tree},
    model::{Group, View},
    render::text::{Style, columns},
    svg::ink::Ink,
    words::format::Quantity::{self, Bytes, Seconds},
};

pub(super) const PLOT: Plot = Plot {
    id: "modules",
    title: "Memory by module",
    about: "One warm-up step, attributed to the modules of the model: each as wide as its parameters, \
            gradients, optimizer state and what forward keeps for backward, the modules inside it \
            below. The table has each of these, how far memory rises above what was allocated when \
            the module was entered, and the time of forward and backward. The modules add up to the \
            step within 1 %, or are left out. Of a scenario with several cells, that of the largest \
            step is shown.",
    answers: &[],
    is_detail: true,
    draw: |view| -> Drawing { (Vec::new(), by_group(view, |group| chart(view, group)).1) },
};

/// Modules below this share of the step's memory and of its time are in the record alone.
const SMALLEST: f64 = 0.002;

/// Heads of the table; the first four add up to the width.
const COLUMNS: [(&str, &str, Quantity); 8] = [
    ("parameters", "parameter_bytes", Bytes),
    ("gradients", "gradient_bytes", Bytes),
    ("optimizer state", "optimizer_bytes", Bytes),
    ("forward keeps", "kept_bytes", Bytes),
    ("forward rises by", "forward_peak_bytes", Bytes),
    ("backward rises by", "backward_peak_bytes", Bytes),
    ("forward", "forward_seconds", Seconds),
    ("backward", "backward_seconds", Seconds),
];

fn sum(values: &Values, columns: std::ops::Range<usize>) -> f64 {
    let names = COLUMNS[columns].iter();
    names.filter_map(|(_, name, _)| values.get(*name)).sum()
}

/// The modules of a step, by name; the step itself among them.
type Modules<'a> = BTreeMap<&'a str, &'a Values>;

/// The attributed cells of a group, with the label of their row, their modules and the step itself.
fn attributed<'a>(
    view: &'a View,
    group: &'a Group,
) -> impl Iterator<Item = (&'a str, usize, Modules<'a>, &'a Values)> {
    group.lanes().filter_map(|(row, cell)| {
        let mut runs = view.good_runs(cell).into_iter();
        let run = runs.find(|run| !run.modules.is_empty())?;
        let modules = run.modules.iter();
        let modules = modules.map(|one| (one.name.as_str(), &one.values));
        let modules: Modules = modules.collect();
        let step = *modules.get(Module::STEP)?;
        Some((row.label.as_str(), cell, modules, step))
    })
}

fn chart(view: &View, group: &Group) -> Option<Chart> {
    let size = |step| sum(step, 0..4);
    let (label, cell, modules, step) = attributed(view, group)
        .max_by(|(.., one), (.., other)| size(one).total_cmp(&size(other)))?;
    let mut root = tree(&modules, step);
    root.ink = Some(Ink::Axis);
    let quantity = Bytes;
    Some(Chart {
        subtitle: format!("{}, the largest step", view.name_in(label, cell)),
        ..Tree { quantity, root }.chart()
    })
}

/// Every attributed cell as an indented table, for a terminal.
#[must_use]
pub fn attribution(view: &View, style: Style) -> String {
    let heads = COLUMNS.iter().map(|(head, ..)| (*head).to_owned());
    let heads: Vec<String> = ["module".to_owned()].into_iter().chain(heads).collect();
    let cells = view.groups.iter().flat_map(|group| {
        let cells = attributed(view, group);
        cells.map(|(_, cell, modules, step)| {
            let name = view.name_in(&view.short_name(cell), cell);
            (name, tree(&modules, step))
        })
    });
    let tables = cells.map(|(name, root)| {
        let mut rows = Vec::new();
        add_rows(&mut rows, &root, 0);
        format!("{name}\n{}", columns(&heads, &rows, style))
    });
    tables.collect::<Vec<String>>().join("\n")
}

fn add_rows(rows: &mut Vec<Vec<String>>, node: &Node, depth: usize) {
    let values = node.more.iter().map(|(_, value)| value.clone());
    let values = values.map(Option::unwrap_or_default);
    let name = format!("{}{}", "  ".repeat(depth), node.name);
    rows.push([name].into_iter().chain(values).collect());
    for part in &node.parts {
        add_rows(rows, part, depth + 1);
    }
}

fn tree(modules: &Modules<'_>, step: &Values) -> Node {
    let outermost = modules.keys().filter(|name| Module::is_outermost(name));
    let parts = outermost.filter_map(|name| node(modules, name, ""));
    of("step", step, parts.collect())
}

/// A module with those inside it; `around` is the name of the one around it. `None` where it takes
/// too little of the step to be shown.
fn node(modules: &Modules<'_>, name: &str, around: &str) -> Option<Node> {
    let (values, step) = (*modules.get(name)?, *modules.get(Module::STEP)?);
    let is_large = |columns: std::ops::Range<usize>| {
        sum(values, columns.clone()) > SMALLEST * sum(step, columns)
    };
    if !is_large(0..4) && !is_large(6..8) {
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
        return node(modules, only, around);
    }
    let parts = direct.into_iter();
    let parts = parts.filter_map(|other| node(modules, other, &inside));
    let own = name.strip_prefix(around).unwrap_or(name);
    Some(of(own, values, parts.collect()))
}

/// Its parts by number where their names are numbers: `2` before `10`.
fn of(name: &str, values: &Values, mut parts: Vec<Node>) -> Node {
    parts.sort_by_key(|part| part.name.split('.').next()?.parse::<u64>().ok());
    let columns = COLUMNS.iter().map(|(head, name, quantity)| {
        let value = values.get(*name);
        (*head, value.map(|value| quantity.write(*value)))
    });
    Node {
        more: columns.collect(),
        ..Node::new(name, sum(values, 0..4), parts)
    }
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
        let found = node(&modules, "encoder", "").unwrap();
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
