//! The pages under test, and axe-core.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use judge::{
    compare::Direction,
    trend::{Point, TrendOptions, change_points},
};
use record::{SessionFolder, SuiteQuestion};
use reports::{
    Source, View,
    format::Quantity,
    html,
    site::{self, Content},
    trend::{self, MethodChanges, Series},
};
use tempfile::TempDir;
use verdict::FailOn;

use crate::fakes::{Fake, fit, hostile as hostile_names, swept};

/// A page in a folder that goes with the value.
pub(crate) struct Page {
    pub(crate) file: PathBuf,
    _home: TempDir,
}

impl Page {
    pub(crate) fn of(sources: &[Source]) -> Self {
        Self::with(&html::render(&View::of(sources)).expect("a page"))
    }

    pub(crate) fn with(text: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let file = home.path().join("report.html");
        fs::write(&file, text).expect("the page");
        Self { file, _home: home }
    }
}

fn in_gallery(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("gallery")
        .join(name)
}

fn session(folder: &Path) -> Source {
    Source::read(&SessionFolder::at(folder)).expect("a session")
}

/// The gallery's sessions, their pages drawn anew.
pub(crate) fn gallery() -> Vec<(String, Page)> {
    let mut folders: Vec<PathBuf> = fs::read_dir(in_gallery(""))
        .expect("the gallery")
        .map(|entry| entry.expect("an entry").path())
        .filter(|folder| folder.join("session.json").exists())
        .collect();
    folders.sort();
    assert!(folders.len() > 10, "{folders:?}");
    let page = |folder: PathBuf| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        (name.into_owned(), Page::of(&[session(&folder)]))
    };
    folders.into_iter().map(page).collect()
}

/// What would run as a script, end a table, act on CI or on a terminal, wherever it came through.
pub(crate) const EVIL: &str = "<img src=x onerror=\"window.pwned=1\"></script><script>window.pwned=1\
    </script>\"'><svg onload=window.pwned=1> | `code` @user #1 ::error::no ##[error]no \u{1b}[31mred \
    \u{202e}=1+1";

/// A session whose every text is hostile: names, question, notes, labels, errors of containers.
pub(crate) fn hostile() -> Source {
    let mut fake = hostile_names();
    fake.name = EVIL.into();
    for cell in &mut fake.cells {
        cell.scenario = format!("{EVIL} {}", cell.scenario);
    }
    fake.failing[0].3 = format!("::error::{EVIL}\n::error::{EVIL}\n</td></table>");
    let mut source = fake.source();
    let session = &mut source.session;
    session.questions.insert(
        "sample".into(),
        SuiteQuestion {
            question: EVIL.into(),
            answered_by: vec![EVIL.into(), "throughput_samples_per_second".into()],
            yes_when: None,
        },
    );
    session.notes = vec![EVIL.into()];
    session.tool.command = vec!["cargo".into(), EVIL.into()];
    let mut machine = session.machine().clone();
    machine.name = EVIL.into();
    machine.gpus[0].name = EVIL.into();
    session.hosts = [(EVIL.into(), machine)].into();
    for image in &mut session.images {
        image.reference = Some(EVIL.into());
        image.base = Some(EVIL.into());
        image.libtorch_version = EVIL.into();
        image.layers = vec![(EVIL.into(), 7)];
    }
    source
}

/// Two images beside each other: every kind of verdict, monitors, failures.
pub(crate) fn two_images() -> Source {
    Fake::gpu().images(&["torch-2.10", "torch-2.11"]).source()
}

/// The page of one comparison.
pub(crate) fn comparison() -> Page {
    let sources = [two_images()];
    let view = View::of(&sources);
    let verdicts = &view.report.sessions[0].comparisons[0];
    let home = tempfile::tempdir().expect("a folder");
    let file = reports::comparison::write(verdicts, FailOn::Regressed, home.path());
    Page {
        file: file.expect("a page"),
        _home: home,
    }
}

/// A real series with changes, drift and noise that grew.
fn series() -> Series {
    let file = "../bench-suite/judge/benches/bars/series/tigerbeetle-load_accepted.csv";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(file).expect("a series");
    let point = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Point {
            timestamp: fields[0].parse().expect("seconds"),
            revision: fields[1].to_owned(),
            value: fields[2].parse().expect("a value"),
        }
    };
    let points: Vec<Point> = text.lines().skip(1).map(point).collect();
    let found = change_points(&points, &TrendOptions::default()).expect("a series");
    assert!(!found.change_points.is_empty());
    Series {
        entries: Vec::new(),
        title: "load accepted".to_owned(),
        subtitle: "TigerBeetle".to_owned(),
        quantity: Quantity::Plain,
        direction: Some(Direction::HigherIsBetter),
        threshold: 0.0,
        points,
        found,
        attribute_changes: Vec::new(),
        methods: MethodChanges::default(),
        news: None,
        staleness: None,
        gated: false,
        fails: Vec::new(),
    }
}

/// A page of every kind but that of a session as it is.
pub(crate) fn kinds() -> Vec<(String, Page)> {
    let trend = trend::html(&[series()], &[], "a series", "2026-11-22 20:00 UTC").expect("a page");
    let pages = [
        ("hostile", Page::of(&[hostile()])),
        ("two images", Page::of(&[two_images()])),
        ("comparison", comparison()),
        ("claims", claims()),
        ("trend", Page::with(&trend)),
        ("swept quantity and modules", Page::of(&[swept()])),
        ("search", search()),
        ("index", index()),
    ];
    pages.map(|(name, page)| (name.to_owned(), page)).into()
}

/// The page of the claims that a session judges.
fn claims() -> Page {
    let sources = [session(&in_gallery("h200-claims"))];
    let view = View::of(&sources);
    let session = &view.report.sessions[0];
    let home = tempfile::tempdir().expect("a folder");
    let file = reports::claims::write(&session.claims, &session.session, home.path());
    Page {
        file: file.expect("a page"),
        _home: home,
    }
}

/// The page of a search for the largest batch.
fn search() -> Page {
    let home = tempfile::tempdir().expect("a folder");
    Page {
        file: reports::fit::write(&fit(), home.path()).expect("a page"),
        _home: home,
    }
}

/// The index of a site.
pub(crate) fn index() -> Page {
    let home = tempfile::tempdir().expect("a folder");
    let content = Content {
        title: "Two".to_owned(),
        folders: ["h200-idle", "upgrade-2.6-to-2.12"].map(in_gallery).into(),
        ..Content::default()
    };
    site::draw(&content, home.path()).expect("a site");
    Page {
        file: home.path().join("index.html"),
        _home: home,
    }
}

/// axe-core, as a wheel of the Python package index carries it: by its hash, so that it is the same
/// everywhere.
pub(crate) fn axe() -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    let script = folder.join("axe_playwright_python/axe.min.js");
    if !script.exists() {
        let wheels = tempfile::tempdir().expect("a folder for the wheel");
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/axe.txt");
        let fetched = Command::new("python3")
            .args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--require-hashes",
            ])
            .args(["--only-binary=:all:", "--dest"])
            .arg(wheels.path())
            .arg("--requirement")
            .arg(list)
            .status();
        assert!(
            fetched.is_ok_and(|status| status.success()),
            "pip cannot fetch axe-core; `apt-get install python3-pip`, and check pip's index \
             settings (`python3 -m pip config list`)"
        );
        let wheel = fs::read_dir(wheels.path())
            .expect("the wheel's folder")
            .next();
        let wheel = wheel.expect("a wheel").expect("a wheel").path();
        let unpacked = Command::new("python3")
            .args(["-m", "zipfile", "--extract"])
            .args([&wheel, &folder])
            .status();
        assert!(
            unpacked.is_ok_and(|status| status.success()),
            "{} cannot be unpacked",
            wheel.display()
        );
    }
    fs::read_to_string(script).expect("axe-core")
}
