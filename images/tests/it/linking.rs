//! Whether the loader will find everything, told before anything is loaded.

use std::{fs, path::Path, process::Command};

use images::Error;

use crate::{
    bases::{PACKAGES, Parts, assemble_inside, inside, torch_layer},
    world::{BASE_LIBRARIES, SPEC, World, parts, says},
};

/// A library of its own, compiled beside the small world.
fn library(world: &World, name: &str, source: &str, arguments: &[&str]) -> Vec<u8> {
    let text = world.path("library.c");
    fs::write(&text, source).unwrap();
    let place = world.path(name);
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", &format!("-Wl,-soname,{name}"), "-o"])
        .args([&place, &text])
        .args(arguments)
        .status()
        .unwrap();
    assert!(status.success());
    fs::read(place).unwrap()
}

/// Has libtorch need `libcupti.so.12`, as PyTorch's does, and gives that library's bytes.
fn needing_cupti(world: &World, arguments: &[&str]) -> Vec<u8> {
    let cupti = library(
        world,
        "libcupti.so.12",
        "int cupti(void) { return 1; }",
        &[],
    );
    let file = world.path("libcupti.so.12");
    let mut links = vec!["-lc10", file.to_str().unwrap()];
    links.extend(arguments);
    world.library(
        "libtorch_cpu.so",
        "int cupti(void);\nint torch_answer(void) { return 41 + cupti(); }\n",
        &links,
    );
    cupti
}

#[test]
fn a_library_that_the_loader_does_not_find_is_named_with_where_it_lies() {
    let world = World::new("hidden");
    let cupti = needing_cupti(&world, &[]);
    let error = world.assemble().unwrap_err();
    assert!(matches!(error, Error::Input(_)), "{error:?}");
    says(&error, &["lack libcupti.so.12", "libtorch_cpu.so"]);

    let hidden = [("opt/cuda/extras/libcupti.so.12", cupti.as_slice())];
    world.base_with(&BASE_LIBRARIES, &hidden);
    let error = world.assemble().unwrap_err();
    says(
        &error,
        &["the base has /opt/cuda/extras/libcupti.so.12, where the loader does not look"],
    );

    world.base_with(&BASE_LIBRARIES, &[("usr/lib/libcupti.so.12", &cupti)]);
    world.assemble().unwrap();
}

/// An image with PyTorch in it, and what PyTorch needs in a folder that its variables alone name.
fn owned(world: &World, variable: &str) {
    let driver = library(world, "libcuda.so.1", "int cu_init;", &[]);
    let file = world.path("libcuda.so.1");
    let cupti = needing_cupti(world, &["-Wl,--no-as-needed", file.to_str().unwrap()]);
    let files = [
        ("opt/team/lib/libcupti.so.12", cupti.as_slice()),
        // Another libtorch than the one that is measured.
        ("opt/team/lib/libtorch_cpu.so", cupti.as_slice()),
        // What CUDA brings for forward compatibility is the driver's, and no part of libtorch.
        ("opt/compat/libcuda.so.1", driver.as_slice()),
    ];
    world.base_with(&BASE_LIBRARIES, &files);
    let root = fs::read(world.path("images/base.tar")).unwrap();
    let layers = vec![root, torch_layer(world, PACKAGES)];
    Parts::with_environment(&[variable], layers, false)
        .save("x:1", &world.path("images/owned.tar"));
}

#[test]
fn the_loader_looks_where_the_base_has_it_look_after_everything_else() {
    const OWN: &str = "LD_LIBRARY_PATH=lib:./lib::/opt/absent:/opt/compat;/opt/team/lib/:\
                       /opt/team/lib:/usr/lib/x86_64-linux-gnu:";
    let world = World::new("own-path");
    let refused = [
        "the base has /opt/team/lib/libcupti.so.12",
        "the folder is not in the base's LD_LIBRARY_PATH",
    ];
    inside(&world, "{archive: owned.tar}");
    owned(&world, "PATH=/usr/bin");
    says(&assemble_inside(&world).unwrap_err(), &refused);
    owned(&world, OWN);
    let assembly = assemble_inside(&world).unwrap();
    let path = |first: &str| format!("{first}:/opt/compat:/opt/team/lib:/usr/lib/x86_64-linux-gnu");
    let torch = format!("/{PACKAGES}/torch/lib");
    assert_eq!(
        parts(&assembly).environment["LD_LIBRARY_PATH"],
        path(&torch)
    );
    let libraries = parts(&assembly).libraries;
    let names: Vec<&str> = libraries.keys().map(String::as_str).collect();
    assert_eq!(names, ["libc10.so", "libcupti.so.12", "libtorch_cpu.so"]);

    // The same below a libtorch out of wheels.
    world.spec(&SPEC.replace("base.tar", "owned.tar"));
    owned(&world, "PATH=/usr/bin");
    says(&world.assemble().unwrap_err(), &refused);
    owned(&world, OWN);
    assert_eq!(
        parts(&world.assemble().unwrap()).environment["LD_LIBRARY_PATH"],
        path("/opt/torchgauge/libtorch/lib")
    );
}

#[test]
fn folders_that_a_library_names_are_searched() {
    for tags in ["--enable-new-dtags", "--disable-new-dtags"] {
        let world = World::new("named");
        let path = format!("-Wl,{tags},-rpath,$ORIGIN/../../../cuda/lib");
        let cupti = needing_cupti(&world, &[&path]);
        let place = [("opt/cuda/lib/libcupti.so.12", cupti.as_slice())];
        world.base_with(&BASE_LIBRARIES, &place);
        world.assemble().unwrap();
    }
}

#[test]
fn a_library_without_the_symbols_version_is_named() {
    let world = World::new("versions");
    let map = |versions: &str| {
        let file = world.path("library.map");
        fs::write(&file, versions).unwrap();
        format!("-Wl,--version-script={}", file.display())
    };
    let source = "int newer(void) { return 1; }\nint older(void) { return 1; }\n";
    let old = map("V_1 { global: older; newer; };\n");
    let old = library(&world, "libver.so.1", source, &[&old]);
    let new = map("V_1 { global: older; };\nV_2 { global: newer; } V_1;\n");
    let new = library(&world, "libver.so.1", source, &[&new]);
    let file = world.path("libver.so.1");
    world.library(
        "libtorch_cpu.so",
        "int newer(void);\nint torch_answer(void) { return 41 + newer(); }\n",
        &["-lc10", file.to_str().unwrap()],
    );
    world.base_with(&BASE_LIBRARIES, &[("usr/lib/libver.so.1", &old)]);
    let error = world.assemble().unwrap_err();
    says(&error, &["lack V_2 of libver.so.1", "libtorch_cpu.so"]);
    world.base_with(&BASE_LIBRARIES, &[("usr/lib/libver.so.1", &new)]);
    world.assemble().unwrap();
}

#[test]
fn a_base_without_the_programs_loader_is_refused() {
    let world = World::new("loader");
    world.base(&["libc.so.6"]);
    assert!(Path::new("/lib64/ld-linux-x86-64.so.2").exists());
    let error = world.assemble().unwrap_err();
    says(
        &error,
        &[
            "the loader /lib64/ld-linux-x86-64.so.2",
            "the scenario binary",
        ],
    );
}
