//! What changed inside steps, in every form.

use reports::{comparison, text::Style};
use verdict::{
    FailOn, Gradients, Inside, KernelChange, KernelChanged, KernelChanges, KernelCost, Losses,
    LossesDiffer, Verdicts,
};

use crate::comparison::{html, verdicts};

fn change(name: &str, change: KernelChanged, base: f64, head: f64) -> KernelChange {
    let cost = |milliseconds: f64| KernelCost {
        count: if milliseconds > 0.0 { 3.0 } else { 0.0 },
        seconds: milliseconds / 1e3,
    };
    KernelChange {
        name: name.to_owned(),
        change,
        base: cost(base),
        head: cost(head),
    }
}

/// A step of 100 ms in the first cell, of 10 in the second, whose kernel changed by more of it.
fn changed() -> Verdicts {
    let mut verdicts = verdicts();
    let mut changes = vec![
        change("void gemm<float>(int)", KernelChanged::Slower, 20.0, 40.0),
        change("fused | <script>", KernelChanged::New, 0.0, 15.0),
        change("plain", KernelChanged::Gone, 14.0, 0.0),
    ];
    let small = |i: u32| {
        let base = 10.0 + f64::from(i);
        change(&format!("k{i}"), KernelChanged::Faster, base, base / 2.0)
    };
    changes.extend((0..9).map(small));
    let inside = |step: f64, changes| Inside {
        kernels: Some(KernelChanges {
            base_seconds: step,
            head_seconds: step,
            changes,
            small: 7,
        }),
        losses: Some(Losses {
            steps: 20,
            differ: None,
        }),
        gradients: None,
    };
    verdicts.cells[0].inside = Some(inside(0.1, changes));
    let only = change("norm", KernelChanged::Slower, 1.0, 4.0);
    verdicts.cells[1].inside = Some(Inside {
        gradients: Some(Gradients {
            steps: 4,
            differ: Some(1),
        }),
        losses: Some(Losses {
            steps: 20,
            differ: Some(LossesDiffer {
                step: 2,
                ratio: Some(0.996),
                last_ratio: Some(1.012),
            }),
        }),
        ..inside(0.01, vec![only])
    });
    verdicts
}

fn text(verdicts: &Verdicts, is_whole: bool) -> String {
    comparison::text(verdicts, FailOn::Regressed, Style::Plain, is_whole)
}

#[test]
fn kernels_that_changed_stand_where_all_is_asked_for() {
    let verdicts = changed();
    let whole = text(&verdicts, true);
    let from = whole.find("Kernels that changed: 13").expect(&whole);
    let to = whole
        .find("Losses and gradients of deterministic cells: 3")
        .expect(&whole);
    let kernels = &whole[from..to];
    let place = |what: &str| {
        kernels
            .find(what)
            .unwrap_or_else(|| panic!("{what}: {kernels}"))
    };
    assert!(
        place("norm") < place("gemm<float>"),
        "by its share of its own step"
    );
    assert!(place("gemm<float>") < place("fused"));
    insta::assert_snapshot!("kernels_that_changed", kernels);
    assert!(place("k3") < place("3 more"), "ten are shown");
    assert!(place("3 more") < place("k2"), "the rest is folded");
    let short = text(&verdicts, false);
    assert!(
        !short.contains("gemm") && !short.contains("Losses"),
        "{short}"
    );
}

#[test]
fn losses_and_gradients_that_differ_come_first() {
    let whole = text(&changed(), true);
    let from = whole.find("Losses and gradients").expect(&whole);
    let (section, _) = whole[from..].split_once("\n\n").expect(&whole);
    insta::assert_snapshot!(section, @r"
    Losses and gradients of deterministic cells: 3
     cell                         of         base and head
     resnet50 · tf32 bs64 | wide  gradients  differ from warm-up step 2 on
                                  losses     differ from step 3 of 20 on, by -0.40 % there and +1.20 %
                                             in the last
     resnet50 · fp32 bs64         losses     equal to the bit in all 20 steps
    ");
}

#[test]
fn names_of_kernels_are_no_markup() {
    let verdicts = changed();
    let page = html(&verdicts);
    assert!(
        page.contains("&lt;script&gt;") || page.contains("&#60;script&#62;"),
        "{page}"
    );
    assert!(!page.contains("<script"), "{page}");
    let markdown = comparison::markdown(&verdicts, FailOn::Regressed, None);
    let row = markdown
        .lines()
        .find(|line| line.contains("fused"))
        .unwrap();
    assert!(!row.contains("<script") && row.contains("\\|"), "{row}");
    let count = |line: &str| line.replace("\\|", "").matches('|').count();
    let head = markdown
        .lines()
        .find(|line| line.contains("| kernel |"))
        .unwrap();
    assert_eq!(count(row), count(head), "{row}");
}

#[test]
fn profiled_cells_in_which_no_kernel_changed() {
    let mut verdicts = changed();
    for cell in &mut verdicts.cells {
        let inside = cell.inside.as_mut().unwrap();
        inside.kernels.as_mut().unwrap().changes.clear();
        (inside.losses, inside.gradients) = (None, None);
    }
    let whole = text(&verdicts, true);
    assert!(!whole.contains("Kernels that changed"), "{whole}");
    let told = whole.lines().find(|line| line.contains("None did."));
    let (told, _) = told.expect(&whole).split_once(" Listed are").expect(&whole);
    insta::assert_snapshot!(told, @"Kernels (on a CPU, operators) of the profiled steps after the measured ones, in 2 cells. None did.");
    assert!(!whole.contains("Losses"), "{whole}");
}
