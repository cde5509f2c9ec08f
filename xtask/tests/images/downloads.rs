//! Packages and wheels that were damaged, or are not the locked ones, through the real pip and apt.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use images::{Digest, lock::Lock};

use crate::{Checkout, check};

const WHEEL: &str = "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl";

/// The small world's libtorch as a wheel that pip takes, with this text beside it.
fn wheel(checkout: &Checkout, text: &str, place: &Path) {
    let mut archive = zip::ZipWriter::new(File::create(place).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    let tags = "cp311-cp311-manylinux_2_28_x86_64";
    for (name, content) in [
        ("torch/text", text.to_owned()),
        (
            "torch-2.11.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n".to_owned(),
        ),
        (
            "torch-2.11.0.dist-info/WHEEL",
            format!("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tags}\n"),
        ),
        ("torch-2.11.0.dist-info/RECORD", String::new()),
    ] {
        archive.start_file(name, options).unwrap();
        io::Write::write_all(&mut archive, content.as_bytes()).unwrap();
    }
    checkout.world.pack(&mut archive, options);
    archive.finish().unwrap();
}

/// Turns the lock of the libtorch in a folder into one of the wheel.
fn lock_to(checkout: &Checkout, name: &str, wheel: &Path) {
    let file = checkout.world.path(&format!("images/{name}.lock.json"));
    let mut lock = Lock::from_json(&file, &fs::read(&file).unwrap()).unwrap();
    lock.libtorch = checkout.world.locked_to(wheel);
    lock.sealed().write(&file).unwrap();
}

/// Without the libtorch folder, and with an index of its own for pip.
fn by_wheels(checkout: &Checkout, words: &[&str], index: &Path) -> Command {
    let mut command = checkout.command(words);
    command
        .env_remove("LIBTORCH")
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", index);
    command
}

/// The pip that Torchgauge runs, which is fetched by the machine's own.
fn fetch_pip(to: &Path) {
    let status = Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(to)
        .arg("pip==25.3")
        .status()
        .expect("python3 runs");
    assert!(status.success(), "these tests fetch pip 25.3 by pip");
}

/// Has a cache lose what was unpacked of wheels.
fn forget_libraries(cache: &Path) {
    for folder in ["libtorch", "libraries"] {
        fs::remove_dir_all(cache.join(folder)).unwrap();
    }
}

#[test]
fn a_damaged_wheel_is_fetched_again_and_another_one_is_refused() {
    let checkout = Checkout::new("cli-wheel");
    checkout.check(&["lock", "cli-wheel"], 0, &[]);
    let index = checkout.home.path().join("index");
    fs::create_dir(&index).unwrap();
    wheel(&checkout, "the locked one", &index.join(WHEEL));
    lock_to(&checkout, "cli-wheel", &index.join(WHEEL));
    let cache = checkout.home.path().join("torchgauge");
    let cached = cache.join("wheels");
    fetch_pip(&cached);

    let words = ["verify", "cli-wheel"];
    let whole = ["identical", "the locked image, bit for bit"];
    check(&mut by_wheels(&checkout, &words, &index), 0, &whole);

    // Cut off, and with a byte that has changed.
    let good = fs::read(cached.join(WHEEL)).unwrap();
    let mut changed = good.clone();
    changed[40] ^= 1;
    for damaged in [&good[..good.len() / 2], &changed] {
        forget_libraries(&cache);
        fs::write(cached.join(WHEEL), damaged).unwrap();
        let mut command = by_wheels(&checkout, &words, &index);
        check(
            &mut command,
            0,
            &["is damaged", "fetching it again", whole[0], whole[1]],
        );
        assert_eq!(fs::read(cached.join(WHEEL)).unwrap(), good);
    }

    // An index that has another file under the same name.
    forget_libraries(&cache);
    fs::remove_file(cached.join(WHEEL)).unwrap();
    wheel(&checkout, "another one", &index.join(WHEEL));
    let (locked, other) = (
        Digest::of(&good),
        Digest::of_file(&index.join(WHEEL)).unwrap(),
    );
    let mut command = by_wheels(&checkout, &words, &index);
    let both = [locked.to_string(), other.to_string()];
    check(
        &mut command,
        4,
        &[&both[0], &both[1], "nothing of it was kept"],
    );
    assert!(!cached.join(WHEEL).exists());

    fs::write(index.join(WHEEL), &good).unwrap();
    check(&mut by_wheels(&checkout, &words, &index), 0, &whole);
}

#[test]
fn pip_is_asked_once_for_an_image_without_a_lock() {
    let checkout = Checkout::new("cli-unlocked");
    let index = checkout.home.path().join("index");
    fs::create_dir(&index).unwrap();
    wheel(&checkout, "the first", &index.join(WHEEL));
    let cache = checkout.home.path().join("torchgauge");
    fs::create_dir_all(cache.join("wheels")).unwrap();
    fetch_pip(&cache.join("wheels"));
    let to = checkout.home.path().join("image.tar");
    // Assembles the image, and needs no engine.
    let export = |code: i32, expected: &[&str]| {
        let words = ["export", "cli-unlocked", "--to", to.to_str().unwrap()];
        let output = check(&mut by_wheels(&checkout, &words, &index), code, expected);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.contains("is what pip resolved")
    };
    assert!(!export(0, &["image.tar"]));
    let first = fs::read(cache.join("wheels").join(WHEEL)).unwrap();

    // An index that has nothing any more is not asked: but where its answer is to be written down.
    fs::remove_file(index.join(WHEEL)).unwrap();
    let kept = [
        "torch 2.11.0 has no lock",
        "pip resolved within the last hour",
        "cargo xtask images lock NAME",
        "cargo xtask images prune --cache=resolved",
    ];
    assert!(export(0, &kept));
    let lock = ["lock", "cli-unlocked"];
    check(
        &mut by_wheels(&checkout, &lock, &index),
        4,
        &["pip offers no torch==2.11.0"],
    );
    let cleared = ["resolved/torch-2.11.0-cpu-", "removed "];
    checkout.check(&["prune", "--cache=resolved"], 0, &cleared);
    export(4, &["pip offers no torch==2.11.0"]);
    fs::write(index.join(WHEEL), &first).unwrap();
    assert!(!export(0, &[]));

    // What was kept has another content in the index by now, and the cache has lost it.
    wheel(&checkout, "the second", &index.join(WHEEL));
    fs::remove_file(cache.join("wheels").join(WHEEL)).unwrap();
    forget_libraries(&cache);
    assert!(export(0, &["has the wrong content", "asking pip anew"]));
    let second = fs::read(cache.join("wheels").join(WHEEL)).unwrap();
    assert_ne!(first, second);
    assert!(export(0, &kept));

    // Another index is another question.
    let other = checkout.home.path().join("other");
    fs::create_dir(&other).unwrap();
    let words = ["export", "cli-unlocked", "--to", to.to_str().unwrap()];
    check(
        &mut by_wheels(&checkout, &words, &other),
        4,
        &["pip offers no torch==2.11.0"],
    );
}

/// Changes a byte in the middle of every file in a folder whose name ends so.
fn damage(folder: &Path, end: &str) -> usize {
    let files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    for file in &files {
        let mut bytes = fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(file, bytes).unwrap();
    }
    files.len()
}

#[test]
fn a_damaged_package_or_base_is_made_again_and_comes_out_the_same() {
    let checkout = Checkout::new("cli-base");
    let cache = checkout.home.path().join("torchgauge");
    let base = |expected: &[&str]| {
        let to = checkout.home.path().join("base.tar");
        checkout.check(&["base", "--to", to.to_str().unwrap()], 0, expected);
        Digest::of_file(&to).unwrap()
    };
    let first = base(&["base.tar"]);

    // What apt keeps of its lists is checked by apt.
    let read = cache.join("resolved/apt-lists.bin");
    let size = fs::metadata(&read).unwrap().len();
    for damaged in [vec![7; 100], vec![0; usize::try_from(size).unwrap()]] {
        fs::write(&read, damaged).unwrap();
        fs::remove_dir_all(cache.join("bases")).unwrap();
        assert_eq!(base(&[]), first);
    }

    assert_eq!(damage(&cache.join("bases"), ".tar"), 1);
    assert_eq!(
        base(&["the cached debian-", "is damaged; it is made again"]),
        first
    );

    fs::remove_dir_all(cache.join("bases")).unwrap();
    assert_eq!(damage(&cache.join("debs"), ".deb"), 7);
    assert_eq!(base(&["libc6_", "is damaged", "fetching it again"]), first);
}
