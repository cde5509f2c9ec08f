//! Specs as people write them, right and wrong.

use images::{Base, Flavour, LibtorchSpec};

use crate::world::{SPEC, World, says};

#[test]
fn both_forms_of_libtorch_are_read() {
    let world = World::new("forms");
    let spec = world.read().unwrap().spec;
    assert_eq!(
        spec.libtorch,
        LibtorchSpec::Wheels {
            version: "2.11.0".to_owned(),
            flavour: Flavour::Cpu
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
        "version: 2\n",
        &["refused.yaml:1", "version 2", "not known"],
    );
    refused(
        "description:",
        "descripton:",
        &["refused.yaml:2", "descripton"],
    );
    refused(
        "2.11.0",
        "2.11.9",
        &[
            "refused.yaml:4",
            "libtorch.version",
            "torch 2.11.9 is not known",
        ],
    );
    refused("cpu", "gpu", &["refused.yaml:4", "libtorch"]);
    refused(", from: wheels", "", &["refused.yaml:4", "libtorch"]);
    refused("{archive: base.tar}", "alpine", &["refused.yaml:3", "base"]);
    refused(
        "{archive: base.tar}",
        "{image: pytorch/pytorch}",
        &["refused.yaml:3", "base.image", "names no digest"],
    );
    refused(
        "GREETING",
        "LD_LIBRARY_PATH",
        &["environment.LD_LIBRARY_PATH", "cannot be set"],
    );
    refused(
        "GREETING",
        "A-B",
        &["environment.A-B", "no name of an environment variable"],
    );
    refused(
        "{GREETING: hello}",
        "[hello]",
        &["refused.yaml:5", "environment"],
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
