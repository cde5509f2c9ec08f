//! The way of a run to its first measured step, step by step over all cells.

use std::collections::BTreeMap;

use judge::compare::Block;
use metrics::{Metric, catalogue};
use record::Look;

use crate::{
    CompareError, MetricVerdict, Options,
    compare::answered,
    question::{Blocks, Question, judge_questions, pair},
    side::{Cell, Runs},
};

/// In order. What comes before, pulling and loading the image, is of no run.
const STEPS: [&Metric; 7] = [
    &catalogue::CONTAINER_START,
    &catalogue::PROCESS_START,
    &catalogue::CUDA_START,
    &catalogue::MODEL_BUILD,
    &catalogue::WARMUP,
    &catalogue::FIRST_STEP,
    &catalogue::MEASURED_START,
];

type Compared<'c, 'r> = (&'c Cell, &'c Runs<'r>, &'c Runs<'r>);

/// One verdict a step that some cell has on both sides.
pub(crate) fn judge(
    common: &[Compared<'_, '_>],
    looks: &[Look],
    options: &Options,
) -> Result<Vec<MetricVerdict>, CompareError> {
    let question = |metric: &'static Metric| Question {
        cell: common[0].0,
        cell_index: 0,
        metric,
        threshold: options.threshold(metric, None),
        blocks: typical(metric, common),
        between: None,
        past: None,
        centre: 1.0,
        is_apart: true,
    };
    let questions = STEPS.map(question).into_iter();
    let questions: Vec<_> = questions.filter(|one| !one.blocks.is_empty()).collect();
    let judged = judge_questions(&questions, looks, options.statistics)?;
    let answers = questions.iter().zip(judged);
    let answers = answers.map(|(question, comparison)| MetricVerdict {
        gated: false,
        ..answered(question, comparison)
    });
    Ok(answers.collect())
}

/// What the typical cell read in each block: the geometric mean over the cells. Each cell counts by
/// how far it was from its own mean, so that blocks without some of the cells are on no other level.
fn typical(metric: &Metric, common: &[Compared<'_, '_>]) -> Blocks {
    let mut levels = Vec::new();
    let mut logs: BTreeMap<u32, [Vec<f64>; 2]> = BTreeMap::new();
    for (_, base, head) in common {
        let pairs = pair(metric, base, head).into_iter();
        let pairs = pairs.filter_map(|(number, Block { base, head })| {
            let pair = [base?, head?].map(f64::ln);
            pair.iter()
                .all(|log| log.is_finite())
                .then_some((number, pair))
        });
        let pairs: Vec<(u32, [f64; 2])> = pairs.collect();
        if pairs.is_empty() {
            continue;
        }
        let level = mean(pairs.iter().flat_map(|(_, pair)| pair));
        levels.push(level);
        for (number, pair) in pairs {
            let sides = logs.entry(number).or_default();
            for (side, log) in sides.iter_mut().zip(pair) {
                side.push(log - level);
            }
        }
    }
    let level = mean(&levels);
    let of = |side: &Vec<f64>| Some((level + mean(side)).exp());
    let blocks = logs.into_iter().map(|(number, [base, head])| {
        let (base, head) = (of(&base), of(&head));
        (number, Block { base, head })
    });
    blocks.collect()
}

fn mean<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    let (sum, count) = values
        .into_iter()
        .fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}
