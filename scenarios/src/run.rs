//! One run: phases, events, summary.

use std::{
    io::Write,
    thread,
    time::{Duration, Instant},
};

use libtorch::allocator;
use protocol::{
    Event, Memory, Model, Phase, Precision, RunFile, ScalerState, Started, Step, Summary, Task,
};

use crate::{
    Error,
    data::{Batch, Source},
    device,
    memory::MemoryMeter,
    models,
    nn::Placement,
    results::Results,
    stopwatch::Stopwatch,
    training::{StepLog, Work},
};

/// Makes micro-batch number `index` on the device. The binary gives
/// [`Source::micro_batch`]; a test may give data that break something.
pub type MakeBatch<'a> = &'a dyn Fn(&Source, usize, tch::Device) -> Result<Batch, Error>;

/// Carries a run out and writes its events, the last of which is `finished` or `failed`.
///
/// `age` is how long ago the process started. The error is what `failed` says.
pub fn carry_out<W: Write>(
    text: &str,
    age: Duration,
    make_batch: MakeBatch<'_>,
    results: &mut Results<W>,
) -> Result<Summary, Error> {
    let mut meter = None;
    let outcome = libtorch::catch(|| attempt(text, age, make_batch, results, &mut meter))
        .map_err(Error::from)
        .flatten();
    match outcome {
        Ok(summary) => {
            results.write(&Event::Finished(Box::new(summary.clone())))?;
            Ok(summary)
        }
        Err(error) => {
            let memory = meter.and_then(|meter| meter.read().ok());
            Err(results.fail(error, memory))
        }
    }
}

fn attempt<W: Write>(
    text: &str,
    age: Duration,
    make_batch: MakeBatch<'_>,
    results: &mut Results<W>,
    meter: &mut Option<MemoryMeter>,
) -> Result<Summary, Error> {
    let process_start = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
    let file = RunFile::parse(text)?;
    check_numbers(&file)?;
    let threads = file.threads.unwrap_or_else(usable_processors);
    libtorch::set_threads(threads)?;

    // Asking for the card's facts starts the driver, which is part of starting CUDA,
    // although the first line of the file must wait for it.
    let read = Instant::now();
    let facts = device::facts(file.device);
    let (cuda, missing) = match facts {
        Ok(facts) => (facts, None),
        Err(error) => (None, Some(error)),
    };
    let allocator = cuda
        .as_ref()
        .map(|_| allocator::effective().map(|settings| device::effective_allocator(&settings)))
        .transpose()?;
    results.write(&Event::Started(Box::new(Started {
        version: protocol::VERSION,
        run: file.run.clone(),
        scenario_version: env!("CARGO_PKG_VERSION").into(),
        libtorch_version: libtorch::version().into(),
        threads,
        cuda,
        allocator: allocator.clone(),
    })))?;
    results.begin(Phase::ProcessStart, process_start)?;
    results.end_at(read)?;

    if file.device.is_cuda() {
        results.begin(Phase::CudaStart, read)?;
    }
    if let Some(error) = missing {
        return Err(error);
    }
    if let Some(effective) = allocator {
        device::check_allocator(&file.variant.allocator, &effective)?;
    }
    device::start(file.device)?;
    if file.device.is_cuda() {
        results.end()?;
    }
    let meter = meter.insert(MemoryMeter::new(file.device)?);
    libtorch::seed(file.seed)?;
    Run {
        file: &file,
        place: device::place(file.device),
        results,
        meter,
    }
    .all(make_batch)
}

/// Processors that this process may use: its affinity and its container's limits count.
fn usable_processors() -> u32 {
    thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

/// Refuses numbers that the run file's form allows and that mean nothing.
fn check_numbers(file: &RunFile) -> Result<(), Error> {
    const MOST_STEPS: u32 = 1_000_000;
    let refuse = |got: String, expected| Err(Error::RunFileValue { got, expected });
    let steps = file.steps;
    if steps.measured == 0 || steps.measured > MOST_STEPS || steps.warmup > MOST_STEPS {
        return refuse(
            format!(
                "{} warm-up and {} measured steps",
                steps.warmup, steps.measured
            ),
            "1 to 1000000 measured steps after at most 1000000 of warm-up",
        );
    }
    if file.threads == Some(0) {
        return refuse("0 threads".into(), "at least 1, or none to use all");
    }
    // As torch.nn.functional.batch_norm: «Expected more than 1 value per channel when
    // training». The last stage of a ResNet is 32 times smaller than the image.
    let size = match (file.model, file.model.input()) {
        (Model::Resnet50 | Model::ResnetTiny, protocol::InputKind::Images { size, .. }) => file
            .variant
            .image_size
            .map_or(size, protocol::Positive::get),
        _ => return Ok(()),
    };
    if file.task == Task::Training && file.variant.batch.get() == 1 && size <= 32 {
        return refuse(
            format!("one image of {size} × {size} in a batch"),
            "a batch of at least 2 or images of at least 64 × 64, because batch normalisation \
             needs more than one value for each channel",
        );
    }
    Ok(())
}

/// A run whose device is ready.
struct Run<'a, W> {
    file: &'a RunFile,
    place: tch::Device,
    results: &'a mut Results<W>,
    meter: &'a mut MemoryMeter,
}

/// What the steps work with.
struct Bench {
    work: Work,
    batches: Vec<Batch>,
    log: StepLog,
}

impl<W: Write> Run<'_, W> {
    fn all(mut self, make_batch: MakeBatch<'_>) -> Result<Summary, Error> {
        let mut bench = self.prepare(make_batch)?;
        self.warm_up(&mut bench)?;
        let summary = self.measure(&mut bench)?;

        self.results.begin(Phase::Teardown, Instant::now())?;
        drop(bench);
        if self.file.device.is_cuda() {
            libtorch::cuda::empty_cache()?;
        }
        device::synchronize(self.file.device)?;
        self.results.end()?;
        Ok(summary)
    }

    fn prepare(&mut self, make_batch: MakeBatch<'_>) -> Result<Bench, Error> {
        let file = self.file;
        self.results.begin(Phase::ModelBuild, Instant::now())?;
        let placement = Placement {
            device: self.place,
            memory_format: file.variant.memory_format,
            fill: true,
        };
        let built = models::build(file.model, placement)?;
        let work = Work::new(built, file.task, &file.variant, self.place)?;
        device::synchronize(file.device)?;
        self.results.end()?;

        self.results.begin(Phase::Data, Instant::now())?;
        let source = Source::new(file.model, &file.variant, file.seed);
        let batches = (0..work.wanted_micro_batches())
            .map(|index| make_batch(&source, index, self.place))
            .collect::<Result<_, _>>()?;
        let logged = match file.task {
            Task::Training => file.steps.warmup + file.steps.measured,
            Task::Inference => 0,
        };
        let log = StepLog::new(logged, self.place)?;
        device::synchronize(file.device)?;
        self.results.end()?;
        Ok(Bench { work, batches, log })
    }

    fn warmup_steps(&self) -> usize {
        self.file.steps.warmup as usize
    }

    fn warm_up(&mut self, bench: &mut Bench) -> Result<(), Error> {
        self.results.begin(Phase::Warmup, Instant::now())?;
        for step in 0..self.file.steps.warmup {
            bench.work.step(step, &bench.batches, &bench.log)?;
            self.results.heartbeat(step + 1)?;
        }
        device::synchronize(self.file.device)?;
        let losses = bench.log.losses()?;
        check_losses(&losses[..self.warmup_steps().min(losses.len())])?;
        self.results.end()
    }

    fn measure(&mut self, bench: &mut Bench) -> Result<Summary, Error> {
        let file = self.file;
        let warmup = self.warmup_steps();
        let mut stopwatch = Stopwatch::new(file.steps.measured as usize, self.place)?;
        self.meter.reset_peaks()?;
        device::synchronize(file.device)?;
        self.results.begin(Phase::Measure, Instant::now())?;

        let began = Instant::now();
        stopwatch.mark()?;
        for step in 0..file.steps.measured {
            let number = file.steps.warmup + step;
            bench.work.step(number, &bench.batches, &bench.log)?;
            stopwatch.mark()?;
            self.results.heartbeat(step + 1)?;
        }
        device::synchronize(file.device)?;
        let measured_seconds = began.elapsed().as_secs_f64();

        let memory = self.meter.read()?;
        self.results.end()?;
        let (losses, skips) = (bench.log.losses()?, bench.log.skips()?);
        check_losses(&losses)?;
        let seconds = stopwatch.seconds()?;
        for (index, seconds) in (0..).zip(seconds) {
            let number = warmup + index as usize;
            self.results.write(&Event::Step(Step {
                index,
                seconds,
                loss: losses.get(number).copied(),
                skipped: skips.get(number).copied().unwrap_or(false),
            }))?;
        }
        let samples = file.variant.effective_batch() * u64::from(file.steps.measured);
        Ok(Summary {
            parameters: bench.work.parameters().count(),
            micro_batch: u64::from(file.variant.batch.get()),
            effective_batch: file.variant.effective_batch(),
            samples,
            measured_seconds,
            throughput_samples_per_second: samples as f64 / measured_seconds,
            first_loss: losses.first().copied(),
            last_loss: losses.last().copied(),
            memory: Memory {
                parameter_bytes: Some(bench.work.parameters().bytes()),
                gradient_bytes: bench.work.gradient_bytes(),
                optimizer_bytes: bench.work.optimizer_bytes(),
                ..memory
            },
            scaler: self.scaler_state(bench, &skips)?,
        })
    }

    fn scaler_state(&self, bench: &Bench, skips: &[bool]) -> Result<Option<ScalerState>, Error> {
        if self.file.variant.precision != Precision::AmpFp16 {
            return Ok(None);
        }
        let (warmup, measured) = skips.split_at(self.warmup_steps().min(skips.len()));
        let count = |skips: &[bool]| {
            u32::try_from(skips.iter().filter(|&&skip| skip).count()).unwrap_or(u32::MAX)
        };
        Ok(bench.work.loss_scale()?.map(|scale| ScalerState {
            scale,
            skipped_in_warmup: count(warmup),
            skipped_while_measuring: count(measured),
        }))
    }
}

fn check_losses(losses: &[f64]) -> Result<(), Error> {
    match losses.iter().position(|loss| !loss.is_finite()) {
        None => Ok(()),
        Some(step) => Err(Error::LossNotFinite {
            step,
            loss: losses[step],
        }),
    }
}
