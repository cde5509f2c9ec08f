//! Serving: requests arrive by themselves, and the model answers them in batches.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use protocol::{
    Count, LengthRange, RunFile, SEARCHED_QUANTILE, TracedRequest, Values, requests_needed,
    search_window,
};

use super::{
    MakeBatch,
    decoding::{Decoding, Places},
    phases::{Bench, Run},
};
use crate::{
    Error,
    data::{ArrivalTimes, Lengths, traced_rate},
    device,
    serving::{
        Objective, Policy, Serving, WallClock, Window, above, decode, highest_rate, keeps, serve,
    },
    summary::Summary,
    training::Unobserved,
};

/// Batches of so many sizes are answered before the first request: cuDNN tries its algorithms for
/// each size anew.
const SIZES: usize = 64;

/// How many full batches say what the model can do, which a search begins a quarter of.
const FULL_BATCHES: u32 = 3;

/// How often a rate is tried before it counts as too high: whatever else goes on on the machine for
/// a moment is no property of the server, and the search would not come back to that rate.
const CHANCES: u32 = 2;

/// Which requests: those of the warm-up have lengths of their own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    Warmup,
    Measured,
}

impl Stage {
    /// The length that a request draws.
    pub(super) fn length(self, of: Lengths, request: usize) -> u32 {
        let request = number(request);
        match self {
            Self::Warmup => of.in_warmup(request),
            Self::Measured => of.measured(request),
        }
    }

    /// Tokens of a request's prompt, where they differ.
    pub(super) fn prompt(
        self,
        file: &RunFile,
        drawn: Option<Lengths>,
        request: usize,
    ) -> Option<u32> {
        let traced = traced(file, request).and_then(|one| one.prompt);
        traced.or_else(|| Some(self.length(drawn?, request)))
    }

    fn arrivals(self, file: &RunFile, count: usize) -> ArrivalTimes {
        let arrivals = file.variant.arrivals.unwrap_or_default();
        match (&file.trace, self) {
            (Some(trace), _) => ArrivalTimes::traced(trace.requests(), count),
            (None, Self::Warmup) => ArrivalTimes::in_warmup(arrivals, file.seed, count),
            (None, Self::Measured) => ArrivalTimes::measured(arrivals, file.seed, count),
        }
    }
}

/// What a trace has of a request.
pub(super) fn traced(file: &RunFile, request: usize) -> Option<&TracedRequest> {
    let requests = file.trace.as_ref()?.requests();
    requests.get(request.checked_rem(requests.len())?)
}

/// What answers the requests.
struct Server {
    bench: Bench,
    /// Of a decoder.
    decoding: Option<Decoding>,
}

impl Server {
    /// Answers as many requests at once as there may be, as long as they may be.
    fn answer_most(&mut self, file: &RunFile) -> Result<(), Error> {
        match &mut self.decoding {
            Some(all) => all.fill(&self.bench, file).map(|_| ()),
            None => answer(
                file,
                &mut self.bench,
                file.variant.batch.get() as usize,
                None,
            ),
        }
    }
}

impl<W: Write> Run<'_, W> {
    /// All phases of a run that serves; a step is a request.
    pub(super) fn serve(mut self, make_batch: MakeBatch<'_>) -> Result<Summary, Error> {
        let (file, bench) = (self.file, self.prepare(make_batch)?);
        let decoding = file.model.is_decoder();
        let decoding = decoding.then(|| Decoding::new(file, self.place));
        let mut server = Server {
            bench,
            decoding: decoding.transpose()?,
        };

        self.begin_warmup()?;
        let capacity = match &mut server.decoding {
            Some(all) => self.make_places(&server.bench, all)?,
            None => self.answer_every_size(&mut server.bench)?,
        };
        let rate = match (file.variant.arrival_rate, &file.trace) {
            (Some(rate), _) => rate.get().into(),
            (None, Some(trace)) if !file.variant.searches_rate() => traced_rate(trace.requests()),
            (None, _) => capacity / 4.0,
        };
        let warmup = warmup_requests(file, rate);
        let times = Stage::Warmup.arrivals(file, warmup as usize);
        self.window(&mut server, &times.at_rate(rate), Stage::Warmup, None)?;
        self.end_warmup()?;

        let mut summary = self.measure_serving(&mut server, rate)?;
        summary.warmup_steps = warmup;
        self.profile((None, &[]), |_, _| server.answer_most(file))?;
        self.tear_down((server.bench, server.decoding))?;
        Ok(summary)
    }

    /// Answers batches of every size, and returns how many requests a second full ones come to.
    fn answer_every_size(&mut self, bench: &mut Bench) -> Result<f64, Error> {
        let most = self.file.variant.batch.get() as usize;
        let apart = most.div_ceil(SIZES);
        for size in (1..most).step_by(apart).chain([most]) {
            answer(self.file, bench, size, None)?;
            if size == 1 {
                self.apply_budget()?;
            }
            self.results.heartbeat(0)?;
        }
        let began = Instant::now();
        for _ in 0..FULL_BATCHES {
            answer(self.file, bench, most, None)?;
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(most as f64 * f64::from(FULL_BATCHES) / seconds)
    }

    /// Answers requests that arrive at these times.
    fn window(
        &mut self,
        server: &mut Server,
        times: &[Duration],
        stage: Stage,
        patience: Option<(Objective, usize)>,
    ) -> Result<Window, Error> {
        let (file, variant) = (self.file, &self.file.variant);
        // Of an earlier window, whose rejected requests are others.
        self.held.clear();
        let policy = Policy {
            batch: variant.batch.get() as usize,
            longest_wait: Duration::from_millis(
                variant.longest_wait_ms.map_or(0, Count::get).into(),
            ),
            queue: variant.queue_length() as usize,
            patience,
        };
        let (bench, mut clock) = (&mut server.bench, WallClock::begin());
        if let Some(all) = &mut server.decoding {
            all.clear(file)?;
            let answers = all.answers(file, stage);
            let mut places = Places {
                run: self,
                bench,
                all,
                stage,
                answered: 0,
            };
            return decode(times, answers, policy, &mut clock, &mut places);
        }
        let (lengths, mut batches) = (bench.lengths, 0);
        serve(times, policy, &mut clock, |requests| {
            let length = |&request: &usize| stage.prompt(file, lengths, request);
            // Shorter ones are padded.
            let longest = requests.iter().filter_map(length).max();
            answer(file, bench, requests.len(), longest)?;
            batches += 1;
            self.empty_cache(batches - 1)?;
            for &request in requests {
                self.note_held(request)?;
            }
            let last = requests.last().map_or(0, |&last| number(last));
            // A search takes as many as it needs.
            self.results.heartbeat((last + 1).min(file.steps.measured))
        })
    }

    /// The highest rate of arrivals at which the quantile keeps the objective, from this rate on.
    fn highest_rate(
        &mut self,
        server: &mut Server,
        start: f64,
        objective: Objective,
    ) -> Result<f64, Error> {
        let file = self.file;
        let least = requests_needed(SEARCHED_QUANTILE).max(file.steps.measured);
        let found = highest_rate(start, |rate| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of requests; a cast saturates"
            )]
            let lasting = (search_window(objective.first).as_secs_f64() * rate).ceil() as usize;
            let count = lasting.clamp(least as usize, 1_000_000);
            let times = Stage::Measured.arrivals(file, count).at_rate(rate);
            let patience = Some((objective, above(count, SEARCHED_QUANTILE)));
            for _ in 0..CHANCES {
                let window = self.window(server, &times, Stage::Measured, patience)?;
                if keeps(&window, objective, SEARCHED_QUANTILE) {
                    return Ok(true);
                }
            }
            Ok::<_, Error>(false)
        })?;
        found.ok_or(Error::ObjectiveNotMet { objective, start })
    }

    fn measure_serving(&mut self, server: &mut Server, mut rate: f64) -> Result<Summary, Error> {
        let (file, variant) = (self.file, &self.file.variant);
        let ms = |of: Count<600_000>| Duration::from_millis(of.get().into());
        let objective = variant.slo_ms.map(|slo| Objective {
            first: ms(slo),
            token: variant.slo_token_ms.map(ms),
        });
        let searched = objective.filter(|_| variant.searches_rate());
        let times = Stage::Measured.arrivals(file, file.steps.measured as usize);
        let (window, measured) = self.measured(|run| {
            // The largest batch there may be, so that peaks do not hang on which batches came about.
            server.answer_most(file)?;
            if let Some(objective) = searched {
                rate = run.highest_rate(server, rate, objective)?;
            }
            run.window(server, &times.at_rate(rate), Stage::Measured, None)
        })?;
        let bench = &server.bench;
        self.write_requests(&window, bench.lengths)?;
        let mut serving = Serving::of(&window, objective);
        if searched.is_some() {
            serving = serving.at_highest_rate(rate);
        }
        let mut summary = Summary {
            parameters: Some(bench.work.parameters().count()),
            measured_seconds: window.end.as_secs_f64(),
            serving: Some(serving),
            kv_cache_token_bytes: server.decoding.as_ref().map(Decoding::token_bytes),
            ..measured
        };
        summary.memory.parameter_bytes = Some(bench.work.parameters().bytes());
        Ok(summary)
    }

    fn write_requests(&mut self, window: &Window, lengths: Option<Lengths>) -> Result<(), Error> {
        for (place, request) in window.requests.iter().enumerate() {
            let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
            let answer = request.answer;
            let several = answer.filter(|answer| answer.tokens > 1);
            let values = [
                ("latency_seconds", seconds(request.latency())),
                (
                    "first_token_seconds",
                    seconds(several.and_then(|_| request.first())),
                ),
                ("token_seconds", seconds(request.token())),
                ("answer_tokens", several.map(|answer| answer.tokens.into())),
                ("queue_seconds", seconds(request.queued())),
                ("done_seconds", seconds(answer.map(|answer| answer.done))),
                (
                    "waiting_requests",
                    answer.map(|answer| answer.waiting as f64),
                ),
                ("batch_requests", answer.map(|answer| answer.batch as f64)),
                ("rejected", answer.is_none().then_some(1.0)),
                (
                    "sequence_length_tokens",
                    (Stage::Measured.prompt(self.file, lengths, place)).map(f64::from),
                ),
            ];
            self.write_step(number(place), values, Values::new())?;
        }
        Ok(())
    }
}

/// The number of a request, of which there are a million at most.
pub(super) fn number(request: usize) -> u32 {
    u32::try_from(request).unwrap_or(u32::MAX)
}

/// As many as asked for, and as arrive within the seconds asked for.
fn warmup_requests(file: &RunFile, rate: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of requests; a cast saturates"
    )]
    let in_time = (f64::from(file.steps.warmup_seconds) * rate).ceil() as u32;
    file.steps.warmup.max(in_time)
}

/// Answers a batch of so many requests, of sequences of this length or of the longest, and waits
/// for the device. The inputs lie there already, as those of inference do.
fn answer(
    file: &RunFile,
    bench: &mut Bench,
    requests: usize,
    length: Option<u32>,
) -> Result<(), Error> {
    let longest = file.variant.sequence_lengths.map(LengthRange::longest);
    let mut batch = bench.batches[0].first(requests)?;
    if let Some(length) = length.or(longest) {
        batch = batch.beginning(length)?;
    }
    let (log, work) = (&bench.log, &mut bench.work);
    work.step(0, &[batch], log, &mut Unobserved)?;
    device::synchronize(file.device)
}
