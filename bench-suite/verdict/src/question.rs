//! What the judge is asked: one metric of one cell, block by block, with its noise threshold.

use std::collections::{BTreeMap, BTreeSet};

use judge::{
    compare::{self, Block, Comparison, Options},
    family::{FamilyError, judge_all},
    moderation::Variance,
    sequential::{Sequential, SequentialError},
    sessions::BetweenSessions,
};
use metrics::Metric;
use record::Look;

use crate::{
    CompareError,
    side::{Cell, Runs},
};

/// Block number to what either side read.
pub(crate) type Blocks = BTreeMap<u32, Block>;

pub(crate) struct Question<'a> {
    pub(crate) cell: &'a Cell,
    /// Which of the compared cells it is, from 0.
    pub(crate) cell_index: usize,
    pub(crate) metric: &'static Metric,
    pub(crate) threshold: f64,
    pub(crate) blocks: Blocks,
    /// How far sessions lie apart, where the sides are of two and it is known.
    pub(crate) between: Option<BetweenSessions>,
    /// What a run scatters by in earlier sessions, where it is known.
    pub(crate) past: Option<Variance>,
    /// The ratio that it is judged against: 1, no change, unless something else is asked.
    pub(crate) centre: f64,
    /// Whether its runs are in no other question of the metric, which then says something new of
    /// its noise.
    pub(crate) is_apart: bool,
}

impl<'a> Question<'a> {
    /// What a metric says of a cell's runs on either side; `None` where neither side yields it.
    pub(crate) fn of(
        (cell, cell_index): (&'a Cell, usize),
        metric: &'static Metric,
        threshold: f64,
        base: &Runs<'_>,
        head: &Runs<'_>,
    ) -> Option<Self> {
        let blocks = pair(metric, base, head);
        let is_known = |block: &Block| block.base.or(block.head).is_some();
        blocks.values().any(is_known).then_some(Self {
            cell,
            cell_index,
            metric,
            threshold,
            blocks,
            between: None,
            past: None,
            centre: 1.0,
            is_apart: true,
        })
    }
}

impl Question<'_> {
    /// The question with its first `blocks` blocks; `None`: with all.
    fn metric(&self, blocks: Option<u32>) -> compare::Measurement {
        let seen = self
            .blocks
            .iter()
            .filter(|(number, _)| blocks.is_none_or(|blocks| **number < blocks))
            .map(|(_, block)| Block {
                head: block.head.map(|head| head / self.centre),
                ..*block
            });
        compare::Measurement {
            between: self.between,
            past: self.past,
            ..measurement(self.metric, seen.collect(), self.threshold)
        }
    }

    fn refused(&self, source: FamilyError) -> CompareError {
        CompareError::Judge {
            cell: self.cell.label(),
            metric: self.metric.name,
            source,
        }
    }
}

/// What either side read in each block. Runs of one block on two nodes are no pair, nor any other
/// evidence of an image.
pub(crate) fn pair(metric: &Metric, base: &Runs<'_>, head: &Runs<'_>) -> Blocks {
    let blocks: BTreeSet<u32> = base.keys().chain(head.keys()).copied().collect();
    let read = |runs: &Runs<'_>, block| runs.get(block).and_then(|run| metric.of(run));
    let is_split = |block| match (base.get(block), head.get(block)) {
        (Some(base), Some(head)) => base.session == head.session && base.host != head.host,
        _ => false,
    };
    blocks
        .iter()
        .filter(|block| !is_split(block))
        .map(|block| {
            let (base, head) = (read(base, block), read(head, block));
            (*block, Block { base, head })
        })
        .collect()
}

pub(crate) fn measurement(
    metric: &Metric,
    blocks: Vec<Block>,
    threshold: f64,
) -> compare::Measurement {
    compare::Measurement {
        blocks,
        direction: metric.direction,
        kind: metric.kind,
        threshold,
        between: None,
        metric: 0,
        past: None,
    }
}

/// Asks them all: the gated metrics as one family, so that what decides a gate does not pay for
/// what explains it, and the others as a second one.
pub(crate) fn judge_questions(
    questions: &[Question<'_>],
    looks: &[Look],
    options: Options,
) -> Result<Vec<Comparison>, CompareError> {
    let (gated, others): (Vec<&Question<'_>>, Vec<_>) = questions
        .iter()
        .partition(|question| question.metric.is_gated());
    let mut gated = judge_family(&gated, looks, options)?.into_iter();
    let mut others = judge_family(&others, looks, options)?.into_iter();
    let judged = questions.iter().filter_map(|question| {
        if question.metric.is_gated() {
            gated.next()
        } else {
            others.next()
        }
    });
    Ok(judged.collect())
}

/// Where the session looked at its metrics to know when to end, every look is taken again, so that
/// the price of looking is paid here as it was there.
fn judge_family(
    questions: &[&Question<'_>],
    looks: &[Look],
    options: Options,
) -> Result<Vec<Comparison>, CompareError> {
    let metrics = |blocks| -> Vec<compare::Measurement> {
        let mut first = BTreeMap::new();
        let metrics = questions.iter().enumerate().map(|(place, question)| {
            let of_metric = *first.entry(question.metric.name).or_insert(place);
            compare::Measurement {
                metric: if question.is_apart { of_metric } else { place },
                ..question.metric(blocks)
            }
        });
        metrics.collect()
    };
    if looks.is_empty() {
        return judge_all(&metrics(None), &options)
            .map_err(|source| questions[source.index].refused(source));
    }
    let mut sequence = Sequential::new(questions.len(), options);
    let mut judged = Vec::new();
    for look in looks {
        judged = sequence
            .look(look.fraction, &metrics(Some(look.blocks)))
            .map_err(|source| match source {
                SequentialError::Family(source) => questions[source.index].refused(source),
                source @ SequentialError::Fraction { .. } => CompareError::Looks { source },
            })?;
    }
    Ok(judged)
}
