//! Steps by Slurm's own `--container` on the real Slurm cluster of `.ci/slurm`, whose runtime is runc.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use rustix::process::Signal;

use crate::{
    apptainer::{HANGS, folder},
    python_image::{lines, run},
    pyxis::{PLACE, attempts, goes_on_past_failures, hanging_in},
    registry::Registry,
    slurm::{CONF, slurm},
    support::{Home, Running},
};

/// The references of `old` and `new`, which are in the cache [`cache`] and whose registry is gone.
fn images() -> &'static [String; 2] {
    static IMAGES: OnceLock<[String; 2]> = OnceLock::new();
    IMAGES.get_or_init(|| {
        folder();
        let _ = fs::remove_dir_all(cache());
        let registry = Registry::plain();
        ["old", "new"].map(|name| {
            let pushed = format!("localhost:{}/team/{name}:1", registry.port);
            run(
                "docker",
                &["tag", &format!("torchgauge-test/apptainer:{name}"), &pushed],
            );
            run("docker", &["push", "--quiet", &pushed]);
            let asked = [
                "image",
                "inspect",
                "--format={{index .RepoDigests 0}}",
                &pushed,
            ];
            let reference = lines(&run("docker", &asked)).concat();
            run("docker", &["rmi", &pushed]);
            let bundle = tempfile::tempdir().expect("a folder");
            let unpacked = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
                .args(["pod", "bundle", &reference])
                .arg(bundle.path().join("b"))
                .arg("")
                .env("XDG_CACHE_HOME", cache())
                .env("APPTAINER_NOHTTPS", "1")
                .output()
                .expect("torchgauge runs");
            let said = String::from_utf8_lossy(&unpacked.stderr);
            assert!(unpacked.status.success(), "{said}");
            reference
        })
    })
}

fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("oci")
}

fn both() -> String {
    let [old, new] = images();
    format!("--image {old} --image {new}")
}

impl Home {
    fn in_oci(&self, script: &str, profile: &str, words: &str) -> Running {
        let cache = format!("XDG_CACHE_HOME={} APPTAINER_NOHTTPS=1", cache().display());
        self.in_steps(script, profile, &cache, words)
    }

    fn resume_in_oci(&self, name: &str) -> Running {
        let line = format!(
            "exec env -u CARGO_MANIFEST_DIR SLURM_CONF={CONF} XDG_CACHE_HOME={} cargo xtask bench --resume {}",
            cache().display(),
            self.path(name).display()
        );
        self.shell(name, &line)
    }
}

#[test]
fn without_a_word_in_the_profile_slurm_s_own_containers_are_found() {
    let home = Home::new();
    let words = format!("{} --blocks 3 --samples-per-step 8", both());
    let text = home.in_oci(PLACE, "time: 10", &words).ends_with(0);
    assert!(
        text.contains("by oci, for an oci.conf lies beside"),
        "{text}"
    );
    home.was_in_steps("oci", "process ids");
}

#[test]
fn a_run_that_fails_in_its_container_does_not_end_its_block() {
    let words = format!("{} --blocks 1 --writable", both());
    let start = |home: &Home| home.in_oci(PLACE, "engine: oci", &words);
    goes_on_past_failures(start, &["exit-status", "ok"]);
}

#[test]
fn ctrl_c_ends_the_container_and_leaves_nothing() {
    let words = format!("{} --blocks 1", both());
    let (home, running) = hanging_in(|home| home.in_oci(HANGS, "engine: oci", &words));
    running.signal(Signal::INT);
    running.ends_with(3);
    let said = fs::read_to_string(home.path("s/parts/000/slurm.log")).expect("a log");
    let ends = attempts(&home.read("s").1);
    let end = ends.get(&1).map(|(_, end)| end.as_str());
    assert_eq!(end, Some("interrupted"), "{ends:?}: {said}");
    assert!(!home.path("s/parts/000/work").exists());
    home.goes_on_by(Home::resume_in_oci);
}

#[test]
fn a_job_with_containers_that_somebody_cancels_goes_on_later() {
    let words = format!("{} --blocks 1", both());
    let (home, running) = hanging_in(|home| home.in_oci(HANGS, "engine: oci", &words));
    slurm(&["scancel", &format!("--name={}", home.jobs("s"))]);
    let text = running.ends_with(3);
    assert!(text.contains("was cancelled (CANCELLED)"), "{text}");
    home.goes_on_by(Home::resume_in_oci);
}

#[test]
fn what_slurm_s_containers_cannot_do_is_named() {
    let home = Home::new();
    let [old, _] = images();
    // What the container's runtime refuses ends the block, in its words: a folder over a file.
    let words = format!(
        "--image {old} --blocks 1 --mount {}:/opt/entry.py",
        home.path("").display()
    );
    let text = home.in_oci(PLACE, "engine: oci", &words).ends_with(3);
    for expected in [
        "could not carry out 0000-",
        "/opt/entry.py",
        "not a directory",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(home.queue("s"), "");
    let (name, _) = old.split_once('@').expect("a digest");
    let none = format!("{name}@sha256:{}", "a".repeat(64));
    for (image, code, expected) in [
        (&*none, 3, "Apptainer cannot unpack the image localhost:"),
        (
            "r.example/team/old:1",
            2,
            "write `engine: podman` or `engine: apptainer` into the profile",
        ),
    ] {
        fs::remove_dir_all(home.path("s")).expect("a session");
        let words = format!("--image {image} --blocks 1");
        let text = home.in_oci(PLACE, "", &words).ends_with(code);
        assert!(text.contains(expected), "{text}");
    }
}
