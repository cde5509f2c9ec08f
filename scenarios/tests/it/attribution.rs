//! What modules take of a step.

use protocol::{Event, Model, Module, Task};

use crate::{
    binary::{Folder, run_file},
    support::alone,
};

/// What a run of four warm-up steps says of its modules, and of its losses.
fn run(model: Model, variant: &str, attribution: bool) -> (Vec<Module>, Vec<f64>) {
    let steps = format!(r#""warmup":4,"attribution":{attribution}"#);
    let file = run_file(model, Task::Training, variant).replace(r#""warmup":1"#, &steps);
    let folder = Folder::new(&file);
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("no modules"), "{stderr}");
    let (mut modules, mut losses) = (Vec::new(), Vec::new());
    for event in folder.events() {
        match event {
            Event::Module(module) => modules.push(module),
            Event::Step(step) => losses.push(step.values["loss"]),
            _ => {}
        }
    }
    (modules, losses)
}

fn value(modules: &[Module], name: &str, value: &str) -> f64 {
    let module = modules.iter().find(|module| module.name == name);
    let module = module.unwrap_or_else(|| panic!("no {name} in {modules:?}"));
    module.values[value]
}

#[test]
fn modules_add_up_to_the_step_and_change_nothing() {
    let _turn = alone();
    for (model, variant) in [
        (Model::VitTiny, r#"{"batch":32,"optimizer":"adamw"}"#),
        (Model::VitTiny, r#"{"batch":8,"accumulation":3}"#),
        (Model::ResnetTiny, r#"{"batch":16}"#),
        (Model::BertTiny, r#"{"batch":8,"precision":"amp-bf16"}"#),
        (Model::BertTiny, r#"{"batch":8,"checkpointing":"blocks"}"#),
        (Model::LlamaTiny, r#"{"batch":4,"lora_rank":4}"#),
    ] {
        let (modules, losses) = run(model, variant, true);
        assert_eq!(Module::mismatch(&modules), None, "{model} {variant}");
        for module in &modules {
            assert_eq!(module.problem(), None, "{model} {variant}");
        }
        // By exact means the exact bytes: the allocators count the same.
        let outermost = modules.iter().filter(|one| Module::is_outermost(&one.name));
        let kept: f64 = outermost.map(|one| one.values["kept_bytes"]).sum();
        let whole = value(&modules, Module::STEP, "kept_bytes");
        assert!(
            (kept - whole).abs() < 0.5,
            "{model} {variant}: {kept} {whole}"
        );
        let (none, plain) = run(model, variant, false);
        assert!(none.is_empty());
        assert_eq!(losses, plain, "{model} {variant}");
    }
}

#[test]
fn a_module_has_what_its_shapes_say() {
    let _turn = alone();
    let (modules, _) = run(Model::VitTiny, r#"{"batch":32,"optimizer":"adamw"}"#, true);
    let of = |name: &str, what: &str| value(&modules, name, what);
    let is =
        |found: f64, expected: f64| assert!((found - expected).abs() < 0.5, "{found} {expected}");
    // 64 to 256 values and a bias, in single precision; AdamW keeps two of each and 2 counters.
    let fc1 = 4.0 * (64.0 * 256.0 + 256.0);
    is(of("blocks.0.mlp.fc1", "parameter_bytes"), fc1);
    is(of("blocks.0.mlp.fc1", "gradient_bytes"), fc1);
    is(of("blocks.0.mlp.fc1", "optimizer_bytes"), 2.0 * fc1 + 8.0);
    // Its output, which GELU reads again in backward: 32 images of 17 tokens.
    is(
        of("blocks.0.mlp.fc1", "kept_bytes"),
        4.0 * 32.0 * 17.0 * 256.0,
    );
    // Its output is only added to the shortcut.
    is(of("blocks.0.mlp.fc2", "kept_bytes"), 0.0);
    for (one, other) in [("blocks.0", "blocks.1"), ("blocks.0.attn", "blocks.1.attn")] {
        is(of(one, "kept_bytes"), of(other, "kept_bytes"));
        is(of(one, "parameter_bytes"), of(other, "parameter_bytes"));
    }
    let whole = of(Module::STEP, "parameter_bytes");
    is(
        of("blocks", "parameter_bytes"),
        2.0 * of("blocks.0", "parameter_bytes"),
    );
    assert!(of("blocks", "parameter_bytes") > 0.5 * whole);
    for pass in ["forward_seconds", "backward_seconds"] {
        let inside = of("blocks.0", pass) + of("blocks.1", pass);
        assert!((inside - of("blocks", pass)).abs() < 1e-9, "{pass}");
        assert!(of("blocks.0.attn.qkv", pass) > 0.0, "{pass}");
    }
}

#[test]
fn a_checkpointed_block_keeps_its_input_and_rises_again_in_backward() {
    let _turn = alone();
    let run = |checkpointing: &str| {
        let variant = format!(r#"{{"batch":8,"checkpointing":"{checkpointing}"}}"#);
        run(Model::BertTiny, &variant, true).0
    };
    let (plain, checkpointed) = (run("none"), run("blocks"));
    let layer = "bert.encoder.layer.1";
    let of = |modules: &[Module], what: &str| value(modules, layer, what);
    let (kept, before) = (of(&checkpointed, "kept_bytes"), of(&plain, "kept_bytes"));
    // What comes out of it stays: 8 sequences of 32 tokens by 64.
    assert!((kept - 4.0 * 8.0 * 32.0 * 64.0).abs() < 0.5, "{kept}");
    assert!(before > 8.0 * kept, "{before} {kept}");
    let (rise, less) = (
        of(&checkpointed, "backward_peak_bytes"),
        of(&plain, "backward_peak_bytes"),
    );
    assert!(rise > less + 0.5 * before, "{rise} {less} {before}");
}
