//! The real command `cargo xtask images` on small images, and the real engine.

mod downloads;
mod registry;
#[path = "../common/registry.rs"]
mod server;
#[path = "../../../images/tests/it/world.rs"]
#[expect(
    dead_code,
    reason = "these tests need less of the small world than those of the room"
)]
mod world;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use world::{BASE_LIBRARIES, SPEC, World};

/// A checkout with small images in it, and a cache outside of it.
struct Checkout {
    world: World,
    home: tempfile::TempDir,
}

impl Checkout {
    /// An image of this name: one name for each test, for all share the engine.
    fn new(image: &str) -> Self {
        let world = World::new(image);
        fs::create_dir(world.path("scenarios")).unwrap();
        Self {
            world,
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// `xtask images …`, with libtorch and the scenario binary of the small world.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_torchgauge"));
        command
            .arg("images")
            .args(words)
            .current_dir(self.world.path("."))
            .env("XDG_CACHE_HOME", self.home.path())
            .env("LIBTORCH", self.world.path("torch"))
            .env("TORCHGAUGE_SCENARIO", self.world.path("scenario"))
            .env_remove("TORCHGAUGE_BASE");
        command
    }

    #[track_caller]
    fn check(&self, words: &[&str], code: i32, expected: &[&str]) -> Output {
        check(&mut self.command(words), code, expected)
    }

    #[track_caller]
    fn json(&self, words: &[&str], code: i32) -> Value {
        let output = self.check(words, code, &[]);
        serde_json::from_slice(&output.stdout).expect("JSON on standard output")
    }

    fn second_spec(&self, name: &str, yaml: &str) {
        fs::write(self.world.path(&format!("images/{name}.yaml")), yaml).unwrap();
    }

    /// A stand-in for cargo, which compiles the small program in the folder that it is called in.
    fn own_compiler(&self, source: &str) -> PathBuf {
        fs::create_dir(self.world.path("torch/include")).unwrap();
        fs::write(self.world.path("Cargo.lock"), "version = 4\n").unwrap();
        fs::write(self.world.path("scenarios/scenario.c"), source).unwrap();
        let script = self.home.path().join("cargo");
        let text = r#"#!/bin/sh
set -e
while [ $# -gt 0 ]; do
    if [ "$1" = --target-dir ]; then target=$2; fi
    shift
done
mkdir -p "$target"
cc -DFOLDER="\"$PWD\"" scenarios/scenario.c -o "$target/scenario" -L"$LIBTORCH/lib" \
    -Wl,--no-as-needed -Wl,--allow-shlib-undefined -Wl,--build-id=none -ltorch_cpu -lc10
echo "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"scenario\"},\"executable\":\"$target/scenario\"}"
"#;
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        script
    }
}

#[track_caller]
fn check(command: &mut Command, code: i32, expected: &[&str]) -> Output {
    let output = command.output().expect("torchgauge runs");
    let all = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(code), "{command:?}:\n{all}");
    for part in expected {
        assert!(all.contains(part), "{command:?}: no `{part}` in\n{all}");
    }
    output
}

const PLAIN: &str = "int torch_answer(void); int main(void) { return torch_answer(); }\n";

#[test]
fn an_image_is_the_same_from_another_folder_and_with_an_empty_cache() {
    let name = "cli-folder";
    let locked = |source: &str| {
        let checkout = Checkout::new(name);
        let cargo = checkout.own_compiler(source);
        let mut command = checkout.command(&["lock", name]);
        command
            .env("CARGO", cargo)
            .env_remove("TORCHGAUGE_SCENARIO");
        check(&mut command, 0, &[]);
        let lock = fs::read(checkout.world.path("images/cli-folder.lock.json")).unwrap();
        serde_json::from_slice::<Value>(&lock).unwrap()["expected"].clone()
    };
    assert_eq!(locked(PLAIN), locked(PLAIN));
    let source = format!("const char *folder = FOLDER;\n{PLAIN}");
    let (one, two) = (locked(&source), locked(&source));
    assert_eq!(one["layers"], two["layers"]);
    assert_ne!(one["image"]["scenario"], two["image"]["scenario"]);
}

#[test]
fn a_binary_is_compiled_once_for_all_images_and_again_for_other_sources() {
    let checkout = Checkout::new("cli-kept");
    let cargo = checkout.own_compiler(PLAIN);
    checkout.second_spec("cli-kept-too", &SPEC.replace("hello", "hi"));
    let broken = checkout.home.path().join("broken");
    fs::write(&broken, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let lock = |words: &[&str], cargo: &Path, code: i32, expected: &[&str]| {
        let mut command = checkout.command(words);
        command
            .env("CARGO", cargo)
            .env_remove("TORCHGAUGE_SCENARIO");
        check(&mut command, code, expected);
    };
    let small = ["lock", "cli-kept", "--cache-size", "1kB"];
    lock(
        &small,
        &cargo,
        0,
        &["of at most 0.0 GB (--cache-size): all of it is in use"],
    );
    lock(&["lock", "cli-kept-too"], &broken, 0, &["sha256:"]);
    lock(
        &["lock", "cli-kept", "--cache-size", "much"],
        &broken,
        2,
        &["--cache-size"],
    );
    let library = checkout.world.path("torch/lib/libtorch_cpu.so");
    let mut bytes = fs::read(&library).unwrap();
    bytes.push(0);
    fs::write(&library, bytes).unwrap();
    lock(
        &["lock", "cli-kept"],
        &broken,
        4,
        &["building the scenario binary"],
    );
    lock(&["lock", "cli-kept"], &cargo, 0, &["sha256:"]);
    lock(&["lock", "cli-kept-too"], &broken, 0, &["sha256:"]);
    fs::write(checkout.world.path("scenarios/new.rs"), "// new").unwrap();
    lock(
        &["lock", "cli-kept"],
        &broken,
        4,
        &["building the scenario binary"],
    );
}

#[test]
fn a_lock_is_written_and_inspected() {
    let checkout = Checkout::new("cli-lock");
    checkout.check(
        &["build", "--locked", "cli-lock"],
        2,
        &["has no lock", "images lock cli-lock"],
    );
    let before = checkout.json(&["inspect", "cli-lock"], 0);
    assert_eq!(
        (&before["lock"], &before["locked"]),
        (&"none".into(), &Value::Null)
    );

    checkout.check(&["lock", "cli-lock"], 0, &["cli-lock.lock.json", "sha256:"]);
    checkout.check(
        &["build", "cli-lock"],
        0,
        &["the locked image, bit for bit"],
    );
    let found = checkout.json(&["inspect", "cli-lock"], 0);
    assert_eq!(found["lock"], "fits");
    let layers = found["locked"]["expected"]["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 2);
    let text = checkout.check(
        &["inspect", "cli-lock"],
        0,
        &["\"name\": \"libtorch\"", "rustc 1."],
    );
    let id = found["locked"]["expected"]["image"]["config_id"]
        .as_str()
        .unwrap();
    assert!(String::from_utf8_lossy(&text.stdout).contains(id));

    checkout.check(&["prune", "cli-lock"], 0, &["removed"]);

    // A lock that was edited by hand is refused, and locking anew needs no cleaning up.
    let lock = checkout.world.path("images/cli-lock.lock.json");
    let good = fs::read_to_string(&lock).unwrap();
    fs::write(&lock, good.replace("2.11.0", "2.12.1")).unwrap();
    checkout.check(
        &["build", "cli-lock"],
        2,
        &[
            "edited by hand",
            "make it anew with `cargo xtask images lock`",
        ],
    );
    checkout.check(&["lock", "cli-lock"], 0, &["cli-lock.lock.json"]);
    assert_eq!(fs::read_to_string(&lock).unwrap(), good);

    // A base that is another one by now, and a spec that was edited.
    checkout
        .world
        .base(&["libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6"]);
    checkout.world.spec(&SPEC.replace("hello", "good day"));
    let after = checkout.json(&["inspect", "cli-lock"], 0);
    assert_eq!(after["lock"], "outdated");
    checkout.check(
        &["build", "cli-lock"],
        2,
        &["the spec was changed after it was locked"],
    );
}

#[test]
fn the_workload_is_locked_anew_on_top_of_the_packages() {
    let checkout = Checkout::new("cli-workload");
    checkout.check(&["lock", "--workload", "cli-workload"], 2, &["has no lock"]);
    checkout.check(&["lock", "cli-workload"], 0, &[]);
    let id = |found: &Value| {
        found["locked"]["expected"]["image"]["config_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let before = checkout.json(&["inspect", "cli-workload"], 0);
    checkout.world.program(PLAIN);
    checkout.check(
        &["build", "cli-workload"],
        0,
        &["which is another: this one was given"],
    );
    checkout.check(
        &["lock", "--workload", "cli-workload"],
        0,
        &["cli-workload.lock.json"],
    );
    checkout.check(
        &["build", "cli-workload"],
        0,
        &["the locked image, bit for bit"],
    );
    checkout.check(&["prune", "cli-workload"], 0, &["removed"]);
    let after = checkout.json(&["inspect", "cli-workload"], 0);
    assert_ne!(id(&before), id(&after));
    assert_eq!(before["locked"]["libtorch"], after["locked"]["libtorch"]);
    let layers = |found: &Value| found["locked"]["expected"]["layers"].clone();
    assert_eq!(layers(&before), layers(&after));
}

#[test]
fn mistakes_have_the_exit_code_of_bad_usage() {
    let checkout = Checkout::new("cli-mistakes");
    for words in [["build", "cli-mistake"], ["inspect", "cli-mistake"]] {
        checkout.check(&words, 2, &["did you mean `cli-mistakes`?"]);
    }
    let nothing = ["there is no image `nothing`"];
    checkout.check(&["inspect", "nothing"], 2, &nothing);
    checkout.world.spec(&SPEC.replace("2.11.0", "1.0.0"));
    checkout.check(
        &["build", "cli-mistakes"],
        2,
        &[
            "no tch compiles against torch `1.0.0`",
            "expected 2.5 or newer",
            "cli-mistakes.yaml:4",
        ],
    );
    checkout.world.spec(SPEC);
    checkout.check(&["build", "--locked", "cli-mistakes"], 2, &["has no lock"]);
}

#[test]
fn images_are_built_listed_and_pruned() {
    let checkout = Checkout::new("cli-prune");
    checkout.second_spec("cli-prune-b", &SPEC.replace("hello", "other"));
    checkout.check(&["prune", "cli-prune", "cli-prune-b"], 0, &[]);
    checkout.check(&["lock", "cli-prune"], 0, &[]);
    let built = checkout.json(
        &["build", "cli-prune", "cli-prune-b", "--format", "json"],
        0,
    );
    assert_eq!(built[0]["lock"]["state"], "matches");
    for one in built.as_array().unwrap() {
        assert!(
            one["id"] == one["config_id"] || one["id"] == one["manifest_id"],
            "{one}"
        );
    }
    checkout.check(
        &["build", "cli-prune"],
        0,
        &["has it already", "bit for bit"],
    );

    let listed = checkout.json(&["list", "--format", "json"], 0);
    let names: Vec<&Value> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["image"])
        .collect();
    assert_eq!(names, ["cli-prune", "cli-prune-b"]);
    assert_eq!(listed[0]["engines"][0]["locked"], true);
    assert_eq!(listed[1]["engines"][0]["locked"], false);
    checkout.check(&["list"], 0, &["as locked", "fits", "A small world"]);
    checkout.check(
        &["inspect", "cli-prune"],
        0,
        &["\"locked\": true", "torchgauge/cli-prune:"],
    );

    let dry = ["prune", "cli-prune", "cli-prune-b", "--dry-run"];
    checkout.check(&dry, 0, &["would remove", "torchgauge/cli-prune-b:"]);
    let pruned = checkout.json(
        &[
            "prune",
            "cli-prune",
            "cli-prune-b",
            "--keep",
            "cli-prune",
            "--format",
            "json",
        ],
        0,
    );
    assert_eq!(pruned["dry_run"], false);
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 1, "{pruned}");
    assert_eq!(pruned["removed"][0]["image"], "cli-prune-b");
    let listed = checkout.json(&["list", "--format", "json"], 0);
    assert_eq!(listed[0]["engines"].as_array().unwrap().len(), 1);
    assert_eq!(listed[1]["engines"], serde_json::json!([]));
    checkout.check(&["prune", "cli-prune"], 0, &["removed"]);
    checkout.check(&["prune", "cli-prune"], 0, &["nothing to remove"]);
}

#[test]
fn an_image_whose_spec_is_a_file_is_pruned_by_its_name_or_file() {
    let checkout = Checkout::new("cli-own");
    let own = checkout.world.path("own");
    fs::create_dir(&own).unwrap();
    let spec = own.join("cli-own-nightly.yaml");
    fs::write(&spec, SPEC.replace("base.tar", "../images/base.tar")).unwrap();
    let file = "own/cli-own-nightly.yaml";
    checkout.check(&["build", file], 0, &["torchgauge/cli-own-nightly:"]);
    let would = ["would remove torchgauge/cli-own-nightly:"];
    checkout.check(&["prune", "cli-own-nightly", "--dry-run"], 0, &would);
    checkout.check(&["prune", "cli-other"], 2, &["named by its file"]);
    checkout.check(&["prune", "own/absent.yaml"], 2, &["absent.yaml"]);
    let kept = ["prune", file, "--keep", file];
    checkout.check(&kept, 0, &["nothing to remove"]);
    let removed = ["removed torchgauge/cli-own-nightly:"];
    checkout.check(&["prune", file], 0, &removed);
}

#[test]
fn an_image_that_cannot_be_read_hides_no_other() {
    let checkout = Checkout::new("cli-list");
    checkout.second_spec("cli-list-a", "version: 1\ndescription: [\n");
    checkout.second_spec("cli-list-b", SPEC);
    let lock = checkout.world.path("images/cli-list-b.lock.json");
    fs::write(lock, "{").unwrap();
    checkout.check(&["list"], 2, &["A small world", "cli-list-a.yaml:2"]);
    let listed = checkout.json(&["list", "--format", "json"], 2);
    let locks: Vec<(&Value, &Value)> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["image"], &one["lock"]))
        .collect();
    let expected = [
        ("cli-list", "none"),
        ("cli-list-a", "unreadable"),
        ("cli-list-b", "unreadable"),
    ];
    let expected = expected.map(|(image, lock)| (Value::from(image), Value::from(lock)));
    assert_eq!(
        locks,
        expected.each_ref().map(|(image, lock)| (image, lock))
    );
}

#[test]
fn what_is_given_is_checked_before_anything_is_fetched() {
    let checkout = Checkout::new("cli-given");
    let to = checkout.home.path().join("image.tar");
    let words = ["export", "cli-given", "--to", to.to_str().unwrap()];
    // No pip and no apt: whoever looks for them first fails otherwise.
    let without_tools = || {
        let mut command = checkout.command(&words);
        command.env("PATH", "/nothing").env_remove("LIBTORCH");
        command
    };
    check(&mut without_tools(), 4, &["`python3` is needed"]);
    let text = checkout.home.path().join("script.sh");
    fs::write(&text, "#!/bin/sh\n").unwrap();
    for (file, why) in [
        (Path::new("/bin/true"), "it links no libtorch"),
        (&text, "it is no ELF file"),
        (checkout.home.path(), "it is a directory"),
        (Path::new("/absent"), "No such file"),
    ] {
        let mut command = without_tools();
        command.env("TORCHGAUGE_SCENARIO", file);
        let named = format!("{} is no scenario binary: {why}", file.display());
        check(&mut command, 2, &[&named, "for x86-64 Linux"]);
    }

    let base = checkout.world.path("images/base.tar");
    let whole = fs::read(&base).unwrap();
    fs::write(&base, &whole[..whole.len() / 2]).unwrap();
    check(&mut without_tools(), 2, &["base.tar", "it is cut off"]);
    fs::write(&base, &whole).unwrap();
    let mut command = without_tools();
    command.env("TORCHGAUGE_BASE", "/absent.tar");
    check(&mut command, 2, &["/absent.tar", "there is no such file"]);

    // Where the base is Debian's, a libtorch of this machine comes before its packages.
    checkout
        .world
        .spec(&SPEC.replace("{archive: base.tar}", "debian"));
    let mut command = without_tools();
    command.env("LIBTORCH", "/absent");
    check(&mut command, 2, &["/absent is no libtorch folder"]);
    let folder = checkout.home.path().to_str().unwrap();
    for (to, code) in [("/absent/image.tar", 4), (folder, 2)] {
        let mut command = checkout.command(&["export", "cli-given", "--to", to]);
        command.env("PATH", "/nothing").env_remove("LIBTORCH");
        let named = to.trim_end_matches("/image.tar");
        check(&mut command, code, &[named]);
        let mut command = checkout.command(&["base", "--to", to]);
        check(command.env("PATH", "/nothing"), code, &[named]);
    }
}

#[test]
fn an_image_of_any_size_takes_little_memory() {
    let checkout = Checkout::new("cli-large");
    let library = checkout.world.path("torch/lib/libtorch_cpu.so");
    // What follows an ELF file's parts is nobody's; on disk it is a hole.
    let file = fs::File::options().write(true).open(library).unwrap();
    file.set_len(700_000_000).unwrap();
    let to = checkout.home.path().join("image.tar");
    let mut export = checkout
        .command(&["export", "cli-large", "--to", to.to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .expect("torchgauge runs");
    let status = format!("/proc/{}/status", export.id());
    let mut peak_kib = 0;
    while export.try_wait().unwrap().is_none() {
        // The kernel's own count of the most so far; the last look tells.
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak.unwrap_or(peak_kib);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(export.wait().unwrap().success());
    assert!(fs::metadata(&to).unwrap().len() > 700_000_000);
    assert!((1_000..300_000).contains(&peak_kib), "{peak_kib} KiB");
}

#[test]
fn two_builds_of_one_image_at_once_agree() {
    let checkout = Checkout::new("cli-at-once");
    checkout.check(&["prune", "cli-at-once"], 0, &[]);
    let words = ["build", "cli-at-once", "--format", "json"];
    let builds: Vec<_> = (0..2)
        .map(|_| {
            let mut command = checkout.command(&words);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("torchgauge runs")
        })
        .collect();
    let mut built = Vec::new();
    for build in builds {
        let output = build.wait_with_output().expect("torchgauge ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        built.push(found[0].clone());
    }
    assert_eq!(built[0]["id"], built[1]["id"]);
    let loads = [&built[0]["loaded"], &built[1]["loaded"]];
    assert!(loads.contains(&&"already-there".into()), "{loads:?}");
    checkout.check(&["prune", "cli-at-once"], 0, &["removed"]);
}

#[test]
fn a_full_disk_is_said_and_the_next_build_succeeds() {
    let checkout = Checkout::new("cli-full-disk");
    checkout.check(&["prune", "cli-full-disk"], 0, &[]);
    // A PyTorch inside the base, which is taken out into the cache, with much beside it.
    let layer = checkout.world.path("layer.tar");
    let mut archive = tar::Builder::new(fs::File::create(&layer).unwrap());
    for (name, folder) in [
        ("libc.so.6", "lib/x86_64-linux-gnu"),
        ("ld-linux-x86-64.so.2", "lib64"),
    ] {
        let from = fs::canonicalize(Path::new("/lib/x86_64-linux-gnu").join(name)).unwrap();
        archive
            .append_path_with_name(from, format!("{folder}/{name}"))
            .unwrap();
    }
    for name in ["libc10.so", "libtorch_cpu.so"] {
        let from = checkout.world.path("torch/lib").join(name);
        archive
            .append_path_with_name(from, format!("packages/torch/lib/{name}"))
            .unwrap();
    }
    for (name, size) in [("version.py", 0), ("include/large.h", 6 << 20)] {
        let mut content = b"__version__ = '2.11.0'\n".to_vec();
        content.resize(content.len() + size, b' ');
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, format!("packages/torch/{name}"), &content[..])
            .unwrap();
    }
    archive.into_inner().unwrap();
    fs::rename(&layer, checkout.world.path("images/base.tar")).unwrap();
    checkout.world.spec(&SPEC.replace(
        "{version: 2.11.0, flavour: cpu, from: wheels}",
        "{inside: auto, flavour: cpu}",
    ));

    // A disk of 4 MB in a namespace of its own, which is larger the second time.
    let build = checkout.command(&["build", "cli-full-disk"]);
    let script = format!(
        "mount -t tmpfs -o size=4m tmpfs {cache} && {{ {xtask} images build cli-full-disk; \
         echo \"first: $?\"; mount -o remount,size=64m {cache}; \
         {xtask} images build cli-full-disk; echo \"second: $?\"; }}",
        cache = checkout.home.path().display(),
        xtask = env!("CARGO_BIN_EXE_torchgauge"),
    );
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(checkout.world.path("."))
        .envs(
            build
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env_remove("LIBTORCH");
    check(
        &mut command,
        0,
        &[
            "first: 4",
            "No space left on device",
            "free some space there and run again",
            "second: 0",
        ],
    );
    checkout.check(&["prune", "cli-full-disk"], 0, &["removed"]);
}

#[test]
fn the_engine_is_the_one_that_was_named() {
    let checkout = Checkout::new("cli-endpoint");
    let nowhere = format!("unix://{}/nobody.sock", checkout.home.path().display());
    let mut command = checkout.command(&["build", "cli-endpoint"]);
    command.env("DOCKER_HOST", &nowhere);
    check(
        &mut command,
        4,
        &["DOCKER_HOST", "no such socket", "Start one"],
    );

    let config = checkout.home.path();
    fs::write(config.join("config.json"), r#"{"currentContext": "lab"}"#).unwrap();
    let mut command = checkout.command(&["build", "cli-endpoint"]);
    command
        .env_remove("DOCKER_HOST")
        .env_remove("DOCKER_CONTEXT")
        .env("DOCKER_CONFIG", config);
    check(
        &mut command,
        4,
        &["Docker context lab", "docker context ls"],
    );
    write_context(config, &nowhere);
    check(&mut command, 4, &["Docker context lab", "nobody.sock"]);
    write_context(config, "tcp://lab:2376");
    check(
        &mut command,
        4,
        &["Docker context lab", "only Unix sockets", "images push"],
    );
}

/// A context named `lab`, as the docker command keeps it: the folder is the name's SHA-256.
fn write_context(config: &Path, host: &str) {
    let digest = images::Digest::of(b"lab").hex();
    let folder = config.join("contexts/meta").join(digest);
    fs::create_dir_all(&folder).unwrap();
    let meta = serde_json::json!({
        "Name": "lab",
        "Metadata": {},
        "Endpoints": {"docker": {"Host": host}},
    });
    fs::write(folder.join("meta.json"), meta.to_string()).unwrap();
}

#[test]
fn an_image_is_held_against_a_driver_by_its_layers() {
    let checkout = Checkout::new("cli-driver");
    let files: [(&str, &[u8]); 3] = [
        ("usr/lib/python3/torch/version.py", b"cuda = '12.8'\n"),
        ("usr/local/cuda/compat/libcuda.so.570.86.10", b""),
        ("etc/ld.so.conf.d/00-cuda.conf", b"/usr/local/cuda/compat\n"),
    ];
    checkout.world.base_with(&BASE_LIBRARIES, &files);
    let inspect = |more: &[&str], code, expected: &[&str]| {
        let words = [&["inspect", "images/base.tar"], more].concat();
        checkout.check(&words, code, expected);
    };
    let starts = "images/base.tar starts on driver 550";
    inspect(
        &["--driver", "550"],
        0,
        &["ok     CUDA: 12.8", "804", starts],
    );
    let not = "would not start on driver 580: compat libraries";
    inspect(
        &["--driver", "580"],
        1,
        &["fails  compat libraries", "803", not],
    );
    inspect(&["--driver", "new"], 2, &["`new` is no version"]);
    inspect(
        &["--driver", "580", "--gpu", "H100"],
        2,
        &["known are sm_50"],
    );
    inspect(&["--gpu", "sm_90"], 2, &["--driver"]);
}
