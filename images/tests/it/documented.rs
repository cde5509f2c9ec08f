//! Specs on pages are specs: as people copy them, they are read.

use std::{fs, path::Path};

use images::{Catalog, Flavour, LibtorchSpec, Spec};

const PAGES: [&str; 2] = ["README.md", "../docs/own-images.md"];

/// What a spec has to have, for pages that show some of its keys.
const REST: [&str; 4] = [
    "version: 2",
    "description: x",
    "base: {archive: x.tar}",
    "libtorch: {version: 2.11.0, flavour: cpu, from: wheels}",
];
/// How parts of specs begin in a line of text, and the key that they are the value of where they
/// lack it.
const PARTS: [(&str, &str); 10] = [
    ("base: ", ""),
    ("libtorch: ", ""),
    ("allow: ", ""),
    ("gpu_architectures: ", ""),
    ("{archive: ", "base"),
    ("{image: ", "base"),
    ("{version: ", "libtorch"),
    ("{installed: ", "libtorch"),
    ("{inside: ", "libtorch"),
    ("inside: ", "libtorch"),
];

/// Blocks of code that are specs, and parts of specs within a line.
fn shown(page: &str) -> Vec<String> {
    let lines: Vec<&str> = page.lines().collect();
    let blocks = lines
        .split(|line| !line.starts_with("    "))
        .map(|block| -> Vec<&str> { block.iter().map(|line| &line[4..]).collect() })
        .filter(|block| block.iter().any(|line| line.starts_with("version: ")))
        .map(|block| block.join("\n"));
    let text = lines.iter().filter(|line| !line.starts_with("    "));
    let spans = text.flat_map(|line| line.split('`').skip(1).step_by(2));
    let parts = spans.filter_map(|span| {
        let (start, key) = PARTS.iter().find(|(start, _)| span.starts_with(start))?;
        Some(match (*key, start.starts_with('{')) {
            ("", _) => span.to_owned(),
            (key, true) => format!("{key}: {span}"),
            (key, false) => format!("{key}: {{{span}}}"),
        })
    });
    blocks.chain(parts).collect()
}

/// The spec that somebody makes of it: what is left out is filled in.
fn whole(shown: &str) -> String {
    let mut spec: Vec<String> = shown
        .lines()
        .filter(|line| *line != "…")
        .map(|line| {
            line.replace("NAME@", "name@")
                .replace("sha256:…", &format!("sha256:{}", "0".repeat(64)))
                .replace("version: …", "version: 2.11.0")
                .replace("flavour: …", "flavour: cpu")
        })
        .collect();
    for rest in REST {
        let (key, _) = rest.split_once(' ').unwrap();
        if !spec.iter().any(|line| line.starts_with(key)) {
            spec.push(rest.to_owned());
        }
    }
    spec.join("\n") + "\n"
}

fn read(folder: &Path, shown: &str) -> Spec {
    let spec = whole(shown);
    fs::write(folder.join("shown.yaml"), &spec).unwrap();
    let image = Catalog::new(folder).image("shown");
    image
        .unwrap_or_else(|error| panic!("{error}\n\n{spec}"))
        .spec
}

#[test]
fn specs_on_the_pages_are_read_and_show_the_cpu_flavour_of_a_pytorch_inside() {
    let folder = tempfile::tempdir().unwrap();
    for page in PAGES {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let shown = shown(&fs::read_to_string(file).unwrap());
        assert!(shown.len() >= 6, "{page}: {shown:#?}");
        let specs = shown.iter().map(|shown| read(folder.path(), shown));
        let specs: Vec<Spec> = specs.collect();
        let is_shown = specs.into_iter().any(|spec| {
            let LibtorchSpec::Inside { flavour, .. } = spec.libtorch else {
                return false;
            };
            flavour == Flavour::Cpu
        });
        assert!(
            is_shown,
            "{page}: no `libtorch: {{inside: …, flavour: cpu}}`"
        );
    }
}
