//! The data loader from end to end.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, Output},
};

use protocol::{Event, FailureReason, Model, Step, Task};

use crate::{
    binary::{BINARY, Folder, check_failure, run_file},
    support::alone,
};

/// Names in the shared memory of this machine, of whatever kind.
fn shared_files() -> BTreeSet<OsString> {
    fs::read_dir("/dev/shm")
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect()
}

#[test]
fn a_loader_hands_over_the_batches_that_a_run_without_one_keeps() {
    let _turn = alone();
    let before = shared_files();
    for (model, more) in [
        (Model::ResnetTiny, r#","memory_format":"channels-last""#),
        (Model::BertTiny, r#","sequence_lengths":"8-32""#),
        (Model::VitTiny, ""),
    ] {
        let steps = |loader: &str| -> Vec<Step> {
            let variant =
                format!(r#"{{"batch":4,"accumulation":3,"deterministic":true{more}{loader}}}"#);
            let folder = Folder::new(&run_file(model, Task::Training, &variant));
            let output = folder.run();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{stderr}");
            let steps = folder.events().into_iter().filter_map(|event| match event {
                Event::Step(step) => Some(step),
                _ => None,
            });
            steps.collect()
        };
        let kept = steps("");
        let losses =
            |steps: &[Step]| -> Vec<f64> { steps.iter().map(|step| step.values["loss"]).collect() };
        let waits = |step: &Step| step.values.contains_key("step_data_seconds");
        assert!(!kept.iter().any(waits));
        for loader in [
            r#","loader_workers":1"#,
            r#","loader_workers":2,"prefetch_factor":1"#,
            r#","loader_workers":3,"prefetch_factor":4"#,
        ] {
            let loaded = steps(loader);
            assert_eq!(losses(&loaded), losses(&kept), "{model} {loader}");
            for step in loaded {
                let of = |name: &str| step.values[name];
                let data = of("step_data_seconds");
                assert!(data > 0.0, "{step:?}");
                let sum = data + of("step_forward_seconds") + of("step_backward_seconds");
                assert!((sum + of("step_optimizer_seconds") - of("step_seconds")).abs() < 1e-9);
            }
        }
    }
    assert!(shared_files().is_subset(&before));
}

/// A loader that needs some 6 MB of shared memory, in so much of it.
///
/// # Panics
/// Where this user may not mount: the tests of faults run as root, as CI does.
fn run_in_shared_memory(size: &str) -> (Folder, Output) {
    let variant = r#"{"batch":8,"image_size":224,"loader_workers":1}"#;
    let folder = Folder::new(&run_file(Model::ResnetTiny, Task::Training, variant));
    let script = format!(r#"mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$0" "$@""#);
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, BINARY])
        .args([folder.path("run.json"), folder.path("results.ndjson")])
        .output()
        .unwrap();
    (folder, output)
}

#[test]
fn shared_memory_without_room_for_a_batch_is_named() {
    let _turn = alone();
    let (folder, output) = run_in_shared_memory("6m");
    let words = "worker 1 of 1 found no room for a batch of 4816896 bytes in /dev/shm of 6 MiB: \
                 No space left on device (os error 28); raise `limits.shm`";
    check_failure(&folder, &output, FailureReason::DataLoader, words);
    let (_, output) = run_in_shared_memory("64m");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
}

#[test]
fn a_worker_that_dies_ends_the_run_with_its_signal() {
    let _turn = alone();
    let before = shared_files();
    let text = run_file(Model::VitTiny, Task::Training, r#"{"loader_workers":2}"#)
        .replace("\"measured\":3", "\"measured\":1000000");
    let folder = Folder::new(&text);
    let run = Command::new(BINARY)
        .args([folder.path("run.json"), folder.path("results.ndjson")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let workers = || -> Vec<String> {
        let id = run.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        children.split_whitespace().map(str::to_owned).collect()
    };
    let began = std::time::Instant::now();
    let measuring = || fs::read_to_string(folder.path("results.ndjson")).unwrap_or_default();
    while !measuring().contains(r#""phase":"measure""#) {
        assert!(began.elapsed().as_secs() < 60, "{}", measuring());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let [first, second] = &workers()[..] else {
        panic!("{:?}", workers());
    };
    assert!(
        Command::new("kill")
            .args(["-9", first])
            .status()
            .unwrap()
            .success()
    );
    let output = run.wait_with_output().unwrap();
    let words = "worker 1 of 2 ended before its batch was taken: signal: 9 (SIGKILL)";
    check_failure(&folder, &output, FailureReason::DataLoader, words);
    assert!(
        !Path::new(&format!("/proc/{second}")).exists(),
        "the other one ends too"
    );
    assert!(shared_files().is_subset(&before));
}
