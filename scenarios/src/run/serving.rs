//! Serving: requests arrive by themselves, and the model answers them in batches.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use protocol::{
    Arrivals, Count, LengthRange, RunFile, SEARCHED_QUANTILE, Values, requests_needed,
    search_window,
};

use super::{
    MakeBatch,
    phases::{Bench, Run},
};
use crate::{
    Error,
    data::{ArrivalTimes, Lengths},
    device,
    serving::{Policy, Serving, WallClock, Window, above, highest_rate, quantile, serve},
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
type LengthOf = fn(Lengths, u32) -> u32;

impl<W: Write> Run<'_, W> {
    /// All phases of a run that serves; a step is a request.
    pub(super) fn serve(mut self, make_batch: MakeBatch<'_>) -> Result<Summary, Error> {
        let (file, mut bench) = (self.file, self.prepare(make_batch)?);
        let arrivals = file.variant.arrivals.unwrap_or_default();

        self.begin_warmup()?;
        let capacity = self.answer_every_size(&mut bench)?;
        let asked = file.variant.arrival_rate;
        let rate = asked.map_or(capacity / 4.0, |rate| rate.get().into());
        let warmup = warmup_requests(file, rate);
        let times = ArrivalTimes::in_warmup(arrivals, file.seed, warmup as usize);
        self.window(&mut bench, &times.at_rate(rate), Lengths::in_warmup, None)?;
        self.end_warmup()?;

        let mut summary = self.measure_serving(&mut bench, arrivals, rate)?;
        summary.warmup_steps = warmup;
        let batch = file.variant.batch.get() as usize;
        self.profile(|_| answer(file, &mut bench, batch, None))?;
        self.tear_down(bench)?;
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
        bench: &mut Bench,
        times: &[Duration],
        length_of: LengthOf,
        patience: Option<(Duration, usize)>,
    ) -> Result<Window, Error> {
        let (file, variant) = (self.file, &self.file.variant);
        let (lengths, mut batches) = (bench.lengths, 0);
        // Of an earlier window, whose rejected requests are others.
        self.allocated.clear();
        let policy = Policy {
            batch: variant.batch.get() as usize,
            longest_wait: Duration::from_millis(
                variant.longest_wait_ms.map_or(0, Count::get).into(),
            ),
            queue: variant.queue_length() as usize,
            patience,
        };
        serve(times, policy, &mut WallClock::begin(), |requests| {
            let length = |&request: &usize| Some(length_of(lengths?, number(request)));
            // Shorter ones are padded.
            let longest = requests.iter().filter_map(length).max();
            answer(file, bench, requests.len(), longest)?;
            batches += 1;
            self.empty_cache(batches - 1)?;
            for &request in requests {
                self.note_allocated(request)?;
            }
            let last = requests.last().map_or(0, |&last| number(last));
            // A search takes as many as it needs.
            self.results.heartbeat((last + 1).min(file.steps.measured))
        })
    }

    /// The highest rate of arrivals at which the quantile keeps the objective, from this rate on.
    fn highest_rate(
        &mut self,
        bench: &mut Bench,
        arrivals: Arrivals,
        start: f64,
        objective: Duration,
    ) -> Result<f64, Error> {
        let file = self.file;
        let least = requests_needed(SEARCHED_QUANTILE).max(file.steps.measured);
        let found = highest_rate(start, |rate| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of requests; a cast saturates"
            )]
            let lasting = (search_window(objective).as_secs_f64() * rate).ceil() as usize;
            let count = lasting.clamp(least as usize, 1_000_000);
            let times = ArrivalTimes::measured(arrivals, file.seed, count).at_rate(rate);
            let patience = Some((objective, above(count, SEARCHED_QUANTILE)));
            for _ in 0..CHANCES {
                let window = self.window(bench, &times, Lengths::measured, patience)?;
                let latency = quantile(&window, SEARCHED_QUANTILE);
                if latency.is_some_and(|latency| latency <= objective.as_secs_f64()) {
                    return Ok(true);
                }
            }
            Ok::<_, Error>(false)
        })?;
        found.ok_or(Error::ObjectiveNotMet { objective, start })
    }

    fn measure_serving(
        &mut self,
        bench: &mut Bench,
        arrivals: Arrivals,
        mut rate: f64,
    ) -> Result<Summary, Error> {
        let (file, slo) = (self.file, self.file.variant.slo_ms);
        let objective = slo.map(|slo| Duration::from_millis(slo.get().into()));
        let searched = objective.filter(|_| file.variant.arrival_rate.is_none());
        let times = ArrivalTimes::measured(arrivals, file.seed, file.steps.measured as usize);
        let (window, measured) = self.measured(|run| {
            // The largest batch there may be, so that peaks do not hang on which batches came about.
            answer(file, bench, file.variant.batch.get() as usize, None)?;
            if let Some(objective) = searched {
                rate = run.highest_rate(bench, arrivals, rate, objective)?;
            }
            run.window(bench, &times.at_rate(rate), Lengths::measured, None)
        })?;
        self.write_requests(&window, bench.lengths)?;
        let mut serving = Serving::of(&window, objective);
        if searched.is_some() {
            serving = serving.at_highest_rate(rate);
        }
        let mut summary = Summary {
            parameters: Some(bench.work.parameters().count()),
            measured_seconds: window.end.as_secs_f64(),
            serving: Some(serving),
            ..measured
        };
        summary.memory.parameter_bytes = Some(bench.work.parameters().bytes());
        Ok(summary)
    }

    fn write_requests(&mut self, window: &Window, lengths: Option<Lengths>) -> Result<(), Error> {
        for (index, request) in (0..).zip(&window.requests) {
            let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
            let values = [
                ("latency_seconds", seconds(request.latency())),
                ("queue_seconds", seconds(request.queued())),
                (
                    "batch_requests",
                    request.answer.map(|answer| answer.batch as f64),
                ),
                ("rejected", request.answer.is_none().then_some(1.0)),
                (
                    "sequence_length_tokens",
                    lengths.map(|lengths| lengths.measured(index).into()),
                ),
            ];
            self.write_step(index, values, Values::new())?;
        }
        Ok(())
    }
}

/// The number of a request, of which there are a million at most.
fn number(request: usize) -> u32 {
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
