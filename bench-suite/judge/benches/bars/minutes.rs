//! What it costs to decide: sessions that add blocks until they are decided beside fixed numbers
//! of blocks that decide as many cells rightly.

use judge::compare::{Block, Measurement, Options, Verdict};
use judge::family::judge_all;
use judge::sequential::{FIRST_LOOK, Sequential, is_look};
use rayon::prelude::*;

use crate::cells::on_gpu;
use crate::summary::Summary;

/// Minutes of two runs of 8.5 s, one of either side, as those in `h200-noise.csv`.
const OF_A_BLOCK: f64 = 17.0 / 60.0;
/// Most blocks.
const MOST: u32 = 60;
/// Fixed numbers of blocks.
const FIXED: [u32; 14] = [3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 60];

/// What sessions come to on average.
#[derive(Default, Clone, Copy)]
struct Outcome {
    /// Whether the change is called one.
    found: f64,
    /// Share of the cells that are called what they are.
    right: f64,
    /// Share of the cells that are called what they are not.
    wrong: f64,
    /// Until the cell that changed is decided, or all is over.
    until_known: f64,
    minutes: f64,
}

impl Outcome {
    fn and(self, other: Self) -> Self {
        Self {
            found: self.found + other.found,
            right: self.right + other.right,
            wrong: self.wrong + other.wrong,
            until_known: self.until_known + other.until_known,
            minutes: self.minutes + other.minutes,
        }
    }

    /// Of these verdicts, where the cell at `place` got slower by more than the noise threshold.
    fn of(verdicts: &[Verdict], place: usize, (until_known, minutes): (f64, f64)) -> Self {
        let is = |cell: usize| match verdicts[cell] {
            Verdict::Inconclusive => None,
            verdict => Some((verdict == Verdict::Unchanged) != (cell == place)),
        };
        let all = verdicts.len() as f64;
        let share = |which: bool| {
            let cells = (0..verdicts.len()).filter(|cell| is(*cell) == Some(which));
            cells.count() as f64 / all
        };
        Self {
            found: f64::from(u8::from(is(place) == Some(true))),
            right: share(true),
            wrong: share(false),
            until_known,
            minutes,
        }
    }
}

/// The mean over sessions.
fn mean(repeats: u64, session: impl Fn(u64) -> Outcome + Sync + Send) -> Outcome {
    let all = (0..repeats).into_par_iter().map(session);
    let sum = all.reduce(Outcome::default, Outcome::and);
    let of = |sum: f64| sum / repeats as f64;
    Outcome {
        found: 100.0 * of(sum.found),
        right: 100.0 * of(sum.right),
        wrong: 100.0 * of(sum.wrong),
        until_known: of(sum.until_known),
        minutes: of(sum.minutes),
    }
}

/// So many cells, of which one changed, and which; with the most blocks.
fn drawn(pools: &[Vec<f64>], seed: u64, cells: usize, ratio: f64) -> (Vec<Measurement>, usize) {
    let mut all = on_gpu(pools, seed, cells, MOST as usize, 0);
    // One cell alone is of every workload in turn.
    if let [one] = all.as_mut_slice() {
        let pool = usize::try_from(seed).unwrap_or(0) % pools.len();
        *one = on_gpu(&pools[pool..], seed, 1, MOST as usize, 0).swap_remove(0);
    }
    let place = usize::try_from(seed).unwrap_or(0) % cells;
    for metric in &mut all {
        metric.threshold = 0.005;
    }
    for block in &mut all[place].blocks {
        block.head = block.head.map(|head| ratio * head);
    }
    (all, place)
}

fn first(metric: &Measurement, blocks: u32) -> Measurement {
    let blocks: Vec<Block> = metric.blocks[..blocks as usize].to_vec();
    Measurement { blocks, ..*metric }
}

fn fixed(cells: &[Measurement], place: usize, blocks: u32) -> Outcome {
    let metrics: Vec<Measurement> = cells.iter().map(|cell| first(cell, blocks)).collect();
    let judged = judge_all(&metrics, &Options::default());
    let judged = judged.unwrap_or_else(|error| panic!("simulated: {error}"));
    let verdicts: Vec<Verdict> = judged.iter().map(|one| one.verdict).collect();
    let minutes = OF_A_BLOCK * f64::from(blocks) * cells.len() as f64;
    Outcome::of(&verdicts, place, (minutes, minutes))
}

/// Looks until all cells are decided; those that are rest, where they may.
fn until_decided(cells: &[Measurement], place: usize, rest: bool) -> Outcome {
    let mut looks = Sequential::new(cells.len(), Options::default());
    let mut ran = vec![0; cells.len()];
    let mut verdicts = vec![Verdict::Inconclusive; cells.len()];
    let (mut minutes, mut until_known) = (0.0, None);
    for blocks in (FIRST_LOOK..=MOST).filter(|&n| is_look(n) || n == MOST) {
        for (ran, verdict) in ran.iter_mut().zip(&verdicts) {
            if !rest || *verdict == Verdict::Inconclusive {
                minutes += OF_A_BLOCK * f64::from(blocks - *ran);
                *ran = blocks;
            }
        }
        let so_far: Vec<Measurement> = cells.iter().zip(&ran).map(|(c, &n)| first(c, n)).collect();
        let judged = looks.look(f64::from(blocks) / f64::from(MOST), &so_far);
        let judged = judged.unwrap_or_else(|error| panic!("a simulated look: {error}"));
        verdicts = judged.iter().map(|one| one.verdict).collect();
        if verdicts[place] != Verdict::Inconclusive {
            until_known.get_or_insert(minutes);
        }
        if !verdicts.contains(&Verdict::Inconclusive) {
            break;
        }
    }
    Outcome::of(&verdicts, place, (until_known.unwrap_or(minutes), minutes))
}

pub(crate) fn bars(repeats: u64, pools: &[Vec<f64>], summary: &mut Summary) {
    println!("\n## GPU minutes until decided, one cell changed, repeated runs on one H200\n");
    println!("Noise threshold 0.5 %, at most {MOST} blocks of two runs of 8.5 s a cell.");
    println!("Fixed: the fewest blocks that find the change as often, and those that");
    println!("decide as many cells rightly.\n");
    println!(
        "| cells | change | found % | right % | wrong % | minutes until known | in all \
         | decided cells go on | fixed, as often found | fixed, as many right |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for cells in [1, 8, 40] {
        let repeats = (repeats / cells as u64).max(1);
        for percent in [1, 2, 5] {
            let ratio = 1.0 + f64::from(percent) / 100.0;
            let session = |run: &(dyn Fn(&[Measurement], usize) -> Outcome + Sync)| {
                mean(repeats, |seed| {
                    let (all, place) = drawn(pools, seed, cells, ratio);
                    run(&all, place)
                })
            };
            let resting = session(&|all, place| until_decided(all, place, true));
            let going_on = session(&|all, place| until_decided(all, place, false));
            let by_n = FIXED.map(|n| session(&|all, place| fixed(all, place, n)));
            let cheapest = |enough: &dyn Fn(&Outcome) -> bool| {
                by_n.iter().find(|one| enough(one)).map(|one| one.minutes)
            };
            let to_find = cheapest(&|one| one.found >= resting.found);
            let to_know = cheapest(&|one| one.right >= resting.right);
            let most = OF_A_BLOCK * f64::from(MOST) * cells as f64;
            let named = |minutes: Option<f64>| {
                minutes.map_or(format!("above {most:.1}"), |minutes| {
                    format!("{minutes:.1}")
                })
            };
            println!(
                "| {cells} | {percent} % | {:.1} | {:.1} | {:.2} | {:.1} | {:.1} | {:.1} | {} | {} |",
                resting.found,
                resting.right,
                resting.wrong,
                resting.until_known,
                resting.minutes,
                going_on.minutes,
                named(to_find),
                named(to_know)
            );
            let what = format!("until decided, {cells} cells, {percent} %");
            summary.at_most(format!("{what}: wrong"), 2.0, resting.wrong);
            if percent == 1 && cells <= 8 {
                let what = format!("{what}: percent of the minutes of fixed blocks");
                let share = 100.0 * resting.until_known / to_find.unwrap_or(most);
                summary.at_most(what, 50.0, share);
            }
            if cells > 1 {
                let what = format!("{what}: percent of the minutes if decided cells go on");
                summary.at_most(what, 55.0, 100.0 * resting.minutes / going_on.minutes);
            }
        }
    }
}
