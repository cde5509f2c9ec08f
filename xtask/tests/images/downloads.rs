//! Packages and wheels that were damaged, or are not the locked ones, through the real pip and apt.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use images::{
    Digest, Flavour,
    lock::{LibtorchLock, Lock, Wheel, WheelLibrary, WheelsLock},
};
use zip::write::SimpleFileOptions;

use crate::{Checkout, check, world::World};

/// What stands for libtorch.
const LIBTORCH_LIBRARIES: [&str; 2] = ["libc10.so", "libtorch_cpu.so"];
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
    pack(&checkout.world, &mut archive, options);
    archive.finish().unwrap();
}

/// Puts the small world's libtorch's libraries into a wheel.
fn pack(world: &World, wheel: &mut zip::ZipWriter<File>, options: SimpleFileOptions) {
    for name in LIBTORCH_LIBRARIES {
        wheel
            .start_file(format!("torch/lib/{name}"), options)
            .unwrap();
        let mut library = File::open(world.path("torch/lib").join(name)).unwrap();
        io::copy(&mut library, wheel).unwrap();
    }
}

/// The small world's libtorch as a lock names it, out of this wheel.
fn locked_to(world: &World, wheel: &Path) -> LibtorchLock {
    let library = |name: &str| {
        let path = world.path("torch/lib").join(name);
        WheelLibrary {
            name: name.to_owned(),
            wheel: "torch".to_owned(),
            path: format!("torch/lib/{name}"),
            size_bytes: fs::metadata(&path).unwrap().len(),
            sha256: Digest::of_file(&path).unwrap(),
        }
    };
    LibtorchLock::Wheels(WheelsLock {
        version: "2.11.0".to_owned(),
        flavour: Flavour::Cpu,
        name: "2.11.0+cpu".to_owned(),
        wheels: vec![Wheel {
            name: "torch".to_owned(),
            version: "2.11.0".to_owned(),
            file: wheel.file_name().unwrap().to_str().unwrap().to_owned(),
            size_bytes: fs::metadata(wheel).unwrap().len(),
            sha256: Digest::of_file(wheel).unwrap(),
        }],
        headers: Vec::new(),
        wheels_unpacked_bytes: 0,
        libraries: LIBTORCH_LIBRARIES.map(library).to_vec(),
    })
}

/// Turns the lock of the libtorch in a folder into one of the wheel. The image that it promises is
/// another then, for the wheel's name and version are in its configuration.
fn lock_to(checkout: &Checkout, name: &str, wheel: &Path) {
    let file = checkout.world.path(&format!("images/{name}.lock.json"));
    let mut lock = Lock::from_json(&file, &fs::read(&file).unwrap()).unwrap();
    lock.libtorch = locked_to(&checkout.world, wheel);
    lock.expected.image = None;
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

/// Puts the pip that Torchgauge runs into a cache, by the machine's own.
fn fetch_pip(wheels: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(folder.path())
        .arg("pip==25.3")
        .status()
        .expect("python3 runs");
    assert!(status.success(), "these tests fetch pip 25.3 by pip");
    let fetched = folder.path().join("pip-25.3-py3-none-any.whl");
    fs::create_dir_all(wheels).unwrap();
    fs::copy(&fetched, cached(wheels, &fetched)).unwrap();
}

/// Where a package lies in a folder of the cache: by its content and its name.
fn cached(folder: &Path, file: &Path) -> PathBuf {
    let name = file.file_name().unwrap().to_str().unwrap();
    folder.join(format!("{}-{name}", Digest::of_file(file).unwrap().short()))
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
    let wheels = cache.join("wheels");
    fetch_pip(&wheels);
    let cached = cached(&wheels, &index.join(WHEEL));

    let relock = ["lock", "--workload", "cli-wheel"];
    check(&mut by_wheels(&checkout, &relock, &index), 0, &[]);

    let words = ["build", "cli-wheel"];
    let whole = ["the locked image, bit for bit"];
    check(&mut by_wheels(&checkout, &words, &index), 0, &whole);

    // Cut off, and with a byte that has changed.
    let good = fs::read(&cached).unwrap();
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    for damaged in [&good[..good.len() / 2], &changed] {
        forget_libraries(&cache);
        fs::write(&cached, damaged).unwrap();
        let mut command = by_wheels(&checkout, &words, &index);
        check(&mut command, 4, &[WHEEL, "run again to fetch it anew"]);
        check(&mut command, 0, &whole);
        assert_eq!(fs::read(&cached).unwrap(), good);
    }
    let mut command = by_wheels(&checkout, &words, &index);
    // An index that has another file under the same name.
    forget_libraries(&cache);
    let _ = fs::remove_file(&cached);
    wheel(&checkout, "another one", &index.join(WHEEL));
    let (locked, other) = (
        Digest::of(&good),
        Digest::of_file(&index.join(WHEEL)).unwrap(),
    );
    let both = [locked.to_string(), other.to_string()];
    check(
        &mut command,
        4,
        &[&both[0], &both[1], "nothing of it was kept"],
    );
    assert!(!cached.exists());

    fs::write(index.join(WHEEL), &good).unwrap();
    check(&mut by_wheels(&checkout, &words, &index), 0, &whole);
}

#[test]
fn an_image_without_a_lock_gets_one() {
    let checkout = Checkout::new("cli-unlocked");
    let index = checkout.home.path().join("index");
    fs::create_dir(&index).unwrap();
    wheel(&checkout, "the first", &index.join(WHEEL));
    fetch_pip(&checkout.home.path().join("torchgauge/wheels"));
    let to = checkout.home.path().join("image.tar");
    // Assembles the image, and needs no engine.
    let words = ["export", "cli-unlocked", "--to", to.to_str().unwrap()];
    let mut export = by_wheels(&checkout, &words, &index);
    check(
        &mut export,
        0,
        &["locked cli-unlocked in", "cli-unlocked.lock.json"],
    );
    let first = fs::read(&to).unwrap();
    let lock = checkout.world.path("images/cli-unlocked.lock.json");
    assert!(fs::read_to_string(&lock).unwrap().contains(WHEEL));

    // An index that has nothing any more is not asked, but where it is to be locked anew.
    fs::remove_file(index.join(WHEEL)).unwrap();
    let output = check(&mut export, 0, &[]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("locked cli"));
    assert_eq!(fs::read(&to).unwrap(), first);
    let words = ["lock", "cli-unlocked"];
    let mut again = by_wheels(&checkout, &words, &index);
    check(&mut again, 4, &["pip offers no torch==2.11.0"]);

    // What was given on the command line is in nobody else's lock.
    fs::remove_file(&lock).unwrap();
    let words = ["export", "cli-unlocked", "--to", to.to_str().unwrap()];
    checkout.check(&words, 0, &[]);
    assert!(!lock.exists());
}

#[test]
fn a_damaged_package_is_fetched_again_and_the_base_comes_out_the_same() {
    let checkout = Checkout::new("cli-base");
    let cache = checkout.home.path().join("torchgauge");
    let base = |code: i32, expected: &[&str]| {
        let to = checkout.home.path().join("base.tar");
        checkout.check(&["base", "--to", to.to_str().unwrap()], code, expected);
        fs::read(&to).unwrap()
    };
    let first = base(0, &["base.tar"]);
    fs::remove_dir_all(cache.join("bases")).unwrap();
    let packages = fs::read_dir(cache.join("debs")).unwrap();
    let mut packages = packages.map(|entry| entry.unwrap().path());
    let libc = packages.find(|path| path.to_string_lossy().contains("-libc6_"));
    let libc = libc.unwrap();
    let mut bytes = fs::read(&libc).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&libc, bytes).unwrap();
    base(2, &["libc6_", "it was removed from the cache: run again"]);
    assert!(base(0, &[]) == first);
}
