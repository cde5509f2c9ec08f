//! A swept axis: what is measured while one quantity is varied, such as P99 against load, efficiency
//! against GPUs, memory against batch; with a line that it is to keep below, and one of the ideal.

use super::{Axis, Chart, Entry, Key, Layer, Panel, Spot};
use crate::{
    svg::{Dashes, Look, ink::Ink},
    words::format::Quantity,
};

#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) along: (&'static str, Quantity),
    pub(crate) up: (&'static str, Quantity),
    /// What is to be kept below, with its name.
    pub(crate) limit: Option<(String, f64)>,
    /// What would be ideal, with its name.
    pub(crate) ideal: Option<(String, Vec<(f64, f64)>)>,
    /// Title and caption of each panel, and its curves.
    pub(crate) panels: Vec<(String, String, Vec<Curve>)>,
}

#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) look: Look,
    pub(crate) size: f64,
    pub(crate) is_joined: bool,
    /// What was chosen, what came of it, and the same in words.
    pub(crate) points: Vec<(f64, f64, Entry)>,
}

/// From these ratios of greatest to least on, an axis is logarithmic.
const FAR_ALONG: f64 = 30.0;
const FAR_UP: f64 = 50.0;
const HEIGHT: f64 = 130.0;

impl Swept {
    pub(crate) fn legend(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        let curves = self.panels.iter().flat_map(|(.., curves)| curves);
        Key::add(
            &mut keys,
            curves.map(|curve| Key::mark(curve.look, &curve.name)),
        );
        let limit = self.limit.iter();
        keys.extend(limit.map(|(name, _)| Key::of(Ink::Danger, "―", name)));
        let ideal = self.ideal.iter();
        keys.extend(ideal.map(|(name, _)| Key::of(Ink::Rule, "╌", name)));
        keys
    }

    pub(crate) fn chart(self, columns: usize) -> Chart {
        let points = || {
            let curves = self.panels.iter().flat_map(|(.., curves)| curves);
            curves.flat_map(|curve| &curve.points)
        };
        let ideal = || {
            self.ideal
                .iter()
                .flat_map(|(_, points)| points.iter().copied())
        };
        let limit = self.limit.iter().map(|(_, value)| *value);
        let xs: Vec<f64> = points().map(|point| point.0).collect();
        let ys = points().map(|point| point.1);
        let ys: Vec<f64> = ys
            .chain(ideal().map(|point| point.1))
            .chain(limit)
            .collect();
        let along = Axis::covering(self.along.0, self.along.1, &xs, FAR_ALONG);
        let up = Axis::covering(self.up.0, self.up.1, &ys, FAR_UP);
        let entries = self.entries();
        let (limit, ideal) = (self.limit, self.ideal);
        let panels = self.panels.into_iter().map(|(title, caption, curves)| {
            let mut layers = Vec::new();
            let limit = limit.iter();
            layers.extend(limit.map(|(name, value)| Layer::limit(*value).hinted(name)));
            layers.extend(ideal.iter().map(|(name, points)| {
                let look = (Ink::Rule, 1.4, Dashes::Long);
                Layer::line(None, points.clone(), look).hinted(name)
            }));
            layers.extend(curves.into_iter().flat_map(Curve::layers));
            Panel {
                title,
                caption,
                ..Panel::of(along.clone(), up.clone(), layers)
            }
        });
        Chart::panels(entries, (columns, HEIGHT), panels.collect())
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (.., curves) in &self.panels {
            let mut own: Vec<_> = curves.iter().flat_map(|curve| &curve.points).collect();
            own.sort_by(|one, other| one.0.total_cmp(&other.0));
            entries.extend(own.into_iter().map(|(.., entry)| entry.clone()));
        }
        entries
    }
}

impl Curve {
    fn layers(self) -> Vec<Layer> {
        let mut line: Vec<(f64, f64)> = self.points.iter().map(|one| (one.0, one.1)).collect();
        line.sort_by(|one, other| one.0.total_cmp(&other.0));
        let line = Layer::line(None, line, (self.look.ink, 1.4, Dashes::None));
        let line = [line].into_iter().filter(|_| self.is_joined);
        let marks = self.points.into_iter().map(|(x, y, entry)| {
            let spot = Spot::of((x, y), self.size, self.look);
            Layer::mark(spot).hinted(entry.hint())
        });
        line.chain(marks).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{render::text, svg::Shape};

    fn swept(
        along: (&'static str, Quantity),
        up: (&'static str, Quantity),
        points: &[(f64, f64)],
    ) -> Swept {
        let points = points.iter().map(|(x, y)| {
            let numbers = [(along.0, x.to_string()), (up.0, up.1.write(*y))];
            let numbers = numbers.map(|(head, text)| (head, Some(text)));
            (*x, *y, Entry::new("point", "").numbers(numbers))
        });
        let curve = Curve {
            name: "torch-2.12".to_owned(),
            look: Look::of(Ink::Series(0), Shape::Disc),
            size: 7.0,
            is_joined: true,
            points: points.collect(),
        };
        Swept {
            along,
            up,
            limit: None,
            ideal: None,
            panels: vec![("bert-large".to_owned(), String::new(), vec![curve])],
        }
    }

    /// Texts of the drawing, and its table. Returns the drawing.
    fn check(swept: Swept, shown: &[&str], table: &str) -> String {
        let chart = swept.chart(1);
        let svg = chart.draw(true).body;
        for text in shown {
            assert!(svg.contains(&format!(">{text}</text>")), "{text} in {svg}");
        }
        let rows = text::document(
            &[crate::document::Block::Table(chart.table().unwrap())],
            text::Style::Plain,
        );
        let rows: Vec<String> = rows
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert!(rows.join("\n").contains(table), "{rows:#?}");
        svg
    }

    fn number(element: &str, name: &str) -> f64 {
        let (_, rest) = element.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    }

    /// Where the marks are.
    fn marks(svg: &str) -> Vec<(f64, f64)> {
        let circles = svg.split("<circle class=\"f-series-0\"").skip(1);
        circles
            .map(|one| (number(one, "cx"), number(one, "cy")))
            .collect()
    }

    /// The height of a level line.
    fn level(svg: &str, ink: &str) -> f64 {
        let (_, line) = svg
            .split_once(&format!("<polyline class=\"s-{ink}\""))
            .unwrap();
        let (_, points) = line.split_once("points=\"").unwrap();
        let (points, _) = points.split_once('"').unwrap();
        let ends = points
            .split(' ')
            .map(|point| point.split_once(',').unwrap().1);
        let ends: Vec<&str> = ends.collect();
        assert!(ends.len() == 2 && ends[0] == ends[1], "{points}");
        ends[0].parse().unwrap()
    }

    /// How far `at` is on the way from one place to another.
    #[track_caller]
    fn is_at(at: f64, [from, to]: [f64; 2], share: f64) {
        let found = (at - from) / (to - from);
        assert!((found - share).abs() < 0.01, "{found}, expected {share}");
    }

    #[test]
    fn serving_has_its_latency_against_load_and_its_objective() {
        let rate = ("requests/s", Quantity::Plain);
        let points = [(100.0, 0.004), (200.0, 0.005), (400.0, 0.9)];
        let mut serving = swept(rate, ("P99", Quantity::Seconds), &points);
        serving.limit = Some(("objective: 50 ms".to_owned(), 0.05));
        let legend = serving.legend();
        assert_eq!(legend[1].label, "objective: 50 ms");
        // From 4 to 900 ms: in equal ratios.
        let shown = ["P99, logarithmic (s)", "requests/s"];
        let svg = check(serving, &shown, "\n400 900 ms");
        let spots = marks(&svg);
        is_at(spots[1].0, [spots[0].0, spots[2].0], 1.0 / 3.0);
        let heights = [spots[0].1, spots[2].1];
        let share = |seconds: f64| (seconds / 0.004_f64).ln() / (0.9_f64 / 0.004).ln();
        is_at(spots[1].1, heights, share(0.005));
        is_at(level(&svg, "danger"), heights, share(0.05));
    }

    #[test]
    fn scaling_has_its_efficiency_against_gpus_and_the_ideal() {
        let gpus = ("GPUs", Quantity::Plain);
        let points = [(1.0, 100.0), (2.0, 97.0), (4.0, 95.0), (8.0, 88.0)];
        let mut scaling = swept(gpus, ("efficiency", Quantity::Percent), &points);
        scaling.ideal = Some(("linear".to_owned(), vec![(1.0, 100.0), (8.0, 100.0)]));
        assert_eq!(scaling.legend()[1].label, "linear");
        let svg = check(scaling, &["efficiency (%)", "GPUs", "8"], "\n8 88.0 %");
        let spots = marks(&svg);
        is_at(spots[2].0, [spots[0].0, spots[3].0], 3.0 / 7.0);
        is_at(spots[2].1, [spots[0].1, spots[3].1], 5.0 / 12.0);
        let ideal = level(&svg, "rule");
        assert!((ideal - spots[0].1).abs() < 1.0, "{ideal} {spots:?}");
    }

    #[test]
    fn a_search_has_its_memory_against_the_batch_and_its_limit() {
        let gib = |gib: f64| gib * 1_073_741_824.0;
        let points = [(1.0, gib(2.0)), (64.0, gib(5.5)), (100.0, gib(7.9))];
        let mut fit = swept(
            ("batch", Quantity::Plain),
            ("peak", Quantity::Bytes),
            &points,
        );
        fit.limit = Some(("limit, 8 GiB".to_owned(), gib(8.0)));
        let shown = ["peak (GiB)", "batch, logarithmic", "100"];
        let svg = check(fit, &shown, "\n100 7.900 GiB");
        let spots = marks(&svg);
        let share = 64_f64.ln() / 100_f64.ln();
        is_at(spots[1].0, [spots[0].0, spots[2].0], share);
        let limit = level(&svg, "danger");
        is_at(limit, [spots[0].1, spots[2].1], 6.0 / 5.9);
    }
}
