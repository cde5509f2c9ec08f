//! A tree as an icicle: each node as wide as its value, its parts under it. As a table it is
//! indented.

use super::{Body, Chart, Entry};
use crate::{
    document::Kind,
    measure,
    svg::{Anchor, Area, Canvas, SMALL, Svg, WIDTH, ink::Ink},
    words::format::{self, Quantity},
};

/// A tree of values that add up.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) quantity: Quantity,
    pub(crate) root: Node,
}

/// One part, and what it is made of. Parts may add up to less than the whole.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// Its colour; parts have that of what they belong to where they have none.
    pub(crate) ink: Option<Ink>,
    pub(crate) parts: Vec<Node>,
    /// Further columns of its row in the table.
    pub(crate) more: Vec<(&'static str, Option<String>)>,
}

const SIDE: f64 = 4.0;
const BAR: f64 = 14.0;
const LEVEL: f64 = BAR + 18.0;
/// Narrower parts are in the table alone.
const NARROWEST: f64 = 0.5;

impl Node {
    pub(crate) fn new(name: &str, value: f64, parts: Vec<Self>) -> Self {
        Self {
            name: name.to_owned(),
            value: if value.is_finite() {
                value.max(0.0)
            } else {
                0.0
            },
            ink: None,
            parts,
            more: Vec::new(),
        }
    }

    fn depth(&self) -> usize {
        let parts = self.parts.iter().map(Self::depth);
        1 + parts.max().unwrap_or(0)
    }
}

impl Tree {
    pub(crate) fn chart(self) -> Chart {
        let mut entries = Vec::new();
        self.add(&mut entries, &self.root, 0, self.root.value);
        Chart {
            entries,
            body: Body::Tree(self),
            ..Chart::default()
        }
    }

    fn add(&self, entries: &mut Vec<Entry>, node: &Node, depth: usize, parent: f64) {
        let share = |whole: f64| (whole > 0.0).then(|| format::share(node.value / whole));
        let value = self.quantity.write(node.value);
        // Spaces that neither a page nor Markdown takes for one.
        let indented = format!("{}{}", "\u{a0}\u{a0}\u{a0}".repeat(depth), node.name);
        let entry = Entry::new(node.name.clone(), value.clone());
        let entry = entry.with(Kind::Name, [("part", indented.into())]);
        let numbers = [
            ("size", Some(value)),
            ("of its parent", share(parent).filter(|_| depth > 0)),
            ("of all", share(self.root.value)),
        ];
        entries.push(entry.numbers(numbers.into_iter().chain(node.more.clone())));
        for part in &node.parts {
            self.add(entries, part, depth + 1, node.value);
        }
    }

    pub(super) fn draw(&self, has_hints: bool) -> Svg {
        let mut canvas = Canvas::new(self.root.depth() as f64 * LEVEL + 2.0, has_hints);
        let ends = (SIDE, WIDTH - SIDE);
        self.draw_node(&mut canvas, &self.root, ends, 0, Ink::Axis);
        canvas.finish()
    }

    fn draw_node(
        &self,
        canvas: &mut Canvas,
        node: &Node,
        (left, right): (f64, f64),
        depth: usize,
        ink: Ink,
    ) {
        let top = depth as f64 * LEVEL + 2.0;
        // A rim of paper parts neighbours.
        let bar = Area::of((left, top), ((right - 1.0).max(left + 0.4), top + BAR));
        let value = self.quantity.write(node.value);
        canvas.hinted(&format!("{}: {value}", node.name), |canvas| {
            canvas.fill(bar, ink);
        });
        let room = right - left - 4.0;
        let long = format!("{} {value}", node.name);
        let fits = |text: &String| measure::width(text, SMALL) <= room;
        let short = || Some(measure::shorten(&node.name, SMALL, room)).filter(|_| room > 24.0);
        if let Some(label) = Some(long).filter(fits).or_else(short) {
            canvas.text(
                &label,
                (left, top + BAR + 8.0),
                Anchor::Left,
                SMALL,
                Ink::Text,
            );
        }
        let scale = (right - left) / node.value.max(f64::MIN_POSITIVE);
        let mut from = left;
        for (place, part) in node.parts.iter().enumerate() {
            let to = (from + part.value * scale).min(right);
            let own = Ink::Part(u8::try_from(place % 8).unwrap_or(0));
            let inherited = if depth == 0 { own } else { ink };
            if to - from >= NARROWEST {
                let ink = part.ink.unwrap_or(inherited);
                self.draw_node(canvas, part, (from, to), depth + 1, ink);
            }
            from = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{document::Block, render::text};

    fn layers() -> Tree {
        let mib = |mib: f64| mib * 1_048_576.0;
        let block = |name: &str, size: f64| {
            let parts = vec![
                Node::new("attention", mib(size * 0.75), Vec::new()),
                Node::new("mlp", mib(size * 0.25), Vec::new()),
            ];
            Node::new(name, mib(size), parts)
        };
        let encoder = Node::new(
            "encoder",
            mib(300.0),
            vec![block("layer 0", 200.0), block("layer 1", 100.0)],
        );
        let head = Node::new("head", mib(0.01), Vec::new());
        Tree {
            quantity: Quantity::Bytes,
            root: Node::new("model", mib(400.0), vec![encoder, head]),
        }
    }

    #[test]
    fn widths_are_values_and_the_table_is_indented() {
        let chart = layers().chart();
        let svg = chart.draw(true).body;
        // All, the encoder, two layers with two parts each; the head is narrower than a line.
        assert_eq!(svg.matches("<rect").count(), 8, "{svg}");
        let width = |name: &str| -> f64 {
            let (_, rest) = svg.split_once(&format!("<title>{name}: ")).unwrap();
            let (_, rest) = rest.split_once("width=\"").unwrap();
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        let ratio = (width("layer 0") + 10.0) / (width("layer 1") + 10.0);
        assert!((ratio - 2.0).abs() < 0.05, "{ratio}");
        let table = text::document(&[Block::Table(chart.table().unwrap())], text::Style::Plain);
        for row in [
            "model        ",
            "\u{a0}\u{a0}\u{a0}encoder ",
            "\u{a0}\u{a0}\u{a0}\u{a0}\u{a0}\u{a0}layer 0 ",
        ] {
            assert!(table.contains(row.trim_end()), "{row} in {table}");
        }
        let layer = table.lines().find(|line| line.contains("layer 1")).unwrap();
        for number in ["100.0 MiB", "33.3 %", "25.0 %"] {
            assert!(layer.contains(number), "{layer}");
        }
        assert!(chart.description().contains("head: 10.24 KiB."));
    }

    #[test]
    fn a_tree_of_nothing_or_of_too_much_draws() {
        let none = Node::new(
            "nothing",
            f64::NAN,
            vec![Node::new("part", 1.0, Vec::new())],
        );
        let over = Node::new("less", 1.0, vec![Node::new("more", 5.0, Vec::new())]);
        for root in [none, over] {
            let quantity = Quantity::Plain;
            let svg = Tree { quantity, root }.chart().draw(true);
            for width in svg.body.split(" width=\"").skip(1) {
                let width: f64 = width.split('"').next().unwrap().parse().unwrap();
                assert!((0.0..=WIDTH * 10.0).contains(&width), "{}", svg.body);
            }
        }
    }
}
