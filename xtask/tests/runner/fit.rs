//! The largest batch, found by the real command with runs of the mock engine.

use serde_json::Value;

use crate::support::xtask;

const SUITE: &str = "version: 1\ndescription: d\nscenarios:\n\
    - {name: small, model: vit-tiny, axes: {batch: [1, 2], precision: [fp32, amp-bf16]}}\n\
    - {name: large, model: bert-tiny, axes: {batch: 1}}\n";

#[test]
fn the_largest_batch_of_each_combination_is_found() {
    let home = tempfile::tempdir().expect("a folder");
    let suite = home.path().join("fits.yaml");
    std::fs::write(&suite, SUITE).expect("the suite");
    let suite = suite.to_str().expect("text");
    let mock = "--engine=mock:amp-bf16=fits:23;fp32=fits:10";
    let out = home.path().join("drawn");
    let (code, text) = xtask(&[
        "fit",
        &format!("{suite}:small"),
        "--memory=8GiB",
        "--device=cpu",
        mock,
        "--format=json",
        &format!("--out={}", out.display()),
    ]);
    assert_eq!(code, 0, "{text}");
    // Each try as it ends.
    assert!(
        text.contains("small fp32 at batch 4: fits, peak "),
        "{text}"
    );
    assert!(
        text.contains("small fp32 at batch 11: out-of-memory ("),
        "{text}"
    );
    let start = text.find('{').expect("JSON");
    let end = text.rfind('}').expect("JSON");
    let report: Value = serde_json::from_str(&text[start..=end]).expect("JSON");
    let found = report["found"].as_array().expect("a list");
    let largest: Vec<_> = found
        .iter()
        .map(|one| (one["combination"].as_str(), one["largest_batch"].as_u64()))
        .collect();
    assert_eq!(
        largest,
        [(Some("fp32"), Some(10)), (Some("amp-bf16"), Some(23))]
    );
    assert_eq!(report["memory_bytes"], 8_u64 << 30);
    let advice = report["advice"][0].as_str().expect("advice");
    assert!(
        advice.starts_with("vit-tiny at batch 23 fits 8.0 GiB with amp-bf16"),
        "{advice}"
    );
    // The same drawn, with the answer and what did not fit.
    let drawn = |name: &str| std::fs::read_to_string(out.join(name)).expect(name);
    let json: Value = serde_json::from_str(&drawn("fit.json")).expect("JSON");
    assert_eq!(json, report);
    for text in [drawn("fit.html"), drawn("fit.md")] {
        assert!(text.contains("largest batch within 8 GiB?"), "{text}");
        assert!(text.contains("out of memory at 24"), "{text}");
    }
    assert!(drawn("fit.html").contains("amp-bf16, batch 23: fits, peak "));
}

#[test]
fn what_is_no_want_of_memory_is_told() {
    let (code, text) = xtask(&[
        "fit",
        "smoke:vit-tiny",
        "--memory=1GiB",
        "--device=cpu",
        "--engine=mock:*=exit:3",
    ]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("exit-status: ended"), "{text}");
    let (code, text) = xtask(&["fit", "smoke:vit", "--memory=1GiB", "--engine=mock:"]);
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("suite smoke has no scenario `vit`; it has: resnet-tiny, "),
        "{text}"
    );
    let (code, text) = xtask(&["fit", "smoke:vit-tiny", "--memory=lots"]);
    assert_eq!(code, 2, "{text}");
    // Less than any container may have, and less than the model wants.
    let (code, text) = xtask(&["fit", "smoke:vit-tiny", "--memory=0", "--engine=mock:"]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("--memory 0 B is too little"), "{text}");
    assert!(text.contains("less than 6.0 MiB"), "{text}");
    let (code, text) = xtask(&[
        "fit",
        "smoke:vit-tiny",
        "--memory=10MiB",
        "--device=cpu",
        "--engine=mock:*=host-oom",
    ]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("at batch 4: host-out-of-memory (")
            && text.contains("nothing fits 10.0 MiB: not one sample in a batch"),
        "{text}"
    );
    // Nothing with a batch.
    let (code, text) = xtask(&[
        "fit",
        "idle",
        "--memory=1GiB",
        "--device=cpu",
        "--engine=mock:",
    ]);
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("`idle` has no batch that can be fitted"),
        "{text}"
    );
    // On the CPU a plain process has no wall to run against.
    let (code, text) = xtask(&[
        "fit",
        "smoke:vit-tiny",
        "--memory=1GiB",
        "--device=cpu",
        "--engine=process",
    ]);
    assert_eq!(code, 4, "{text}");
    assert!(
        text.contains("only a container's limit can be the limit"),
        "{text}"
    );
}
