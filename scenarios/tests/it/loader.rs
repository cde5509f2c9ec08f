//! The data loader from end to end.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use protocol::{Event, FailureReason, Model, Step, Task, Values};

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

/// A run whose scratch space is this folder.
fn run_with(scratch: &Path, run_file: &str) -> (Folder, Output) {
    let folder = Folder::new(run_file);
    let output = Command::new(BINARY)
        .env("TMPDIR", scratch)
        .args([folder.path("run.json"), folder.path("results.ndjson")])
        .output()
        .unwrap();
    (folder, output)
}

/// Its values and losses, where it went well.
fn finished(scratch: &Path, run_file: &str) -> (Values, Vec<f64>) {
    let (folder, output) = run_with(scratch, run_file);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let mut losses = Vec::new();
    for event in folder.events() {
        match event {
            Event::Step(step) => losses.push(step.values["loss"]),
            Event::Finished { values } => return (values, losses),
            _ => {}
        }
    }
    panic!("{stderr}");
}

#[test]
fn a_folder_s_samples_are_the_same_for_any_number_of_workers() {
    let _turn = alone();
    let scratch = tempfile::tempdir().unwrap();
    for model in [Model::ResnetTiny, Model::BertTiny, Model::LlamaTiny] {
        let run = |more: &str| {
            let variant = format!(
                r#"{{"batch":4,"accumulation":2,"deterministic":true,"data":"folder",
                    "folder_samples":18,{more}}}"#
            );
            finished(scratch.path(), &run_file(model, Task::Training, &variant))
        };
        let (values, losses) = run(r#""loader_workers":1"#);
        let other = r#""loader_workers":3,"prefetch_factor":1,"page_cache":"cold""#;
        assert_eq!(run(other).1, losses, "{model}");
        let differ = |pair: &[f64]| (pair[0] - pair[1]).abs() > 1e-6;
        assert!(losses.windows(2).all(differ), "{losses:?}");
        for name in ["loader_samples_per_second", "data_folder_bytes"] {
            assert!(values[name] > 0.0, "{name}: {values:?}");
        }
        let waited = values["data_wait_ratio"];
        assert!(waited > 0.0 && waited < 1.0, "{waited}");
        assert!(values["loader_cpu_seconds"] >= 0.0);
        // There is no GPU that they go to.
        assert!(!values.contains_key("host_to_device_bytes_per_second"));
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_is_what_torchvision_reads() {
    let _turn = alone();
    let variant = r#"{"batch":4,"data":"folder","loader_workers":1,"folder_samples":24}"#;
    let folder = Folder::new(&run_file(Model::ResnetTiny, Task::Training, variant));
    let written = folder.path("folder");
    let output = Command::new(BINARY)
        .arg("--write-folder")
        .args([folder.path("run.json"), written.clone()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut images = 0;
    for class in fs::read_dir(&written).unwrap() {
        let class = class.unwrap();
        let label: u32 = class.file_name().to_str().unwrap().parse().unwrap();
        assert!(label < 10, "a class of the model");
        for image in fs::read_dir(class.path()).unwrap() {
            let image = image.unwrap().path();
            assert_eq!(image.extension().unwrap(), "jpg");
            assert!(fs::read(&image).unwrap().starts_with(&[0xff, 0xd8, 0xff]));
            images += 1;
        }
    }
    assert_eq!(images, 24);
}

#[test]
fn a_broken_image_is_named() {
    let _turn = alone();
    let scratch = tempfile::tempdir().unwrap();
    let variant = r#"{"batch":4,"data":"folder","loader_workers":2,"folder_samples":8}"#;
    let text = run_file(Model::ResnetTiny, Task::Training, variant)
        .replace("\"measured\":3", "\"measured\":1000000");
    let damaged = std::thread::scope(|scope| {
        let damaged = scope.spawn(|| {
            let began = std::time::Instant::now();
            loop {
                assert!(began.elapsed().as_secs() < 60, "no image");
                std::thread::sleep(std::time::Duration::from_millis(50));
                if let Some(image) = an_image(scratch.path()) {
                    fs::write(&image, b"no picture").unwrap();
                    return image;
                }
            }
        });
        let (folder, output) = run_with(scratch.path(), &text);
        let damaged = damaged.join().unwrap().display().to_string();
        check_failure(&folder, &output, FailureReason::DataLoader, &damaged);
        let words = "cannot decode";
        check_failure(&folder, &output, FailureReason::DataLoader, words);
        damaged
    });
    assert!(
        !Path::new(&damaged).exists(),
        "the folder goes with its run"
    );
}

/// An image that a run wrote into its folder, once all eight are there.
fn an_image(scratch: &Path) -> Option<PathBuf> {
    let inside = |folder: PathBuf| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let classes = inside(scratch.to_owned()).into_iter().flat_map(inside);
    let images: Vec<PathBuf> = classes.flat_map(inside).collect();
    let is_whole = |image: &PathBuf| fs::metadata(image).is_ok_and(|file| file.len() > 10_000);
    (images.len() == 8 && images.iter().all(is_whole)).then(|| images[0].clone())
}

#[test]
fn a_folder_that_cannot_be_is_named_with_what_to_change() {
    let _turn = alone();
    let run = |more: &str| {
        let variant = format!(
            r#"{{"batch":4,"data":"folder","loader_workers":1,"folder_samples":64{more}}}"#
        );
        run_file(Model::ResnetTiny, Task::Training, &variant)
    };
    let in_memory = Path::new("/dev/shm");
    let (folder, output) = run_with(in_memory, &run(r#","page_cache":"cold""#));
    let words = "lies in memory (tmpfs)";
    check_failure(&folder, &output, FailureReason::SettingIgnored, words);

    let folder = Folder::new(&run(""));
    let small = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=1m tmpfs "$TMPDIR" && exec "$0" "$@""#;
    let output = Command::new("unshare")
        .env("TMPDIR", small.path())
        .args(["--mount", "sh", "-c", script, BINARY])
        .args([folder.path("run.json"), folder.path("results.ndjson")])
        .output()
        .unwrap();
    let words = "No space left on device (os error 28); raise `limits.tmp`";
    check_failure(&folder, &output, FailureReason::DataLoader, words);
}
