//! `cargo xtask driver`: two versions of the NVIDIA driver, each over several boots.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use bench_suite::host;
use clap::{Args, Parser, Subcommand};
use record::{Machine, Record, Session, SessionFolder, command_line};
use reports::format::{change, interval, plural, share};
use verdict::{FailOn, Gate, Sessions, Verdicts, compare_sessions};

use crate::{
    cli::Format,
    commands::bench::{self, BenchArgs, resume},
    error::{Error, Result, reading},
    printer::Printer,
    table::table,
};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DriverCommand {
    /// Measure a session on the driver that is to be replaced, or go on with one that was cut off; run
    /// it again after each reboot
    Before {
        /// Sessions in all, each best in a boot of its own
        #[arg(long, value_name = "N", default_value_t = 5,
            value_parser = clap::value_parser!(u32).range(2..=50))]
        sessions: u32,
        #[command(flatten)]
        folder: FolderArgs,
        /// Options of `bench`, for the first session; the others are as the first
        #[arg(last = true, value_name = "BENCH OPTIONS")]
        options: Vec<String>,
    },
    /// Measure a session on the new driver, as those before; with as many as before, compare them
    After(FolderArgs),
    /// Compare the sessions that there are
    Compare(FolderArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FolderArgs {
    /// Where the sessions lie, in `before` and `after`
    #[arg(long, value_name = "DIR", default_value = "sessions/driver")]
    folder: PathBuf,
}

/// Reads the options of `bench` that stand behind `--`.
#[derive(Debug, Parser)]
#[command(name = "bench", no_binary_name = true)]
struct Options {
    #[command(flatten)]
    bench: BenchArgs,
}

const BEFORE: &str = "before";
const AFTER: &str = "after";
/// Fewer sessions of a side have no scatter.
const FEWEST: usize = 2;

/// The sessions of one side, oldest first.
struct Group {
    folder: PathBuf,
    folders: Vec<PathBuf>,
    sessions: Vec<(Session, Vec<Record>)>,
}

pub(crate) async fn run(command: &DriverCommand, printer: &Printer) -> Result<()> {
    match command {
        DriverCommand::Before {
            sessions,
            folder,
            options,
        } => {
            let mut side = Group::read(&folder.folder, BEFORE)?;
            if !Group::read(&folder.folder, AFTER)?.folders.is_empty() {
                return Err(Error::Input(format!(
                    "{} has sessions after the upgrade already; give another --folder",
                    folder.folder.display()
                )));
            }
            let driver = driver()?;
            side.check_driver(&driver, "go on with `driver after`")?;
            let args = side.next(&side, options)?;
            let failed = side.measure(&args, printer).await?;
            let left = (*sessions as usize).saturating_sub(side.complete().len());
            if left > 0 {
                let words = ["driver", "before", "--sessions", &sessions.to_string()];
                next_boot(left, &words, folder, printer);
            } else {
                printer.line("Now upgrade the driver and reboot, and go on on the new one:");
                printer.line(&again(&["driver", "after"], folder));
            }
            failed
        }
        DriverCommand::After(folder) => {
            let before = Group::read(&folder.folder, BEFORE)?;
            let mut side = Group::read(&folder.folder, AFTER)?;
            let then = before.driver();
            let then = then.filter(|_| before.complete().len() >= FEWEST);
            let then = then.ok_or_else(|| before.too_few())?;
            let driver = driver()?;
            if then == driver {
                return Err(Error::Input(format!(
                    "the driver is {driver}, and was {then} before: it is not upgraded; upgrade it, reboot, \
                     and run this again"
                )));
            }
            side.check_driver(&driver, "give another --folder for this one")?;
            let args = side.next(&before, &[])?;
            let failed = side.measure(&args, printer).await?;
            let (wanted, done) = (before.complete().len(), side.complete().len());
            if done < wanted {
                next_boot(wanted - done, &["driver", "after"], folder, printer);
                return failed;
            }
            compare(&before, &side, printer).and(failed)
        }
        DriverCommand::Compare(folder) => {
            let of = |side| Group::read(&folder.folder, side);
            compare(&of(BEFORE)?, &of(AFTER)?, printer)
        }
    }
}

/// The version of this machine's driver.
fn driver() -> Result<String> {
    host::local::open().facts().driver_version.ok_or_else(|| {
        let program = protocol::program();
        Error::Trouble(format!(
            "no NVIDIA driver answers on this machine; `{program} doctor` has the cause"
        ))
    })
}

fn again(words: &[&str], folder: &FolderArgs) -> String {
    let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    words.extend(["--folder".to_owned(), folder.folder.display().to_string()]);
    format!("    {} {}", protocol::program(), command_line(&words))
}

fn next_boot(left: usize, words: &[&str], folder: &FolderArgs, printer: &Printer) {
    let left = plural(left, "session is", "sessions are");
    printer.line(&format!("{left} left. Reboot, and run again:"));
    printer.line(&again(words, folder));
}

impl Group {
    fn read(folder: &Path, side: &str) -> Result<Self> {
        let folder = folder.join(side);
        let mut folders = Vec::new();
        if folder.is_dir() {
            let entries = fs::read_dir(&folder).map_err(reading(&folder))?;
            let paths = entries.flatten().map(|entry| entry.path());
            folders.extend(paths.filter(|path| path.join(SessionFolder::SESSION).is_file()));
        }
        let mut read = Vec::new();
        for path in folders {
            let place = SessionFolder::at(&path);
            let mut records = place.read_records()?.records;
            metrics::across_runs(&mut records);
            read.push((path, (place.read_session()?, records)));
        }
        read.sort_by_key(|(_, (session, _))| session.started_at);
        let (folders, sessions) = read.into_iter().unzip();
        Ok(Self {
            folder,
            folders,
            sessions,
        })
    }

    fn complete(&self) -> Vec<(Session, Vec<Record>)> {
        let all = self.sessions.iter();
        all.filter(|(session, _)| session.complete)
            .cloned()
            .collect()
    }

    fn driver(&self) -> Option<String> {
        let (session, _) = self.sessions.first()?;
        session.machine().driver_version.clone()
    }

    /// All sessions of a side are of one driver.
    fn check_driver(&self, now: &str, next: &str) -> Result<()> {
        match self.driver() {
            Some(then) if then != now => Err(Error::Input(format!(
                "the sessions in {} were measured with driver {then}, and this machine has {now}; {next}",
                self.folder.display()
            ))),
            _ => Ok(()),
        }
    }

    /// What measures the next session: what was cut off goes on; each is as the first one of `model`,
    /// and that one as the options say.
    fn next(&self, model: &Self, options: &[String]) -> Result<BenchArgs> {
        let read = |words: &[String]| {
            let read = Options::try_parse_from(words);
            read.map(|read| read.bench)
                .map_err(|error| Error::Input(error.to_string()))
        };
        let mut args = read(options)?;
        if args.out.is_some() || args.resume.is_some() || args.until_decided || args.dry_run {
            return Err(Error::Input(
                "--out, --resume, --until-decided and --dry-run are not for `driver`, which has a \
                 session of fixed length in a folder of its own for each boot; leave them out"
                    .to_owned(),
            ));
        }
        if !model.folders.is_empty() && !options.is_empty() {
            return Err(Error::Input(format!(
                "sessions in {} are as the first one; leave out what is behind `--`, or give another \
                 --folder",
                self.folder.display()
            )));
        }
        let all = self.sessions.iter().zip(&self.folders);
        let mut open = all.filter(|((session, _), _)| !session.complete);
        if let Some((_, folder)) = open.next() {
            args.resume = Some(folder.clone());
            return Ok(args);
        }
        if let Some(first) = model.folders.first() {
            let (settled, session) = resume::settled(&args, first)?;
            args = settled;
            args.blocks = Some(session.blocks);
        }
        let mut places = (1..).map(|number: u32| self.folder.join(number.to_string()));
        args.out = places.find(|place| !place.exists());
        Ok(args)
    }

    /// Measures a session to its end. The result within is that runs of it failed, which ends
    /// nothing: those of the other sessions may have, too.
    async fn measure(&mut self, args: &BenchArgs, printer: &Printer) -> Result<Result<()>> {
        let Some((folder, totals)) = bench::measure(args, printer).await? else {
            return Ok(Ok(()));
        };
        let side = self.folder.file_name().unwrap_or_default();
        let root = self.folder.parent().unwrap_or(Path::new("."));
        *self = Self::read(root, &side.to_string_lossy())?;
        let is_whole = totals.remaining == 0;
        let ended = bench::end(totals, "bench", &folder);
        if !is_whole {
            return ended.map(Ok);
        }
        if self.boots() < self.complete().len() {
            printer.note("this boot has measured a session before: reboot between two of them");
        }
        Ok(ended)
    }

    /// Boots of complete sessions; each session whose boot is not known counts as none.
    fn boots(&self) -> usize {
        let boots = self.sessions.iter().filter_map(|(session, _)| {
            let boot = session.machine().boot_id.as_deref();
            boot.filter(|_| session.complete)
        });
        boots.collect::<BTreeSet<_>>().len()
    }

    fn too_few(&self) -> Error {
        let found = plural(self.complete().len(), "session", "sessions");
        Error::Input(format!(
            "{} has {found} that ended, and a comparison needs {FEWEST} on either side; measure with \
             `{} driver {}`",
            self.folder.display(),
            protocol::program(),
            self.folder.file_name().unwrap_or_default().display()
        ))
    }

    fn describe(&self, count: usize) -> String {
        let driver = self.driver().unwrap_or_else(|| "unknown".to_owned());
        let (sessions, boots) = (plural(count, "session", "sessions"), self.boots());
        format!(
            "{driver} ({sessions} in {})",
            plural(boots, "boot", "boots")
        )
    }
}

/// Judges every image, prints what came of it and draws the pages.
fn compare(before: &Group, after: &Group, printer: &Printer) -> Result<()> {
    let (base, head) = (before.complete(), after.complete());
    for (side, sessions) in [(before, &base), (after, &head)] {
        if sessions.len() < FEWEST {
            return Err(side.too_few());
        }
    }
    printer.line(&format!(
        "driver {} against {}; the unit is a session",
        after.describe(head.len()),
        before.describe(base.len())
    ));
    for (side, sessions) in [(before, &base), (after, &head)] {
        if side.boots() < sessions.len() {
            printer.note(&format!(
                "warning: the sessions in {} are not each of a boot of its own: what lies between boots is \
                 not all in the noise, and may count as change",
                side.folder.display()
            ));
        }
    }
    // A power limit lasts until the next boot.
    let limits = |machine: &Machine| {
        let gpus = machine.gpus.iter();
        let limits = gpus.map(|gpu| gpu.power_limit_watts.map(|watts| format!("{watts} W")));
        Some(limits.collect::<Option<Vec<_>>>()?.join(" and "))
    };
    let machines = || {
        let all = base.iter().chain(&head);
        all.map(|(session, _)| session.machine())
    };
    let kernels: BTreeSet<String> = machines().map(|machine| machine.kernel.clone()).collect();
    let limits: BTreeSet<String> = machines().filter_map(limits).collect();
    for (what, all) in [("kernel", kernels), ("power limit", limits)] {
        if all.len() > 1 {
            let all: Vec<String> = all.into_iter().collect();
            printer.note(&format!(
                "warning: the {what} is not the same in all sessions ({}): what it does counts as change",
                all.join(", ")
            ));
        }
    }
    let mut failing = 0;
    let images = &base[0].0.images;
    let root = before.folder.parent().unwrap_or(Path::new("."));
    for (image, number) in images.iter().zip(1..) {
        let side = |name, sessions| Sessions { name, sessions };
        let options = verdict::Options::default();
        let (one, other) = (side(BEFORE, &base), side(AFTER, &head));
        let mut verdicts = compare_sessions(one, other, &image.name, &options)?;
        verdicts.base.driver_version = before.driver();
        verdicts.head.driver_version = after.driver();
        print(&verdicts, printer);
        let out = root.join(match images.len() {
            1 => "comparison".to_owned(),
            _ => format!("comparison-{number}"),
        });
        let page = reports::comparison::write(&verdicts, FailOn::Regressed, &out)?;
        printer.line(&format!("report: {}", page.display()));
        let gate = Gate::read(&verdicts, FailOn::Regressed);
        failing += if gate.passes() { 0 } else { gate.count() };
    }
    if failing > 0 {
        let failing = plural(failing, "metric", "metrics");
        return Err(Error::Gate(format!("the gate failed: {failing}")));
    }
    Ok(())
}

/// Every gated metric, with what so many sessions detect of it.
fn print(verdicts: &Verdicts, printer: &Printer) {
    let mut table = table(
        Format::Text,
        [
            "cell",
            "metric",
            "verdict",
            "change",
            "interval",
            "detectable",
        ],
    );
    for (cell, found) in verdicts.all().filter(|(_, found)| found.gated) {
        let judged = &found.comparison;
        let row = metrics::Metric::named(&found.metric);
        let range = judged.interval.map(|ends| interval(ends.lo, ends.hi));
        table.add_row([
            cell.name.clone(),
            row.map_or(found.metric.as_str(), |row| row.label)
                .to_owned(),
            found.outcome(),
            judged.ratio.map(change).unwrap_or_default(),
            range.unwrap_or_default(),
            judged
                .minimum_detectable_change
                .map(share)
                .unwrap_or_default(),
        ]);
    }
    printer.line(&format!("{}\n{table}", verdicts.head.image));
}
