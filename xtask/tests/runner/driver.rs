//! Sessions before and after an upgrade of the driver, by the mock engine.

use crate::support::Home;

#[test]
fn each_side_is_measured_on_its_driver_and_then_compared() {
    let home = Home::new();
    let folder = home.path("driver");
    let run = |words: &str, code| {
        let line = format!("cargo xtask driver {words}");
        home.shell("driver", &line).ends_with(code)
    };
    let of = |words: &str| format!("{words} --folder {}", folder.display());
    let before = of("before --sessions 2");
    let suite = home.path("suite.yaml");
    let options = format!(
        "-- --suite {} --engine mock: --device cuda:0",
        suite.display()
    );
    let says = |text: &str, part: &str| assert!(text.contains(part), "no `{part}` in\n{text}");

    home.gpus("gpus 2\ndriver 570.86.10\n");
    says(&run(&of("after"), 2), "before has 0 sessions");
    says(
        &run(&format!("{before} {options} --dry-run"), 2),
        "leave them out",
    );
    says(
        &run(&format!("{before} {options}"), 0),
        "1 session is left. Reboot",
    );
    says(
        &run(&format!("{before} {options}"), 2),
        "are as the first one",
    );
    let text = run(&before, 0);
    says(&text, "Now upgrade the driver");
    says(&text, "this boot has measured a session before");
    says(
        &run(&of("after"), 2),
        "the driver is 570.86.10, and was 570.86.10 before",
    );

    home.gpus("gpus 2\ndriver 580.65.06\n");
    says(
        &run(&before, 2),
        "measured with driver 570.86.10, and this machine has 580.65.06",
    );
    says(&run(&of("after"), 0), "1 session is left. Reboot");
    let text = run(&of("after"), 0);
    says(
        &text,
        "driver 580.65.06 (2 sessions in 1 boot) against 570.86.10 (2 sessions in 1 boot)",
    );
    assert!(folder.join("comparison/comparison.json").is_file());
    says(&run(&before, 2), "after the upgrade already");
    home.gpus("gpus 2\ndriver 590.44.01\n");
    says(
        &run(&of("after"), 2),
        "measured with driver 580.65.06, and this machine has 590.44.01",
    );
}
