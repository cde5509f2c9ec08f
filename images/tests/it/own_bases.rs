//! What a base that somebody else made holds, and what it may not do.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use images::{Error, lock::Lock};

use crate::world::{BASE_LIBRARIES, SPEC, World, parts, says};

const STATUS: &str = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\n\
                      Version: 2.36-9+deb12u9\n\nPackage: gone\n\
                      Status: deinstall ok config-files\nVersion: 1\n";
const APK: &str = "C:Q1x\nP:musl\nV:1.2.5-r0\nA:x86_64\n\nP:busybox\nV:1.36.1-r29\nA:x86_64\n";
const NUMPY: &str = "Metadata-Version: 2.1\nName: NumPy\nVersion: 2.1.0\n\nVersion: of the text\n";
const TORCH: &str = "Name: torch\nVersion: 2.9.1+cu128\n\n";
const MKL: &str = r#"{"name": "mkl", "version": "2023.1.0", "subdir": "linux-64"}"#;
const CUDA: &str = r#"{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}"#;

fn with_packages(world: &World) {
    let packages = "usr/lib/python3/dist-packages";
    let numpy = format!("{packages}/numpy-2.1.0.dist-info/METADATA");
    let torch = format!("{packages}/torch-2.9.1.dist-info/METADATA");
    world.base_with(
        &BASE_LIBRARIES,
        &[
            (
                "etc/os-release",
                b"NAME=Debian\nID=debian\nVERSION_ID=\"12\"\n",
            ),
            ("var/lib/dpkg/status", STATUS.as_bytes()),
            ("usr/lib/apk/db/installed", APK.as_bytes()),
            (&numpy, NUMPY.as_bytes()),
            (&torch, TORCH.as_bytes()),
            ("opt/conda/conda-meta/mkl-2023.1.0-0.json", MKL.as_bytes()),
            ("usr/local/cuda/version.json", CUDA.as_bytes()),
            ("var/lib/rpm/rpmdb.sqlite", b"SQLite"),
        ],
    );
}

#[test]
fn the_packages_of_a_base_are_known_without_running_it() {
    let world = World::new("packages");
    with_packages(&world);
    let assembly = world.assemble().unwrap();
    let parts = parts(&assembly);
    let packages: Vec<(&str, &str)> = parts
        .packages
        .iter()
        .map(|(name, version)| (name.as_str(), version.as_str()))
        .collect();
    assert_eq!(
        packages,
        [
            ("busybox", "1.36.1-r29"),
            ("cuda", "12.8.1"),
            ("libc6", "2.36-9+deb12u9"),
            ("mkl", "2023.1.0"),
            ("musl", "1.2.5-r0"),
            ("numpy", "2.1.0"),
            ("torch", "2.9.1+cu128"),
        ]
    );
    assert_eq!(parts.versions["distribution"], "debian 12");

    // The lock keeps them, and a second build reads them out of the cache.
    let file = world.path("x.lock.json");
    assembly.lock.write(&file).unwrap();
    let read = Lock::from_json(&file, &fs::read(&file).unwrap()).unwrap();
    assert_eq!(read, assembly.lock);
    assert_eq!(world.assemble().unwrap().lock, assembly.lock);
}

#[test]
fn what_a_base_would_change_about_runs_is_refused_by_name() {
    let world = World::new("changes-runs");
    let preload = [("etc/ld.so.preload", b"/lib/libevil.so\n" as &[u8])];
    world.base_with(&BASE_LIBRARIES, &preload);
    let error = world.assemble().unwrap_err();
    assert!(matches!(error, Error::Input(_)), "{error:?}");
    says(
        &error,
        &["/etc/ld.so.preload", "allow: [/etc/ld.so.preload]"],
    );
    let allowing = |names: &str| {
        let spec = SPEC.replace("version: 1", "version: 2");
        world.spec(&format!("{spec}allow: [{names}]\n"));
    };
    allowing("/etc/ld.so.preload");
    world.assemble().unwrap();

    // Variables come with the configuration of an image.
    world.base(&BASE_LIBRARIES);
    world.spec(&SPEC.replace(
        "{GREETING: hello}",
        "{OMP_NUM_THREADS: \"3\", LD_PRELOAD: /lib/libx.so, NCCL_VERSION: \"2\"}",
    ));
    let first = world.assemble().unwrap();
    let archive = world.path("images/first.tar");
    first.write_archive(&archive, &world.cache()).unwrap();
    let on_first = SPEC.replace("base.tar", "first.tar");
    world.spec(&on_first);
    says(
        &world.assemble().unwrap_err(),
        &["by LD_PRELOAD, OMP_NUM_THREADS;"],
    );
    let version_2 = on_first.replace("version: 1", "version: 2");
    world.spec(&format!("{version_2}allow: [LD_PRELOAD]\n"));
    says(&world.assemble().unwrap_err(), &["by OMP_NUM_THREADS;"]);
    let own = "{GREETING: hello, OMP_NUM_THREADS: \"1\"}";
    let own = version_2.replace("{GREETING: hello}", own);
    world.spec(&format!("{own}allow: [LD_PRELOAD]\n"));
    let assembly = world.assemble().unwrap();
    assert_eq!(parts(&assembly).environment["OMP_NUM_THREADS"], "1");
}

#[test]
fn errors_show_nothing_of_a_file_that_is_no_archive() {
    const SECRET: &str = "root:$6$hunter2hunter2:19000:0:99999:7:::\n";
    let world = World::new("secret");
    let check = |content: &[u8]| {
        fs::write(world.path("images/base.tar"), content).unwrap();
        let error = world.assemble().unwrap_err();
        assert!(matches!(error, Error::Input(_)), "{error:?}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2"), "{text}");
    };
    check(SECRET.as_bytes());
    check(SECRET.repeat(100).as_bytes());
    // An archive of which a document is no JSON, or other JSON.
    for document in [SECRET, "{\"auths\": \"hunter2\"}", "[\"hunter2\"]"] {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(document.len() as u64);
        let bytes = document.as_bytes();
        archive
            .append_data(&mut header, "manifest.json", bytes)
            .unwrap();
        check(&archive.into_inner().unwrap());
    }
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let world = World::new("no-file");
    let (spec, lock, base) = (
        world.path("images/no-file.yaml"),
        world.path("images/no-file.lock.json"),
        world.path("images/base.tar"),
    );
    let text = fs::read(&spec).unwrap();
    let check = |place: &Path| {
        let begun = Instant::now();
        let mut said = Vec::new();
        for (program, words) in [("mkfifo", "a FIFO"), ("mkdir", "a directory")] {
            let _ = fs::remove_file(place);
            let status = Command::new(program).arg(place).status().unwrap();
            assert!(status.success());
            let error = world.assemble().unwrap_err();
            says(&error, &[words, "expected a file"]);
            says(&error, &[place.file_name().unwrap().to_str().unwrap()]);
            said.push(error);
            let _ = fs::remove_file(place);
        }
        fs::remove_dir(place).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        said
    };
    for error in check(&spec) {
        assert!(matches!(error, Error::Yaml(_)), "{error:?}");
    }
    fs::write(&spec, &text).unwrap();
    for error in check(&lock) {
        assert!(matches!(error, Error::Input(_)), "{error:?}");
    }
    for error in check(&base) {
        assert!(matches!(error, Error::Input(_)), "{error:?}");
    }
}
