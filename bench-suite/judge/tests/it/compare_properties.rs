//! What must hold for any comparison, whatever the values.

use judge::compare::{Block, Direction, Interval, Kind, Measurement, Options, Verdict, compare};
use judge::family::{judge_all, q_values};
use proptest::prelude::*;

/// The verdict with base and head exchanged.
fn opposite(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Improved => Verdict::Regressed,
        Verdict::Regressed => Verdict::Improved,
        other => other,
    }
}

fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
    let value = prop_oneof![8 => (0.001..1000.0).prop_map(Some), 1 => Just(None)];
    prop::collection::vec((value.clone(), value), 0..12).prop_map(|pairs| {
        let block = |(base, head)| Block { base, head };
        pairs.into_iter().map(block).collect()
    })
}

fn close_blocks() -> impl Strategy<Value = Vec<Block>> {
    (
        0.5..2.0,
        prop::collection::vec((0.98..1.02, 0.98..1.02), 2..12),
    )
        .prop_map(|(ratio, pairs)| {
            let block = |(base, head): (f64, f64)| Block::pair(base, ratio * head);
            pairs.into_iter().map(block).collect()
        })
}

fn metric(blocks: Vec<Block>, kind: Kind) -> Measurement {
    Measurement {
        blocks,
        direction: Direction::LowerIsBetter,
        kind,
        threshold: 0.01,
        between: None,
        metric: 0,
        past: None,
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::TimeLike), Just(Kind::MemoryLike)]
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-6),
        (None, None) => true,
        _ => false,
    }
}

/// Infinity has no place in JSON, and a ratio that is read back as none is another result.
#[test]
fn a_ratio_beyond_the_largest_number_is_the_largest() {
    let blocks = vec![Block::pair(1e-300, 1e300), Block::pair(2e-300, 1e300)];
    let judged = compare(&metric(blocks, Kind::TimeLike), &Options::default()).unwrap();
    assert_eq!(judged.ratio, Some(f64::MAX));
    let json = serde_json::to_string(&judged).unwrap();
    let back: judge::compare::Comparison = serde_json::from_str(&json).unwrap();
    assert_eq!(back.ratio, judged.ratio);
    assert_eq!(back.interval, judged.interval);
}

proptest! {
    #[test]
    fn the_order_of_blocks_does_not_matter(blocks in any_blocks(), kind in kinds()) {
        let mut reversed = blocks.clone();
        reversed.reverse();
        let options = Options::default();
        prop_assert_eq!(
            compare(&metric(blocks, kind), &options).unwrap(),
            compare(&metric(reversed, kind), &options).unwrap()
        );
    }

    #[test]
    fn exchanging_the_sides_inverts_the_ratio(blocks in any_blocks(), kind in kinds()) {
        let swap = |b: &Block| Block { base: b.head, head: b.base };
        let swapped = blocks.iter().map(swap).collect();
        let options = Options::default();
        let one = compare(&metric(blocks, kind), &options).unwrap();
        let two = compare(&metric(swapped, kind), &options).unwrap();
        prop_assert_eq!(opposite(one.verdict), two.verdict);
        prop_assert!(close(one.ratio, two.ratio.map(f64::recip)));
        prop_assert!(close(one.p_value, two.p_value));
        prop_assert!(close(one.interval.map(|i| i.lo), two.interval.map(|i| i.hi.recip())));
    }

    #[test]
    fn units_do_not_matter(blocks in close_blocks(), exponent in -20..20_i32) {
        // A power of two, so that scaling itself rounds nothing.
        let factor = 2f64.powi(exponent);
        let scale = |b: &Block| Block {
            base: b.base.map(|v| v * factor),
            head: b.head.map(|v| v * factor),
        };
        let scaled = blocks.iter().map(scale).collect();
        let options = Options::default();
        let one = compare(&metric(blocks, Kind::TimeLike), &options).unwrap();
        let two = compare(&metric(scaled, Kind::TimeLike), &options).unwrap();
        prop_assert_eq!(one.verdict, two.verdict);
        prop_assert!(close(one.ratio, two.ratio));
        prop_assert!(close(one.p_value, two.p_value));
    }

    #[test]
    fn direction_only_names_the_change(blocks in close_blocks()) {
        let lower = metric(blocks, Kind::TimeLike);
        let higher = Measurement { direction: Direction::HigherIsBetter, ..lower.clone() };
        let options = Options::default();
        prop_assert_eq!(
            compare(&lower, &options).unwrap().verdict,
            opposite(compare(&higher, &options).unwrap().verdict)
        );
    }

    #[test]
    fn interval_holds_the_ratio_and_agrees_with_p(blocks in close_blocks()) {
        let judged = compare(&metric(blocks, Kind::TimeLike), &Options::default()).unwrap();
        let interval = judged.interval.unwrap();
        prop_assert!(interval.contains(judged.ratio.unwrap()));
        prop_assert_eq!(judged.verdict, interval.verdict(0.01, Direction::LowerIsBetter));
        // Duality, but for rounding right at the edge.
        let p = judged.p_value.unwrap();
        if (p - 0.02).abs() > 1e-9 {
            prop_assert_eq!(p > 0.02, judged.verdict == Verdict::Inconclusive);
        }
    }

    /// Whatever a session measured, each verdict is what its interval shows beside the threshold.
    #[test]
    fn no_verdict_contradicts_its_interval(
        cells in prop::collection::vec(
            (close_blocks(), kinds(), 0.0..0.02, 0..3_usize), 1..12,
        ),
    ) {
        let cells: Vec<Measurement> = cells
            .into_iter()
            .map(|(blocks, kind, threshold, of)| Measurement {
                threshold,
                metric: of,
                ..metric(blocks, kind)
            })
            .collect();
        for (judged, cell) in judge_all(&cells, &Options::default()).unwrap().iter().zip(&cells) {
            let Interval { lo, hi } = judged.interval.unwrap();
            let (least, most) = (1.0 / (1.0 + cell.threshold), 1.0 + cell.threshold);
            let shown = match judged.verdict {
                Verdict::Unchanged => lo >= least && hi <= most,
                Verdict::Regressed => lo > most,
                Verdict::Improved => hi < least,
                Verdict::Inconclusive => lo <= most && hi >= least && (lo < least || hi > most),
            };
            prop_assert!(shown, "{judged:?}");
        }
    }

    #[test]
    fn any_numbers_give_an_answer_or_an_error(
        pairs in prop::collection::vec((any::<f64>(), any::<f64>()), 0..6),
        kind in kinds(),
        threshold in any::<f64>(),
    ) {
        let blocks = pairs.iter().map(|&(b, h)| Block::pair(b, h)).collect();
        let metric = Measurement { threshold, ..metric(blocks, kind) };
        if let Ok(judged) = compare(&metric, &Options::default()) {
            let json = serde_json::to_string(&judged).unwrap();
            let back: judge::compare::Comparison = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(back.verdict, judged.verdict);
        }
    }

    #[test]
    fn q_is_at_least_p_and_keeps_its_order(p in prop::collection::vec(0.0..1.0, 1..40)) {
        let q = q_values(&p);
        for i in 0..p.len() {
            prop_assert!(q[i] >= p[i] - 1e-15 && q[i] <= 1.0);
            for j in 0..p.len() {
                prop_assert!(p[i] > p[j] || q[i] <= q[j]);
            }
        }
    }
}

/// No run of the head lies above the base less the noise threshold: by rounding, the chance of as
/// many as none came out above 1.
#[test]
fn the_chance_of_anything_is_no_evidence() {
    let pairs = [
        (0.994_940_538_607_904_1, 0.988_541_897_940_387_6),
        (1.012_635_992_128_575_5, 0.956_281_682_220_667),
        (1.009_803_425_967_018, 0.956_281_682_220_667),
        (0.990_105_037_320_11, 0.983_035_298_145_089_6),
        (0.986_870_256_628_090_5, 0.987_778_855_939_801_8),
        (1.009_336_232_069_392, 0.956_281_682_220_667),
        (0.983_060_326_460_090_9, 0.956_281_682_220_667),
        (1.007_046_863_185_049_8, 0.972_408_596_225_699_9),
        (1.018_404_223_845_089_7, 0.981_132_067_590_177),
        (0.996_911_523_153_923_2, 0.965_733_532_655_961_3),
        (0.989_846_979_334_215_7, 0.991_306_306_772_873_6),
    ];
    let blocks = pairs.iter().map(|&(b, h)| Block::pair(b, h)).collect();
    let judged = compare(&metric(blocks, Kind::TimeLike), &Options::default()).unwrap();
    assert_eq!(judged.verdict, Verdict::Inconclusive);
    assert!(judged.p_value.unwrap() > 0.02, "{judged:?}");
}

#[test]
fn two_values_without_a_finite_ratio_are_written_and_read() {
    let pairs = [(6e-204, 4e210), (3e-153, 1e174)];
    let blocks = pairs.iter().map(|&(b, h)| Block::pair(b, h)).collect();
    let judged = compare(&metric(blocks, Kind::MemoryLike), &Options::default()).unwrap();
    let json = serde_json::to_string(&judged).unwrap();
    let back: judge::compare::Comparison = serde_json::from_str(&json).unwrap();
    assert_eq!(back.verdict, judged.verdict);
}

#[test]
fn degenerate_inputs_say_what_they_lack() {
    use Verdict::{Improved, Inconclusive, Regressed, Unchanged};
    let options = Options::default();
    let judge = |pairs: &[(f64, f64)], kind| {
        let blocks = pairs.iter().map(|&(b, h)| Block::pair(b, h)).collect();
        compare(&metric(blocks, kind), &options)
    };
    let (time, memory) = (Kind::TimeLike, Kind::MemoryLike);
    for (pairs, kind, verdict, reason) in [
        (&[][..], time, Inconclusive, "no block has both sides"),
        (&[(1.0, 9.0)], time, Inconclusive, "at least two"),
        (&[(1.0, 9.0)], memory, Inconclusive, "at least two"),
        (
            &[(1.0, 1.2), (1.0, 1.3)],
            time,
            Inconclusive,
            "with 2 blocks: ",
        ),
        (
            &[(0.0, 1.0), (1.0, 1.0)],
            time,
            Inconclusive,
            "some values are 0",
        ),
        (&[(5.0, 0.0)], time, Inconclusive, "some values are 0"),
        (&[(5.0, 0.0), (6.0, 0.0)], time, Improved, "0 in the head"),
        (&[(0.0, 5.0), (0.0, 6.0)], time, Regressed, "0 in the base"),
        (&[(0.0, 0.0); 3], time, Unchanged, "0 on both sides"),
        (&[(5.0, 5.0); 5], time, Unchanged, "noise threshold of 1 %"),
        (
            &[(5.0, 5.5); 5],
            time,
            Regressed,
            "beyond the noise threshold",
        ),
        (&[(0.0, 0.0); 2], memory, Unchanged, "0 on both sides"),
        (&[(0.0, 7.0); 2], memory, Regressed, "0 became 7"),
        (&[(7.0, 0.0); 2], memory, Improved, "7 became 0"),
        (
            &[(1000.0, 1009.0); 3],
            memory,
            Unchanged,
            "1000 became 1009",
        ),
        (
            &[(1000.0, 1011.0); 3],
            memory,
            Regressed,
            "1000 became 1011",
        ),
    ] {
        let judged = judge(pairs, kind).unwrap();
        assert_eq!(judged.verdict, verdict, "{judged:?}");
        assert!(judged.reason.contains(reason), "{}", judged.reason);
    }
    let error = |pairs: &[(f64, f64)]| judge(pairs, time).unwrap_err().to_string();
    assert!(error(&[(1.0, 1.0), (f64::NAN, 1.0)]).starts_with("block 1, base: the value is NaN"));
    assert!(error(&[(1.0, -1.0)]).starts_with("block 0, head: the value is -1"));
}
