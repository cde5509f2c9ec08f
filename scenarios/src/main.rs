//! The workload binary that runs in every container: `scenario RUN_FILE RESULTS_FILE`.
//!
//! With the flag of a data loader's worker alone it makes batches for the process that started it.
//! `scenario --write-folder RUN_FILE FOLDER` writes the folder that the run's loader would read.
//!
//! Exit codes: 0 the run finished; 1 it failed, and the results file says why; 2 wrong usage.

use std::{env, ffi::OsString, fs, path::Path, time::Duration};

use protocol::{RunFile, SNAPSHOT_FILE};
use scenario::{Error, data::Folder, host, loader, log, results::Results, run, summary::Summary};

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
    match execute(Path::new(run_file), Path::new(results_file), age) {
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

fn failed(error: &Error) -> u8 {
    log(format_args!("failed: {}", error.brief()));
    1
}

fn read(run_file: &Path) -> Result<String, Error> {
    fs::read_to_string(run_file).map_err(|source| Error::RunFileMissing {
        path: run_file.display().to_string(),
        source,
    })
}

fn write_folder(run_file: &Path, folder: &Path) -> Result<u64, Error> {
    let file = RunFile::parse(&read(run_file)?)?;
    Folder::at(folder, &file).write()
}

fn execute(run_file: &Path, results_file: &Path, age: Duration) -> Result<Summary, Error> {
    let mut results = Results::open(results_file)?;
    let text = match read(run_file) {
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
    if let Err(error) = libtorch::memory::write_snapshot(&snapshot) {
        log(format_args!("no snapshot: {error}"));
    }
    outcome
}
