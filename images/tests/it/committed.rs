//! What is committed beside the crate: specs, locks, schemas.

use std::{env, fs, path::Path};

use images::{
    Base, Catalog, Flavour, LibtorchSpec, Spec,
    lock::{LibtorchLock, Lock},
};

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares with the committed schema; `UPDATE_SCHEMAS=1` writes it anew.
fn check_schema(name: &str, schema: &serde_json::Value) {
    let file = folder().join(name);
    let text = format!("{}\n", serde_json::to_string_pretty(schema).unwrap());
    if env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&file).unwrap_or_default(),
        text,
        "{name} is not the types' schema: run the tests with UPDATE_SCHEMAS=1 and commit it"
    );
}

#[test]
fn the_schemas_are_those_of_the_types() {
    check_schema("image.schema.json", &Spec::json_schema());
    check_schema("lock.schema.json", &Lock::json_schema());
}

#[test]
fn every_spec_is_sound_and_named_for_what_it_is() {
    let catalog = Catalog::new(folder());
    let names = catalog.names().unwrap();
    assert!(names.len() >= 11, "{names:?}");
    for name in names {
        let image = catalog.image(&name).unwrap();
        assert_eq!(image.spec.base, Base::Debian, "{name}");
        if let LibtorchSpec::Wheels {
            version, flavour, ..
        } = &image.spec.libtorch
        {
            let Some(LibtorchLock::Wheels(wheels)) = image.lock.map(|lock| lock.libtorch) else {
                panic!("{name} is not locked to wheels");
            };
            let end = wheels.name.strip_prefix(&format!("{version}+")).unwrap();
            assert_eq!(end == "cpu", *flavour == Flavour::Cpu, "{name}");
            let gpus: Vec<String> = image
                .spec
                .gpu_architectures
                .iter()
                .map(|gpu| format!("-{}", gpu.to_string().replace('_', "")))
                .collect();
            assert_eq!(name, format!("torch-{version}-{end}{}", gpus.concat()));
        }
    }
}

#[test]
fn the_images_to_take_where_none_is_named_are_specs() {
    let catalog = Catalog::new(folder());
    let defaults = catalog.defaults().unwrap();
    let spec = |name: &str| catalog.image(name).unwrap().spec.libtorch;
    let LibtorchSpec::Wheels { flavour, .. } = spec(&defaults.cpu) else {
        panic!("{} is not made of wheels", defaults.cpu);
    };
    assert_eq!(flavour, Flavour::Cpu);
    let LibtorchSpec::Wheels { flavour, .. } = spec(&defaults.cuda) else {
        panic!("{} is not made of wheels", defaults.cuda);
    };
    assert_eq!(flavour, Flavour::Cuda);
    assert!(matches!(
        spec(&defaults.installed),
        LibtorchSpec::Installed { .. }
    ));
}

#[test]
fn every_other_tch_has_a_lock_of_what_goes_with_it() {
    let workspace = fs::read_to_string(folder().join("../Cargo.lock")).unwrap();
    let has =
        |lock: &str, tch: &str| lock.contains(&format!("name = \"tch\"\nversion = \"{tch}\""));
    let catalog = Catalog::new(folder());
    for name in catalog.names().unwrap() {
        let Some(lock) = catalog.image(&name).unwrap().lock else {
            continue;
        };
        let tch = &lock.toolchain.tch;
        if !has(&workspace, tch) {
            let file = folder().join(format!("tch-{tch}.Cargo.lock"));
            let own = fs::read_to_string(&file).unwrap_or_default();
            assert!(has(&own, tch), "{name} needs {}", file.display());
        }
    }
}

/// What a package needs, by name, as a `Cargo.lock` has it.
fn needs(lock: &str, package: &str) -> Vec<String> {
    let block = lock
        .split("\n[[package]]\n")
        .find(|block| block.starts_with(&format!("name = \"{package}\"\n")))
        .unwrap_or_else(|| panic!("{package} is in no lock"));
    let (_, list) = block.split_once("dependencies = [\n").unwrap_or_default();
    list.lines()
        .map_while(|line| line.trim().strip_prefix('"')?.strip_suffix("\","))
        // A version stands behind a name of which there are several.
        .map(|need| need.split(' ').next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn what_the_workload_needs_is_in_the_lock_of_every_tch() {
    let workspace = fs::read_to_string(folder().join("../Cargo.lock")).unwrap();
    assert!(needs(&workspace, "scenario").contains(&"tch".to_owned()));
    for file in fs::read_dir(folder()).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("tch-") || !name.ends_with(".Cargo.lock") {
            continue;
        }
        let lock = fs::read_to_string(&file).unwrap();
        for package in ["scenario", "libtorch", "protocol"] {
            assert_eq!(
                needs(&lock, package),
                needs(&workspace, package),
                "{package} in {name}: build an image with this tch, and copy what cargo made of \
                 the lock out of target/scenario/"
            );
        }
    }
}

#[test]
fn the_installed_pytorch_is_locked_to_what_the_wheels_hold() {
    let catalog = Catalog::new(folder());
    let lock = |name: &str| catalog.image(name).unwrap().lock.unwrap();
    let defaults = catalog.defaults().unwrap();
    let (installed, wheels) = (lock(&defaults.installed), lock(&defaults.cuda));
    assert_eq!(installed.base, wheels.base);
    assert_eq!(installed.libtorch.name(), wheels.libtorch.name());
    // torch's own libraries are built anew for each version of Python; NVIDIA's are not.
    let names = |lock: &Lock| -> Vec<String> {
        lock.libtorch
            .libraries()
            .map(|(name, ..)| name.to_owned())
            .collect()
    };
    assert_eq!(names(&installed), names(&wheels));
    for (one, other) in installed
        .libtorch
        .libraries()
        .zip(wheels.libtorch.libraries())
    {
        if !one.0.starts_with("libtorch_") {
            assert_eq!(one, other);
        }
    }
}

#[test]
fn every_lock_says_what_its_image_is_pulled_by() {
    let catalog = Catalog::new(folder());
    for name in catalog.names().unwrap() {
        let lock = catalog.image(&name).unwrap().lock;
        let locked = lock.and_then(|lock| lock.expected.image);
        assert!(
            locked.is_some_and(|image| image.push_digest.is_some()),
            "{name}: `images lock --push-digest {name}`"
        );
    }
}

#[test]
fn every_wheel_image_is_locked_and_its_lock_fits() {
    let catalog = Catalog::new(folder());
    for name in catalog.names().unwrap() {
        let image = catalog.image(&name).unwrap();
        let LibtorchSpec::Wheels {
            version, flavour, ..
        } = &image.spec.libtorch
        else {
            continue;
        };
        let lock = image
            .lock
            .as_ref()
            .unwrap_or_else(|| panic!("{name} has no lock"));
        assert_eq!(lock.spec, image.spec.digest(), "{name}: lock it anew");
        let LibtorchLock::Wheels(wheels) = &lock.libtorch else {
            panic!("{name} is not locked to wheels");
        };
        assert_eq!((&wheels.version, wheels.flavour), (version, *flavour));
        assert!(
            wheels.wheels.iter().all(|wheel| wheel.size_bytes > 0),
            "{name}"
        );
        let expected = &lock.expected;
        assert_eq!(expected.layers.len(), 2, "{name}");
        let image = expected.image.as_ref();
        let image = image.unwrap_or_else(|| panic!("{name}: lock its image too"));
        assert_ne!(image.config_id, image.manifest_id, "{name}");
        assert!(
            image.sources.is_some(),
            "{name}: lock it with what it is compiled from"
        );
    }
}
