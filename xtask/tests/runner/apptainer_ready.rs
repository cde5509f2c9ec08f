//! Before the first run in Apptainer: finding it, choosing it, and unpacking images.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::{
    apptainer::{LOOP, folder, image},
    python_image::python,
    support::Home,
};

#[test]
fn what_cannot_be_unpacked_is_said_before_anything_runs() {
    let home = Home::new();
    home.script("");
    let whole = fs::read(image("old")).expect("an archive");
    fs::write(home.path("cut.tar"), &whole[..300_000]).expect("an archive");
    let cut = format!("--image {}", home.path("cut.tar").display());
    let pinned = format!("--image r.example/team/x@sha256:{}", "0".repeat(64));
    for (engine, words, code, expected) in [
        ("apptainer", &*cut, 4, "unexpected EOF"),
        ("chroot", &cut, 2, "cannot be used: it is cut off"),
        (
            "chroot",
            &pinned,
            2,
            "skopeo copy docker://r.example/team/x@sha256:",
        ),
        (
            "apptainer",
            "--image team/train:1",
            2,
            "give an archive (`docker image save`)",
        ),
        ("apptainer", "", 2, "no image to run the program in"),
    ] {
        let told = home.in_unpacked(engine, words).ends_with(code);
        assert!(told.contains(expected), "{told}");
        assert!(!home.path("s").exists(), "{told}");
    }
    let folder = home.path("small");
    fs::create_dir(&folder).expect("a folder");
    let line = format!(
        "exec unshare --mount sh -c 'mount -t tmpfs -o size=90m small {small} && \
         XDG_CACHE_HOME={small} exec cargo xtask bench --device cpu --engine apptainer --out {out} \
         --image {image} -- python'",
        small = folder.display(),
        out = home.path("s").display(),
        image = image("old"),
    );
    let told = home.shell("s", &line).ends_with(4);
    assert!(told.contains("no space left on device"), "{told}");
    assert!(
        told.contains("set XDG_CACHE_HOME to a folder with more"),
        "{told}"
    );
}

/// A machine without one, and one whose kernel lets nobody make a container.
#[test]
fn without_apptainer_it_is_said_what_is_missing() {
    let home = Home::new();
    let bin = home.path("bin");
    let bench = |engine: &str| {
        let line = format!(
            "PATH=$PWD:/usr/sbin exec cargo xtask bench --device cpu --engine {engine} --out {} \
             --image {} -- python",
            home.path("s").display(),
            image("old")
        );
        home.shell("s", &line).ends_with(4)
    };
    let told = bench("apptainer");
    assert!(told.contains("no `apptainer` in PATH"), "{told}");
    let words = "echo 'ERROR  : Failed to create user namespace: user namespace disabled' >&2";
    let script =
        format!("#!/bin/sh\n[ $1 = --version ] && echo 1.4.5 && exit\n{words}\nexit 255\n");
    let fake = bin.join("apptainer");
    fs::write(&fake, script).expect("a program");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("a program");
    let told = bench("apptainer");
    for expected in [
        "user namespace disabled",
        "user.max_user_namespaces",
        "apptainer-suid",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    let script = "#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n";
    let fake = bin.join("unshare");
    fs::write(&fake, script).expect("a program");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("a program");
    let told = bench("chroot");
    for expected in ["Operation not permitted", "user.max_user_namespaces"] {
        assert!(told.contains(expected), "{told}");
    }
}

/// A node without an engine takes Apptainer, and without that nothing.
#[test]
fn a_node_that_is_to_choose_runs_nothing_that_is_not_isolated() {
    let home = Home::new();
    home.script(LOOP);
    let run = |line: &str, code: i32| {
        let cache = folder().join("cache").display().to_string();
        let line = format!("export DOCKER_HOST=unix:///nowhere XDG_CACHE_HOME={cache}; {line}");
        home.shell("s", &line).ends_with(code)
    };
    let plan = format!(
        "cargo xtask bench --device cpu --engine nodes --out {} --mount {}:/work/train.py --image {} \
         --blocks 1 --steps 5 -- {} /work/train.py",
        home.path("s").display(),
        home.path("train.py").display(),
        image("old"),
        python().0,
    );
    run(&plan, 3);
    let part = home.path("s/parts/000").display().to_string();
    let told = run(&format!("PATH=$PWD:/usr/sbin cargo xtask node {part}"), 4);
    for expected in [
        "nothing here isolates runs",
        "no `apptainer` in PATH",
        "no pyxis: no `srun` here",
        "engine: process",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    // Nor does it take steps of Slurm's unless it is told to.
    let fake = home.path("bin/srun");
    fs::write(&fake, "#!/bin/sh\necho ' --container-image=IMAGE'\n").expect("a program");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("a program");
    let told = run(&format!("PATH=$PWD:/usr/sbin cargo xtask node {part}"), 4);
    assert!(told.contains("`engine: pyxis` in the profile"), "{told}");
    run(&format!("cargo xtask node {part}"), 0);
    run(
        &format!("cargo xtask bench --resume {}", home.path("s").display()),
        0,
    );
    assert_eq!(home.read("s").1[0].isolation.engine, "apptainer");
}

/// Two sessions that want one image at once make it once, and a third takes it.
#[test]
fn two_who_unpack_one_image_at_once_leave_one_whole() {
    let home = Home::new();
    home.script("");
    let cache = home.path("cache");
    let bench = |name: &str| {
        let line = format!(
            "exec env XDG_CACHE_HOME={} cargo xtask bench --device cpu --engine apptainer --blocks 1 \
             --out {} --image {} -- {} -c 1",
            cache.display(),
            home.path(name).display(),
            image("old"),
            python().0
        );
        home.shell(name, &line)
    };
    let both = [bench("a"), bench("b")];
    for running in both {
        running.ends_with(0);
    }
    let list = |folder: &str| {
        let found = fs::read_dir(cache.join("torchgauge").join(folder));
        found.expect(folder).count()
    };
    assert_eq!((list("sandboxes"), list("tmp")), (1, 0));
    bench("c").ends_with(0);
    let seconds = |name: &str| home.read(name).0.images[0].load_seconds;
    assert_eq!(
        ["a", "b", "c"]
            .iter()
            .filter(|name| seconds(name).is_some())
            .count(),
        1
    );
}
