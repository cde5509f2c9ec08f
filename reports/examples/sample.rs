//! Draws the reports of made-up sessions, to look at them:
//! `cargo run -p reports --example sample -- FOLDER`, then open `FOLDER/*/report.html`.

use std::{error::Error, fs, path::PathBuf};

use record::SessionFolder;
use reports::Source;

#[path = "../tests/it/support/mod.rs"]
mod support;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(
        std::env::args()
            .nth(1)
            .ok_or("give the folder to write to")?,
    );
    let later = support::Fake::gpu()
        .seeded(9)
        .named("2026-11-13T10-20-30-efgh");
    let sessions = [
        ("gpu", vec![support::Fake::gpu()]),
        (
            "two-images",
            vec![support::Fake::gpu().images(&["torch-2.10-cu128", "torch-2.11-cu130"])],
        ),
        ("cpu", vec![support::Fake::cpu()]),
        ("forty-cells", vec![support::forty_cells()]),
        ("five-hundred-cells", vec![support::five_hundred_cells()]),
        ("five-images", vec![support::five_images()]),
        ("contaminated", vec![support::contaminated()]),
        ("one-cell", vec![support::one_cell()]),
        ("no-success", vec![support::no_success()]),
        ("wide-ranges", vec![support::wide_ranges()]),
        ("hostile", vec![support::hostile()]),
        ("empty", vec![support::empty()]),
        ("two-sessions", vec![support::Fake::gpu(), later]),
    ];
    let sources = |fakes: Vec<support::Fake>| fakes.iter().map(support::Fake::source).collect();
    let sessions = sessions.map(|(name, fakes)| (name, sources(fakes)));
    let swept: (_, Vec<Source>) = ("swept", vec![support::swept()]);
    for (name, sources) in sessions.into_iter().chain([swept]) {
        let home = out.join(name);
        let mut folders = Vec::new();
        for (source, number) in sources.iter().zip(0..) {
            let folder = SessionFolder::at(home.join(format!("session-{number}")));
            let Source { session, records } = source;
            if folder.path().exists() {
                fs::remove_dir_all(folder.path())?;
            }
            folder.create()?;
            folder.write_session(session)?;
            for record in &records.records {
                folder.append(record)?;
            }
            folders.push(folder);
        }
        reports::write(&folders, &home)?;
    }
    reports::fit::write(&support::fit(), &out.join("fit"))?;
    Ok(())
}
