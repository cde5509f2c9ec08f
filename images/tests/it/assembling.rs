//! The same parts give the same image; other parts give another one, or an error that says why.

use std::fs;

use images::{Sources, assemble};

use crate::world::{SPEC, World, layers, parts, says};

#[test]
fn two_folders_give_the_same_image() {
    let (one, two) = (World::new("same"), World::new("same"));
    let (a, b) = (one.assemble().unwrap(), two.assemble().unwrap());
    assert_eq!((a.config_id, a.manifest_id), (b.config_id, b.manifest_id));
    assert_eq!(a.facts, b.facts);
    assert_eq!(a.facts.base.as_deref(), Some("archive base.tar"));
    assert!(
        a.reference.starts_with("torchgauge/same:"),
        "{}",
        a.reference
    );
}

#[test]
fn layers_are_base_libtorch_and_scenario() {
    let assembly = World::new("layers").assemble().unwrap();
    let names: Vec<&str> = assembly
        .facts
        .layers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["base", "libtorch", "scenario"]);
    let environment = parts(&assembly).environment;
    assert_eq!(
        environment["LD_LIBRARY_PATH"],
        "/opt/torchgauge/libtorch/lib"
    );
    assert_eq!(environment["GREETING"], "hello");
    assert_eq!(assembly.facts.flavour, "2.11.0+cpu");
}

#[test]
fn another_library_gives_another_image_with_the_same_base() {
    let world = World::new("changes");
    let before = world.assemble().unwrap();
    world.library("libc10.so", "int c10_answer(void) { return 6; }", &[]);
    let after = world.assemble().unwrap();
    assert_ne!(before.config_id, after.config_id);
    let (before, after) = (layers(&before), layers(&after));
    let same: Vec<bool> = before.iter().zip(&after).map(|(a, b)| a == b).collect();
    assert_eq!(same, [true, false, true]);
}

#[test]
fn other_environment_changes_the_id_and_no_layer() {
    let world = World::new("environment");
    let before = world.assemble().unwrap();
    world.spec(&SPEC.replace("hello", "good day"));
    let after = world.assemble().unwrap();
    assert_ne!(before.config_id, after.config_id);
    assert_eq!(layers(&before), layers(&after));
    let (before, mut after) = (parts(&before), parts(&after));
    assert_eq!(after.environment["GREETING"], "good day");
    after
        .environment
        .insert("GREETING".to_owned(), "hello".to_owned());
    assert_eq!(before, after);
}

#[test]
fn a_scenario_for_a_newer_glibc_is_refused_with_both_versions() {
    let world = World::new("glibc");
    // A C library of its own that offers only an old version.
    fs::write(world.path("old.map"), "GLIBC_2.2.5 { global: *; };\n").unwrap();
    let map = format!("-Wl,--version-script={}", world.path("old.map").display());
    world.library("libc.so.6", "int old;", &[&map, "-nostdlib"]);
    let old = world.path("torch/lib/libc.so.6");
    let mut archive = tar::Builder::new(fs::File::create(world.path("images/base.tar")).unwrap());
    archive
        .append_path_with_name(&old, "usr/lib/libc.so.6")
        .unwrap();
    archive.finish().unwrap();
    fs::remove_file(&old).unwrap();
    let error = world.assemble().unwrap_err();
    says(
        &error,
        &[
            "lack",
            "GLIBC_2.",
            "of libc.so.6",
            "take a newer base",
            "glibc 2.28",
        ],
    );
}

#[test]
fn a_damaged_program_or_library_is_named() {
    let world = World::new("damaged");
    fs::write(world.path("scenario"), "not a program").unwrap();
    says(
        &world.assemble().unwrap_err(),
        &["scenario", "is no scenario binary", "no ELF file"],
    );
    world.program("int torch_answer(void); int main(void) { return torch_answer(); }");
    fs::write(world.path("torch/lib/libc10.so"), "half").unwrap();
    says(
        &world.assemble().unwrap_err(),
        &["libc10.so", "not a readable ELF file"],
    );
}

#[test]
fn an_installed_pytorch_is_found_with_nvidias_libraries() {
    let world = World::new("installed");
    let packages = world.path("images/site-packages");
    fs::create_dir_all(packages.join("nvidia/cu13/lib")).unwrap();
    world.library("libcudart.so.13", "int cudart(void) { return 13; }", &[]);
    world.library(
        "libtorch_cuda.so",
        "int cuda(void) { return 1; }",
        &["-ltorch_cpu"],
    );
    let runtime = world.path("torch/lib/libcudart.so.13");
    let link = runtime.to_str().unwrap().to_owned();
    world.library(
        "libc10_cuda.so",
        "int c10_cuda(void) { return 1; }",
        &[&link],
    );
    fs::rename(&runtime, packages.join("nvidia/cu13/lib/libcudart.so.13")).unwrap();
    fs::rename(world.path("torch"), packages.join("torch")).unwrap();
    fs::remove_file(packages.join("torch/build-version")).unwrap();
    let version = "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n";
    fs::write(packages.join("torch/version.py"), version).unwrap();
    world.spec(&SPEC.replace(
        "{version: 2.11.0, flavour: cpu, from: wheels}",
        "{installed: site-packages}",
    ));
    let sources = Sources {
        libtorch: None,
        ..world.sources()
    };
    let assembly = assemble(&world.read().unwrap(), &sources, &world.cache()).unwrap();
    assert_eq!(assembly.facts.flavour, "2.11.0+cu130");
    let libraries: Vec<&str> = assembly
        .lock
        .libtorch
        .libraries()
        .map(|(name, ..)| name)
        .collect();
    assert_eq!(
        libraries,
        [
            "libc10.so",
            "libc10_cuda.so",
            "libcudart.so.13",
            "libtorch_cpu.so",
            "libtorch_cuda.so"
        ]
    );
    assert!(parts(&assembly).environment["LD_LIBRARY_PATH"].ends_with("/usr/local/nvidia/lib"));
}

#[test]
fn an_image_archive_is_a_base_too() {
    let world = World::new("on-archive");
    let first = world.assemble().unwrap();
    first
        .write_archive(&world.path("images/first.tar"), &world.cache())
        .unwrap();
    world.spec(&SPEC.replace("base.tar", "first.tar"));
    let second = world.assemble().unwrap();
    assert_eq!(second.facts.layers.len(), 5);
    let below = layers(&first);
    assert_eq!(layers(&second)[..below.len()], below);
    assert_eq!(parts(&second).environment["GREETING"], "hello");
}
