//! When a session adds blocks until it is decided.
//!
//! After a few blocks the session looks at its own metrics, and again after further ones, until
//! every gated metric is decided or the budget ends. Whoever looks often and stops where it suits
//! is wrong often; so how many blocks the time is good for is fixed before the first look, each
//! look spends its share of one error budget, and every look is kept in `session.json`, where
//! whoever compares the session later finds it and takes the looks again.

use std::{collections::BTreeSet, time::Duration};

use judge::sequential::{FIRST_LOOK, is_look};
use record::{CellPlan, Deciding, Look, LookEnd, Record, Session, SidesCompared};
use verdict::Verdicts;

use super::SessionError;
use crate::plan::Plan;

/// A session that adds blocks until it is decided, as it stands before its first block.
pub fn until_decided(sides: SidesCompared, time_budget: Duration, most_blocks: u32) -> Deciding {
    Deciding {
        sides,
        time_budget_seconds: time_budget.as_secs_f64(),
        most_blocks,
        planned_blocks: None,
        spent_seconds: 0.0,
        looks: Vec::new(),
        end: None,
        metric: None,
        ratio: None,
        error: None,
    }
}

/// Refuses sides of which the plan does not have both.
pub fn check_sides(plan: &Plan, sides: &SidesCompared) -> Result<(), SessionError> {
    let refused = |why: String| Err(SessionError::Refused(why));
    match sides {
        SidesCompared::Images { base } => {
            let images: BTreeSet<&str> = plan
                .cells
                .iter()
                .map(|cell| cell.plan.image.as_str())
                .collect();
            if !images.contains(base.as_str()) {
                let images: Vec<&str> = images.into_iter().collect();
                return refused(format!(
                    "the session has no image `{base}` to compare against; it has: {}",
                    images.join(", ")
                ));
            }
            if images.len() < 2 {
                return refused(
                    "there is nothing to decide between: the session has one image; give a second \
                     one with --image, or two values of an axis with --by AXIS=BASE,HEAD"
                        .to_owned(),
                );
            }
            Ok(())
        }
        SidesCompared::Axis { axis, base, head } => {
            let values: BTreeSet<String> = plan
                .cells
                .iter()
                .filter_map(|cell| cell.plan.axes.get(axis).cloned())
                .collect();
            let mut sides = [base, head].into_iter();
            let Some(value) = sides.find(|value| !values.contains(*value)) else {
                return Ok(());
            };
            let known = if values.is_empty() {
                format!("none sets `{axis}`")
            } else {
                let values: Vec<String> = values.into_iter().collect();
                format!("there are: {}", values.join(", "))
            };
            refused(format!("no cell of the plan has {axis}={value}; {known}"))
        }
    }
}

/// The look that is due now that `blocks` blocks have run; `None` where none is. Fixes how many
/// blocks the time is good for, once.
pub(super) fn due(deciding: &mut Deciding, blocks: u32) -> Option<Look> {
    let mean_seconds = deciding.spent_seconds / f64::from(blocks.max(1));
    let fits_one_more = deciding.spent_seconds + mean_seconds <= deciding.time_budget_seconds;
    let most = deciding.most_blocks;
    let out_of_room = !fits_one_more || blocks >= most;
    if deciding.planned_blocks.is_none() && (blocks >= FIRST_LOOK || out_of_room) {
        let fitting = (deciding.time_budget_seconds / mean_seconds).floor();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to what a count of blocks can be"
        )]
        let fitting = fitting.clamp(0.0, f64::from(u32::MAX)) as u32;
        deciding.planned_blocks = Some(fitting.clamp(blocks, most.max(blocks)));
    }
    let planned = deciding.planned_blocks?;
    let last = out_of_room || blocks >= planned;
    (last || is_look(blocks)).then(|| Look {
        blocks,
        fraction: if last {
            1.0
        } else {
            f64::from(blocks) / f64::from(planned)
        },
        decided: 0,
        undecided: Vec::new(),
        resting: BTreeSet::new(),
    })
}

/// How strictly a session is to be decided, and against what.
pub fn options(deciding: &Deciding) -> verdict::Options {
    let options = deciding
        .error
        .map_or_else(verdict::Options::default, verdict::Options::at_error);
    let beside = deciding.metric.clone().zip(deciding.ratio);
    verdict::Options {
        beside: beside.map(|(metric, ratio)| verdict::Beside { metric, ratio }),
        ..options
    }
}

/// Takes the look: judges everything anew with it, and says what it came to.
pub(super) fn take(
    session: &mut Session,
    records: &[Record],
    look: Look,
) -> Result<Vec<Verdicts>, verdict::CompareError> {
    let Some(deciding) = &mut session.deciding else {
        return Ok(Vec::new());
    };
    deciding.looks.push(look);
    let options = options(deciding);
    let found = match verdict::compare_session(session, records, &options) {
        Ok(found) => found,
        // Where nothing can be compared, no further block helps.
        Err(verdict::CompareError::NothingInCommon { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    if let Some(deciding) = &mut session.deciding
        && let Some(look) = deciding.looks.last_mut()
    {
        let several = found.len() > 1;
        let wanted = deciding.metric.as_deref();
        for verdicts in &found {
            let undecided = verdicts.undecided(wanted).map(|(cell, metric)| {
                let of = if several {
                    format!("{} · ", verdicts.head.image)
                } else {
                    String::new()
                };
                let what = &metric.metric;
                format!("{of}{} · {} · {what}", cell.scenario, cell.variant)
            });
            look.undecided.extend(undecided);
        }
        let all = found.iter().flat_map(|verdicts| verdicts.to_decide(wanted));
        look.decided = all.count() - look.undecided.len();
        let is_open = |cell: &CellPlan| {
            let mut sides = found.iter();
            sides.any(|verdicts| is_undecided(verdicts, &deciding.sides, wanted, cell))
        };
        let cells = session.cells.iter().enumerate();
        let resting = cells.filter(|(_, cell)| !is_open(cell));
        look.resting = resting.map(|(place, _)| place).collect();
        deciding.end = if look.undecided.is_empty() {
            Some(LookEnd::Decided)
        } else if look.fraction < 1.0 {
            None
        } else if look.blocks >= deciding.most_blocks {
            Some(LookEnd::Blocks)
        } else {
            Some(LookEnd::Time)
        };
    }
    Ok(found)
}

/// Whether further runs of a cell could decide what these verdicts leave open.
fn is_undecided(
    verdicts: &Verdicts,
    sides: &SidesCompared,
    metric: Option<&str>,
    plan: &CellPlan,
) -> bool {
    let variant = match sides {
        SidesCompared::Images { .. } => plan.axes.to_string(),
        SidesCompared::Axis { axis, base, head } => match plan.axes.get(axis) {
            Some(value) if value == base || value == head => plan.axes.without(axis),
            _ => return false,
        },
    };
    let images = [&verdicts.base.image, &verdicts.head.image];
    images.contains(&&plan.image)
        && verdicts.undecided(metric).any(|(cell, _)| {
            (&cell.suite, &cell.scenario, &cell.variant) == (&plan.suite, &plan.scenario, &variant)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deciding(budget_seconds: u64, most_blocks: u32) -> Deciding {
        let base = "a".into();
        until_decided(
            SidesCompared::Images { base },
            Duration::from_secs(budget_seconds),
            most_blocks,
        )
    }

    /// The looks of a session whose blocks take `block_seconds` each and decide nothing.
    fn looks(mut deciding: Deciding, block_seconds: impl Fn(u32) -> f64) -> Vec<(u32, f64)> {
        let mut looks = Vec::new();
        for blocks in 1.. {
            deciding.spent_seconds += block_seconds(blocks);
            if let Some(look) = due(&mut deciding, blocks) {
                looks.push((look.blocks, look.fraction));
                if look.fraction >= 1.0 {
                    break;
                }
            }
        }
        looks
    }

    #[test]
    fn looks_grow_apart_and_end_with_the_budget() {
        let steady = looks(deciding(1000, 1000), |_| 100.0);
        assert_eq!(
            steady,
            [(3, 0.3), (4, 0.4), (5, 0.5), (6, 0.6), (8, 0.8), (10, 1.0)]
        );
        let capped = looks(deciding(1000, 5), |_| 100.0);
        assert_eq!(capped, [(3, 0.6), (4, 0.8), (5, 1.0)]);
    }

    #[test]
    fn time_that_runs_out_makes_the_look_at_hand_the_last_one() {
        // Blocks get slower after the plan is made.
        let slower = looks(
            deciding(1000, 1000),
            |block| if block > 3 { 250.0 } else { 100.0 },
        );
        assert_eq!(slower, [(3, 0.3), (4, 0.4), (5, 0.5), (6, 1.0)]);
        // One block is all that fits, or more than fits.
        assert_eq!(looks(deciding(150, 1000), |_| 100.0), [(1, 1.0)]);
        assert_eq!(looks(deciding(50, 1000), |_| 100.0), [(1, 1.0)]);
        // Blocks that take no time still end.
        assert_eq!(looks(deciding(50, 4), |_| 0.0), [(3, 0.75), (4, 1.0)]);
    }

    #[test]
    fn fractions_only_grow() {
        for most in [1, 2, 3, 7, 40, 1000] {
            for seconds in [0.1, 3.0, 7.0, 31.0] {
                let looks = looks(deciding(600, most), |block| {
                    seconds * (1.0 + f64::from(block % 5))
                });
                assert!(
                    looks.windows(2).all(|pair| pair[0].1 < pair[1].1),
                    "{looks:?}"
                );
                assert!(
                    looks
                        .last()
                        .is_some_and(|(blocks, _)| *blocks <= most.max(1))
                );
            }
        }
    }
}
