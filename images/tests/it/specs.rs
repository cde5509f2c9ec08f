//! Specs as people write them, right and wrong.

use images::{Base, Flavour, LibtorchSpec, WheelIndex};

use crate::world::{SPEC, World, says};

#[test]
fn both_forms_of_libtorch_are_read() {
    let world = World::new("forms");
    let spec = world.read().unwrap().spec;
    assert_eq!(
        spec.libtorch,
        LibtorchSpec::Wheels {
            version: "2.11.0".to_owned(),
            flavour: Flavour::Cpu,
            from: WheelIndex::Wheels
        }
    );
    assert_eq!(spec.base, Base::Archive(world.path("images/base.tar")));
    let check = |written: &str, folder: Option<&str>, flavour: Flavour| {
        world.spec(&format!(
            "version: 1\ndescription: x\nbase: debian\nlibtorch: {written}\n"
        ));
        let spec = world.read().unwrap().spec;
        let folder = folder.map(|folder| world.path("images").join(folder));
        assert_eq!(spec.libtorch, LibtorchSpec::Installed { folder, flavour });
    };
    check("{installed: auto}", None, Flavour::Cuda);
    check("{installed: auto, flavour: cpu}", None, Flavour::Cpu);
    check(
        "{installed: site-packages}",
        Some("site-packages"),
        Flavour::Cuda,
    );
    check(
        "{installed: /usr/lib/python3}",
        Some("/usr/lib/python3"),
        Flavour::Cuda,
    );
}

/// Checks that a spec is refused, at this line, with these words.
fn refused(from: &str, to: &str, parts: &[&str]) {
    let world = World::new("refused");
    let spec = SPEC.replace(from, to);
    assert_ne!(spec, SPEC, "nothing was replaced");
    world.spec(&spec);
    let error = world.read().unwrap_err();
    assert!(matches!(error, images::Error::Yaml(_)), "{error:?}");
    says(&error, parts);
}

#[test]
fn mistakes_are_shown_in_their_place() {
    refused(
        "version: 1\n",
        "version: 3\n",
        &["refused.yaml:1", "version 3", "not known"],
    );
    refused(
        "version: 1\n",
        "version: 2\ngpu_architectures: [sm_90, sm_91]\n",
        &["refused.yaml:2", "sm_91", "known are", "sm_90"],
    );
    refused(
        "description:",
        "descripton:",
        &["refused.yaml:2", "descripton"],
    );
    refused(
        "2.11.0",
        "2.4.1",
        &[
            "refused.yaml:4",
            "libtorch.version",
            "no tch compiles against torch `2.4.1`",
        ],
    );
    refused("cpu", "gpu", &["refused.yaml:4", "libtorch"]);
    refused(", from: wheels", "", &["refused.yaml:4", "libtorch"]);
    refused("{archive: base.tar}", "alpine", &["refused.yaml:3", "base"]);
    refused(
        "GREETING",
        "A-B",
        &["environment.A-B", "no name of an environment variable"],
    );
    refused(
        "hello",
        "\"a\\0b\"",
        &["environment.GREETING", "holds a NUL character"],
    );
    refused(
        "description: ",
        "description: \"a\\e[31mb\" # ",
        &["refused.yaml:2", "description", "control characters"],
    );
    refused(
        "{GREETING: hello}",
        "[hello]",
        &["refused.yaml:5", "environment"],
    );
}

#[test]
fn a_base_image_needs_a_digest() {
    let world = World::new("unpinned");
    let digest = images::Digest::of(b"x");
    for (base, is_pinned) in [
        ("pytorch/pytorch".to_owned(), false),
        ("pytorch/pytorch:2.11.0".to_owned(), false),
        ("pytorch/pytorch@sha256:cut".to_owned(), false),
        (format!("pytorch/pytorch@{digest}"), true),
    ] {
        world.spec(&SPEC.replace("{archive: base.tar}", &format!("{{image: '{base}'}}")));
        match world.read() {
            Ok(image) => assert!(is_pinned && image.spec.base == Base::Image(base)),
            Err(error) => {
                assert!(!is_pinned, "{base}: {error}");
                assert!(matches!(error, images::Error::Yaml(_)), "{error:?}");
                says(
                    &error,
                    &["unpinned.yaml:3", "base.image", &base, "RepoDigests"],
                );
            }
        }
    }
}

#[test]
fn libtorch_inside_the_base_needs_a_base_that_can_hold_one() {
    refused(
        "{version: 2.11.0, flavour: cpu, from: wheels}",
        "{inside: auto, from: wheels}",
        &["libtorch", "brings its own version"],
    );
    refused(
        "{archive: base.tar}\nlibtorch: {version: 2.11.0, flavour: cpu, from: wheels}",
        "debian\nlibtorch: {inside: auto}",
        &["libtorch", "the Debian base holds no libtorch"],
    );
}

#[test]
fn an_installed_pytorch_brings_its_own_version() {
    refused(
        "from: wheels",
        "installed: auto",
        &["libtorch", "brings its own version"],
    );
}

#[test]
fn what_torchgauge_sets_itself_is_refused_with_all_that_is() {
    let everything = images::reserved_environment();
    let everything: Vec<&str> = everything.iter().map(|(name, _)| *name).collect();
    for &name in &everything {
        refused(
            "GREETING",
            name,
            &["refused.yaml:5:15", name, "cannot be set"],
        );
        let world = World::new("refused");
        world.spec(&SPEC.replace("GREETING", name));
        let shown = match world.read().unwrap_err() {
            images::Error::Yaml(error) => error.render(false),
            other => panic!("{other:?}"),
        };
        says(&shown, &["another variable"]);
        says(&shown, &everything);
    }
    for name in [
        "torchgauge.image",
        "torchgauge.libtorch",
        "torchgauge.scenario",
        "torchgauge.anything",
        "org.torchgauge.session",
        "org.opencontainers.image.title",
        "org.opencontainers.image.version",
        "org.opencontainers.image.base.digest",
    ] {
        refused(
            "environment: {GREETING: hello}",
            &format!("labels:\n  team: serving\n  {name}: x"),
            &["refused.yaml:7:3", name, "Torchgauge writes it"],
        );
    }
    // Others of OCI's are the spec's to say.
    let world = World::new("labelled");
    world.spec(&SPEC.replace(
        "environment: {GREETING: hello}",
        "labels: {org.opencontainers.image.vendor: us, team: serving}",
    ));
    assert_eq!(world.read().unwrap().spec.labels.len(), 2);
}

#[test]
fn every_mistake_is_shown_at_once() {
    let world = World::new("refused");
    world.spec(
        "version: 2\ndescripton: d\nbase: alpine\n\
         libtorch: {version: 2.11.0, flavour: cpuu, from: wheels}\n\
         environment: {A-B: x, LD_LIBRARY_PATH: y}\nenviroment: {}\n\
         labels: {torchgauge.image: x}\n",
    );
    let images::Error::Yaml(error) = world.read().unwrap_err() else {
        panic!("no error of the document");
    };
    let lines = error.to_string();
    let parts = [
        "refused.yaml:2:1: descripton: unknown key",
        "refused.yaml:3:7: base: ",
        "refused.yaml:4:38: libtorch.flavour: ",
        "refused.yaml:5:20: environment.A-B: ",
        "refused.yaml:5:23: environment.LD_LIBRARY_PATH: ",
        "refused.yaml:6:1: enviroment: unknown key",
        "refused.yaml:7:10: labels.torchgauge.image: ",
    ];
    assert_eq!(lines.lines().count(), parts.len(), "{lines}");
    for (line, part) in lines.lines().zip(parts) {
        assert!(line.contains(part), "{part} in {lines}");
    }
}
