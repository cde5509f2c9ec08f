//! Suites as people write them: the committed ones read, and what is wrong is shown in its place.

use std::{fmt::Write as _, fs, path::PathBuf};

use bench_suite::suite::{Catalog, DeviceKind, Suite, SuiteError, Work, schema};
use protocol::Device;

fn scenarios() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scenarios")
}

fn suite(scenario: &str) -> String {
    format!(
        "version: 1\ndescription: d\nscenarios:\n  - name: one\n    model: vit-tiny\n{scenario}"
    )
}

fn serving(axes: &str) -> String {
    suite(&format!("    task: serving\n    axes: {axes}\n"))
}

fn variants(scenario: &str) -> String {
    let suite = Suite::from_text("x.yaml", &suite(scenario))
        .unwrap_or_else(|error| panic!("{}", error.render(false)));
    let mut text = String::new();
    for one in &suite.scenarios[0].variants {
        let devices: Vec<_> = one.devices.iter().map(|device| device.word()).collect();
        writeln!(text, "{} on {}", one.axes, devices.join(", ")).unwrap();
    }
    text
}

#[test]
fn axes_multiply_in_the_order_of_the_variant() {
    assert_eq!(
        variants("    axes:\n      batch: [4, 8]\n      precision: [fp32, amp-bf16]\n"),
        "fp32 bs4 on cpu, cuda\nfp32 bs8 on cpu, cuda\n\
         amp-bf16 bs4 on cpu, cuda\namp-bf16 bs8 on cpu, cuda\n"
    );
    assert_eq!(variants(""), "fp32 bs1 on cpu, cuda\n");
}

#[test]
fn a_suite_says_what_it_leaves_out() {
    assert_eq!(
        variants(
            "    axes:\n      precision: [fp32, tf32]\n      checkpointing: [none, blocks]\n\
             \x20   exclude:\n      - {device: cpu, precision: tf32}\n      - {precision: fp32, checkpointing: blocks}\n"
        ),
        "fp32 bs1 on cpu, cuda\ntf32 bs1 on cuda\ntf32 bs1 checkpointing=blocks on cuda\n"
    );
}

#[test]
fn runs_are_expected_to_fail_by_axes_and_device() {
    let text = suite(
        "    axes: {batch: [4, 8]}\n    include: [{checkpointing: blocks}]\n    expect:\n\
         \x20     - {outcome: out-of-memory, device: cuda, batch: 8}\n\
         \x20     - {outcome: host-out-of-memory, batch: 8}\n\
         \x20     - {outcome: hang, checkpointing: blocks}\n",
    );
    let suite = Suite::from_text("x.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
    let found: Vec<String> = suite.scenarios[0]
        .variants
        .iter()
        .map(|one| {
            let of = |device| {
                one.expected
                    .get(&device)
                    .map_or("ok".into(), |reason| reason.word())
            };
            format!("{} {}", of(DeviceKind::Cpu), of(DeviceKind::Cuda))
        })
        .collect();
    assert_eq!(
        found,
        ["ok ok", "host-out-of-memory out-of-memory", "hang hang"]
    );
}

#[test]
fn included_variants_differ_from_the_first_combination() {
    assert_eq!(
        variants(
            "    axes:\n      precision: [fp32, amp-bf16]\n      batch: 8\n    include:\n      - {checkpointing: blocks}\n"
        ),
        "fp32 bs8 on cpu, cuda\namp-bf16 bs8 on cpu, cuda\nfp32 bs8 checkpointing=blocks on cpu, cuda\n"
    );
}

#[test]
fn scenarios_inherit_what_they_do_not_say() {
    let suite = Suite::from_text(
        "x.yaml",
        "version: 1\ndescription: d\ndefaults:\n  blocks: 7\n  seed: 5\n  steps: {warmup: 1, measured: 2}\n  limits: {time: 90s, memory: 1GiB, ulimits: {memlock: {soft: -1, hard: -1}}}\nscenarios:\n- {name: a, model: vit-tiny}\n- {name: b, model: vit-tiny, task: inference, seed: 6, steps: {warmup: 0, measured: 9}, limits: {memory: 2GiB, cpuset: 0-1}}\n",
    )
    .unwrap();
    let [a, b] = suite.scenarios.as_slice() else {
        panic!("two scenarios")
    };
    assert_eq!(suite.blocks, 7);
    assert_eq!((a.seed, b.seed), (5, 6));
    assert_eq!((a.steps.measured, b.steps.measured), (2, 9));
    let tasks = [a, b].map(|one| one.workload.task());
    assert_eq!(tasks, [Some("training"), Some("inference")]);
    assert_eq!(a.limits.memory_bytes, Some(1 << 30));
    assert_eq!(b.limits.memory_bytes, Some(2 << 30));
    assert_eq!(b.limits.time.as_secs(), 90);
    assert_eq!(b.limits.cpuset.as_deref(), Some("0-1"));
    assert_eq!(b.limits.ulimits["memlock"].soft, -1);
}

#[test]
fn scenarios_inherit_what_makes_a_machine_unfit() {
    let suite = Suite::from_text(
        "x.yaml",
        "version: 1\ndescription: d\ndefaults:\n  validity: {wait: 0s, repeats: 5, host_busy_percent: 20}\nscenarios:\n- {name: a, model: vit-tiny}\n- {name: b, model: vit-tiny, validity: {host_busy_percent: any, throttled_percent: any, gpu_processes: 1}}\n",
    )
    .unwrap();
    let [a, b] = suite.scenarios.as_slice() else {
        panic!("two scenarios")
    };
    let [a, b] = [a, b].map(|scenario| scenario.validity.limits(Device::Cuda(0)));
    assert!(a.wait_seconds.abs() < 1e-9);
    assert_eq!((a.repeats, b.repeats), (5, 5));
    assert_eq!(a.host_busy_percent, Some(20.0));
    assert_eq!(b.host_busy_percent, None);
    assert_eq!(a.throttled_percent, Some(5.0));
    assert_eq!(b.throttled_percent, None);
    assert_eq!(b.gpu_processes, Some(1));
}

#[test]
fn runs_on_the_cpu_have_it_to_themselves_unless_the_suite_says_otherwise() {
    let text = "version: 1\ndescription: d\nscenarios:\n- {name: a, model: vit-tiny}\n- {name: b, model: vit-tiny, validity: {host_busy_percent: any}}\n";
    let suite = Suite::from_text("x.yaml", text).unwrap();
    let busy = |device| -> Vec<Option<f64>> {
        let limits = suite
            .scenarios
            .iter()
            .map(|one| one.validity.limits(device));
        limits.map(|limits| limits.host_busy_percent).collect()
    };
    assert_eq!(busy(Device::Cpu), [Some(25.0), None]);
    assert_eq!(busy(Device::Cuda(0)), [None, None]);
}

fn alias_bomb() -> String {
    let mut text = "version: 1\ndescription: d\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let items = [format!("*a{}", level - 1).as_str(); 9].join(", ");
        writeln!(text, "a{level}: &a{level} [{items}]").unwrap();
    }
    text
}

/// Every error says where it stands, and is what was agreed on.
fn check_refused(cases: &[(&str, String)]) {
    for (name, text) in cases {
        let error = Suite::from_text("broken.yaml", text).expect_err(name);
        insta::assert_snapshot!(name.replace(' ', "-"), error.render(false));
        let line = error.to_string();
        assert!(line.starts_with("broken.yaml:"), "{line}");
    }
}

#[test]
fn unknown_and_impossible_words_are_shown_where_they_stand() {
    check_refused(&[
        (
            "unknown key",
            suite("    stpes: {warmup: 1, measured: 2}\n"),
        ),
        ("unknown axis", suite("    axes:\n      precison: fp32\n")),
        (
            "unknown value",
            suite("    axes:\n      precision: [fp32, amp-bf61]\n"),
        ),
        ("unknown model", suite("").replace("vit-tiny", "vit-tny")),
        (
            "unknown allocator",
            suite("    axes: {allocator: [native, expandable]}\n"),
        ),
        ("wrong type", suite("    steps: many\n")),
        (
            "wrong type of an axis",
            suite("    axes: {batch: {small: 1}}\n"),
        ),
        ("duplicate key", suite("    model: vit-tiny\n")),
        (
            "duplicate value",
            suite("    axes: {allocator: [\"max_split_size_mb:64\", \"max_split_size_mb: 64\"]}\n"),
        ),
        (
            "duplicate scenario",
            suite("  - name: one\n    model: vit-tiny\n"),
        ),
        (
            "impossible on one device",
            suite("    axes:\n      precision:\n        - fp32\n        - tf32\n"),
        ),
        (
            "impossible anywhere",
            suite("    axes: {sequence_length: [64]}\n"),
        ),
        (
            "impossible for the model",
            suite("    axes: {memory_format: channels-last}\n").replace("vit-tiny", "bert-tiny"),
        ),
        (
            "impossible by inclusion",
            suite("    task: inference\n    include:\n      - {checkpointing: blocks}\n"),
        ),
    ]);
}

#[test]
fn lengths_and_idling_are_checked_where_they_stand() {
    check_refused(&[
        (
            "lengths upside down",
            suite("    axes:\n      sequence_lengths: {min: 64, max: 8}\n"),
        ),
        (
            "lengths too long",
            suite("    axes:\n      sequence_lengths: [8-64, 8-256]\n")
                .replace("vit-tiny", "bert-tiny"),
        ),
        (
            "lengths of images",
            suite("    axes: {sequence_lengths: 8-64}\n"),
        ),
        (
            "length and lengths",
            suite("    axes: {sequence_length: 16, sequence_lengths: {min: 8, max: 64}}\n")
                .replace("vit-tiny", "bert-tiny"),
        ),
        (
            "a target that is not there",
            suite("    axes:\n      lora_rank: 8\n      lora_targets: [q+v, q+w]\n")
                .replace("vit-tiny", "llama-tiny"),
        ),
        ("adapters of images", suite("    axes: {lora_rank: 8}\n")),
        (
            "more tokens than positions",
            suite("    task: generation\n    axes: {sequence_length: 200, new_tokens: [56, 57]}\n")
                .replace("vit-tiny", "llama-tiny"),
        ),
        (
            "generation without a decoder",
            suite("    task: generation\n").replace("vit-tiny", "bert-tiny"),
        ),
        ("serving without a rate", serving("{batch: 4}")),
        ("a rate of none", serving("{arrival_rate: 0}")),
        ("an absurd rate", serving("{arrival_rate: [100, 100001]}")),
        (
            "a burstiness of none",
            serving("{arrival_rate: 100, arrivals: [poisson, 'gamma:0']}"),
        ),
        (
            "an objective without serving",
            suite("    task: inference\n    axes: {slo_ms: 20}\n"),
        ),
        (
            "a decoder that waits for others",
            serving("{arrival_rate: 100, longest_wait_ms: 5}").replace("vit-tiny", "llama-tiny"),
        ),
        (
            "an objective of the next token alone",
            serving("{arrival_rate: 100, slo_token_ms: 5}").replace("vit-tiny", "llama-tiny"),
        ),
        (
            "a wait longer than the run",
            serving("{arrival_rate: 100, longest_wait_ms: [5, 20000]}\n    limits: {time: 10s}"),
        ),
        (
            "a search longer than the run",
            serving("{slo_ms: [20, 1000]}\n    limits: {time: 100s}"),
        ),
        (
            "more requests than arrive in time",
            serving("{arrival_rate: 1}\n    limits: {time: 10s}"),
        ),
        ("a model that idles", suite("    task: idle\n")),
        (
            "idling with an axis",
            suite("    task: idle\n    axes: {batch: [1, 2]}\n").replace("vit-tiny", "none"),
        ),
        (
            "training without a model",
            suite("").replace("vit-tiny", "none"),
        ),
    ]);
}

#[test]
fn counts_and_sizes_are_shown_where_they_stand() {
    let many = |count: u32| {
        let values: Vec<_> = (1..=count).map(|value| value.to_string()).collect();
        values.join(", ")
    };
    check_refused(&[
        ("empty axis", suite("    axes:\n      batch: []\n")),
        (
            "axis without value",
            suite("    axes:\n      image_size:\n"),
        ),
        ("negative count", suite("    axes: {batch: [4, -8]}\n")),
        ("zero count", suite("    axes: {accumulation: 0}\n")),
        ("zero steps", suite("    steps: {warmup: 0, measured: 0}\n")),
        (
            "too long a warm-up",
            suite("    steps:\n      warmup: 1\n      warmup_seconds: 99999\n      measured: 1\n"),
        ),
        ("too many ranks", suite("    ranks: 1025\n")),
        ("a count of ranks twice", suite("    ranks: [1, 2, 2]\n")),
        ("ranks in words", suite("    ranks: [1, two]\n")),
        (
            "negative steps",
            suite("    steps: {warmup: -1, measured: 2}\n"),
        ),
        (
            "expectation of nothing",
            suite("    axes: {batch: [4, 8]}\n    expect: {outcome: out-of-memory, batch: 16}\n"),
        ),
        (
            "expectation of no outcome",
            suite("    expect: [{outcome: out-of-memry}]\n"),
        ),
        (
            "expectation without outcome",
            suite("    expect: {batch: 1}\n"),
        ),
        ("zero blocks", suite("defaults: {blocks: 0}\n")),
        ("steps as a list", suite("    steps: [1, 2]\n")),
        (
            "name that climbs",
            suite("").replace("name: one", "name: ../one"),
        ),
        (
            "no scenarios",
            "version: 1\ndescription: d\nscenarios: []\n".into(),
        ),
        ("no devices", suite("    devices: []\n")),
        (
            "other version",
            suite("").replace("version: 1", "version: 2"),
        ),
        ("alias bomb", alias_bomb()),
        (
            "too many cells",
            suite(&format!(
                "    axes:\n      batch: [{}]\n      accumulation: [{}]\n",
                many(40),
                many(40)
            )),
        ),
        (
            "dead exclusion",
            suite(
                "    axes: {precision: [fp32, amp-bf16]}\n    exclude:\n      - {precision: tf32}\n",
            ),
        ),
        (
            "exclusion of all",
            suite("    axes: {precision: fp32}\n    exclude:\n      - {precision: fp32}\n"),
        ),
        (
            "inclusion of nothing new",
            suite("    axes: {batch: 4}\n    include:\n      - {precision: fp32}\n"),
        ),
        (
            "inclusion of a list",
            suite("    include:\n      - {batch: [2, 4]}\n"),
        ),
        ("time without unit", suite("    limits: {time: 90}\n")),
        ("bad memory", suite("    limits: {memory: lots}\n")),
        (
            "limit of validity out of range",
            suite("    validity: {throttled_percent: 101}\n"),
        ),
        (
            "limit of validity that is none",
            suite("    validity: {host_busy_percent: some}\n"),
        ),
        ("too many repeats", suite("    validity: {repeats: 101}\n")),
        ("bad cpus", suite("    limits: {cpuset: 3-0}\n")),
        (
            "unknown limit",
            suite("    limits: {ulimits: {memlok: {soft: -1, hard: -1}}}\n"),
        ),
    ]);
}

#[test]
fn nothing_to_attribute_is_shown_where_it_stands() {
    check_refused(&[
        (
            "attribution without warm-up",
            suite("    steps: {warmup: 2, measured: 2, attribution: true}\n"),
        ),
        (
            "attribution of inference",
            suite("").replace("scenarios:", "defaults:\n  steps:\n    warmup: 3\n    measured: 2\n    attribution: true\nscenarios:")
                + "    task: inference\n",
        ),
    ]);
}

#[test]
fn no_history_and_no_trace_is_shown_where_it_stands() {
    let steps = |more: &str| format!("    steps: {{warmup: 1, measured: 2, {more}}}\n");
    let gpu = "    devices: [cuda]\n";
    let allocation = "    task: allocation\n    axes: {batch: 100}\n";
    let no_model = |more: &str| suite(more).replace("vit-tiny", "none");
    check_refused(&[
        ("snapshot on a cpu", suite(&steps("snapshot: true"))),
        (
            "snapshot of no history",
            suite(&(steps("snapshot: true") + gpu + "    axes: {allocator: cudaMallocAsync}\n")),
        ),
        (
            "snapshot too small",
            suite(&(steps("snapshot: true, snapshot_entries: 10") + gpu)),
        ),
        (
            "unknown snapshot",
            suite(&(steps("snapshot: sometimes") + gpu)),
        ),
        ("trace that is not there", suite("    trace: x.txt\n")),
        (
            "trace elsewhere",
            no_model("    trace: ../x.txt\n    task: allocation\n"),
        ),
        ("few allocations", no_model("    task: allocation\n")),
        (
            "allocations of a model",
            suite("    axes: {allocations: random}\n"),
        ),
        (
            "allocation with a precision",
            no_model(&allocation.replace('}', ", precision: amp-bf16}")),
        ),
        (
            "sizes of alternating allocations",
            no_model(&allocation.replace('}', ", allocations: alternating, allocation_mib: 1-2}")),
        ),
    ]);
}

#[test]
fn a_trace_is_read_out_of_the_suite_s_folder() {
    let folder = tempfile::tempdir().unwrap();
    let text = suite("    task: allocation\n    axes: {batch: 100}\n    trace: x.txt\n");
    let path = folder.path().join("x.yaml");
    fs::write(&path, text.replace("vit-tiny", "none")).unwrap();
    fs::write(folder.path().join("x.txt"), "+1 100\n-1\n").unwrap();
    let suite = Suite::read(&path).unwrap_or_else(|error| panic!("{}", error.render(false)));
    let Work::Builtin { trace, .. } = &suite.scenarios[0].variants[0].work else {
        panic!("no program")
    };
    assert_eq!(trace.as_ref().unwrap().to_string(), "+1 100\n-1\n");
    let in_folder = |error: &str| error.replace(folder.path().to_str().unwrap(), "/folder");
    fs::write(folder.path().join("x.txt"), "+1 100\n-2\n").unwrap();
    let error = Suite::read(&path).unwrap_err().render(false);
    insta::assert_snapshot!(in_folder(&error), @r"
    error: scenarios[0].trace: the trace `x.txt`: line 2, `-2`: expected `+ID BYTES` for a tensor that is not there, `-ID` for one that is, or in every line the SECONDS at which a request arrives
     --> /folder/x.yaml:8:12
      |
    8 |     trace: x.txt
      |            ^^^^^
    ");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("batch: 100", "batch: 100, live_mib: 8")).unwrap();
    fs::write(folder.path().join("x.txt"), "+1 100\n").unwrap();
    let error = Suite::read(&path).unwrap_err().render(false);
    insta::assert_snapshot!(in_folder(&error), @r"
    error: scenarios[0].trace: a trace has what is allocated; drop allocations, allocation_mib and live_mib
     --> /folder/x.yaml:8:12
      |
    8 |     trace: x.txt
      |            ^^^^^
    ");
}

/// A suite that declares these metrics.
fn declaring(metrics: &str) -> String {
    suite(&format!("metrics:\n{metrics}"))
}

#[test]
fn a_suite_declares_metrics() {
    let text = declaring(
        "- {name: served_per_second, label: served, unit: requests-per-second, better: more, threshold: 0.05, gate: true}\n\
         - {name: cache_bytes, unit: bytes, better: less}\n\
         answered_by: [served_per_second]\nquestion: How many?\n",
    );
    // Twice: what a process read before is no built-in metric.
    for _ in 0..2 {
        let suite = Suite::from_text("x.yaml", &text)
            .unwrap_or_else(|error| panic!("{}", error.render(false)));
        let [served, cache] = &suite.metrics[..] else {
            panic!("{:?}", suite.metrics)
        };
        assert_eq!(
            (served.label.as_deref(), served.gate),
            (Some("served"), true)
        );
        assert_eq!((cache.label.as_deref(), cache.gate), (None, false));
        assert!((cache.threshold - 0.02).abs() < 1e-12);
    }
}

#[test]
fn metrics_that_cannot_be_declared_are_shown_where_they_stand() {
    let one =
        |name: &str, more: &str| format!("  - {{name: {name}, unit: bytes, better: less{more}}}\n");
    let cases = [
        ("declared by no name", one("Cache-Bytes", "")),
        (
            "declared by a built-in name",
            one("peak_allocated_bytes", ""),
        ),
        ("declared twice", one("a_bytes", "") + &one("a_bytes", "")),
        ("declared in percent", one("a_bytes", ", threshold: 5")),
        (
            "declared with a label of controls",
            one("a_bytes", ", label: \"a\\e[2J\""),
        ),
        (
            "declared in no unit",
            one("a_bytes", "").replace("unit: bytes", "unit: byte"),
        ),
        (
            "declared with an unknown key",
            one("a_bytes", ", gated: true"),
        ),
        (
            "declared too many",
            (0..65).map(|i| one(&format!("m{i}_bytes"), "")).collect(),
        ),
    ];
    check_refused(&cases.map(|(name, metrics)| (name, declaring(&metrics))));
}

#[test]
fn a_huge_file_is_refused_unread() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("huge.yaml");
    fs::write(&path, suite(&"# x\n".repeat(2_600_000))).unwrap();
    let error = Suite::read(&path).unwrap_err().to_string();
    assert!(error.ends_with("huge.yaml is larger than 1024 KiB, the most that is read; a file written by hand is far smaller"), "{error}");
}

#[test]
fn suites_are_found_by_name_or_file() {
    let catalog = Catalog::of(scenarios());
    assert_eq!(catalog.load("smoke").unwrap().name, "smoke");
    let file = scenarios().join("smoke.yaml");
    assert_eq!(catalog.load(file.to_str().unwrap()).unwrap().name, "smoke");
    let refusals = ["smok", "../smoke", "no/such.yaml"].map(|name| {
        let error = catalog.load(name).unwrap_err().to_string();
        let error = error.replace(scenarios().to_str().unwrap(), "/scenarios");
        let names = catalog.names().unwrap().join(", ");
        error.replace(&names, "…")
    });
    insta::assert_snapshot!(refusals.join("\n"), @r"
    there is no suite `smok` in /scenarios; there are …; did you mean `smoke`?
    ../smoke: a suite is named after its file; expected up to 40 of a-z, 0-9 and -, then .yaml, such as smoke.yaml
    cannot read no/such.yaml: No such file or directory (os error 2)
    ");
}

#[test]
fn every_committed_suite_reads() {
    let mut text = String::new();
    let catalog = Catalog::of(scenarios());
    for name in catalog.names().unwrap() {
        let suite = catalog
            .load(&name)
            .unwrap_or_else(|error| panic!("{}", error.render(false)));
        let (cpu, cuda) = (suite.cells(DeviceKind::Cpu), suite.cells(DeviceKind::Cuda));
        writeln!(
            text,
            "{}: {} blocks, {cpu} {} on cpu, {cuda} on cuda",
            suite.name,
            suite.blocks,
            if cpu == 1 { "cell" } else { "cells" }
        )
        .unwrap();
    }
    insta::assert_snapshot!("committed-suites", text);
}

/// Run with `UPDATE_SCHEMAS=1` to write the schemas anew.
#[test]
fn the_committed_schemas_are_the_code_s() {
    for (name, schema) in [
        ("suite.schema.json", schema()),
        ("event.schema.json", bench_suite::results::schema()),
    ] {
        let path = scenarios().join(name);
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            fs::write(&path, &schema).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            committed, schema,
            "scenarios/{name} is old: run the tests once with UPDATE_SCHEMAS=1"
        );
    }
}

/// The example and the tables of `scenarios/suites.md` are what the code does.
#[test]
fn the_documentation_is_true() {
    let text = fs::read_to_string(scenarios().join("suites.md")).unwrap();
    let example = text
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("the example");
    let suite = Suite::from_text("example.yaml", example)
        .unwrap_or_else(|error| panic!("{}", error.render(false)));
    assert_eq!(
        (suite.cells(DeviceKind::Cuda), suite.cells(DeviceKind::Cpu)),
        (6, 4)
    );
    for axis in protocol::Variant::AXES {
        assert!(text.contains(&format!("| `{axis}` |")), "axis {axis}");
    }
    for model in protocol::Model::ALL {
        assert!(text.contains(&format!("`{model}`")), "model {model}");
    }
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    for (object, pointer) in [
        ("suite", "/properties"),
        ("defaults", "/$defs/Defaults/properties"),
        ("scenario", "/$defs/ScenarioFile/properties"),
        ("limits", "/$defs/LimitsFile/properties"),
    ] {
        let keys = schema.pointer(pointer).and_then(|keys| keys.as_object());
        for key in keys.expect(object).keys() {
            let said = [format!("`{key}`"), format!("`defaults.{key}`")];
            assert!(said.iter().any(|key| text.contains(key)), "{object}: {key}");
        }
    }
    for listed in Catalog::of(scenarios()).names().unwrap() {
        assert!(
            text.contains(&format!("]({listed}.yaml)")),
            "suite {listed}"
        );
    }
}

fn program(more: &str) -> String {
    format!(
        "version: 1\ndescription: d\nscenarios:\n  - name: train\n    program:\n      command: \
         [python3, train.py, '--batch={{batch}}']\n      environment: {{WIDTH: '{{width}}'}}\n{more}"
    )
}

#[test]
fn counts_of_ranks_are_an_axis_and_stand_in_commands() {
    let axes = "    axes: {batch: [4, 8]}\n";
    assert_eq!(
        variants(&format!("{axes}    ranks: [1, 2]\n")),
        "fp32 bs4 ranks=1 on cpu, cuda\nfp32 bs4 ranks=2 on cpu, cuda\n\
         fp32 bs8 ranks=1 on cpu, cuda\nfp32 bs8 ranks=2 on cpu, cuda\n"
    );
    assert_eq!(variants("    ranks: 2\n"), "fp32 bs1 on cpu, cuda\n");
    let check = |command: &str, more: &str, expect: &str| {
        let text = format!(
            "version: 1\ndescription: d\nscenarios:\n  - name: train\n    ranks: [2, 4]\n    \
             program:\n      command: {command}\n{more}"
        );
        let suite = Suite::from_text("x.yaml", &text)
            .unwrap_or_else(|error| panic!("{}", error.render(false)));
        let all = suite.scenarios[0].variants.iter().map(|one| {
            let Work::Program { program, .. } = &one.work else {
                panic!("no program")
            };
            let command = program.file.command.join(" ");
            format!("{} {:?} {command}", one.ranks, program.launcher)
        });
        assert_eq!(all.collect::<Vec<_>>().join("; "), expect);
    };
    check(
        "[/opt/bin/torchrun, '--nproc-per-node={ranks}', t.py]",
        "",
        "2 Command /opt/bin/torchrun --nproc-per-node=2 t.py; \
         4 Command /opt/bin/torchrun --nproc-per-node=4 t.py",
    );
    check(
        "[python, -m, torch.distributed.run, t.py]",
        "      launcher: torchgauge\n",
        "2 Torchgauge python -m torch.distributed.run t.py; \
         4 Torchgauge python -m torch.distributed.run t.py",
    );
    check(
        "[python, t.py]",
        "",
        "2 Torchgauge python t.py; 4 Torchgauge python t.py",
    );
    let error = Suite::from_text("x.yaml", &program("    axes: {ranks: [1, 2]}\n")).unwrap_err();
    insta::assert_snapshot!(error.render(false), @r"
    error: scenarios[0].axes.ranks: `ranks` is no parameter of a program
     --> x.yaml:8:12
      |
    8 |     axes: {ranks: [1, 2]}
      |            ^^^^^ expected `ranks: [1, 2]` beside `program`, not in `axes`
    ");
}

#[test]
fn a_program_s_parameters_are_axes() {
    let more = "      samples_per_step: '{batch}'\n    axes: {batch: [8, 16], width: [a b, 1.5], \
                allocator: [native, expandable_segments]}\n    exclude: [{batch: 16, width: 1.5}]\n\
                \x20   include: [{batch: 32}]\n";
    let suite = Suite::from_text("x.yaml", &program(more))
        .unwrap_or_else(|error| panic!("{}", error.render(false)));
    let scenario = &suite.scenarios[0];
    let line = scenario.workload.to_string();
    assert_eq!(line, "python3 train.py '--batch={batch}'");
    let all: Vec<String> = scenario
        .variants
        .iter()
        .map(|one| {
            let Work::Program { program, variant } = &one.work else {
                panic!("no program")
            };
            let allocator = variant.environment(Device::Cuda(0)).into_values().next();
            let samples = program.samples_per_step.unwrap();
            let width = &program.file.environment["WIDTH"];
            let (axes, word) = (&one.axes, &program.file.command[2]);
            format!(
                "{axes}: {word} {width} {samples} {}",
                allocator.unwrap_or_default()
            )
        })
        .collect();
    insta::assert_snapshot!("a-program-s-variants", all.join("\n"));
}

#[test]
fn programs_that_mean_nothing_are_shown_where_they_stand() {
    let used = "    axes: {batch: 8, width: 1}\n";
    let of = |more: &str| program(&format!("{more}{used}"));
    check_refused(&[
        (
            "nothing to run",
            suite("").replace("    model: vit-tiny\n", ""),
        ),
        ("program beside a model", of("    model: vit-tiny\n")),
        ("program with a task", of("    task: training\n")),
        (
            "unused parameter",
            program("    axes: {batch: 8, width: 1, lr: 0.1}\n"),
        ),
        (
            "duplicate parameter",
            program("    axes: {batch: [8, 8], width: 1}\n"),
        ),
        (
            "parameter without a name",
            program("    axes: {batch: 8, width: 1, 'A b': 1}\n"),
        ),
        (
            "parameter without a value",
            program("    axes: {batch: {a: 1}, width: 1}\n"),
        ),
        (
            "no samples",
            program("      samples_per_step: '{width}'\n    axes: {batch: 8, width: wide}\n"),
        ),
        ("samples below one", of("      samples_per_step: 0\n")),
        ("no mount", of("      mounts: [src]\n")),
        (
            "mount over the harness",
            of("      mounts: ['src:/run/torchgauge/x']\n"),
        ),
        ("no variable", of("").replace("WIDTH", "1WIDTH")),
        ("relative workdir", of("      workdir: src\n")),
        ("unknown network", of("      network: wifi\n")),
        (
            "no command",
            of("").replace("[python3, train.py, '--batch={batch}']", "[]"),
        ),
    ]);
}

#[test]
fn a_suite_s_files_lie_below_it() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("suites");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(home.path().join("secret"), "x").unwrap();
    std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
    let read = |key: &str, source: &str| {
        let path = folder.join("train.yaml");
        let given = match key {
            "mounts" => format!("      mounts: ['{source}:/x']\n"),
            _ => format!("      environment_files: ['{source}']\n"),
        };
        fs::write(
            &path,
            program(&format!("{given}    axes: {{batch: 8, width: 1}}\n")),
        )
        .unwrap();
        Suite::read(&path).map_err(|error| error.render(false))
    };
    let suite = read("mounts", "./src").unwrap_or_else(|error| panic!("{error}"));
    let Work::Program { program, .. } = &suite.scenarios[0].variants[0].work else {
        panic!("no program")
    };
    assert_eq!(program.mounts[0].source, folder.join("./src"));
    let mut refusals = Vec::new();
    for source in ["../secret", "/etc/passwd", "link", "src/../../secret"] {
        for key in ["mounts", "environment_files"] {
            let error = read(key, source).unwrap_err();
            refusals.push(error.replace(folder.to_str().unwrap(), "/folder"));
        }
    }
    insta::assert_snapshot!(refusals.join("\n\n"), @r"
    error: scenarios[0].program.mounts[0]: this leads out of the suite's folder
     --> /folder/train.yaml:8:16
      |
    8 |       mounts: ['../secret:/x']
      |                ^^^^^^^^^^^^^^ expected a path below it; the command line takes any (--mount, --env-file)

    error: scenarios[0].program.environment_files[0]: this leads out of the suite's folder
     --> /folder/train.yaml:8:27
      |
    8 |       environment_files: ['../secret']
      |                           ^^^^^^^^^^^ expected a path below it; the command line takes any (--mount, --env-file)

    error: scenarios[0].program.mounts[0]: this leads out of the suite's folder
     --> /folder/train.yaml:8:16
      |
    8 |       mounts: ['/etc/passwd:/x']
      |                ^^^^^^^^^^^^^^^^ expected a path below it; the command line takes any (--mount, --env-file)

    error: scenarios[0].program.environment_files[0]: this leads out of the suite's folder
     --> /folder/train.yaml:8:27
      |
    8 |       environment_files: ['/etc/passwd']
      |                           ^^^^^^^^^^^^^ expected a path below it; the command line takes any (--mount, --env-file)

    error: scenarios[0].program.mounts[0]: this leads out of the suite's folder
     --> /folder/train.yaml:8:16
      |
    8 |       mounts: ['link:/x']
      |                ^^^^^^^^^ expected a path below it; the command line takes any (--mount, --env-file)

    error: scenarios[0].program.environment_files[0]: this leads out of the suite's folder
     --> /folder/train.yaml:8:27
      |
    8 |       environment_files: ['link']
      |                           ^^^^^^ expected a path below it; the command line takes any (--mount, --env-file)

    error: scenarios[0].program.mounts[0]: this leads out of the suite's folder
     --> /folder/train.yaml:8:16
      |
    8 |       mounts: ['src/../../secret:/x']
      |                ^^^^^^^^^^^^^^^^^^^^^ expected a path below it; the command line takes any (--mount, --env-file)

    error: scenarios[0].program.environment_files[0]: this leads out of the suite's folder
     --> /folder/train.yaml:8:27
      |
    8 |       environment_files: ['src/../../secret']
      |                           ^^^^^^^^^^^^^^^^^^ expected a path below it; the command line takes any (--mount, --env-file)
    ");
}

#[test]
fn every_mistake_is_shown_at_once() {
    let text = "\
version: 1
description: d
defaults: {step: 3, blocks: 0, blocks: 2}
metrics:
- {name: loss, better: less, unit: plain}
question: q
answered_by: [throughputt]
scenarios:
- name: a b
  model: resnet-tinny
  axes: {precision: [fp32, bf16], bach: 3}
  exclude: [{precision: fp32, device: cpu}]
- name: b
  model: vit-tiny
  devices: [cpu]
  axes: {precision: fp32, tf32: [true, false]}
  steps: {warmup: 1, measured: 0}
  limits: {cpus: .nan, pids: 0}
  thresholds: {throughput: 2}
- name: b
  program: {command: [\"\"]}
  axes: {lr: 1}
claims:
- {statement: s, source: u, metric: throughputt, expect: {saving: {min: 0.1}}, treated: {precision: tf32}}
";
    let error = Suite::from_text("broken.yaml", text).expect_err("it is wrong");
    insta::assert_snapshot!("every-mistake", error.render(false));
    let lines = |error: &SuiteError| error.to_string().lines().count();
    assert_eq!(
        lines(&error),
        error.render(false).matches("error: ").count()
    );
    let many: Vec<String> = (0..30).map(|key| format!("x{key}: 1")).collect();
    let error = Suite::from_text("broken.yaml", &many.join("\n")).unwrap_err();
    assert_eq!(lines(&error), 21);
    assert!(
        error.render(false).ends_with("\nand 13 more mistakes"),
        "{error}"
    );
}
