//! Serving with a decoder: requests come and go between two tokens, each in a place of its own among
//! keys and values.

use std::{io::Write, time::Instant};

use libtorch::cuda;
use protocol::{Execution, RunFile};

use super::{
    generation::{Fixed, likeliest},
    phases::{Bench, Run},
    serving::{Stage, traced},
};
use crate::{
    Error,
    data::Lengths,
    device,
    models::{KeyValues, input_size},
    serving::Decoder,
    training::EAGER_STEPS,
};

/// How many tokens of all places say what a step takes.
const TIMED_STEPS: u32 = 8;

/// The places of all requests at work.
pub(super) struct Decoding {
    seen: KeyValues,
    fixed: Fixed,
    /// Where answers are of several lengths.
    answers: Option<Lengths>,
}

impl Decoding {
    /// As many places as a batch has, each for the longest prompt with the longest answer.
    pub(super) fn new(file: &RunFile, place: tch::Device) -> Result<Self, Error> {
        let variant = &file.variant;
        let longest = input_size(file.model, variant) + variant.longest_answer();
        let fixed = Fixed::of_places(variant.batch.get(), place)?;
        let mut seen = KeyValues::new(longest);
        fixed.lead(&mut seen);
        Ok(Self {
            seen,
            fixed,
            answers: Lengths::of_answers(variant, file.seed),
        })
    }

    /// Tokens of each request's answer.
    pub(super) fn answers<'f>(
        &self,
        file: &'f RunFile,
        stage: Stage,
    ) -> impl Fn(usize) -> u32 + use<'f> {
        let (answers, usual) = (self.answers, file.variant.new_tokens());
        move |request| {
            let traced = traced(file, request).and_then(|one| one.answer);
            let drawn = || answers.map_or(usual, |all| stage.length(all, request));
            traced.unwrap_or_else(drawn)
        }
    }

    fn read(&mut self, bench: &Bench, place: usize, length: u32) -> Result<(), Error> {
        let prompt = bench.batches[0].first(1)?.beginning(length)?;
        let mut seen = self.seen.of_sequence(place)?;
        let token = likeliest(&bench.work, &prompt.input, &mut seen)?;
        self.fixed.set(place, Some((&token, length.into())))
    }

    /// Has every place read the longest prompt and make some tokens, and frees them all. Returns
    /// the seconds that all prompts took, and those of a step.
    pub(super) fn fill(&mut self, bench: &Bench, file: &RunFile) -> Result<(f64, f64), Error> {
        let places = file.variant.batch.get() as usize;
        let began = Instant::now();
        for place in 0..places {
            self.read(bench, place, input_size(file.model, &file.variant))?;
        }
        device::synchronize(file.device)?;
        let read = Instant::now();
        let steps = TIMED_STEPS.min(file.variant.longest_answer());
        for _ in 0..steps {
            self.fixed.step(&bench.work, &mut self.seen)?;
        }
        device::synchronize(file.device)?;
        let step = read.elapsed().as_secs_f64() / f64::from(steps);
        self.clear(file)?;
        Ok(((read - began).as_secs_f64(), step))
    }

    /// Frees all places: a window that ended early leaves requests in some.
    pub(super) fn clear(&mut self, file: &RunFile) -> Result<(), Error> {
        let mut places = 0..file.variant.batch.get() as usize;
        places.try_for_each(|place| self.fixed.set(place, None))
    }

    /// Bytes that a sequence keeps for a token.
    pub(super) fn token_bytes(&self) -> u64 {
        self.seen.bytes_per_token()
    }
}

impl<W: Write> Run<'_, W> {
    /// Makes all places and the graph of a step, where one is asked for, and returns how many
    /// requests a second full places come to.
    pub(super) fn make_places(&mut self, bench: &Bench, all: &mut Decoding) -> Result<f64, Error> {
        let file = self.file;
        let (work, Decoding { seen, fixed, .. }) = (&bench.work, &mut *all);
        let mut steps = || (0..EAGER_STEPS).try_for_each(|_| fixed.step(work, seen));
        if file.variant.execution == Execution::CudaGraph {
            cuda::on_side_stream(steps)??;
            fixed.capture(work, seen)?;
        } else {
            steps()?;
        }
        self.results.heartbeat(0)?;
        all.fill(bench, file)?;
        self.apply_budget()?;
        let (reading, step) = all.fill(bench, file)?;
        self.results.heartbeat(0)?;
        let places = f64::from(file.variant.batch.get());
        Ok(places / (reading + file.variant.mean_answer() * step))
    }
}

/// Answers the requests of a window.
pub(super) struct Places<'p, 'r, W> {
    pub(super) run: &'p mut Run<'r, W>,
    pub(super) bench: &'p Bench,
    pub(super) all: &'p mut Decoding,
    pub(super) stage: Stage,
    pub(super) answered: u32,
}

impl<W: Write> Decoder for Places<'_, '_, W> {
    type Error = Error;

    fn read(&mut self, place: usize, request: usize) -> Result<(), Error> {
        let file = self.run.file;
        let length = self.stage.prompt(file, self.bench.lengths, request);
        let length = length.unwrap_or_else(|| input_size(file.model, &file.variant));
        self.all.read(self.bench, place, length)?;
        device::synchronize(file.device)
    }

    fn step(&mut self) -> Result<(), Error> {
        self.all.fixed.step(&self.bench.work, &mut self.all.seen)?;
        device::synchronize(self.run.file.device)
    }

    fn leave(&mut self, place: usize, request: usize) -> Result<(), Error> {
        self.all.fixed.set(place, None)?;
        self.run.empty_cache(self.answered)?;
        self.answered += 1;
        self.run.note_held(request)?;
        let most = self.run.file.steps.measured;
        self.run.results.heartbeat(self.answered.min(most))
    }
}
