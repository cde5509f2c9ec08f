//! A night of many machines: what the program's commands cost, and which of them costs too much first.
//!
//!     cargo bench --profile fuzz -p torchgauge --bench scale -- \
//!         [--machines 10] [--nights 30] [--writers 4] [--blocks 10] [--folder DIR] \
//!         [--program FILE]
//!
//! The mock executor makes a session of 40 cells in 5 blocks; `fuzz` is a profile that is optimised
//! and has it. The other machines' sessions are that one under other names, with values that scatter
//! and with what an H200 was seen to do, so that records are as large as real ones. Then the commands
//! of a night, each as a process: `history add` by several at once, `trend --gate`, `site`, `report`.
//! `--blocks N` is the other way to do it, one session whose blocks are nodes'; 0 leaves either out.
//! Needs 25 MB for a machine and 30 nights, and 4 MB for a block.

#![expect(clippy::print_stdout, reason = "its table is what it is for")]

use std::{
    error::Error,
    fs,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use record::SessionFolder;
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CELLS: usize = 40;
const IMAGE: &str = "torch-2.11.0-cu130";
const OLD_IMAGE: &str = "torch-2.8.0-cu128";
/// As the mock's only host is called.
const MOCK_HOST: &str = "mock-1";
/// How often a process is looked at for the memory that it takes.
const TICK: Duration = Duration::from_millis(10);
/// What of a real record stands in for what the mock made up.
const REAL: [&str; 7] = [
    "values",
    "series",
    "memory_points",
    "phase_seconds",
    "phase_began_seconds",
    "harness",
    "monitor",
];

struct Args {
    machines: usize,
    nights: usize,
    writers: usize,
    blocks: usize,
    folder: PathBuf,
    program: PathBuf,
}

fn main() -> Outcome<()> {
    let own = tempfile::tempdir()?;
    let mut args = Args {
        machines: 10,
        nights: 30,
        writers: 4,
        blocks: 10,
        folder: own.path().to_owned(),
        program: env!("CARGO_BIN_EXE_torchgauge").into(),
    };
    // cargo gives an option of its own.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word}: no value"))?;
        match word.as_str() {
            "--machines" => args.machines = value.parse()?,
            "--nights" => args.nights = value.parse::<usize>()?.max(1),
            "--writers" => args.writers = value.parse()?,
            "--blocks" => args.blocks = value.parse()?,
            "--program" => args.program = value.into(),
            "--folder" => args.folder = tempfile::tempdir_in(value)?.keep(),
            _ => return Err(format!("{word}: no such option").into()),
        }
    }
    let home = Home::new(&args)?;
    println!("| stage | wall, s | CPU, s | most memory, MiB | MB | files |");
    println!("|---|---:|---:|---:|---:|---:|");
    if args.machines > 0 {
        many_sessions(&home, &args)?;
    }
    if args.blocks > 0 {
        one_session(&home, args.blocks)?;
    }
    if args.folder != own.path() {
        fs::remove_dir_all(&args.folder)?;
    }
    Ok(())
}

/// What one stage cost.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    wall: Duration,
    cpu_seconds: f64,
    peak_bytes: u64,
}

struct Home {
    folder: PathBuf,
    program: PathBuf,
    real: Vec<Value>,
}

impl Home {
    fn new(args: &Args) -> Outcome<Self> {
        let folder = &args.folder;
        let scenarios: Vec<String> = (0..CELLS / 4)
            .map(|place| {
                format!("- {{name: s{place}, model: vit-tiny, axes: {{batch: [1, 2, 4, 8]}}}}")
            })
            .collect();
        for (name, scenarios) in [("one", &scenarios[..]), ("two", &scenarios[..CELLS / 8])] {
            let text = format!(
                "version: 1\ndescription: d\ndefaults: {{steps: {{warmup: 2, measured: 50}}}}\n\
                 scenarios:\n{}\n",
                scenarios.join("\n")
            );
            fs::write(folder.join(format!("{name}.yaml")), text)?;
        }
        fs::create_dir(folder.join("locks"))?;
        let real = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../reports/gallery/h200-newest"
        );
        let real = records(&SessionFolder::at(real))?;
        let is_good = |record: &Value| record["outcome"]["kind"] == "ok";
        Ok(Self {
            folder: folder.clone(),
            program: args.program.clone(),
            real: real.into_iter().filter(is_good).collect(),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs the program, and tells what that cost.
    fn run(&self, words: &[&str], codes: &[i32]) -> Outcome<Cost> {
        let said = tempfile::tempfile()?;
        let began = Instant::now();
        let mut child = Command::new(&self.program)
            .args(words)
            .current_dir(&self.folder)
            .env("TORCHGAUGE_LOCKS", self.path("locks"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said.try_clone()?)
            .spawn()?;
        let status = format!("/proc/{}/status", child.id());
        let mut peak_bytes = 0;
        let code = loop {
            // Nothing is left of it after its end.
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            peak_bytes = peak_bytes.max(kib.unwrap_or_default() << 10);
            if let Some(status) = child.try_wait()? {
                break status.code();
            }
            thread::sleep(TICK);
        };
        let wall = began.elapsed();
        if !code.is_some_and(|code| codes.contains(&code)) {
            let said = read_all(said)?;
            return Err(format!("{words:?} ended with {code:?}: {said}").into());
        }
        Ok(Cost {
            wall,
            cpu_seconds: 0.0,
            peak_bytes,
        })
    }

    /// Prints what a stage cost, with the CPU time of the processes that ended in it, and what now
    /// lies in a folder.
    fn stage(
        &self,
        name: &str,
        place: &str,
        stage: impl FnOnce() -> Outcome<Cost>,
    ) -> Outcome<Cost> {
        let before = cpu_of_children()?;
        let began = Instant::now();
        let mut cost = stage()?;
        cost.wall = began.elapsed();
        cost.cpu_seconds = cpu_of_children()? - before;
        let (bytes, files) = size(&self.path(place))?;
        println!(
            "| {name} | {:.2} | {:.2} | {} | {:.1} | {files} |",
            cost.wall.as_secs_f64(),
            cost.cpu_seconds,
            cost.peak_bytes >> 20,
            bytes as f64 / 1e6
        );
        std::io::stdout().flush()?;
        Ok(cost)
    }
}

fn many_sessions(home: &Home, args: &Args) -> Outcome<()> {
    let Args {
        machines,
        nights,
        writers,
        ..
    } = *args;
    let bench = "--engine=mock:hosts=1,gpus=1;*=ok";
    home.stage("`bench`, one machine, by the mock", "template", || {
        home.run(
            &[
                "bench",
                "--suite=one.yaml",
                bench,
                "--device=cuda",
                "--image",
                IMAGE,
                "--blocks=5",
                "--out=template",
            ],
            &[0],
        )
    })?;
    let template = Template::read(home, "template")?;
    let newest = Timestamp::now() - SignedDuration::from_hours(2);
    let (bytes, files) = {
        for machine in 0..machines {
            template.write(
                &home.path(&format!("sessions/{}", session_name(machine, 0))),
                &session_name(machine, 0),
                &machine_name(machine),
                newest,
                salt(machine, 0),
            )?;
        }
        size(&home.path("sessions"))?
    };
    println!(
        "| sessions of {machines} machines, one night | | | | {:.1} | {files} |",
        bytes as f64 / 1e6
    );
    let add = |history: &str| add_all(home, history, machines, writers);
    let name = |nights: usize| {
        format!("`history add`, {machines} machines, {writers} at once, beside {nights} nights")
    };
    home.stage(&name(0), "h1", || add("h1"))?;
    fill(home, machines, nights, newest)?;
    home.stage(&name(nights - 1), "h", || add("h"))?;
    let trend = |words: &[&str]| home.run(&[&["trend", "--gate"], words].concat(), &[0, 1]);
    for history in ["h1", "h"] {
        let nights = if history == "h" { nights } else { 1 };
        let of_one = [
            "--history",
            history,
            "--machine",
            "gpu-0000",
            "--ledger=one.toml",
        ];
        home.stage(
            &format!("`trend --gate --machine`, {nights} nights"),
            history,
            || trend(&of_one),
        )?;
        home.stage(
            &format!("`trend --gate --out`, all machines, {nights} nights"),
            "trend",
            || trend(&["--history", history, "--ledger=all.toml", "--out=trend"]),
        )?;
        home.stage(
            &format!("`site` of sessions and {nights} nights"),
            "site",
            || {
                let words = ["site", "sessions", "--history", history, "--out=site"];
                home.run(&words, &[0])
            },
        )?;
    }
    let one = format!("sessions/{}", session_name(0, 0));
    home.stage("`report` of one", &one, || {
        home.run(&["report", &one], &[0])
    })?;
    for folder in ["sessions", "h", "h1", "site", "trend"] {
        fs::remove_dir_all(home.path(folder))?;
    }
    Ok(())
}

fn machine_name(machine: usize) -> String {
    format!("gpu-{machine:04}")
}

fn session_name(machine: usize, night: usize) -> String {
    format!("night-{night:03}-{machine:04}")
}

/// A process for each machine, as many at once as there are writers.
fn add_all(home: &Home, history: &str, machines: usize, writers: usize) -> Outcome<Cost> {
    let next = AtomicUsize::new(0);
    let write = || -> Outcome<u64> {
        let mut peak = 0;
        loop {
            let machine = next.fetch_add(1, Ordering::Relaxed);
            if machine >= machines {
                return Ok(peak);
            }
            let folder = format!("sessions/{}", session_name(machine, 0));
            let revision = "--revision=r000";
            let words = [
                "history",
                "--history",
                history,
                "add",
                &folder,
                "--branch=main",
                revision,
            ];
            peak = peak.max(home.run(&words, &[0])?.peak_bytes);
        }
    };
    let peaks: Vec<Outcome<u64>> = thread::scope(|scope| {
        let all: Vec<_> = (0..writers).map(|_| scope.spawn(write)).collect();
        all.into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err("a writer broke".into())))
            .collect()
    });
    let mut cost = Cost::default();
    for peak in peaks {
        cost.peak_bytes = cost.peak_bytes.max(peak?);
    }
    Ok(cost)
}

/// The nights before the newest, as `history add` would have written them.
fn fill(home: &Home, machines: usize, nights: usize, newest: Timestamp) -> Outcome<()> {
    let place = |history: &str, machine| {
        home.path(&format!(
            "{history}/results/{}/one/torch-cu",
            machine_name(machine)
        ))
    };
    let text = fs::read(place("h1", 0).join(session_name(0, 0) + ".json"))?;
    let first: Value = serde_json::from_slice(&text)?;
    for machine in 0..machines {
        let folder = place("h", machine);
        fs::create_dir_all(&folder)?;
        for night in 1..nights {
            let mut file = first.clone();
            let name = session_name(machine, night);
            let began = json!(newest - SignedDuration::from_hours(24 * i64::try_from(night)?));
            file["session"] = json!(name);
            file["machine"]["name"] = json!(machine_name(machine));
            file["started"] = began.clone();
            file["ended"] = began.clone();
            file["labels"]["revision"] = json!(format!("r{night:03}"));
            let cells = file["cells"].as_array_mut();
            for (place, cell) in cells.into_iter().flatten().enumerate() {
                for run in cell["runs"].as_array_mut().into_iter().flatten() {
                    run["started"] = began.clone();
                }
                let metrics = cell["metrics"].as_object_mut().into_iter().flatten();
                let values = metrics
                    .filter_map(|(_, values)| values.as_array_mut())
                    .flatten();
                for (number, value) in values.enumerate() {
                    vary(value, salt(machine, night) ^ salt(place, number), 0.01);
                }
            }
            fs::write(folder.join(name + ".json"), serde_json::to_vec(&file)?)?;
        }
    }
    Ok(())
}

/// A session of the mock's, out of which all others are made.
struct Template {
    session: Value,
    records: Vec<Value>,
}

impl Template {
    /// With what an H200 was seen to do in place of what the mock makes up.
    fn read(home: &Home, folder: &str) -> Outcome<Self> {
        let folder = SessionFolder::at(home.path(folder));
        let text = fs::read(folder.path().join(SessionFolder::SESSION))?;
        let mut records = records(&folder)?;
        for record in &mut records {
            let cell = format!("{}{}", record["scenario"], record["axes"]["batch"]);
            let real = &home.real[cell.bytes().map(usize::from).sum::<usize>() % home.real.len()];
            for key in REAL {
                record[key] = real[key].clone();
            }
        }
        Ok(Self {
            session: serde_json::from_slice(&text)?,
            records,
        })
    }

    fn write(
        &self,
        folder: &Path,
        name: &str,
        machine: &str,
        began: Timestamp,
        salt: u64,
    ) -> Outcome<()> {
        fs::create_dir_all(folder.join(SessionFolder::LOGS))?;
        let mut session = self.session.clone();
        session["session"] = json!(name);
        session["started_at"] = json!(began);
        session["ended_at"] = json!(began + SignedDuration::from_hours(1));
        let text = serde_json::to_string_pretty(&session)?.replace(MOCK_HOST, machine);
        fs::write(folder.join(SessionFolder::SESSION), text)?;
        let mut file = BufWriter::new(fs::File::create(folder.join(SessionFolder::RECORDS))?);
        for (number, record) in self.records.iter().enumerate() {
            let mut record = record.clone();
            record["session"] = json!(name);
            record["started_at"] =
                json!(began + SignedDuration::from_secs(18 * i64::try_from(number)?));
            let scatter = 0.01 * scatter(salt ^ mixed(number as u64));
            for value in record["values"].as_object_mut().into_iter().flatten() {
                scale(value.1, 1.0 + scatter);
            }
            let text = serde_json::to_string(&record)?.replace(MOCK_HOST, machine);
            writeln!(file, "{text}")?;
        }
        Ok(file.flush()?)
    }
}

/// One session whose blocks are parts, each of another node.
fn one_session(home: &Home, blocks: usize) -> Outcome<()> {
    let engine = "--engine=nodes:mock:hosts=1,gpus=1;*=ok";
    let of_all = format!("--blocks={blocks}");
    home.stage(
        &format!("one session: {blocks} blocks planned"),
        "s",
        || {
            let images = ["--image", OLD_IMAGE, "--image", IMAGE, "--out=s"];
            let words = [
                "bench",
                "--suite=two.yaml",
                engine,
                "--device=cuda",
                &of_all,
            ];
            home.run(&[&words[..], &images].concat(), &[3])
        },
    )?;
    let part = |block: usize| home.path(&format!("s/parts/{block:03}"));
    home.stage("one session: a block, by the mock", "s/parts/000", || {
        let part = part(0);
        home.run(&["node", &part.to_string_lossy()], &[0])
    })?;
    let template = Template::read(home, "s/parts/000")?;
    let name = template.session["session"].as_str().unwrap_or_default();
    let began = Timestamp::now();
    // Half of each block's runs, and then all.
    for (share, codes) in [(2, [3, 3]), (1, [0, 0])] {
        for block in 0..blocks {
            let mut of_block = Template {
                session: template.session.clone(),
                records: template.records[..CELLS / share].to_vec(),
            };
            of_block.session["first_block"] = json!(block);
            of_block.session["complete"] = json!(share == 1);
            for (number, record) in of_block.records.iter_mut().enumerate() {
                let order = block * CELLS + number;
                let run = record["run"].as_str().unwrap_or_default();
                let cell = run.splitn(3, '-').nth(2).unwrap_or_default();
                record["run"] = json!(format!("{order:04}-b{block}-{cell}"));
                record["block"] = json!(block);
                record["order"] = json!(order);
            }
            let machine = machine_name(block);
            of_block.write(&part(block), name, &machine, began, salt(block, 0))?;
        }
        let (bytes, _) = size(&home.path("s/parts"))?;
        println!(
            "| parts, {} of their runs done | | | | {:.1} | |",
            1.0 / share as f64,
            bytes as f64 / 1e6
        );
        home.stage(
            "one session: gathered by `--resume`, with its report",
            "s",
            || home.run(&["bench", "--resume=s"], &codes),
        )?;
    }
    home.stage("one session: gathered again", "s", || {
        home.run(&["bench", "--resume=s"], &[0])
    })?;
    home.stage("one session: `compare`", "s", || {
        let sides = [OLD_IMAGE, IMAGE].map(|image| format!("s:{image}"));
        home.run(&["compare", &sides[0], &sides[1]], &[0, 1])
    })?;
    fs::remove_dir_all(home.path("s"))?;
    Ok(())
}

fn records(folder: &SessionFolder) -> Outcome<Vec<Value>> {
    let lines = String::from_utf8(folder.read_lines()?)?;
    Ok(lines
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}

fn read_all(mut file: fs::File) -> Outcome<String> {
    use std::io::{Read as _, Seek as _};
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// What processes took that have ended, in seconds; the kernel counts hundredths.
fn cpu_of_children() -> Outcome<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    let (_, after_name) = text.rsplit_once(')').ok_or("/proc/self/stat has no name")?;
    let ticks = after_name.split_whitespace().skip(13).take(2);
    let ticks: Vec<f64> = ticks.map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// Bytes and files in and below a folder.
fn size(folder: &Path) -> Outcome<(u64, usize)> {
    let mut all = (0, 0);
    if !folder.is_dir() {
        return Ok(all);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (bytes, files) = if entry.file_type()?.is_dir() {
            size(&entry.path())?
        } else {
            (entry.metadata()?.len(), 1)
        };
        all = (all.0 + bytes, all.1 + files);
    }
    Ok(all)
}

fn vary(value: &mut Value, salt: u64, spread: f64) {
    scale(value, 1.0 + spread * scatter(salt));
}

/// Whole numbers stay so.
fn scale(value: &mut Value, by: f64) {
    if let Some(number) = value.as_f64() {
        let scaled = number * by;
        *value = json!(if number.fract() == 0.0 {
            number
        } else {
            scaled
        });
    }
}

/// Roughly normal, with a standard deviation of 1.
fn scatter(salt: u64) -> f64 {
    let uniform = |number| mixed(salt.wrapping_add(number)) as f64 / u64::MAX as f64 - 0.5;
    (0..12).map(uniform).sum()
}

fn salt(one: usize, other: usize) -> u64 {
    mixed((one as u64) << 32 | other as u64)
}

/// Splitmix.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
