//! Where an image's loader looks, and that there is one, told before anything is loaded.

use std::{fs, path::Path, process::Command};

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
    inside(&world, "{archive: owned.tar}");
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
    owned(&world, OWN);
    assert_eq!(
        parts(&world.assemble().unwrap()).environment["LD_LIBRARY_PATH"],
        path("/opt/torchgauge/libtorch/lib")
    );
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
