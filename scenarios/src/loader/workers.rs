//! The processes, and what they owe.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use protocol::RunFile;

use super::{WORKER_FLAG, prefetch, shared, worker};
use crate::{Error, data::Batch};

/// Worker processes, which take turns, so that the order is the same in every run.
#[derive(Debug)]
pub(super) struct Workers {
    workers: Vec<Worker>,
    /// Micro-batches that were taken and asked for.
    taken: usize,
    asked: usize,
    /// How many are asked for ahead of need.
    ahead: usize,
    /// Of so many micro-batches of a step as many as differ are asked for in turn; one after the
    /// other, without end, where this is `None`.
    turns: Option<[usize; 2]>,
}

#[derive(Debug)]
struct Worker {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Workers {
    /// Starts so many and asks for the first micro-batches, of this folder where there is one.
    pub(super) fn start(
        file: &RunFile,
        count: usize,
        folder: Option<&Path>,
        turns: Option<[usize; 2]>,
    ) -> Result<Self, Error> {
        let mut all = Self {
            workers: Vec::with_capacity(count),
            taken: 0,
            asked: 0,
            ahead: count * prefetch(file),
            turns,
        };
        let folder = folder.map_or_else(String::new, |path| path.display().to_string());
        let text = format!("{}\n{folder}", file.to_line()?);
        for place in 0..count {
            let worker = Worker::start(&text).map_err(|error| Error::Loader {
                worker: place + 1,
                workers: count,
                cause: format!("cannot be started: {error}"),
            })?;
            all.workers.push(worker);
        }
        all.ask_ahead()?;
        Ok(all)
    }

    fn ask_ahead(&mut self) -> Result<(), Error> {
        (0..self.ahead).try_for_each(|_| self.ask())
    }

    /// The processes' numbers.
    pub(super) fn processes(&self) -> Vec<u32> {
        let workers = self.workers.iter();
        workers.map(|worker| worker.process.id()).collect()
    }

    /// How many micro-batches a second come where nobody does anything with them, over at least so
    /// long, once those that were made ahead are gone. Begins anew with the first one.
    pub(super) fn rate(&mut self, least: Duration) -> Result<f64, Error> {
        for _ in 0..self.ahead {
            self.next()?;
        }
        let (began, mut count) = (Instant::now(), 0_u32);
        while began.elapsed() < least {
            self.next()?;
            count += 1;
        }
        let rate = f64::from(count) / began.elapsed().as_secs_f64();
        while self.taken < self.asked {
            self.take()?;
        }
        (self.taken, self.asked) = (0, 0);
        self.ask_ahead()?;
        Ok(rate)
    }

    /// The next micro-batch, where the worker put it. Asks for one more.
    pub(super) fn next(&mut self) -> Result<Batch, Error> {
        let batch = self.take()?;
        // The worker may let go of what is mapped.
        self.ask()?;
        Ok(batch)
    }

    fn take(&mut self) -> Result<Batch, Error> {
        let place = self.taken % self.workers.len();
        self.taken += 1;
        let process = self.workers[place].process.id();
        let input = self.answer(place)?;
        let labels = self.answer(place)?;
        let map = |line: &str| shared::map(process, line);
        match map(&input).and_then(|input| Ok((input, map(&labels)?))) {
            Ok((input, labels)) => Ok(Batch { input, labels }),
            Err(error) => Err(self.unmappable(place, error)),
        }
    }

    /// Asks the worker whose turn it is for one micro-batch more.
    fn ask(&mut self) -> Result<(), Error> {
        let index = self
            .turns
            .map_or(self.asked, |[of, different]| (self.asked % of) % different);
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

    /// Workers, the only one of which runs this shell script, after it has ended.
    fn after(script: &str) -> Workers {
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
        Workers {
            workers: vec![Worker {
                process,
                requests,
                answers,
            }],
            taken: 0,
            asked: 0,
            ahead: 1,
            turns: None,
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
