//! `engine: pyxis` on the real Slurm cluster of `.ci/slurm`, with a `srun` that stands in for that with
//! Pyxis: it takes its options, and runs each step by the real `srun` in Apptainer.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use record::Record;
use rustix::process::Signal;

use crate::{
    apptainer::{HANGS, NEW, OLD, image},
    python_image::{python, run},
    slurm::{CONF, slurm},
    support::{Home, Running, until},
};

/// The folder with the images `old` and `new`, in which a step takes twice as long.
fn images() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pyxis");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        for name in ["old", "new"] {
            let to = folder.join(name).display().to_string();
            let from = format!("docker-archive:{}", image(name));
            run("apptainer", &["build", "--sandbox", &to, &from]);
        }
        folder
    })
}

fn reference(name: &str) -> String {
    format!("--image r.example/team/{name}@sha256:{}", "a".repeat(64))
}

/// It says where it is, and fails in the new image where it is told to.
pub(crate) const PLACE: &str = "
import os, sys, time
import torch
print(os.environ['HOME'], os.getcwd(), os.environ.get('SECRET'), os.listdir('/own'))
print(sorted(name for name in os.environ if name.startswith(('SLURM', 'PYXIS_', 'ENROOT_'))))
for folder in ('/work/train.py', '/program', '/own', '/tmp'):
    try:
        open(folder + '/written', 'w').close()
        print('wrote', folder)
    except OSError as error:
        print(error)
sys.stdout.flush()
if os.environ['STEP'] == '0.04' and os.path.exists('/gate/fail'):
    sys.exit(7)
optimizer = torch.optim.SGD([torch.Parameter()])
for step in range(100000):
    time.sleep(float(os.environ['STEP']) * (100 if step == 0 else 1))
    optimizer.step()
";

impl Home {
    fn in_pyxis(&self, script: &str, profile: &str, words: &str) -> Running {
        self.stand_in(true);
        self.in_steps(script, &format!("engine: pyxis\n{profile}"), "", words)
    }

    /// A session by Slurm of this script, with these lines in its profile, and these variables.
    pub(crate) fn in_steps(
        &self,
        script: &str,
        profile: &str,
        variables: &str,
        words: &str,
    ) -> Running {
        let file = self.path("profile.yaml");
        fs::write(&file, format!("version: 1\n{profile}")).expect("a profile");
        fs::write(self.path("train.py"), script).expect("a script");
        fs::create_dir_all(self.path("gate")).expect("a folder");
        let line = format!(
            "exec env -u CARGO_MANIFEST_DIR SLURM_CONF={CONF} SECRET=1 {variables} cargo xtask bench --device cpu --engine slurm:{profile} \
             --out {out} --steps 3 --mount {home}/train.py:/work/train.py --mount {home}/gate:/gate \
             --mount {home}/gate:/own:rw {words} -- {python} /work/train.py",
            profile = file.display(),
            out = self.path("s").display(),
            home = self.path("").display().to_string().trim_end_matches('/'),
            python = python().0,
        );
        self.shell("s", &line)
    }

    /// Checks a session of [`PLACE`] in `old` and `new` over three blocks, each run in a step, which
    /// `separates` that, and that its verdicts are those of Docker's containers.
    pub(crate) fn was_in_steps(&self, engine: &str, separates: &str) {
        let (session, records) = self.read("s");
        assert!(session.complete);
        assert_eq!((session.engine.kind.as_str(), records.len()), (engine, 6));
        for record in &records {
            assert!(record.host.starts_with("node"), "{record:?}");
            assert!(record.outcome.is_ok(), "{record:?}");
            assert_eq!(record.isolation.engine, engine);
            let missing = &record.isolation.missing;
            assert!(missing.contains(&"network".to_owned()), "{missing:?}");
            assert!(!missing.contains(&separates.to_owned()), "{missing:?}");
            let said = self.said("s", record);
            // In the image's folder, with nothing of the job's; `/own` is its own.
            assert!(said.starts_with("/tmp /opt None []\n[]\n"), "{said}");
            let lines = said.lines();
            let wrote: Vec<&str> = lines.filter(|line| line.starts_with("wrote")).collect();
            assert_eq!(wrote, ["wrote /own", "wrote /tmp"], "{said}");
        }
        assert!(!self.path("gate/written").exists());
        assert!(!self.path("s/parts/000/copies").exists());
        assert_eq!(self.queue("s"), "");
        let words = format!(
            "--image {OLD} --image {NEW} --blocks 3 --samples-per-step 8 --steps 3 \
             --mount {home}train.py:/work/train.py --mount {home}gate:/gate --mount {home}gate:/own:rw",
            home = self.path("").display()
        );
        let command = format!("{} /work/train.py", python().0);
        self.has_verdicts_of_containers("s", &words, &command);
    }

    /// Puts a `srun` with Pyxis into `PATH`, or takes it away.
    fn stand_in(&self, is_there: bool) {
        let file = self.path("bin/srun");
        fs::create_dir_all(self.path("bin")).expect("a folder");
        if !is_there {
            return fs::remove_file(file).expect("no program");
        }
        let images = images().display().to_string();
        let text = include_str!("srun-pyxis.sh").replace("IMAGES", &images);
        fs::write(&file, text).expect("a program");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a program");
    }
}

/// Each run's attempts, and how the last one ended.
pub(crate) fn attempts(records: &[Record]) -> BTreeMap<u32, (u32, String)> {
    let of = |record: &Record| (record.order, (record.attempt, record.outcome.word()));
    records.iter().map(of).collect()
}

fn both() -> String {
    format!("{} {}", reference("old"), reference("new"))
}

#[test]
fn runs_are_steps_in_their_images() {
    let home = Home::new();
    let words = format!("{} --blocks 3 --samples-per-step 8", both());
    // It is found where the profile has no engine, and an `oci.conf` comes after it.
    home.stand_in(true);
    let text = home.in_steps(PLACE, "time: 10", "", &words).ends_with(0);
    assert!(
        text.contains("by pyxis, for `srun` has --container-image"),
        "{text}"
    );
    home.was_in_steps("pyxis", "file system");
}

/// Checks a session of [`PLACE`] whose new image fails: it goes on to its end, and its runs ended so.
pub(crate) fn goes_on_past_failures(start: impl FnOnce(&Home) -> Running, expected: &[&str]) {
    let home = Home::new();
    fs::create_dir(home.path("gate")).expect("a folder");
    fs::write(home.path("gate/fail"), "").expect("a file");
    start(&home).ends_with(3);
    let (session, records) = home.read("s");
    assert!(session.complete);
    let ends = attempts(&records).into_values().map(|(_, end)| end);
    let mut ends: Vec<String> = ends.collect();
    ends.sort();
    assert_eq!(ends, expected);
    assert_eq!(home.queue("s"), "");
}

#[test]
fn a_run_that_fails_in_its_step_does_not_end_its_block() {
    let words = format!("{} --blocks 2", both());
    let ends = ["exit-status", "exit-status", "ok", "ok"];
    goes_on_past_failures(|home| home.in_pyxis(PLACE, "", &words), &ends);
}

/// A session whose second run hangs, once that one is under way.
fn hanging(profile: &str) -> (Home, Running) {
    hanging_in(|home| home.in_pyxis(HANGS, profile, &format!("{} --blocks 1", both())))
}

pub(crate) fn hanging_in(start: impl FnOnce(&Home) -> Running) -> (Home, Running) {
    let home = Home::new();
    fs::create_dir(home.path("gate")).expect("a folder");
    fs::write(home.path("gate/hang"), "").expect("a file");
    let running = start(&home);
    home.until_part_records("s/parts/000", 1);
    let work = home.path("s/parts/000/work");
    let hangs = || {
        let runs = fs::read_dir(&work).into_iter().flatten().flatten();
        let mut names = runs.map(|run| run.file_name());
        names.any(|name| name.to_string_lossy().starts_with("0001"))
    };
    until(hangs);
    (home, running)
}

impl Home {
    /// What finished stays as it is, and the rest runs.
    fn goes_on(&self) {
        self.goes_on_by(Self::resume_on_slurm);
    }

    pub(crate) fn goes_on_by(&self, resume: impl FnOnce(&Self, &str) -> Running) {
        fs::remove_file(self.path("gate/hang")).expect("no file");
        assert_eq!(self.queue("s"), "");
        resume(self, "s").ends_with(0);
        let (session, records) = self.read("s");
        assert!(session.complete);
        check_repeats(&records);
        assert_eq!(attempts(&records)[&1].1, "ok");
        assert_eq!(self.queue("s"), "");
    }
}

#[test]
fn ctrl_c_ends_the_step_and_leaves_nothing_in_the_queue() {
    let (home, running) = hanging("");
    running.signal(Signal::INT);
    running.ends_with(3);
    let said = fs::read_to_string(home.path("s/parts/000/slurm.log")).expect("a log");
    let ends = attempts(&home.read("s").1);
    let end = ends.get(&1).map(|(_, end)| end.as_str());
    assert_eq!(end, Some("interrupted"), "{ends:?}: {said}");
    assert!(!home.path("s/parts/000/work").exists());
    home.goes_on();
}

#[test]
fn a_job_with_steps_that_somebody_cancels_goes_on_later() {
    let (home, running) = hanging("");
    slurm(&["scancel", &format!("--name={}", home.jobs("s"))]);
    let text = running.ends_with(3);
    assert!(text.contains("was cancelled (CANCELLED)"), "{text}");
    home.goes_on();
}

#[test]
fn a_job_with_steps_that_slurm_requeues_runs_nothing_again() {
    let (home, running) = hanging("");
    slurm(&["scontrol", "requeue", &home.queue("s")]);
    until(|| {
        let name = format!("--name={}", home.jobs("s"));
        slurm(&["squeue", "--noheader", "--array", &name, "--format=%T"]) == "PENDING"
    });
    fs::remove_file(home.path("gate/hang")).expect("no file");
    let job = format!("JobId={}", home.queue("s"));
    slurm(&["scontrol", "update", &job, "StartTime=now"]);
    running.ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(home.queue("s"), "");
    check_repeats(&records);
}

/// On the same node what finished is not run again; on another one both run there.
#[track_caller]
fn check_repeats(records: &[Record]) {
    let is_one_node = records.iter().all(|record| record.host == records[0].host);
    let first = records.iter().filter(|record| record.order == 0).count();
    let expected = if is_one_node { 1 } else { 2 };
    assert_eq!(first, expected, "{:?}", attempts(records));
}

#[test]
fn a_block_of_steps_out_of_time_names_the_key_and_goes_on() {
    let (home, running) = hanging("time: 2");
    let text = running.ends_with(3);
    assert!(text.contains("raise `time` in the profile"), "{text}");
    home.goes_on();
}

#[test]
fn what_pyxis_cannot_do_is_named() {
    let home = Home::new();
    // An image that is not there ends its block, in Pyxis's words.
    let words = format!("{} --blocks 1", reference("none"));
    let text = home.in_pyxis(PLACE, "", &words).ends_with(3);
    for expected in [
        "could not carry out 0000-",
        "failed to import docker image: r.example#team/none@sha256:aaa",
        "404 Not Found",
        "check the reference",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(home.queue("s"), "");
    // A node without it.
    home.stand_in(false);
    let text = home.resume_on_slurm("s").ends_with(3);
    assert!(
        text.contains("`srun` on its node has no --container-image (Pyxis)"),
        "{text}"
    );
    assert_eq!(home.queue("s"), "");
    fs::create_dir(home.path("x$y")).expect("a folder");
    fs::write(home.path("secrets"), "A=1\n").expect("a file");
    for (words, expected) in [
        (
            "--image r.example/team/old:1".to_owned(),
            "expected REGISTRY/REPOSITORY@sha256:",
        ),
        (
            format!(
                "{} --mount '{}:/x'",
                reference("old"),
                home.path("x$y").display()
            ),
            "x$y; expected a path without any of",
        ),
        (
            format!(
                "{} --env-file {}",
                reference("old"),
                home.path("secrets").display()
            ),
            "a step of Pyxis takes no variables of files",
        ),
    ] {
        let _ = fs::remove_dir_all(home.path("s"));
        let text = home.in_pyxis(PLACE, "", &words).ends_with(2);
        assert!(text.contains(expected), "{text}");
    }
}
