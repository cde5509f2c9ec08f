//! A data loader with worker processes, as `PyTorch`'s `DataLoader` has them: each worker makes whole
//! micro-batches ahead of need and hands them over as files in `/dev/shm`, which this process maps.
//!
//! The micro-batches are those that a run without a loader keeps on the device, made anew for every
//! step: the same work and the same losses, and the way of the data besides. Batches reach a GPU
//! from pageable memory, as with `pin_memory=False`, `PyTorch`'s default.
//!
//! A worker is this program again, started afresh, because a process that has threads cannot be
//! forked in safety. It reads the run file's text from its standard input as the first line, then
//! the number of a micro-batch a line, and answers each with two lines, one for the input and one
//! for the labels, or with one that says why there are none.

mod shared;
mod worker;

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use protocol::{MemoryFormat, RunFile};
use tch::Device;

pub use self::worker::work;
use crate::{Error, data::Batch, nn::in_format, training::Feed};

/// The argument that makes this program a worker.
pub const WORKER_FLAG: &str = "--loader-worker";

/// As `PyTorch`'s `prefetch_factor`.
const USUAL_PREFETCH: usize = 2;

/// The workers, and what they owe.
#[derive(Debug)]
pub struct Loader {
    workers: Vec<Worker>,
    taken: usize,
    asked: usize,
    accumulation: usize,
    /// How many of them differ.
    different: usize,
    memory_format: MemoryFormat,
    device: Device,
}

#[derive(Debug)]
struct Worker {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// How many micro-batches each worker makes ahead of need.
fn prefetch(file: &RunFile) -> usize {
    file.variant
        .prefetch_factor
        .map_or(USUAL_PREFETCH, |factor| factor.get() as usize)
}

impl Loader {
    /// Starts the workers and asks them for the first micro-batches, of which `different` ones
    /// take turns within a step; `None` where the variant has no loader.
    pub fn of(file: &RunFile, different: usize, device: Device) -> Result<Option<Self>, Error> {
        let Some(count) = file.variant.loader_workers else {
            return Ok(None);
        };
        let count = count.get() as usize;
        let mut loader = Self {
            workers: Vec::with_capacity(count),
            taken: 0,
            asked: 0,
            accumulation: file.variant.accumulation.get() as usize,
            different,
            memory_format: file.variant.memory_format,
            device,
        };
        let text = file.to_line()?;
        for place in 0..count {
            let worker = Worker::start(&text).map_err(|error| Error::Loader {
                worker: place + 1,
                workers: count,
                cause: format!("cannot be started: {error}"),
            })?;
            loader.workers.push(worker);
        }
        for _ in 0..count * prefetch(file) {
            loader.ask()?;
        }
        Ok(Some(loader))
    }

    /// Asks the worker whose turn it is for one micro-batch more.
    fn ask(&mut self) -> Result<(), Error> {
        let index = (self.asked % self.accumulation) % self.different;
        let place = self.asked % self.workers.len();
        self.asked += 1;
        let sent = writeln!(self.workers[place].requests, "{index}");
        sent.map_err(|_| self.ended(place))
    }

    /// The next line of a worker's answer.
    fn answer(&mut self, place: usize) -> Result<String, Error> {
        let mut line = String::new();
        match self.workers[place].answers.read_line(&mut line) {
            Ok(bytes) if bytes > 0 && line.ends_with('\n') => {}
            _ => return Err(self.ended(place)),
        }
        line.truncate(line.len() - 1);
        match line.strip_prefix(worker::FAILED) {
            None => Ok(line),
            Some(cause) => Err(self.failed(place, cause.to_owned())),
        }
    }

    /// Why a worker says nothing more: in its own words, which may still lie behind answers that
    /// nobody has read, or else how it ended.
    fn ended(&mut self, place: usize) -> Error {
        let unread = self.workers[place].answers.by_ref().lines();
        let mut unread = unread.map_while(Result::ok);
        let said = unread.find_map(|line| Some(line.strip_prefix(worker::FAILED)?.to_owned()));
        if let Some(cause) = said {
            return self.failed(place, cause);
        }
        let status = self.workers[place].process.wait();
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        self.failed(place, format!("ended before its batch was taken: {how}"))
    }

    /// Why an answer's files cannot be mapped: a worker that has died since it answered took them
    /// along, which the kernel may do a moment before it tells of the death.
    fn unmappable(&mut self, place: usize, error: Error) -> Error {
        const MOMENT: Duration = Duration::from_secs(1);
        let began = Instant::now();
        while began.elapsed() < MOMENT {
            if let Ok(Some(_)) = self.workers[place].process.try_wait() {
                return self.ended(place);
            }
            thread::sleep(MOMENT / 100);
        }
        error
    }

    fn failed(&self, place: usize, cause: String) -> Error {
        Error::Loader {
            worker: place + 1,
            workers: self.workers.len(),
            cause,
        }
    }
}

impl Feed for Loader {
    /// The next micro-batch. Workers take turns, so that the order is the same in every run.
    fn micro_batch(&mut self, _: usize) -> Result<Batch, Error> {
        let place = self.taken % self.workers.len();
        self.taken += 1;
        let process = self.workers[place].process.id();
        let input = self.answer(place)?;
        let labels = self.answer(place)?;
        let map = |line: &str| shared::map(process, line);
        let (input, labels) = match map(&input).and_then(|input| Ok((input, map(&labels)?))) {
            Ok(mapped) => mapped,
            Err(error) => return Err(self.unmappable(place, error)),
        };
        // The worker may let go of what is mapped.
        self.ask()?;
        let mut input = input.f_to_device(self.device)?;
        if self.memory_format == MemoryFormat::ChannelsLast {
            input = in_format(input, self.memory_format)?;
        }
        Ok(Batch {
            input,
            labels: labels.f_to_device(self.device)?,
        })
    }
}

impl Worker {
    fn start(text: &str) -> std::io::Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .arg(WORKER_FLAG)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = || std::io::Error::other("no pipe");
        let requests = process.stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(process.stdout.take().ok_or_else(missing)?);
        let mut worker = Self {
            process,
            requests,
            answers,
        };
        writeln!(worker.requests, "{text}")?;
        Ok(worker)
    }
}

impl Drop for Worker {
    /// A worker holds nothing that anybody needs.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loader whose only worker runs this shell script, after it has ended.
    fn after(script: &str) -> Loader {
        let mut process = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        while process.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        Loader {
            workers: vec![Worker {
                process,
                requests,
                answers,
            }],
            taken: 0,
            asked: 0,
            accumulation: 1,
            different: 1,
            memory_format: MemoryFormat::Contiguous,
            device: Device::Cpu,
        }
    }

    #[test]
    fn what_a_worker_said_last_counts_although_answers_before_it_are_unread() {
        let script = format!(
            "echo input; echo labels; echo '{}no room'; exit 1",
            worker::FAILED
        );
        let error = after(&script).ask().unwrap_err().to_string();
        assert!(error.contains("no room"), "{error}");
        assert!(!error.contains("exit status"), "{error}");
    }

    #[test]
    fn a_worker_that_said_nothing_is_told_by_how_it_ended() {
        let error = after("echo input; exit 7").ask().unwrap_err().to_string();
        assert!(error.contains("exit status: 7"), "{error}");
    }
}
