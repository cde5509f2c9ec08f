//! What the reader of a comparison must know.

use std::collections::BTreeMap;

use verdict::{Verdicts, Warning};

use crate::words::comparison::{cell_name, failures, spelled};
use crate::words::format::{others_used, plural};

/// What the reader must know, in words. Cells that one side alone has become one sentence: with
/// two values of an axis they are often many.
pub(super) fn warnings(verdicts: &Verdicts) -> Vec<String> {
    let mut alone: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut texts: Vec<String> = verdicts
        .cells
        .iter()
        .filter(|cell| cell.lost().is_none())
        .filter_map(|cell| {
            Some(format!(
                "{}: {}; these are left out.",
                cell_name(cell),
                failures(cell)?
            ))
        })
        .collect();
    for known in &verdicts.warnings {
        if let Warning::OneSided { cell, only_in } = known {
            alone.entry(only_in).or_default().push(spelled(cell));
        }
        texts.extend(warning(known));
    }
    texts.extend(alone.into_iter().map(|(only_in, cells)| {
        let count = match cells.len() {
            1 => "was".to_owned(),
            2..=MOST_NAMED => "were".to_owned(),
            more => format!("and {} more were", more - MOST_NAMED),
        };
        let named: Vec<String> = cells.into_iter().take(MOST_NAMED).collect();
        format!("{} {count} measured in {only_in} only.", named.join("; "))
    }));
    texts
}

/// At most so many cells of one side alone are named.
const MOST_NAMED: usize = 3;

/// `None` of a cell that one side alone has.
fn warning(warning: &Warning) -> Option<String> {
    Some(match warning {
        Warning::NotInterleaved => {
            "The two sides did not run interleaved: drift of the machine counts as change. Measure \
             both images in one session."
                .to_owned()
        }
        Warning::AcrossMachines { what } => format!(
            "Measured in different places ({what}): differences between these count as change. \
             Between hosts, half of all identical configurations have been called different."
        ),
        Warning::MethodIgnored { difference } => {
            format!("The method differs ({difference}), which was ignored: it counts as change.")
        }
        Warning::OneSided { .. } => return None,
        Warning::ThresholdsDiffer { cells } => format!(
            "The suites of the two sides set different noise thresholds in {}; the head's are used.",
            plural(*cells, "cell", "cells")
        ),
        Warning::ShortWindow {
            cell,
            cells,
            window,
        } => {
            let cell = spelled(cell);
            match cells - 1 {
                0 => format!("{cell}: {window}."),
                more => format!(
                    "{cell}: {window}; too short in {} too.",
                    plural(more, "more cell", "more cells")
                ),
            }
        }
        Warning::BusyHost {
            base,
            head,
            runs,
            used,
            cpus,
        } => format!(
            "{} {} of {runs} runs ({base} of the base, {head} of the head): that counts as change. \
             Measure again when nothing else runs.",
            others_used(*used, *cpus),
            base + head
        ),
        Warning::SlowNode {
            node,
            metric,
            share,
            others,
        } => {
            let label = metrics::Metric::named(metric).map_or(metric.as_str(), |row| row.label);
            format!(
                "{node} is at least {:.0} % behind {} in {label}, in every cell and on both sides. Each \
                 block is of one node, so that ratios are not moved; have the node checked.",
                share * 100.0,
                others.join(", ")
            )
        }
        Warning::OtherGpus { cell, cells } => {
            let cell = spelled(cell);
            let which = match cells {
                0 | 1 => format!("{cell} ran"),
                more => format!(
                    "{cell} and {} ran",
                    plural(more - 1, "more cell", "more cells")
                ),
            };
            format!(
                "{which} on another GPU of the host in the head than in the base: GPUs of one \
                 model differ as well."
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use verdict::Origin;

    use super::*;

    #[test]
    fn a_busy_host_is_one_sentence() {
        let busy = Warning::BusyHost {
            base: 0,
            head: 5,
            runs: 12,
            used: 1.7,
            cpus: 2,
        };
        assert_eq!(
            warning(&busy).as_deref(),
            Some(
                "Other programs used up to 1.7 of 2 CPUs during 5 of 12 runs (0 of the base, 5 of \
                 the head): that counts as change. Measure again when nothing else runs."
            )
        );
    }

    #[test]
    fn cells_of_one_side_alone_are_one_sentence() {
        let origin = Origin {
            session: "s".into(),
            image: "a".into(),
            image_id: None,
            libtorch_version: None,
            machine: "m".into(),
            device: "d".into(),
            driver_version: None,
            choice: None,
        };
        let told = |cells: &[&str]| {
            let alone = cells.iter().map(|&cell| Warning::OneSided {
                cell: cell.into(),
                only_in: "s:a".into(),
            });
            let verdicts = Verdicts {
                version: verdict::VERSION,
                base: origin.clone(),
                head: origin.clone(),
                warnings: alone.chain([Warning::NotInterleaved]).collect(),
                looks: 0,
                image_changes: Vec::new(),
                images: Vec::new(),
                cold_start: Vec::new(),
                cells: Vec::new(),
            };
            let told = warnings(&verdicts);
            assert_eq!(told.len(), 2);
            told[1].clone()
        };
        assert_eq!(told(&["x"]), "x was measured in s:a only.");
        // As the tables spell it.
        let told_one = told(&["x · fp32 bs8 optimizer=adamw sequence_length=128"]);
        assert_eq!(
            told_one,
            "x · fp32 bs8 adamw seq128 was measured in s:a only."
        );
        assert_eq!(told(&["x", "y"]), "x; y were measured in s:a only.");
        assert_eq!(
            told(&["v", "w", "x", "y", "z"]),
            "v; w; x and 2 more were measured in s:a only."
        );
    }
}
