//! What changed inside steps: kernels and losses.

use protocol::Kernel;
use record::{Outcome, Reason, Record, Stage};
use verdict::{
    CellVerdicts, Gradients, Inside, KernelChanged, KernelCost, LossesDiffer, Options, Side,
    compare,
};

use crate::support::{records, runs, session};

/// Six runs a side, changed by their block.
fn compared(base: impl Fn(usize, &mut Record), head: impl Fn(usize, &mut Record)) -> CellVerdicts {
    let session = session("s", "m");
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    all.iter_mut()
        .enumerate()
        .for_each(|(block, run)| base(block, run));
    let mut new = records("s", "new", 1, "tiny", &runs(100.0, 1000));
    new.iter_mut()
        .enumerate()
        .for_each(|(block, run)| head(block, run));
    all.extend(new);
    let [base, head] = ["old", "new"].map(|image| Side::pick(&session, &all, Some(image)).unwrap());
    compare(&base, &head, &Options::default())
        .unwrap()
        .cells
        .remove(0)
}

fn inside(base: impl Fn(usize, &mut Record), head: impl Fn(usize, &mut Record)) -> Option<Inside> {
    compared(base, head).inside
}

fn kernel(name: &str, count: f64, milliseconds: f64) -> Kernel {
    Kernel {
        name: name.to_owned(),
        count,
        seconds: milliseconds / 1e3,
    }
}

#[test]
fn kernels_are_new_gone_slower_or_faster() {
    let base = |block: usize, run: &mut Record| {
        // From run to run the time of a kernel scatters by up to 5 %.
        let scatter = 1.0 + block as f64 / 100.0;
        run.kernels = vec![
            kernel("gemm", 4.0, 50.0 * scatter),
            kernel("copy", 10.0, 20.0),
            kernel("norm", 2.0, 20.0 * scatter),
            kernel("old", 1.0, 5.0),
            kernel("old and small", 1.0, 0.1),
            kernel("relu", 1.0, 4.0),
            kernel(Kernel::REST, 7.0, 0.9),
        ];
    };
    let head = |block: usize, run: &mut Record| {
        let scatter = 1.0 + block as f64 / 100.0;
        run.kernels = vec![
            kernel("gemm", 4.0, 60.0 * scatter),
            kernel("copy", 8.0, 16.0),
            kernel("norm", 2.0, 20.5 * scatter),
            kernel("fused", 1.0, 8.0),
            kernel("relu", 1.0, 4.5),
            kernel(Kernel::REST, 7.0, 30.0),
        ];
    };
    let found = inside(base, head).unwrap().kernels.unwrap();
    let changes = found.changes.iter();
    let listed: Vec<_> = changes.map(|one| (one.name.as_str(), one.change)).collect();
    let expect = [
        ("gemm", KernelChanged::Slower),
        ("fused", KernelChanged::New),
        ("old", KernelChanged::Gone),
        ("copy", KernelChanged::Faster),
    ];
    assert_eq!(
        listed, expect,
        "norm scatters, relu changes by less than 1 % of the step"
    );
    assert_eq!(found.small, 1, "one that is gone took less");
    // The median of the scatter is 2.5 %: 51.25 + 20 + 20.5 + 5 + 0.1 + 4 + 0.9.
    assert!(
        (found.base_seconds - 0.10175).abs() < 1e-12,
        "{}",
        found.base_seconds
    );
    let nothing = KernelCost::default();
    assert_eq!(
        (found.changes[1].base, found.changes[2].head),
        (nothing, nothing)
    );
    let (count, seconds) = (10.0, 0.02);
    assert_eq!(found.changes[3].base, KernelCost { count, seconds });
    assert!((found.changes[0].seconds() - 0.01025).abs() < 1e-12);
    assert_eq!(inside(head, head).unwrap().kernels.unwrap().changes, []);
}

#[test]
fn kernels_of_one_side_or_of_failed_runs_are_no_comparison() {
    let profiled = |_: usize, run: &mut Record| run.kernels = vec![kernel("gemm", 1.0, 1.0)];
    let not = |_: usize, _: &mut Record| {};
    let failed = |block: usize, run: &mut Record| {
        profiled(block, run);
        run.outcome = Outcome::failed(Reason::Crash, Stage::Exit, "SIGSEGV");
    };
    assert_eq!(inside(profiled, not), None);
    assert_eq!(inside(profiled, failed), None);
    assert_eq!(inside(failed, profiled), None);
    // Of a side of which some runs were profiled those count.
    let some = |block: usize, run: &mut Record| {
        if block > 2 {
            profiled(block, run);
        }
    };
    let found = inside(some, profiled).unwrap().kernels.unwrap();
    assert_eq!(found.changes, []);
}

/// A deterministic run with these losses.
fn losses(losses: &[f64]) -> impl Fn(usize, &mut Record) {
    let losses: Vec<_> = losses.iter().copied().map(Some).collect();
    move |_, run| {
        run.axes.set("deterministic", "true");
        run.series.insert("loss".to_owned(), losses.clone());
    }
}

#[test]
fn losses_are_equal_to_the_bit_or_differ_from_a_step_on() {
    let base = [2.0, 1.5, 1.25, 1.0];
    let found = inside(losses(&base), losses(&base))
        .unwrap()
        .losses
        .unwrap();
    assert_eq!((found.steps, found.differ), (4, None));
    let least = f64::from_bits(1.25_f64.to_bits() + 1);
    let head = [2.0, 1.5, least, 1.25];
    let found = inside(losses(&base), losses(&head))
        .unwrap()
        .losses
        .unwrap();
    let expect = LossesDiffer {
        step: 2,
        ratio: Some(least / 1.25),
        last_ratio: Some(1.25),
    };
    assert_eq!(found.differ, Some(expect));
    let found = inside(losses(&[0.0]), losses(&[1.0]))
        .unwrap()
        .losses
        .unwrap();
    assert_eq!(found.differ.unwrap().ratio, None, "no ratio to nothing");
}

#[test]
fn losses_that_no_side_repeats_say_nothing_of_images() {
    let own = losses(&[2.0, 1.0]);
    let scattered = |block: usize, run: &mut Record| losses(&[2.0, 1.0 + block as f64])(block, run);
    let plain = |_: usize, run: &mut Record| {
        run.series
            .insert("loss".to_owned(), vec![Some(2.0), Some(1.0)]);
        // The cell is the same, and nothing says that it is deterministic.
    };
    assert_eq!(inside(&own, scattered), None);
    assert_eq!(inside(plain, plain), None);
    let without = |block: usize, run: &mut Record| {
        own(block, run);
        run.series.remove("loss");
    };
    assert_eq!(inside(&own, without), None);
}

#[test]
fn gradients_are_equal_to_the_bit_or_differ_from_a_warm_up_step_on() {
    let digests = |digests: &[f64]| {
        let digests = digests.to_vec();
        move |_: usize, run: &mut Record| {
            for (step, digest) in (1..).zip(&digests) {
                let name = format!("warmup_step_{step}_gradient_digest");
                run.values.insert(name, *digest);
            }
        }
    };
    let gradients = |base, head| inside(base, head)?.gradients;
    let base = digests(&[5.0, 6.0, 7.0]);
    let check = |head: &[f64], steps, differ| {
        let found = gradients(digests(&[5.0, 6.0, 7.0]), digests(head));
        assert_eq!(found, Some(Gradients { steps, differ }));
    };
    check(&[5.0, 6.0, 7.0], 3, None);
    check(&[5.0, 6.0], 2, None);
    check(&[5.0, 8.0, 7.0], 3, Some(1));
    let by_block = |block: usize, run: &mut Record| digests(&[block as f64])(block, run);
    assert_eq!(inside(by_block, base), None, "they do not repeat");
}
