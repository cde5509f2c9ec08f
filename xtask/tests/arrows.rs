//! The rooms know only what they may know: read off `cargo metadata`.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

/// What the command line may use, and whoever tries what it uses: all but the workload.
const EVERY_ROOM: [&str; 12] = [
    "bench-suite",
    "engine",
    "history",
    "images",
    "judge",
    "metrics",
    "protocol",
    "record",
    "regular-file",
    "reports",
    "strict-yaml",
    "verdict",
];

fn metadata() -> Value {
    // Not `--offline`: on a fresh machine the manifests of crates for other platforms are fetched
    // here for the first time.
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Package ID → (name, whether of this workspace, IDs of its normal and build dependencies).
fn graph(metadata: &Value) -> BTreeMap<&str, (&str, bool, Vec<&str>)> {
    let members: BTreeSet<_> = list(&metadata["workspace_members"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let names: BTreeMap<_, _> = list(&metadata["packages"])
        .iter()
        .map(|p| (text(p, "id"), text(p, "name")))
        .collect();
    list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let id = text(node, "id");
            let needs = list(&node["deps"])
                .iter()
                .filter(|dep| {
                    list(&dep["dep_kinds"])
                        .iter()
                        .any(|kind| kind["kind"] != "dev")
                })
                .map(|dep| text(dep, "pkg"))
                .collect();
            (id, (names[id], members.contains(id), needs))
        })
        .collect()
}

/// Names of everything that a package of the workspace reaches, itself left out.
fn reach<'a>(
    graph: &BTreeMap<&'a str, (&'a str, bool, Vec<&'a str>)>,
    name: &str,
) -> BTreeSet<&'a str> {
    let start = graph
        .iter()
        .find(|(_, node)| node.0 == name && node.1)
        .expect("a room")
        .0;
    let mut open = vec![*start];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        for need in &graph[id].2 {
            if seen.insert(*need) {
                open.push(need);
            }
        }
    }
    seen.into_iter().map(|id| graph[id].0).collect()
}

#[test]
fn arrows_between_rooms_point_one_way() {
    // What a room reaches among the rooms, no more and no less; a room that is not named here is
    // an error.
    let allowed: BTreeMap<&str, &[&str]> = [
        ("protocol", &[][..]),
        ("regular-file", &[]),
        ("strict-yaml", &["regular-file"]),
        ("judge", &[]),
        ("libtorch", &["protocol"]),
        ("ranks", &["protocol"]),
        ("scenario", &["libtorch", "protocol", "ranks"]),
        ("engine", &[]),
        (
            "images",
            &[
                "engine",
                "protocol",
                "record",
                "regular-file",
                "strict-yaml",
            ],
        ),
        ("record", &["protocol", "regular-file"]),
        ("metrics", &["judge", "protocol", "record", "regular-file"]),
        (
            "history",
            &["judge", "metrics", "protocol", "record", "regular-file"],
        ),
        (
            "bench-suite",
            &[
                "engine",
                "judge",
                "metrics",
                "protocol",
                "record",
                "regular-file",
                "strict-yaml",
                "verdict",
            ],
        ),
        (
            "verdict",
            &["judge", "metrics", "protocol", "record", "regular-file"],
        ),
        (
            "reports",
            &[
                "history",
                "judge",
                "metrics",
                "protocol",
                "record",
                "regular-file",
                "verdict",
            ],
        ),
        ("torchgauge", &EVERY_ROOM),
        // It reads what every other room reads from outside.
        ("fuzz", &EVERY_ROOM),
    ]
    .into();
    let metadata = metadata();
    let graph = graph(&metadata);
    let rooms: BTreeSet<&str> = graph
        .values()
        .filter(|node| node.1)
        .map(|node| node.0)
        .collect();
    for room in &rooms {
        let allowed = allowed
            .get(room)
            .unwrap_or_else(|| panic!("{room} has no rule here"));
        let reached: BTreeSet<&str> = reach(&graph, room).intersection(&rooms).copied().collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        assert_eq!(
            reached, allowed,
            "what {room} reaches, and what it may reach"
        );
    }
}

#[test]
fn each_tool_is_known_in_one_room() {
    let metadata = metadata();
    let graph = graph(&metadata);
    let directly = |tool: &str| -> BTreeSet<&str> {
        graph
            .values()
            .filter(|node| node.1 && node.2.iter().any(|id| graph[id].0 == tool))
            .map(|node| node.0)
            .collect()
    };
    assert_eq!(directly("bollard"), ["engine"].into());
    assert_eq!(directly("tch"), ["libtorch", "scenario"].into());
    assert_eq!(directly("plotters"), ["reports"].into());
    assert_eq!(directly("clap"), ["torchgauge"].into());
    for room in [
        "protocol",
        "record",
        "judge",
        "images",
        "bench-suite",
        "reports",
        "torchgauge",
    ] {
        assert!(
            !reach(&graph, room).contains("torch-sys"),
            "{room} must not need libtorch"
        );
    }
}

#[test]
fn objects_of_json_are_sorted() {
    let metadata = metadata();
    let mut nodes = list(&metadata["resolve"]["nodes"]).iter();
    let node = nodes
        .find(|node| text(node, "id").contains("#serde_json@"))
        .expect("serde_json");
    let keeps_order = list(&node["features"])
        .iter()
        .any(|feature| feature == "preserve_order");
    assert!(
        !keeps_order,
        "serde_json's feature `preserve_order` changes the IDs of images; leave it off"
    );
}

#[test]
fn every_dependency_has_a_licence_that_allows_both_of_ours() {
    const FINE: [&str; 15] = [
        "MIT",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "Zlib",
        "Unlicense",
        "Unicode-3.0",
        "CC0-1.0",
        "BSL-1.0",
        "0BSD",
        "MIT-0",
        // Of data: Mozilla's list of authorities in `webpki-root-certs`.
        "CDLA-Permissive-2.0",
        // LLVM's own before 2019: libFuzzer in `xtask/fuzz`, which nobody is given.
        "NCSA",
    ];
    let metadata = metadata();
    for package in list(&metadata["packages"]) {
        let licence = text(package, "license").replace('/', " OR ");
        // A licence expression in which every AND part has one OR choice that is fine.
        let fine = licence.split(" AND ").all(|part| {
            part.trim_matches(['(', ')', ' '])
                .split(" OR ")
                .any(|choice| FINE.contains(&choice.trim_matches(['(', ')', ' '])))
        });
        assert!(
            fine,
            "{} {}: `{licence}`",
            text(package, "name"),
            text(package, "version")
        );
    }
}
