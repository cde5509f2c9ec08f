//! The workload binary that runs in every container: `scenario RUN_FILE RESULTS_FILE`.
//!
//! With the flag of a data loader's worker alone it makes batches for the process that started it.
//! Where the run file asks for several ranks and `RANK` is not set, it starts itself once for each.
//! `scenario --write-folder RUN_FILE FOLDER` writes the folder that the run's loader would read.
//!
//! Exit codes: 0 the run finished; 1 it failed, and the results file says why; 2 wrong usage.

use std::{
    env, ffi::OsString, fs, io, num::NonZero, path::Path, process::Command, thread, time::Duration,
};

use protocol::{RunFile, SNAPSHOT_FILE};
use ranks::{How, Lost, Patience, Place};
use scenario::{
    Error,
    data::Folder,
    host, loader, log,
    results::{self, Results},
    run,
    summary::Summary,
};

fn main() -> ! {
    let age = host::since_process_start().unwrap_or_default();
    // Everything that counts has been written by now.
    libtorch::exit_now(code(age))
}

fn code(age: Duration) -> u8 {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if arguments == [loader::WORKER_FLAG] {
        return loader::work();
    }
    if let [flag, run_file, folder] = arguments.as_slice()
        && flag == "--write-folder"
    {
        let written = write_folder(Path::new(run_file), Path::new(folder));
        return match written {
            Ok(bytes) => {
                log(format_args!("{bytes} bytes"));
                0
            }
            Err(error) => failed(&error),
        };
    }
    let [run_file, results_file] = arguments.as_slice() else {
        log(format_args!("usage: scenario RUN_FILE RESULTS_FILE"));
        return 2;
    };
    let (run_file, results_file) = (Path::new(run_file), Path::new(results_file));
    let place = Place::of_this_process();
    if place.is_none()
        && let Some(count) = several(run_file)
    {
        return supervise(count, &arguments, results_file);
    }
    match execute(run_file, results_file, place, age) {
        Ok(summary) => {
            let seconds = summary.measured_seconds;
            match summary.throughput_samples_per_second {
                Some(rate) => {
                    let samples = summary.samples.unwrap_or_default();
                    log(format_args!(
                        "{samples} samples in {seconds:.3} s: {rate:.2} samples/s"
                    ));
                }
                None => log(format_args!("measured for {seconds:.3} s")),
            }
            0
        }
        Err(error) => failed(&error),
    }
}

/// How many ranks a run file asks for, where it is sound and those are several.
fn several(run_file: &Path) -> Option<u32> {
    let file = RunFile::parse(&fs::read_to_string(run_file).ok()?).ok()?;
    (file.ranks > 1).then_some(file.ranks)
}

/// Runs this program as every rank.
fn supervise(count: u32, arguments: &[OsString], results_file: &Path) -> u8 {
    let not_started = |error: io::Error| Lost {
        rank: 0,
        how: How::NotStarted(error),
    };
    let outcome = env::current_exe().map_err(not_started).and_then(|program| {
        ranks::run(count, Patience::USUAL, |_| {
            let mut command = Command::new(&program);
            command.args(arguments);
            command
        })
    });
    let Err(lost) = outcome else { return 0 };
    log(format_args!("rank {}: {}", lost.rank, lost.how));
    if let Err(error) = ranks::report(results_file, &lost) {
        log(format_args!("cannot report it: {error}"));
    }
    1
}

/// The run file, of one of several ranks as that is to carry it out.
fn read(run_file: &Path, place: Option<Place>) -> io::Result<String> {
    let text = fs::read_to_string(run_file)?;
    let (Some(place), Ok(file)) = (place, RunFile::parse(&text)) else {
        return Ok(text);
    };
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    let own = file.of_rank(place.local_rank, cpus).to_line();
    own.map_err(io::Error::other)
}

fn failed(error: &Error) -> u8 {
    log(format_args!("failed: {}", error.brief()));
    1
}

fn write_folder(run_file: &Path, folder: &Path) -> Result<u64, Error> {
    let text = read(run_file, None).map_err(|source| missing(run_file, source))?;
    Folder::at(folder, &RunFile::parse(&text)?).write()
}

fn missing(run_file: &Path, source: io::Error) -> Error {
    Error::RunFileMissing {
        path: run_file.display().to_string(),
        source,
    }
}

fn execute(
    run_file: &Path,
    results_file: &Path,
    place: Option<Place>,
    age: Duration,
) -> Result<Summary, Error> {
    let rank = place.map(|place| place.rank);
    if place.is_some() {
        ranks::die_with_supervisor();
    }
    let mut results = Results::open(results_file)?.of_rank(rank);
    if rank.is_some() {
        let path = results_file.to_owned();
        libtorch::distributed::on_terminate(move |error| {
            log(format_args!("failed: {error}"));
            results::fail_at(&path, rank, error.into());
        });
    }
    let text = match read(run_file, place).map_err(|source| missing(run_file, source)) {
        Ok(text) => text,
        Err(error) => return Err(results.fail(error, None)),
    };
    let outcome = run::carry_out(
        &text,
        age,
        &|source, index, device| source.micro_batch(index, device),
        &mut results,
    );
    let snapshot = results_file.with_file_name(SNAPSHOT_FILE);
    // Of several ranks the first one's.
    if rank.unwrap_or_default() == 0
        && let Err(error) = libtorch::memory::write_snapshot(&snapshot)
    {
        log(format_args!("no snapshot: {error}"));
    }
    outcome
}
