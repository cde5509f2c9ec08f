//! What lies on a panel, drawn.

use std::collections::BTreeSet;

use super::{
    axis::Scale,
    frame,
    panels::{Form, LABELS, Layer, Reading, Spot},
};
use crate::{
    measure,
    svg::{Anchor, Area, Canvas, Look, SMALL, Shape, TEXT, attribute, ink::Ink, whole},
    words::format,
};

pub(super) struct Drawn<'a> {
    pub(super) along: Scale<'a>,
    pub(super) up: Scale<'a>,
    pub(super) paper: Area,
}

impl Drawn<'_> {
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.along.place(x), self.up.place(y))
    }

    /// Areas behind the left axis, all else before it.
    pub(super) fn layers(&self, canvas: &mut Canvas, layers: &[Layer]) {
        let is_area = |layer: &&Layer| matches!(layer.form, Form::Area { .. });
        for layer in layers.iter().filter(is_area) {
            self.layer(canvas, layer);
        }
        canvas.group("<g data-fixed=\"\">\n", |canvas| {
            frame::left(canvas, &self.paper, &self.up);
        });
        for layer in layers.iter().filter(|layer| !is_area(layer)) {
            self.layer(canvas, layer);
        }
        self.labels_of_moments(canvas, layers);
        for label in labels(self, layers) {
            let at = label.area(&self.paper).middle();
            canvas.text(&label.text(), at, Anchor::Center, TEXT, Ink::Label);
        }
    }

    fn layer(&self, canvas: &mut Canvas, Layer { form, ink, hint }: &Layer) {
        let about = match form {
            Form::Line {
                name: Some(name), ..
            } => format!(" data-series=\"{}\"", attribute(name)),
            Form::Mark(spot) => spot.about.clone(),
            _ => String::new(),
        };
        canvas.about(&about, |canvas| {
            canvas.hinted(hint, |canvas| self.form(canvas, form, *ink));
        });
    }

    fn form(&self, canvas: &mut Canvas, form: &Form, ink: Ink) {
        let paper = &self.paper;
        let ends = (paper.top, paper.bottom);
        match form {
            Form::Area { along, up, opacity } => {
                let (left, right) = along.map_or((paper.left, paper.right), |(from, to)| {
                    (self.along.place(from), self.along.place(to))
                });
                let (top, bottom) = up.map_or(ends, |(low, high)| {
                    (self.up.place(high), self.up.place(low))
                });
                let area = Area::of((left, top), (right, bottom));
                canvas.fill_through(area, ink, *opacity);
            }
            Form::Strip((from, to)) => {
                const NARROWEST: f64 = 2.0;
                let left = self.along.place(*from);
                let right = self.along.place(*to).max(left + NARROWEST);
                let area = Area::of((left, paper.top - 1.0), (right, paper.top + 3.0));
                canvas.fill(area, ink);
            }
            Form::Limit(up) => {
                canvas.level((paper.left, paper.right), self.up.place(*up), ink, 1.6);
            }
            Form::Moment { along, .. } => {
                canvas.upright(self.along.place(*along), ends, ink, 1.4);
            }
            Form::Line {
                points,
                width,
                dashes,
                ..
            } => {
                let points: Vec<_> = points.iter().map(|point| self.place(*point)).collect();
                match without_level(&points)[..] {
                    [] => {}
                    [point] => canvas.mark(point, 5.0, Look::of(ink, Shape::Disc)),
                    ref points => canvas.dashed(*dashes, |canvas| canvas.line(points, ink, *width)),
                }
            }
            Form::Mark(spot) => self.spot(canvas, spot),
        }
    }

    fn spot(&self, canvas: &mut Canvas, spot: &Spot) {
        let (x, y) = self.place(spot.at);
        let ink = spot.look.ink;
        let is_visible = |ends: &(f64, f64)| (ends.1 - ends.0).abs() > spot.size / 2.0;
        let along = spot.ranges[0].map(|(from, to)| (self.along.place(from), self.along.place(to)));
        if let Some(ends) = along.filter(is_visible) {
            canvas.level(ends, y, ink, 1.4);
        }
        let up = spot.ranges[1].map(|(from, to)| (self.up.place(from), self.up.place(to)));
        if let (Some(ends), Some((from, to))) = (up.filter(is_visible), spot.ranges[1]) {
            canvas.upright(x, ends, ink, 1.4);
            for end in [from, to].into_iter().filter(|end| self.up.axis.has(*end)) {
                canvas.level((x - 3.5, x + 3.5), self.up.place(end), ink, 1.4);
            }
        }
        if self.along.axis.has(spot.at.0) {
            canvas.mark((x, y), spot.size, spot.look);
        } else {
            canvas.beyond((x, y), spot.at.0 > self.along.axis.range().0, ink);
        }
    }

    /// What moments are, above the paper, the first of them before the others.
    fn labels_of_moments(&self, canvas: &mut Canvas, layers: &[Layer]) {
        let y = self.paper.top - LABELS / 2.0;
        let mut taken: Vec<(f64, f64)> = Vec::new();
        for layer in layers {
            let Form::Moment { along, label } = &layer.form else {
                continue;
            };
            let wide = measure::width(label, SMALL);
            let left = self.along.place(*along) + 1.0;
            let left = left.min(self.paper.right - wide).max(self.paper.left);
            let (from, to) = (left - 5.0, left + wide + 5.0);
            let is_free = taken.iter().all(|other| to <= other.0 || other.1 <= from);
            if label.is_empty() || !is_free || to > self.paper.right + 6.0 {
                continue;
            }
            let ink = match layer.ink {
                Ink::Grid => Ink::Muted,
                ink => ink,
            };
            canvas.text(label, (left, y), Anchor::Left, SMALL, ink);
            taken.push((from, to));
        }
    }

    /// What a page's script must know: places on the paper and what is there, as `left right low high`.
    pub(super) fn begin(&self, Reading(name, along_unit): &Reading) -> String {
        let (along, up) = (self.along.axis.range(), self.up.axis.range());
        let unit = self.up.axis.unit();
        let Area {
            left,
            top,
            right,
            bottom,
        } = self.paper;
        // Where the scales end, which is not at the paper's edges.
        let (from, to) = (self.up.place(up.0), self.up.place(up.1));
        let logarithmic = if self.up.axis.is_logarithmic() {
            " data-log=\"\""
        } else {
            ""
        };
        format!(
            "<g data-panel=\"{}\" data-along=\"{} {} {} {}\" data-along-unit=\"{along_unit}\" \
             data-up=\"{} {} {} {}\" data-unit=\"{}\" data-paper=\"{} {}\"{logarithmic}>\n",
            attribute(name),
            whole(left),
            whole(right),
            along.0,
            along.1,
            whole(from),
            whole(to),
            up.0 / unit.size,
            up.1 / unit.size,
            unit.sign,
            whole(top),
            whole(bottom),
        )
    }
}

/// A line without the points that lie on a level line between their neighbours.
fn without_level(all: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let is_level = |a: usize, b: usize| (all[a].1 - all[b].1).abs() < 0.05;
    let is_between = |place: usize| place > 0 && place + 1 < all.len();
    let places = (0..all.len()).filter(|&place| {
        !(is_between(place) && is_level(place - 1, place) && is_level(place, place + 1))
    });
    places.map(|place| all[place]).collect()
}

/// The label over a mark, or the labels over marks that are too close together.
struct Label {
    texts: BTreeSet<(usize, String)>,
    spots: Vec<(f64, f64)>,
    size: f64,
}

impl Label {
    fn text(&self) -> String {
        const MOST: usize = 6;
        let texts = self.texts.iter().map(|(_, text)| text.clone());
        let more = (self.texts.len() > MOST).then(|| "…".to_owned());
        let texts = texts.take(MOST).chain(more);
        texts.collect::<Vec<_>>().join(", ")
    }

    fn area(&self, paper: &Area) -> Area {
        let width = measure::width(&self.text(), TEXT) + 4.0;
        let spots = self.spots.iter();
        let middle = spots.map(|spot| spot.0).sum::<f64>() / self.spots.len() as f64;
        let middle = middle
            .max(paper.left + width / 2.0)
            .min(paper.right - width / 2.0);
        let spots = self.spots.iter().map(|spot| spot.1);
        let top = spots.fold(f64::INFINITY, f64::min);
        let above = top - self.size / 2.0 - TEXT / 2.0 - 1.0;
        let above = above.max(paper.top + TEXT / 2.0);
        Area::around((middle, above), width, TEXT)
    }
}

/// Of every mark that has one, those that would lie over one another made one.
fn labels(drawn: &Drawn, layers: &[Layer]) -> Vec<Label> {
    let spots = layers.iter().enumerate().filter_map(|(place, layer)| {
        let Form::Mark(spot) = &layer.form else {
            return None;
        };
        let text = format::clean(&spot.label);
        (!text.is_empty()).then(|| Label {
            texts: [(place, text)].into(),
            spots: vec![drawn.place(spot.at)],
            size: spot.size,
        })
    });
    merged(spots, &drawn.paper)
}

fn merged(all: impl Iterator<Item = Label>, paper: &Area) -> Vec<Label> {
    let mut labels: Vec<Label> = Vec::new();
    for mut label in all {
        let touches = |label: &Label, other: &Label| other.area(paper).overlaps(&label.area(paper));
        while let Some(index) = labels.iter().position(|other| touches(&label, other)) {
            let other = labels.swap_remove(index);
            for (place, text) in other.texts {
                if label.texts.iter().all(|(_, known)| *known != text) {
                    label.texts.insert((place, text));
                }
            }
            label.spots.extend(other.spots);
        }
        labels.push(label);
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Area = Area::of((0.0, 0.0), (500.0, 300.0));

    fn check(points: &[(f64, f64)], expect: &[&str]) {
        let all = points.iter().enumerate().map(|(place, point)| Label {
            texts: [(place, (place + 1).to_string())].into(),
            spots: vec![*point],
            size: 10.0,
        });
        let labels = merged(all, &PAPER);
        let areas: Vec<Area> = labels.iter().map(|label| label.area(&PAPER)).collect();
        for (index, area) in areas.iter().enumerate() {
            assert!(areas[..index].iter().all(|other| !area.overlaps(other)));
        }
        let texts: Vec<String> = labels.iter().map(Label::text).collect();
        assert_eq!(texts, expect);
    }

    #[test]
    fn points_on_one_spot_share_a_label() {
        check(&[(10.0, 10.0), (100.0, 10.0)], &["1", "2"]);
        check(
            &[(100.0, 10.0), (200.0, 200.0), (101.0, 12.0)],
            &["2", "1, 3"],
        );
        check(&[(499.0, 150.0); 40], &["1, 2, 3, 4, 5, 6, …"]);
    }
}
