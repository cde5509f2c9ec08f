//! What a history knows of the metrics on a page.

use judge::trend::{Point, TrendOptions, change_points};

use crate::{
    charts::{Entry, extent},
    document::{Cell, Kind, Mark},
    trend::series::{self, Series},
    words::{comparison, format, metric},
};

/// One metric of one cell over the sessions of a history up to the one on the page: what was known
/// when it was drawn first, so that its page stays the same when others come.
#[derive(Debug, Clone)]
pub struct Past {
    /// Scenario and variant.
    pub cell: String,
    /// The image that the session on the page ran.
    pub image: String,
    pub metric: String,
    /// The series with what was found in it.
    pub series: Series,
    /// Where the series is drawn at length, relative to the page.
    pub href: Option<String>,
}

impl Past {
    /// With the changes that are in these points, which are the series' own with revisions that
    /// tell where a level may begin.
    pub(crate) fn judged(self, judged: &[Point]) -> Self {
        let mut series = self.series;
        // What the whole series allows, its beginning does.
        series.found = change_points(judged, &TrendOptions::default()).unwrap_or_default();
        for change in &mut series.found.change_points {
            let point = &series.points[change.index];
            change.revision.clone_from(&point.revision);
        }
        Self { series, ..self }
    }

    /// `throughput · resnet50 · fp32 bs64`.
    pub(crate) fn label(&self) -> String {
        let metric = metric::label(&self.metric);
        format::clean(&format!("{metric} · {}", comparison::spelled(&self.cell)))
    }

    pub(crate) fn value(&self) -> String {
        let point = self.series.points.last();
        point.map_or_else(String::new, |point| self.series.value(point.value))
    }

    pub(crate) fn said(&self) -> String {
        let points = format::plural(self.series.points.len(), "point", "points");
        if self.series.found.too_short {
            return format!("{points}, too short to judge");
        }
        let Some(newest) = self.series.found.change_points.last() else {
            return format!("no change in {points}");
        };
        // As its page marks it; where revisions do not tell two results apart, it is a time.
        let first = self.series.first_of(newest);
        let word = self.series.word(newest);
        format!("{} at {first}, {word}", series::ratio(newest))
    }

    pub(crate) fn mark(&self) -> Mark {
        let newest = self.series.found.change_points.last();
        let verdict = newest.and_then(|change| {
            let verdict = self.series.verdict(change)?;
            (!self.series.is_within_threshold(change)).then_some(verdict)
        });
        verdict.map_or(Mark::Muted, Mark::from)
    }
}

/// Those first whose series changed; others in their order.
pub(crate) fn in_order(past: &[Past]) -> Vec<&Past> {
    let mut all: Vec<&Past> = past.iter().collect();
    all.sort_by_key(|one| match one.mark() {
        Mark::Bad => 0,
        Mark::Good => 1,
        _ => 2,
    });
    all
}

pub(crate) fn entry(past: &Past) -> Entry {
    let points = past.series.points.iter();
    let (least, most) = extent(&points.map(|point| point.value).collect::<Vec<_>>());
    let (value, said) = (past.value(), past.said());
    let metric = Cell::from(metric::label(&past.metric)).linked(past.href.clone());
    let entry = Entry::new(past.label(), format!("{value} · {said}"));
    let cell = comparison::spelled(&past.cell);
    let image = past.image.as_str().into();
    let names = [("cell", cell.into()), ("image", image), ("metric", metric)];
    let newest = [("newest change", Cell::from(said).marked(past.mark()))];
    entry
        .with(Kind::Name, names)
        .numbers([
            ("this session", Some(value)),
            ("points", Some(past.series.points.len().to_string())),
            ("least", Some(past.series.value(least))),
            ("greatest", Some(past.series.value(most))),
        ])
        .with(Kind::Word, newest)
}
