//! The pages of series over time, and what leads from them to their sessions and back.

use std::collections::{BTreeMap, BTreeSet};

use super::card::Card;
use crate::{
    document::{Block, Cell, Kind, Table},
    trend::{self, Series, Urgency},
    words::{
        format::{self, plural, short},
        names::Names,
    },
};

/// Series that are followed together: those of one suite on one machine.
#[derive(Debug, Clone)]
pub struct Trend {
    /// What they have in common: suite, track, device and machine.
    pub name: String,
    pub series: Vec<Followed>,
}

/// One series, and where its points come from.
#[derive(Debug, Clone)]
pub struct Followed {
    pub cell: String,
    pub metric: String,
    /// The series with what was found in it.
    pub series: Series,
    /// The session and its image, point by point.
    pub from: Vec<(String, String)>,
}

/// A trend with its place on the site.
pub(super) struct Placed<'a> {
    pub(super) trend: &'a Trend,
    pub(super) name: String,
    /// A name for each series on the page.
    anchors: Vec<String>,
}

impl<'a> Placed<'a> {
    pub(super) fn all(trends: &'a [Trend]) -> Vec<Self> {
        let mut names = Names::default();
        let placed = trends.iter().map(|trend| {
            let mut anchors = Names::default();
            let anchor = |one: &Followed| anchors.take(&format!("{} {}", one.cell, one.metric));
            Self {
                name: names.take(&trend.name),
                anchors: trend.series.iter().map(anchor).collect(),
                trend,
            }
        });
        placed.collect()
    }

    pub(super) fn has(&self, session: &str) -> bool {
        let series = self.trend.series.iter();
        let mut points = series.flat_map(|one| one.from.iter());
        points.any(|(of, _)| of == session)
    }

    /// Page and Markdown; `pages` has the folders of the sessions that are on the site.
    pub(super) fn files(
        &self,
        pages: &BTreeMap<String, String>,
    ) -> Result<[(String, String); 2], crate::ReportError> {
        let all: Vec<Series> = self
            .trend
            .series
            .iter()
            .map(|one| one.series.clone())
            .collect();
        let html = trend::page(&all, &[], &self.trend.name, |place| {
            let below = sessions(&self.trend.series[place], pages);
            (self.anchors[place].clone(), Some(below))
        })?;
        Ok([
            (format!("{}.html", self.name), html),
            (format!("{}.md", self.name), trend::markdown(&all, &[])),
        ])
    }

    pub(super) fn card(&self) -> Card {
        let series = &self.trend.series;
        let count =
            |is: &dyn Fn(&Series) -> bool| series.iter().filter(|one| is(&one.series)).count();
        let changed = count(&|one| one.urgency() != Urgency::Quiet);
        let short = count(&|one| one.found.too_short);
        let short = (short > 0).then(|| format!(", {short} too short to judge"));
        let answer = format!(
            "{changed} of {} changed{}.",
            plural(series.len(), "series", "series"),
            short.unwrap_or_default()
        );
        let images = series.iter().flat_map(|one| one.from.iter());
        let images: BTreeSet<&str> = images.map(|(_, image)| image.as_str()).collect();
        let words = series.iter().map(|one| one.cell.as_str()).chain(images);
        let words: Vec<&str> = words.collect();
        let newest = series.iter().filter_map(|one| one.series.points.last());
        let newest = newest.map(|point| point.timestamp).fold(0.0, f64::max);
        let card = Card {
            title: format::clean(&self.trend.name),
            subtitle: format!("over time · newest result {}", trend::time(newest)),
            told: vec![Block::List(vec![answer])],
            words: format!("{} {}", self.trend.name, words.join(" ")),
            page: format!("{}.html", self.name),
            markdown: format!("{}.md", self.name),
            time: trend::time(newest),
            ..Card::default()
        };
        let gravest = series.iter().min_by_key(|one| one.series.urgency());
        card.with(gravest.map(|one| trend::chart(&one.series)))
    }
}

/// The points of a series, the newest first, each with the way to its session.
fn sessions(one: &Followed, pages: &BTreeMap<String, String>) -> Block {
    let points = one.series.points.iter().zip(&one.from).rev();
    let rows = points.map(|(point, from)| {
        let (session, image) = from.clone();
        let page = pages.get(&session);
        let href = page.map(|page| format!("../{page}/report.html"));
        vec![
            Kind::Name.cell("time", trend::time(point.timestamp)),
            Kind::Name.cell("session", Cell::from(session).linked(href)),
            Kind::Name.cell("image", image),
            Kind::Number.cell("value", one.series.value(point.value)),
            Kind::Name.cell("revision", short(&point.revision)),
        ]
    });
    let title = plural(one.from.len(), "result", "results");
    let table = Table::of(rows.collect()).map(Block::Table);
    Block::Folded(title, Vec::from_iter(table))
}
