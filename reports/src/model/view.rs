//! A report in the order in which people read it.

use std::collections::BTreeSet;

use ::metrics::{Metric, catalogue};
use record::{ImageFacts, Reason, Record};

use super::{
    group::{Contender, Group, Row},
    pairs::Pairs,
    report::{CellSummary, Report},
};
use crate::words::{format, lists::unique};

/// A report with the runs behind it, in the order in which people read it.
#[derive(Debug)]
pub struct View<'a> {
    pub report: Report,
    /// The images; with several sessions, the images of each.
    pub contenders: Vec<Contender>,
    /// The scenarios with their variants.
    pub groups: Vec<Group>,
    /// The runs of every cell of the report, in the order in which they ended.
    pub runs: Vec<Vec<&'a Record>>,
    /// The commands that run each cell of the report again.
    pub commands: Vec<String>,
    /// What the cells are against each other.
    pub pairs: Pairs,
}

impl<'a> View<'a> {
    pub(crate) fn good_runs(&self, cell: usize) -> Vec<&'a Record> {
        let runs = self.runs[cell].iter().copied();
        runs.filter(|run| run.outcome.is_ok()).collect()
    }

    /// Whether several images, or images of several sessions, stand side by side.
    pub(crate) fn has_several(&self) -> bool {
        self.contenders.len() > 1
    }

    /// Whether two cells differ by a design choice, and not by their image or session.
    pub(crate) fn is_choice(&self, one: usize, other: usize) -> bool {
        self.contender_of(one) == self.contender_of(other)
    }

    /// Whether what was judged are design choices alone.
    pub(crate) fn compares_choices(&self) -> bool {
        let mut sessions = self.report.sessions.iter();
        sessions.all(|session| session.comparisons.is_empty())
    }

    /// Whether there are so many cells that a page leaves out what only looks into single runs.
    pub fn is_large(&self) -> bool {
        const LARGE: usize = 120;
        self.report.cells.len() > LARGE
    }

    pub(crate) fn median(&self, cell: usize, metric: &Metric) -> Option<f64> {
        self.report.cells[cell].metrics.median(metric)
    }

    /// The metrics that the suites ask for, each once, in their order.
    pub(crate) fn asked(&self) -> Vec<&'static Metric> {
        let sessions = self.report.sessions.iter();
        let asked = sessions.flat_map(|session| session.questions.values());
        let names = asked.flat_map(|asked| &asked.answered_by);
        unique(names.filter_map(|name| Metric::named(name)))
    }

    pub(crate) fn has(&self, metric: &Metric) -> bool {
        let mut cells = self.report.cells.iter();
        cells.any(|cell| cell.metrics.get(metric).is_some())
    }

    pub(crate) fn place(&self, cell: usize) -> Option<(&Group, &Row)> {
        self.groups.iter().find_map(|group| {
            let (row, _) = group.lanes().find(|(_, other)| *other == cell)?;
            Some((group, row))
        })
    }

    pub(crate) fn image(&self, contender: usize) -> Option<&ImageFacts> {
        let Contender { session, image, .. } = &self.contenders[contender];
        let mut sessions = self.report.sessions.iter();
        let own = sessions.find(|one| one.session == *session)?;
        own.images.iter().find(|facts| facts.name == *image)
    }

    /// The memory metric that stands for the cells of a scenario: what the allocator reserved, where
    /// every measured cell knows it (on a GPU); what the tensors took, elsewhere.
    pub(crate) fn memory_of(&self, group: &Group) -> &'static Metric {
        let cells = group.cells().map(|cell| &self.report.cells[cell]);
        let mut measured = cells.filter(|cell| cell.ok > 0);
        let is_known = |cell: &CellSummary| cell.metrics.get(&catalogue::PEAK_RESERVED).is_some();
        if measured.all(is_known) {
            &catalogue::PEAK_RESERVED
        } else {
            &catalogue::PEAK_ALLOCATED
        }
    }

    pub(crate) fn label_of(&self, cell: usize) -> &str {
        &self.contenders[self.contender_of(cell)].label
    }

    /// What is said of a cell, and of which contender where there are several.
    pub(crate) fn name_in(&self, said: &str, cell: usize) -> String {
        if self.has_several() {
            format!("{said} in {}", self.label_of(cell))
        } else {
            said.to_owned()
        }
    }

    pub(crate) fn contender_of(&self, cell: usize) -> usize {
        let summary = &self.report.cells[cell];
        let mut contenders = self.contenders.iter();
        contenders.position(|one| one.has(summary)).unwrap_or(0)
    }

    /// A cell in few words: its scenario, and what tells it from the scenario's other variants.
    pub(crate) fn short_name(&self, cell: usize) -> String {
        match self.place(cell) {
            Some((group, row)) if row.label == group.scenario => row.label.clone(),
            Some((group, row)) => format!("{} {}", group.scenario, row.label),
            None => String::new(),
        }
    }

    /// What the labels of the contenders are: the head of their column.
    pub fn contender_head(&self) -> &'static str {
        match self.contenders.first() {
            Some(first) if first.label == format::clean(&first.session) => "session",
            Some(first) if first.label != format::clean(&first.image) => "image @ session",
            _ => "image",
        }
    }

    /// As [`Self::short_name`], with the contender where there are several.
    pub(crate) fn name_of(&self, cell: usize) -> String {
        self.name_in(&self.short_name(cell), cell)
    }

    pub(crate) fn why_nothing(&self, cell: usize) -> String {
        let runs = self.runs[cell].iter();
        let reasons = runs.filter_map(|run| run.outcome.reason());
        let reasons: BTreeSet<String> = reasons.map(Reason::word).collect();
        match (reasons.first(), reasons.len()) {
            (None, _) => "not run".to_owned(),
            (Some(only), 1) => format!("no successful run: {only}"),
            (Some(first), _) => format!("no successful run: {first} and other reasons"),
        }
    }
}
