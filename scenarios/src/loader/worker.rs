//! A worker's side: makes micro-batches until nobody asks for more.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead, Write},
    path::Path,
};

use protocol::RunFile;

use super::{prefetch, shared};
use crate::{
    Error,
    data::{Folder, Source},
    parallel::Ranks,
};

/// What an answer begins with that says why there is no batch.
pub(super) const FAILED: &str = "failed ";

/// Serves the process that started this one. Returns the exit code.
pub fn work() -> u8 {
    let mut out = io::stdout().lock();
    match serve(&mut io::stdin().lock(), &mut out) {
        Ok(()) => 0,
        Err(error) => {
            // One line, whatever the error's words. Where nobody listens, nobody needs it.
            let words = error.brief().replace('\n', " ");
            let _ = writeln!(out, "{FAILED}{words}").and_then(|()| out.flush());
            1
        }
    }
}

fn serve(requests: &mut dyn BufRead, answers: &mut dyn Write) -> Result<(), Error> {
    let mut lines = requests.lines();
    let Some(text) = next(&mut lines)? else {
        return Ok(());
    };
    let file = RunFile::parse(&text)?;
    libtorch::set_threads(1)?;
    let source = Source::new(file.model, &file.variant, file.seed).of_worker();
    // The environment is that of the rank which started this.
    let ranks = Ranks::of_run(&file)?;
    let folder = next(&mut lines)?.filter(|path| !path.is_empty());
    let mut folder = folder.map(|path| Folder::at(Path::new(&path), &file));
    // A file stays open until the other side has mapped it, which it has by the time that it asks
    // for one more than it was to have ahead.
    let ahead = prefetch(&file);
    let mut open: VecDeque<[File; 2]> = VecDeque::new();
    while let Some(request) = next(&mut lines)? {
        let index: usize = request.trim().parse().map_err(|_| Error::Pipe {
            doing: "reading a request from",
            source: io::Error::other(format!("`{request}` is no number of a batch")),
        })?;
        if open.len() >= ahead {
            open.pop_front();
        }
        let index = ranks
            .as_ref()
            .map_or(index, |ranks| ranks.micro_batch(index));
        let batch = match &mut folder {
            Some(folder) => folder.micro_batch(index),
            None => source.micro_batch(index, tch::Device::Cpu),
        }?;
        let (input, input_line) = shared::put(&batch.input)?;
        let (labels, labels_line) = shared::put(&batch.labels)?;
        open.push_back([input, labels]);
        writeln!(answers, "{input_line}\n{labels_line}")
            .and_then(|()| answers.flush())
            .map_err(|source| Error::Pipe {
                doing: "answering through",
                source,
            })?;
    }
    Ok(())
}

fn next(lines: &mut dyn Iterator<Item = io::Result<String>>) -> Result<Option<String>, Error> {
    lines.next().transpose().map_err(|source| Error::Pipe {
        doing: "reading from",
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(requests: &str) -> Result<String, Error> {
        let mut answers = Vec::new();
        serve(&mut requests.as_bytes(), &mut answers)?;
        Ok(String::from_utf8(answers).unwrap())
    }

    const RUN: &str = r#"{"version":4,"run":"r","model":"vit-tiny","task":"training","variant":{"batch":2,"loader_workers":1},"device":"cpu","steps":{"warmup":0,"measured":1},"seed":1}"#;

    #[test]
    fn a_request_is_answered_with_two_files() {
        assert_eq!(answers("").unwrap(), "");
        let found = answers(&format!("{RUN}\n\n0\n0\n")).unwrap();
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 4, "{found}");
        for (line, form) in lines
            .iter()
            .zip(["float 2 3 32 32", "int64 2"].iter().cycle())
        {
            assert!(line.ends_with(form), "{line}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        let error = answers("nonsense\n").unwrap_err();
        assert!(error.to_string().contains("run file"), "{error}");
        let error = answers(&format!("{RUN}\n\nx\n")).unwrap_err();
        assert!(error.to_string().contains("`x` is no number"), "{error}");
    }
}
