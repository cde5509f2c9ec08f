//! The phases of a run whose device is ready.

use std::{io::Write, mem, time::Instant};

use libtorch::{cuda, distributed::ProcessGroup};
use protocol::{
    Data, Device, Event, Execution, InputKind, Moment, Phase, Precision, RunFile, Snapshot, Step,
    Task, Values,
};

use super::{
    MakeBatch,
    losses::{check_falling, check_finite},
};
use crate::{
    Error,
    budget::Budget,
    ceiling,
    data::{Batch, Lengths, Patches, Source},
    device, host,
    loader::Loader,
    memory::MemoryMeter,
    models,
    nn::{Placement, Rounding},
    parallel::{self, Ranks},
    results::Results,
    stopwatch::{Inside, Lap, StepWatch},
    summary::{Exchange, Memory, ScalerState, Summary, values},
    training::{Arithmetic, Captured, Feed, Observer, StepLog, Unobserved, Work},
};

/// Most steps that exchange nothing.
const WITHOUT_EXCHANGE: u32 = 20;

/// A run whose device is ready.
pub(super) struct Run<'a, W> {
    pub(super) file: &'a RunFile,
    pub(super) place: tch::Device,
    pub(super) results: &'a mut Results<W>,
    pub(super) meter: &'a mut MemoryMeter,
    pub(super) budget: Option<Budget>,
    /// Which of several ranks this is.
    pub(super) ranks: Option<Ranks>,
    pub(super) group: Option<ProcessGroup>,
    /// Ranks that exchange nothing, and measure at the same time.
    replicas: Option<ProcessGroup>,
    /// What memory held after each measured step, under the names of its series; of serving nothing
    /// for a rejected request.
    pub(super) held: Vec<Values>,
    /// Of the gradients of the first warm-up steps, where runs are deterministic.
    pub(super) digests: Values,
}

/// What the steps work with.
pub(super) struct Bench {
    pub(super) work: Work,
    /// The batches that lie on the device from the start; none where a loader brings them.
    pub(super) batches: Vec<Batch>,
    pub(super) loader: Option<Loader>,
    /// Where each step takes sequences of a length of its own.
    pub(super) lengths: Option<Lengths>,
    /// Where each step takes a patch of every volume.
    pub(super) patches: Option<Patches>,
    /// Warm-up steps, then one place for those that time alone asked for, then measured steps.
    pub(super) log: StepLog,
    /// There once the step is captured, where the variant asks for it.
    pub(super) captured: Option<Captured>,
    pub(super) warmup_steps: u32,
    /// Mean seconds of each stretch between the marks of a measured step.
    pub(super) stretches: Vec<f64>,
}

impl Bench {
    /// One step, eager or replayed, noted as number `number`, on sequences of this length where
    /// lengths vary.
    pub(super) fn step(
        &mut self,
        number: u32,
        length: Option<u32>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        if let Some(captured) = &mut self.captured {
            return captured.step(number, &self.log);
        }
        let mut batches = self.batches.as_slice();
        let feed: &mut dyn Feed = match &mut self.loader {
            Some(loader) => loader,
            None => &mut batches,
        };
        let mut cut;
        let feed = match length {
            None => feed,
            Some(length) => {
                cut = Beginnings { feed, length };
                &mut cut
            }
        };
        let Some(patches) = self.patches else {
            return self.work.step_fed(number, feed, &self.log, observer);
        };
        let mut cut = patches.cut(feed, number);
        self.work.step_fed(number, &mut cut, &self.log, observer)
    }
}

/// Batches cut to the length of a step.
struct Beginnings<'a> {
    feed: &'a mut dyn Feed,
    length: u32,
}

impl Feed for Beginnings<'_> {
    fn micro_batch(&mut self, index: usize) -> Result<Batch, Error> {
        self.feed.micro_batch(index)?.beginning(self.length)
    }
}

impl<'a, W: Write> Run<'a, W> {
    pub(super) fn new(
        file: &'a RunFile,
        results: &'a mut Results<W>,
        meter: &'a mut MemoryMeter,
        budget: Option<Budget>,
    ) -> Self {
        Self {
            file,
            place: device::place(file.device),
            results,
            meter,
            budget,
            ranks: None,
            group: None,
            replicas: None,
            held: Vec::new(),
            digests: Values::new(),
        }
    }

    /// As one of these ranks, once it has met the others; replicas meet through the host.
    pub(super) fn of(mut self, ranks: Option<Ranks>) -> Result<Self, Error> {
        let device = self.file.device;
        self.group = ranks.as_ref().map(|ranks| ranks.join(device)).transpose()?;
        self.ranks = ranks;
        let replicas = Ranks::replicas(self.file)?;
        self.replicas = replicas.map(|ranks| ranks.join(Device::Cpu)).transpose()?;
        Ok(self)
    }

    /// What rank 0 decides; of one rank its own.
    pub(super) fn agree(&self, mine: bool) -> Result<bool, Error> {
        match self.group {
            Some(group) => parallel::agree(group, self.file.device, mine),
            None => Ok(mine),
        }
    }

    pub(super) fn all(mut self, make_batch: MakeBatch<'_>) -> Result<Summary, Error> {
        let mut bench = self.prepare(make_batch)?;
        self.warm_up(&mut bench)?;
        let mut summary = self.measure(&mut bench)?;
        // Their losses are nobody's, as those of steps that time alone asked for.
        let place = self.warmup_steps();
        // Where lengths vary, profiled steps are not those that were measured.
        let inside = self.inside(&bench).filter(|_| bench.lengths.is_none());
        let stretches = mem::take(&mut bench.stretches);
        let busy = self.profile((inside, &stretches), |step, observer| {
            let length = bench.lengths.map(|lengths| lengths.measured(step));
            bench.step(place, length, observer)
        })?;
        summary.parts.extend(busy);

        if self.file.steps.calibrate {
            summary.exchange = self.time_without_exchange(&mut bench, &summary)?;
        }
        self.tear_down(bench)?;
        if self.file.steps.calibrate {
            self.results.begin(Phase::Calibrate, Instant::now())?;
            summary.matmul_flops_per_second =
                ceiling::matmul_flops_per_second(self.file.variant.precision, self.file.device)?;
            self.results.end()?;
        }
        Ok(summary)
    }

    pub(super) fn prepare(&mut self, make_batch: MakeBatch<'_>) -> Result<Bench, Error> {
        let file = self.file;
        self.results.begin(Phase::ModelBuild, Instant::now())?;
        let placement = Placement {
            device: self.place,
            memory_format: file.variant.memory_format,
            kind: Arithmetic::kind(file.variant.precision),
            rounding: Rounding::of(&file.variant),
            fill: true,
        };
        let stage = self.ranks.as_ref().and_then(Ranks::stage);
        let built = models::build_stage(file.model, placement, stage)?;
        let mut work = Work::new(built, file.task, &file.variant, self.place)?;
        if let (Some(group), Some(ranks)) = (self.group, &self.ranks) {
            work.train_together(group, ranks.rank(), &file.variant)?;
            // Ranks drop other activations.
            libtorch::seed(file.seed.wrapping_add(ranks.rank().into()))?;
        }
        if file.device.is_cuda() {
            // What drawing the first values left in the cache would shape the steps' memory.
            cuda::empty_cache()?;
        }
        device::synchronize(file.device)?;
        self.results.end()?;
        self.note_memory(Moment::Model)?;

        self.results.begin(Phase::Data, Instant::now())?;
        let source = Source::new(file.model, &file.variant, file.seed);
        let loader = Loader::of(file, work.wanted_micro_batches(), self.place)?;
        let fixed = match loader {
            Some(_) => 0,
            None => work.wanted_micro_batches(),
        };
        let batches = (0..fixed)
            .map(|index| {
                let ranks = self.ranks.as_ref();
                let index = ranks.map_or(index, |ranks| ranks.micro_batch(index));
                make_batch(&source, index, self.place)
            })
            .collect::<Result<_, _>>()?;
        let logged = if file.task == Task::Training {
            self.first_measured() + file.steps.measured
        } else {
            0
        };
        let log = StepLog::new(logged, self.place)?;
        device::synchronize(file.device)?;
        self.results.end()?;
        self.note_memory(Moment::Data)?;
        Ok(Bench {
            work,
            batches,
            loader,
            lengths: Lengths::of(&file.variant, file.seed),
            patches: Patches::of(&file.variant, file.task, file.seed),
            log,
            captured: None,
            warmup_steps: 0,
            stretches: Vec::new(),
        })
    }

    fn note_memory(&mut self, moment: Moment) -> Result<(), Error> {
        let point = self.meter.point(moment, None)?;
        self.results.write(&Event::Memory(point))
    }

    /// The place of the first measured step in the log.
    fn first_measured(&self) -> u32 {
        self.warmup_steps() + 1
    }

    /// Does the measured work, from an idle device to an idle device, and returns with what came of
    /// it the time, CPU time and memory that it took.
    pub(super) fn measured<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<(T, Summary), Error> {
        let file = self.file;
        // A replay allocates nothing: what a step takes was seen when it was captured.
        if file.variant.execution == Execution::Eager {
            self.meter.reset_peaks()?;
        }
        device::synchronize(file.device)?;
        if let Some(group) = self.group {
            parallel::meet(group, file.device)?;
        }
        if let Some(replicas) = self.replicas {
            parallel::meet(replicas, Device::Cpu)?;
        }
        self.results.begin(Phase::Measure, Instant::now())?;
        let cpu_before = host::cpu_seconds();
        let began = Instant::now();
        let done = work(self)?;
        device::synchronize(file.device)?;
        let measured_seconds = began.elapsed().as_secs_f64();
        let run_cpu_seconds = host::cpu_seconds();
        let memory = self.meter.read()?;
        if file.steps.snapshot == Snapshot::Always {
            libtorch::memory::keep_snapshot()?;
        }
        self.results.end()?;
        if let Some(budget) = &self.budget {
            budget.check(self.meter)?;
        }
        let took = Summary {
            measured_seconds,
            cpu_seconds: host::between(cpu_before, run_cpu_seconds),
            run_cpu_seconds,
            memory,
            ..Summary::default()
        };
        Ok((done, took))
    }

    /// Takes as many steps as are to be measured.
    pub(super) fn each_measured(
        &mut self,
        mut take: impl FnMut(&mut Self, u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for step in 0..self.file.steps.measured {
            take(self, step)?;
            self.note_held(step as usize)?;
            self.results.heartbeat(step + 1)?;
        }
        Ok(())
    }

    /// Gives cached memory back to the driver, where the variant says so after this step.
    pub(super) fn empty_cache(&self, step: u32) -> Result<(), Error> {
        if self.file.variant.empty_cache.is_due(step) {
            cuda::empty_cache()?;
        }
        Ok(())
    }

    /// Notes what memory holds after this step.
    pub(super) fn note_held(&mut self, step: usize) -> Result<(), Error> {
        if self.held.len() <= step {
            self.held.resize(step + 1, Values::new());
        }
        self.held[step] = self.meter.after_step()?;
        Ok(())
    }

    /// Writes a measured step, with what memory held after it.
    pub(super) fn write_step<const N: usize>(
        &mut self,
        index: u32,
        values: [(&str, Option<f64>); N],
        mut more: Values,
    ) -> Result<(), Error> {
        let values = values.into_iter();
        more.extend(values.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        more.extend(self.held.get(index as usize).cloned().unwrap_or_default());
        let values = more;
        self.results.write(&Event::Step(Step { index, values }))
    }

    /// What the exchange between ranks costs: as many of the measured steps again, at most
    /// [`WITHOUT_EXCHANGE`], that keep their gradients to themselves. Their losses are nobody's.
    fn time_without_exchange(
        &mut self,
        bench: &mut Bench,
        measured: &Summary,
    ) -> Result<Option<Exchange>, Error> {
        let Some(sent_bytes) = bench.work.sent_bytes() else {
            return Ok(None);
        };
        let (device, place) = (self.file.device, self.warmup_steps());
        bench.work.set_exchanges(false)?;
        self.results.begin(Phase::Calibrate, Instant::now())?;
        // The first one still waits for the buffers of the last exchange.
        bench.step(place, None, &mut Unobserved)?;
        device::synchronize(device)?;
        let steps = self.file.steps.measured.min(WITHOUT_EXCHANGE);
        let began = Instant::now();
        for _ in 0..steps {
            bench.step(place, None, &mut Unobserved)?;
        }
        device::synchronize(device)?;
        let alone = began.elapsed().as_secs_f64() / f64::from(steps);
        self.results.end()?;
        let whole = measured.measured_seconds / f64::from(self.file.steps.measured);
        let saved = (1.0 - alone / whole).max(0.0);
        let is_stage = bench.work.is_stage();
        Ok(Some(Exchange {
            sent_bytes,
            exposed_ratio: Some(saved).filter(|_| !is_stage),
            idle_ratio: Some(saved).filter(|_| is_stage),
        }))
    }

    /// Drops what the steps worked with, when all ranks are done with theirs.
    pub(super) fn tear_down<T>(&mut self, all: T) -> Result<(), Error> {
        self.results.begin(Phase::Teardown, Instant::now())?;
        if let Some(group) = self.group {
            parallel::meet(group, self.file.device)?;
        }
        drop(all);
        device::synchronize(self.file.device)?;
        self.results.end()
    }

    /// What is timed within steps; forward and backward of a pipeline take no turns.
    fn inside(&self, bench: &Bench) -> Option<Inside> {
        let file = self.file;
        let has_parts = file.steps.parts
            && file.task == Task::Training
            && !bench.work.is_stage()
            && file.variant.execution == Execution::Eager;
        has_parts.then(|| Inside {
            micro_batches: bench.work.accumulation(),
            data: bench.loader.is_some(),
        })
    }

    fn measure(&mut self, bench: &mut Bench) -> Result<Summary, Error> {
        let file = self.file;
        let first = self.first_measured();
        let parts = self.inside(bench);
        let mut watch = StepWatch::new(file.steps.measured as usize, parts, self.place)?;
        let moved_before = bench.work.moved().map(|(moved, _)| moved);
        let (loader, measured) = self.measured(|run| {
            if let Some(loader) = &mut bench.loader {
                loader.begin();
            }
            watch.mark()?;
            run.each_measured(|run, step| {
                let length = bench.lengths.map(|lengths| lengths.measured(step));
                bench.step(first + step, length, &mut watch)?;
                run.empty_cache(step)?;
                Ok(watch.mark()?)
            })?;
            bench.loader.as_ref().map(Loader::figures).transpose()
        })?;
        let (moved, pinned) = bench.work.moved().unzip();
        bench.work.share_losses(&bench.log)?;
        let losses = bench.log.losses()?;
        let skips = bench.log.skips()?;
        // Without the place that several warm-up steps may share.
        let steps: Vec<f64> = losses
            .iter()
            .enumerate()
            .filter(|&(place, _)| place + 1 != first as usize)
            .map(|(_, &loss)| loss)
            .collect();
        check_finite(&steps, 0)?;
        // Losses over sequences of different lengths are no series, nor are those of other samples.
        let is_series = bench.lengths.is_none() && bench.patches.is_none();
        if is_series && file.variant.data != Some(Data::Folder) {
            check_falling(&steps)?;
        }
        let laps;
        (laps, bench.stretches) = watch.laps()?;
        self.write_steps(bench.lengths, &laps, &losses, &skips)?;
        let world = self.ranks.as_ref().map_or(1, Ranks::world);
        let own_samples = file.variant.own_samples(world);
        let samples = own_samples * f64::from(file.steps.measured);
        let tokens = matches!(file.model.input(), InputKind::Tokens { .. })
            .then(|| samples * self.per_sample(bench, f64::from));
        Ok(Summary {
            parameters: Some(bench.work.parameters().count()),
            micro_batch: Some(u64::from(file.variant.batch.get())),
            effective_batch: Some(own_samples),
            warmup_steps: bench.warmup_steps,
            samples: Some(samples),
            throughput_samples_per_second: Some(samples / measured.measured_seconds),
            tokens,
            throughput_tokens_per_second: tokens.map(|tokens| tokens / measured.measured_seconds),
            model_flops_per_sample: Some(self.flops_per_sample(bench)),
            data_wait_ratio: data_wait(&laps),
            parts: watch.host_loads(),
            loader,
            first_loss: steps.first().copied(),
            last_loss: steps.last().copied(),
            memory: Memory {
                parameter_bytes: Some(bench.work.parameter_bytes()),
                gradient_bytes: bench.work.gradient_bytes(),
                optimizer_bytes: bench.work.optimizer_bytes(),
                offloaded_step_bytes: moved
                    .zip(moved_before)
                    .map(|(after, before)| (after - before) / u64::from(file.steps.measured)),
                pinned_host_bytes: pinned,
                ..measured.memory
            },
            scaler: self.scaler_state(bench, &skips)?,
            digests: mem::take(&mut self.digests),
            ..measured
        })
    }

    /// Writes the measured steps, whose losses and skips stand behind those of warm-up.
    fn write_steps(
        &mut self,
        lengths: Option<Lengths>,
        laps: &[Lap],
        losses: &[f64],
        skips: &[f64],
    ) -> Result<(), Error> {
        for (index, lap) in (0..).zip(laps) {
            let place = (self.first_measured() + index) as usize;
            let parts: Values = lap.parts.as_ref().map(values).unwrap_or_default();
            let length = lengths.map(|lengths| f64::from(lengths.measured(index)));
            let values = [
                ("step_seconds", Some(lap.seconds)),
                ("loss", losses.get(place).copied()),
                ("sequence_length_tokens", length),
                (
                    "skipped",
                    skips.get(place).copied().filter(|&skips| skips > 0.0),
                ),
            ];
            self.write_step(index, values, parts)?;
        }
        Ok(())
    }

    /// Operations for a sample, over the lengths that the measured steps really had.
    fn flops_per_sample(&self, bench: &Bench) -> f64 {
        let RunFile { model, task, .. } = *self.file;
        let all = self.per_sample(bench, |size| models::flops_per_sample(model, task, size));
        // Frozen weights have no gradient, which is one of the three products.
        let is_frozen = task == Task::Training && self.file.variant.lora_rank.is_some();
        if is_frozen { all * 2.0 / 3.0 } else { all }
    }

    /// The mean of something that a sample's size says, over the lengths that the measured steps
    /// really had.
    fn per_sample(&self, bench: &Bench, of: impl Fn(u32) -> f64) -> f64 {
        let RunFile { model, task, .. } = *self.file;
        let Some(lengths) = bench.lengths else {
            let (size, times) = models::read_at_once(model, task, &self.file.variant);
            return of(size) * times;
        };
        let measured = self.file.steps.measured;
        let all: f64 = (0..measured).map(|step| of(lengths.measured(step))).sum();
        all / f64::from(measured)
    }

    fn scaler_state(&self, bench: &Bench, skips: &[f64]) -> Result<Option<ScalerState>, Error> {
        if self.file.variant.precision != Precision::AmpFp16 {
            return Ok(None);
        }
        let (warmup, measured) = skips.split_at((self.first_measured() as usize).min(skips.len()));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole numbers from 0 on; a cast saturates"
        )]
        let count = |skips: &[f64]| skips.iter().sum::<f64>() as u32;
        Ok(bench.work.loss_scale()?.map(|scale| ScalerState {
            scale,
            skipped_in_warmup: count(warmup),
            skipped_while_measuring: count(measured),
        }))
    }
}

/// The share of all steps in which they waited for data; `None` where none of them was timed.
fn data_wait(laps: &[Lap]) -> Option<f64> {
    let waits = laps.iter().map(|lap| lap.parts?.data_seconds);
    let waited: f64 = waits.sum::<Option<f64>>()?;
    Some(waited / laps.iter().map(|lap| lap.seconds).sum::<f64>())
}
