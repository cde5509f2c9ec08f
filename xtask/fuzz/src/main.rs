//! `fuzz [TARGET…] --seconds N | --inputs N [--seed S]`, and `fuzz TARGET --seed S --input N` for
//! one input again. Findings are written to `target/findings/TARGET/`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a driver for people and CI; it prints what it does"
)]

#[cfg(feature = "edges")]
mod edges;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    num::NonZero,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fuzz::{Finding, Inputs, Scratch, Target, all, check, named};

const USAGE: &str = "usage: fuzz [TARGET…] (--seconds N | --inputs N) [--seed S] [--from N]
       fuzz TARGET [--seed S] --input N     one input again
       fuzz --list";

/// What the main thread of a program has: an input that nests deeply is to find what it would there.
const MAIN_STACK_BYTES: usize = 8 << 20;

/// A loop without end is given up on after this long.
const STUCK: Duration = Duration::from_secs(30);

struct Arguments {
    targets: Vec<&'static Target>,
    seed: u64,
    from: u64,
    most: Most,
}

enum Most {
    Seconds(u64),
    Inputs(u64),
    One(u64),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--list"] {
        for target in all() {
            println!("{:<10} {}", target.name, target.about);
        }
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::of(&words) {
        Ok(arguments) => arguments,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (found, broken) = arguments.run_all();
    #[cfg(feature = "edges")]
    match edges::reached() {
        Some((taken, all)) => println!("{taken} of {all} edges reached by all of this"),
        None => println!("edges were not counted: compile with xtask/fuzz/rustc-with-edges"),
    }
    ExitCode::from(if broken { 4 } else { u8::from(found) })
}

impl Arguments {
    fn of(words: &[String]) -> Result<Self, String> {
        let (mut targets, mut seed, mut from, mut most) = (Vec::new(), 1, 0, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().map(String::as_str).unwrap_or_default();
                let number = value.replace('_', "").parse::<u64>();
                number.map_err(|_| format!("{word} takes a whole number, not `{value}`"))
            };
            match word.as_str() {
                "--seconds" => most = Some(Most::Seconds(number()?)),
                "--inputs" => most = Some(Most::Inputs(number()?)),
                "--input" => most = Some(Most::One(number()?)),
                "--seed" => seed = number()?,
                "--from" => from = number()?,
                name => targets.push(named(name).ok_or_else(|| {
                    let names: Vec<&str> = all().iter().map(|target| target.name).collect();
                    format!(
                        "there is no target `{name}`; there are {}",
                        names.join(", ")
                    )
                })?),
            }
        }
        if targets.is_empty() {
            targets.extend(all());
        }
        let most = most.ok_or("say how long: --seconds N or --inputs N")?;
        Ok(Self {
            targets,
            seed,
            from,
            most,
        })
    }

    /// Runs all targets, one on each core at a time: whether there were findings, and whether some
    /// could not be run.
    fn run_all(&self) -> (bool, bool) {
        let (next, found, broken) = (
            AtomicUsize::new(0),
            AtomicBool::new(false),
            AtomicBool::new(false),
        );
        let work = || {
            while let Some(target) = self.targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.run(target) {
                    Ok(kinds) => {
                        found.fetch_or(kinds > 0, Ordering::Relaxed);
                    }
                    Err(error) => {
                        eprintln!("{}: {error}", target.name);
                        broken.store(true, Ordering::Relaxed);
                    }
                }
            }
        };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            for _ in 0..cores.min(self.targets.len()) {
                let thread = thread::Builder::new().stack_size(MAIN_STACK_BYTES);
                if let Err(error) = thread.spawn_scoped(scope, work) {
                    eprintln!("no thread: {error}");
                    broken.store(true, Ordering::Relaxed);
                }
            }
        });
        (found.into_inner(), broken.into_inner())
    }

    /// Runs one target; how many kinds of findings there were.
    fn run(&self, target: &'static Target) -> io::Result<usize> {
        let inputs = Inputs::new(target, self.seed);
        let scratch = Scratch::new()?;
        if let Most::One(number) = self.most {
            let input = inputs.input(number);
            let kept = keep(target, "again", &input)?;
            println!("{} input {number} is {}", target.name, kept.display());
            let found = check(target, &input, &scratch);
            match &found {
                Ok(accepted) => println!("accepted: {accepted}"),
                Err(finding) => println!("{finding}"),
            }
            return Ok(usize::from(found.is_err()));
        }
        // An abort leaves nothing but this number; --input shows what it was.
        let place = findings(target);
        fs::create_dir_all(&place)?;
        let number_file = File::create(place.join("number"))?;
        let watch = Watch::start(target, self.seed);
        let begun = Instant::now();
        let mut kinds: BTreeMap<String, (u64, u64, Finding)> = BTreeMap::new();
        let (mut number, mut accepted) = (self.from, 0_u64);
        loop {
            let done = match self.most {
                Most::Seconds(seconds) => begun.elapsed() >= Duration::from_secs(seconds),
                Most::Inputs(most) => number - self.from >= most,
                Most::One(_) => true,
            };
            if done {
                break;
            }
            number_file.write_all_at(format!("{number:<20}\n").as_bytes(), 0)?;
            let input = inputs.input(number);
            watch.next(number);
            match check(target, &input, &scratch) {
                Ok(yes) => accepted += u64::from(yes),
                Err(finding) => {
                    let kind = finding.kind();
                    if let Some((_, count, _)) = kinds.get_mut(&kind) {
                        *count += 1;
                    } else {
                        let kept = keep(target, &format!("seed-{}-{number}", self.seed), &input)?;
                        println!(
                            "{} input {number}: {finding}\n  in {}",
                            target.name,
                            kept.display()
                        );
                        kinds.insert(kind, (number, 1, finding));
                    }
                }
            }
            number += 1;
        }
        watch.end();
        let inputs = number - self.from;
        println!(
            "{:<10} {inputs:>9} inputs of seed {} from {} in {:>6.1} s, {:>4.1} % accepted, {} findings",
            target.name,
            self.seed,
            self.from,
            begun.elapsed().as_secs_f64(),
            100.0 * accepted as f64 / inputs.max(1) as f64,
            kinds.len(),
        );
        for (kind, (first, count, _)) in &kinds {
            println!("  {count} × {kind}, first of input {first}");
        }
        Ok(kinds.len())
    }
}

fn findings(target: &Target) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("target/findings").join(target.name)
}

fn keep(target: &Target, name: &str, input: &[u8]) -> io::Result<PathBuf> {
    let folder = findings(target);
    fs::create_dir_all(&folder)?;
    let file = folder.join(name);
    fs::write(&file, input)?;
    Ok(file)
}

/// Ends the process where one input takes for ever.
struct Watch {
    /// The number of the input that is being read; `u64::MAX` when none is.
    now: Arc<AtomicU64>,
}

impl Watch {
    fn start(target: &'static Target, seed: u64) -> Self {
        let now = Arc::new(AtomicU64::new(u64::MAX));
        let shared = Arc::clone(&now);
        thread::spawn(move || {
            let (mut last, mut since) = (u64::MAX, Instant::now());
            // The other end is dropped when the target is done.
            while Arc::strong_count(&shared) > 1 {
                thread::sleep(Duration::from_millis(200));
                let number = shared.load(Ordering::Relaxed);
                if number != last {
                    (last, since) = (number, Instant::now());
                } else if number != u64::MAX && since.elapsed() > STUCK {
                    println!(
                        "{} input {number} of seed {seed}: not read after {} s; given up",
                        target.name,
                        STUCK.as_secs()
                    );
                    std::process::exit(1);
                }
            }
        });
        Self { now }
    }

    fn next(&self, number: u64) {
        self.now.store(number, Ordering::Relaxed);
    }

    fn end(self) {
        self.next(u64::MAX);
    }
}
