//! The documents that edits start from: this repository's own, and archives made here, since it
//! keeps none.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use bench_suite::suite::{DeviceKind, Suite};
use protocol::{Event, RunFile};
use record::{Record, SessionFolder};
use serde_json::Value;

use crate::edit::{tar, zip};

/// Items that are kept of a list of samples: one more is read as the others are.
const KEPT: usize = 3;
/// Records that are kept of a session.
const KEPT_RECORDS: usize = 6;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files in a folder whose names end so, sorted.
fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let folder = root().join(folder);
    let listed = fs::read_dir(&folder).map(|entries| {
        let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
        entries
            .filter(|path| path.to_string_lossy().ends_with(end))
            .collect()
    });
    let mut files: Vec<PathBuf> = listed.unwrap_or_default();
    files.sort();
    files
}

fn contents(folder: &str, end: &str) -> Vec<Vec<u8>> {
    let files = files(folder, end);
    files
        .iter()
        .filter_map(|file| fs::read(file).ok())
        .collect()
}

pub(crate) fn suites() -> Vec<Vec<u8>> {
    contents("scenarios", ".yaml")
}

pub(crate) fn specs() -> Vec<Vec<u8>> {
    let mut specs = contents("images", ".yaml");
    // What the committed specs do without.
    specs.push(
        b"version: 2\ndescription: An official image\n\
          base: {image: \"pytorch/pytorch@sha256:\
          e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}\n\
          libtorch: {inside: auto, flavour: cuda}\n\
          environment: {OMP_NUM_THREADS: \"2\"}\nlabels: {org.example: x}\nallow: [LD_PRELOAD]\n"
            .to_vec(),
    );
    specs.push(
        b"version: 1\ndescription: Own archive\nbase:\n  archive: base.tar\n\
          libtorch:\n  installed: /opt/site-packages\n"
            .to_vec(),
    );
    specs
}

pub(crate) fn locks() -> Vec<Vec<u8>> {
    let mut locks = contents("images", ".lock.json");
    // Large ones differ from small ones in the number of their libraries alone.
    for lock in &mut locks {
        if let Ok(mut value) = serde_json::from_slice(lock) {
            shorten(&mut value, KEPT);
            *lock = images::fuzzing::sealed(&value).unwrap_or_else(|| lock.clone());
        }
    }
    locks
}

/// Cuts lists: what was sampled ten times a second is long, and all of it alike.
fn shorten(value: &mut Value, most: usize) {
    match value {
        Value::Array(items) => {
            items.truncate(most);
            for item in items {
                shorten(item, most);
            }
        }
        Value::Object(fields) => {
            for field in fields.values_mut() {
                shorten(field, most);
            }
        }
        _ => {}
    }
}

/// The sessions of the gallery: their `session.json` and some of their records.
fn sessions() -> Vec<(Value, Vec<Value>)> {
    let gallery = files("reports/gallery", "");
    let session = |folder: &PathBuf| {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let session = serde_json::from_str(&read(SessionFolder::SESSION)?).ok()?;
        let records = read(SessionFolder::RECORDS)?;
        let lines: Vec<&str> = records.lines().collect();
        // Of all kinds that a session has: spread over it.
        let step = lines.len().div_ceil(KEPT_RECORDS).max(1);
        let records = lines.into_iter().step_by(step).filter_map(|line| {
            let mut record = serde_json::from_str(line).ok()?;
            shorten(&mut record, KEPT);
            Some(record)
        });
        Some((session, records.collect()))
    };
    gallery.iter().filter_map(session).collect()
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// The gallery's records as today's version writes them.
fn records_of_today() -> Vec<Record> {
    sessions()
        .iter()
        .flat_map(|(_, records)| records)
        .flat_map(|record| record::fuzzing::records(&line(record)).records)
        .collect()
}

pub(crate) fn records() -> Vec<Vec<u8>> {
    let old = sessions();
    let old = old
        .iter()
        .flat_map(|(_, records)| records.iter().take(2))
        .map(line);
    let new = records_of_today();
    let new = new
        .iter()
        .step_by(3)
        .filter_map(|record| Some(line(&serde_json::to_value(record).ok()?)));
    old.chain(new).collect()
}

/// `session.json`, a NUL, and `records.ndjson`.
pub(crate) fn session_folders() -> Vec<Vec<u8>> {
    sessions()
        .into_iter()
        .map(|(mut session, records)| {
            // As many cells as there are records for.
            shorten(&mut session, 2 * KEPT);
            let mut folder = session.to_string().into_bytes();
            folder.push(0);
            folder.extend(records.iter().flat_map(line));
            folder
        })
        .collect()
}

/// A regression of two series that is accepted in part, and a machine that went silent.
pub(crate) fn ledgers() -> Vec<Vec<u8>> {
    vec![include_bytes!("ledger.toml").to_vec()]
}

pub(crate) fn series() -> Vec<Vec<u8>> {
    let mut by_metric: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let records = records_of_today();
    for record in &records {
        let Some(metrics) = &record.metrics else {
            continue;
        };
        let value = metrics.step_seconds.median;
        let seconds = record.started_at.as_second();
        let rows = [
            ("seconds", format!("{seconds},{},{value}", record.image)),
            (
                "milliseconds",
                format!("{seconds}000,{},{value}", record.image),
            ),
            (
                "dates",
                format!("{},{},{value}", record.started_at, record.image),
            ),
        ];
        for (kind, row) in rows {
            by_metric.entry(kind).or_default().push(row);
        }
    }
    by_metric
        .into_values()
        .map(|rows| format!("timestamp,revision,value\n{}\n", rows.join("\n")).into_bytes())
        .collect()
}

/// What a workload may have written, put together from the gallery's records.
pub(crate) fn events() -> Vec<Vec<u8>> {
    let written = |record: &Record| {
        let mut events = Vec::new();
        let mut started = record.workload.clone()?;
        started.version = protocol::VERSION;
        crate::targets::RUN.clone_into(&mut started.run);
        events.push(Event::Started(Box::new(started)));
        for (phase, seconds) in &record.phase_seconds {
            let (phase, seconds) = (*phase, *seconds);
            let at_seconds = record.phase_began_seconds.get(&phase).copied();
            events.push(Event::PhaseBegan { phase, at_seconds });
            events.push(Event::Heartbeat { phase, step: 1 });
            events.push(Event::PhaseEnded { phase, seconds });
        }
        if let Some(metrics) = &record.metrics {
            events.extend(metrics.memory_points.iter().copied().map(Event::Memory));
            events.extend(record.steps.iter().copied().map(Event::Step));
            events.push(Event::Finished(Box::new(metrics.summary.clone())));
        } else {
            events.push(Event::Failed {
                reason: protocol::FailureReason::OutOfMemory,
                phase: protocol::Phase::Warmup,
                message: "CUDA out of memory. Tried to allocate 2.00 GiB".to_owned(),
                memory: None,
            });
        }
        let lines = events
            .iter()
            .filter_map(|event| serde_json::to_value(event).ok());
        Some(lines.flat_map(|value| line(&value)).collect())
    };
    records_of_today()
        .iter()
        .step_by(2)
        .filter_map(written)
        .collect()
}

/// A run file for each of some variants of each suite.
pub(crate) fn run_files() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for (place, text) in suites().iter().enumerate() {
        let text = String::from_utf8_lossy(text);
        let Ok(suite) = Suite::from_text(&format!("suite-{place}.yaml"), &text) else {
            continue;
        };
        for scenario in &suite.scenarios {
            for one in scenario.variants.iter().take(3) {
                let device = one
                    .devices
                    .first()
                    .map_or(DeviceKind::Cpu, |device| *device);
                let file = RunFile {
                    version: protocol::VERSION,
                    run: crate::targets::RUN.to_owned(),
                    model: scenario.model,
                    task: scenario.task,
                    variant: one.variant.clone(),
                    device: device.any(),
                    steps: scenario.steps,
                    seed: scenario.seed,
                    threads: scenario.threads,
                    gpu_memory_bytes: None,
                    allocator_memory_bytes: None,
                    deadline_seconds: Some(600.0),
                };
                files.extend(file.to_line().map(String::into_bytes));
            }
        }
    }
    files
}

pub(crate) fn wheels() -> Vec<Vec<u8>> {
    let library = library();
    vec![
        zip::archive(&[
            ("torch/lib/libc10.so", &library),
            ("torch/lib/libtorch_cpu.so", b"\x7fELF"),
            ("torch/include/c10/core.h", b"// a header\n"),
            (
                "torch/include/torch/torch.h",
                &b"#pragma once\n".repeat(400),
            ),
            (
                "torch-2.11.0.dist-info/METADATA",
                b"Name: torch\nVersion: 2.11.0\n",
            ),
        ]),
        zip::archive(&[
            ("nvidia/cu13/lib/libcudart.so.13", &library),
            ("nvidia/cu13/lib/stubs/libcuda.so", b""),
            (
                "nvidia/cu13/include/cuda.h",
                b"#define CUDA_VERSION 13000\n",
            ),
            ("nvidia/cuda_runtime/include/cuda_runtime.h", b"\n"),
        ]),
    ]
}

/// What the base of a distribution looks like to whoever reads its packages.
fn layer() -> Vec<u8> {
    tar::archive_with_links(
        &[
            ("usr/lib/x86_64-linux-gnu/libc.so.6", &library()),
            ("usr/lib/x86_64-linux-gnu/libz.so.1.3", b"\x7fELF"),
            (
                "etc/os-release",
                b"PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\nVERSION_ID=\"12\"\n",
            ),
            (
                "var/lib/dpkg/status",
                b"Package: libc6\nStatus: install ok installed\nArchitecture: amd64\n\
                  Version: 2.36-9\n\nPackage: gone\nStatus: deinstall ok config-files\n\
                  Version: 1\n\n",
            ),
            (
                "var/lib/dpkg/status.d/base",
                b"Package: base-files\nVersion: 12.4\nArchitecture: amd64\n",
            ),
            (
                "lib/apk/db/installed",
                b"P:musl\nV:1.2.4\nA:x86_64\n\nP:zlib\nV:1.3\n",
            ),
            (
                "opt/conda/conda-meta/numpy-1.json",
                br#"{"name":"numpy","version":"1.26.4","subdir":"linux-64"}"#,
            ),
            (
                "usr/lib/python3/dist-packages/torch-2.11.0.dist-info/METADATA",
                b"Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n\nWords\n",
            ),
            (
                "usr/local/cuda/version.json",
                br#"{"cuda":{"name":"CUDA SDK","version":"13.0.0"}}"#,
            ),
        ],
        &[
            ("lib", "usr/lib"),
            ("usr/lib/libz.so", "x86_64-linux-gnu/libz.so.1.3"),
        ],
    )
}

/// A layer that takes something away from the one below.
fn upper_layer() -> Vec<u8> {
    tar::archive(&[
        ("etc/.wh.os-release", b""),
        ("var/lib/dpkg/.wh..wh..opq", b""),
        ("etc/ld.so.preload", b"/lib/libz.so\n"),
        ("usr/lib/libnew.so", b"\x7fELF"),
    ])
}

/// A base whose packages are rpm's.
fn rpm_layer() -> Vec<u8> {
    tar::archive(&[
        (
            "usr/lib/sysimage/rpm/rpmdb.sqlite",
            &rpm_database().unwrap_or_default(),
        ),
        ("usr/lib64/libc.so.6", &library()),
    ])
}

fn rpm_database() -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("rpmdb.sqlite");
    let database = rusqlite::Connection::open(&file)?;
    // The smallest pages: the file is edited as a whole.
    database.execute_batch(
        "PRAGMA page_size = 512; CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB);",
    )?;
    let data: &[u8] = b"bash\x005.2.15\x001.fc38\x00x86_64\0\0\0\0\0\x02";
    let mut header = Bytes(Vec::new());
    let entries = [
        (1000, 6, 0),
        (1001, 6, 5),
        (1002, 6, 12),
        (1022, 6, 19),
        (1003, 4, 26),
    ];
    let head = [entries.len(), data.len()];
    let entries = entries
        .into_iter()
        .flat_map(|(tag, kind, at)| [tag, kind, at, 1]);
    for number in head.map(|number| number as u64).into_iter().chain(entries) {
        header.0.extend(&number.to_be_bytes()[4..]);
    }
    header.0.extend(data);
    database.execute("INSERT INTO Packages VALUES (1, ?)", [&header.0])?;
    database.close().map_err(|(_, error)| error)?;
    Ok(fs::read(&file)?)
}

pub(crate) fn archives() -> Vec<Vec<u8>> {
    vec![layer(), rpm_layer()]
}

pub(crate) fn saved_images() -> Vec<Vec<u8>> {
    vec![
        tar::image(&[layer()], false),
        tar::image(&[layer(), upper_layer()], false),
        tar::image(&[layer(), upper_layer()], true),
    ]
}

pub(crate) fn libraries() -> Vec<Vec<u8>> {
    vec![library()]
}

/// A shared library with all that is read of one: a name, needs, folders, versions needed and
/// offered.
fn library() -> Vec<u8> {
    const STRINGS: &[u8] =
        b"\0libx.so.1\0libc.so.6\0$ORIGIN\0GLIBC_2.36\0GLIBC_PRIVATE\0/lib/ld.so\0";
    let place = |text: &str| -> u64 {
        let found = STRINGS
            .windows(text.len())
            .position(|part| part == text.as_bytes());
        found.unwrap_or(0) as u64
    };
    let mut file = Bytes(Vec::new());
    // The header is written at the end, when the places are known.
    file.0.resize(64 + 3 * 56, 0);
    let strings = file.section(STRINGS);
    let mut dynamic = Bytes(Vec::new());
    for (tag, value) in [
        (14, place("libx.so.1")),
        (1, place("libc.so.6")),
        (15, place("$ORIGIN")),
        (29, place("$ORIGIN")),
        (5, strings.0),
        (10, strings.1),
        (0, 0),
    ] {
        dynamic.numbers(8, &[tag, value]);
    }
    let dynamic = file.section(&dynamic.0);
    let mut needed = Bytes(Vec::new());
    needed.numbers(2, &[1, 1]);
    needed.numbers(4, &[place("libc.so.6"), 16, 0, 0x0696_9196]);
    needed.numbers(2, &[0, 2]);
    needed.numbers(4, &[place("GLIBC_2.36"), 0]);
    let needed = file.section(&needed.0);
    let mut offered = Bytes(Vec::new());
    offered.numbers(2, &[1, 0, 2, 1]);
    offered.numbers(4, &[0x0696_9196, 20, 0, place("GLIBC_2.36"), 0]);
    let offered = file.section(&offered.0);
    let interpreter = file.section(b"/lib/ld.so\0");
    let sections = file.0.len() as u64;
    // Name, type, flags, address, place, size, link, info, alignment, size of an entry.
    for (kind, (at, size), link, info, entry) in [
        (0_u64, (0, 0), 0, 0, 0),
        (3, strings, 0, 0, 0),
        (6, dynamic, 1, 0, 16),
        (0x6fff_fffe, needed, 1, 1, 0),
        (0x6fff_fffd, offered, 1, 1, 0),
    ] {
        file.numbers(4, &[0, kind]);
        file.numbers(8, &[2, at, at, size]);
        file.numbers(4, &[link, info]);
        file.numbers(8, &[8, entry]);
    }
    let mut head = Bytes(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec());
    head.numbers(2, &[3, 62]);
    head.numbers(4, &[1]);
    head.numbers(8, &[0, 64, sections]);
    head.numbers(4, &[0]);
    head.numbers(2, &[64, 56, 3, 64, 5, 1]);
    let all = file.0.len() as u64;
    for (kind, (at, size)) in [(1, (0, all)), (2, dynamic), (3, interpreter)] {
        head.numbers(4, &[kind, 5]);
        head.numbers(8, &[at, at, at, size, size, 8]);
    }
    file.0[..head.0.len()].copy_from_slice(&head.0);
    file.0
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn numbers(&mut self, width: usize, numbers: &[u64]) {
        for number in numbers {
            self.0.extend(&number.to_le_bytes()[..width]);
        }
    }

    /// Adds a section; where it lies, and its size.
    fn section(&mut self, content: &[u8]) -> (u64, u64) {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let at = self.0.len() as u64;
        self.0.extend(content);
        (at, content.len() as u64)
    }
}
