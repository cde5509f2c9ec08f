//! The commands by which a report says that its cells run again are commands, and run those cells.

use std::{path::Path, process::Command as Process};

use bench_suite::plan::{Plan, Request};
use clap::Parser as _;
use record::SessionFolder;
use reports::{Source, View};

use crate::{
    commands::bench::BenchArgs,
    commands::{program, scenarios},
};

#[derive(clap::Parser)]
struct Bench {
    #[command(flatten)]
    args: BenchArgs,
}

/// What a shell makes of a command, behind the words that start the program.
fn parsed(command: &str) -> BenchArgs {
    let script = format!("printf '%s\\0' {command}");
    let output = Process::new("sh").args(["-c", &script]).output().unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = words.trim_end_matches('\0').split('\0').collect();
    assert_eq!(words[..3], ["cargo", "xtask", "bench"], "{command}");
    let parsed = Bench::try_parse_from(&words[2..]);
    parsed
        .unwrap_or_else(|error| panic!("{command}: {error}"))
        .args
}

#[test]
fn commands_of_the_gallery_run_the_cell_that_they_stand_beside() {
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/gallery");
    let catalog = scenarios::catalog().unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(gallery).unwrap() {
        let folder = SessionFolder::at(entry.unwrap().path());
        if !folder.path().join("session.json").exists() {
            continue;
        }
        let sources = [Source::read(&folder).unwrap()];
        let view = View::of(&sources);
        assert_eq!(view.commands.len(), view.report.cells.len());
        for (command, cell) in view.commands.iter().zip(&view.report.cells) {
            let args = parsed(command);
            let [image] = &args.target.image[..] else {
                panic!("{command}");
            };
            assert!(image.contains(&cell.image), "{command}: {}", cell.image);
            assert_eq!(args.blocks, Some(sources[0].session.blocks), "{command}");
            let suite = match &args.suite[..] {
                [name] => catalog.load(name).unwrap(),
                _ => program::suite(&args.program.suite_text().unwrap()).unwrap(),
            };
            let device = args.target.device.unwrap();
            let first = sources[0].session.device;
            // A program's command has the device as it was typed.
            let is_typed = args.suite.is_empty() && device == "cuda";
            assert!(is_typed || device == first.to_string(), "{command}");
            let plan = Plan::new(&Request {
                suites: &[suite],
                images: &args.target.image,
                device: first,
                blocks: args.blocks,
                order_seed: None,
            });
            let plan = plan.unwrap().only(&args.cell).unwrap();
            let [only] = &plan.cells[..] else {
                panic!("{command}: {} cells", plan.cells.len());
            };
            // A session of before there was an axis did what is usual.
            let axes: protocol::Axes = only
                .plan
                .axes
                .iter()
                .filter(|(axis, value)| {
                    cell.axes.contains_key(*axis)
                        || protocol::Axes::usual().get(*axis) != Some(value)
                })
                .collect();
            let found = (&only.plan.suite, &only.plan.scenario, &axes);
            assert_eq!(
                found,
                (&cell.suite, &cell.scenario, &cell.axes),
                "{command}"
            );
            count += 1;
        }
    }
    assert!(count > 100, "{count} commands");
}

#[test]
fn a_command_is_one_whatever_the_session_is_called() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/gallery/h200-versions");
    let mut source = Source::read(&SessionFolder::at(folder)).unwrap();
    let evil = "$(touch /tmp/x) `id`; 'q' \"--x\" | <a>\n&& rm";
    source.session.asked = None;
    for cell in &mut source.session.cells {
        cell.suite = "--suite".into();
        cell.scenario = evil.into();
        cell.image = format!("-{evil}");
    }
    let sources = [source];
    let view = View::of(&sources);
    let args = parsed(&view.commands[0]);
    assert_eq!(args.suite, ["--suite"]);
    assert!(
        args.cell[0].starts_with(&evil.replace('\n', " ")),
        "{args:?}"
    );
    assert_eq!(args.target.image, [format!("-{evil}").replace('\n', " ")]);
}
