//! One run: phases, events, summary.

mod allocation;
mod attribution;
mod collectives;
mod decoding;
pub mod generation;
mod idle;
mod losses;
mod phases;
mod profile;
mod serving;
mod warmup;

use std::{
    io::Write,
    thread,
    time::{Duration, Instant},
};

use libtorch::{allocator, memory};
use protocol::{CudaFacts, Event, Moment, Phase, RunFile, Started, Task};

use self::phases::Run;
use crate::{
    Error,
    budget::Budget,
    data::{Batch, Source},
    device,
    memory::{Context, MemoryMeter},
    nvml,
    parallel::Ranks,
    results::Results,
    summary::{Summary, values},
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
            results.write(&Event::Finished {
                values: values(&summary),
            })?;
            Ok(summary)
        }
        Err(error) => {
            let memory = meter.and_then(|meter| meter.read_after(&error).ok());
            let allocated = memory.as_ref().and_then(|memory| memory.allocated_bytes);
            Err(results.fail(error.beside(allocated), memory.as_ref()))
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
    let ranks = Ranks::of_run(&file)?;
    crate::deadline::arm(file.deadline_seconds);
    let threads = file.threads.unwrap_or_else(usable_cpus);
    libtorch::set_threads(threads)?;

    // Asking for the GPU's facts starts the driver, which is part of starting CUDA,
    // although the first line of the file must wait for it.
    let read = Instant::now();
    let facts = device::facts(file.device);
    let (cuda, missing) = match facts {
        Ok(facts) => (facts, None),
        Err(error) => (None, Some(error)),
    };
    let mut context = Context::default();
    let gpu = cuda.as_ref().and_then(|facts| nvml::Gpu::open(&facts.uuid));
    context.before = gpu.as_ref().and_then(nvml::Gpu::used_bytes);
    let managed = file.variant.allocator.managed;
    let effective = |settings| device::effective_allocator(&settings, managed);
    let allocator = cuda.as_ref().map(|_| allocator::effective().map(effective));
    let allocator = allocator.transpose()?;
    results.write(&Event::Started(Box::new(Started {
        version: protocol::VERSION,
        run: file.run.clone(),
        scenario_version: env!("CARGO_PKG_VERSION").into(),
        libtorch_version: libtorch::version().into(),
        threads,
        cuda: cuda.clone(),
        allocator: allocator.clone(),
        nccl: device::nccl_variables(file.device),
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
    start_device(&file, cuda.as_ref())?;
    context.after = gpu.as_ref().and_then(nvml::Gpu::used_bytes);
    drop(gpu);
    if file.device.is_cuda() {
        results.end()?;
    }
    let meter = meter.insert(MemoryMeter::new(file.device, context)?);
    let budget = Budget::of(&file, cuda.as_ref());
    if let Some(budget) = &budget {
        budget.apply(meter)?;
    }
    if file.device.is_cuda() {
        results.write(&Event::Memory(meter.point(Moment::Context, None)?))?;
    }
    if !file.steps.snapshot.is_never() {
        memory::record_history(file.steps.snapshot_entries)?;
    }
    libtorch::seed(file.seed)?;
    let run = Run::new(&file, results, meter, budget).of(ranks)?;
    match file.task {
        Task::Collectives => run.exchange(),
        Task::Idle => run.idle(),
        Task::Allocation => run.allocate(),
        Task::Generation => run.generate(make_batch),
        Task::Serving => run.serve(make_batch),
        Task::Training | Task::Inference => run.all(make_batch),
    }
}

/// Starts the run's device as its variant asks for it, where it can.
fn start_device(file: &RunFile, cuda: Option<&CudaFacts>) -> Result<(), Error> {
    device::check_fp8(file.variant.fp8, file.device, cuda)?;
    device::check_kernel_cache(file.variant.kernel_cache)?;
    device::start(file.device, file.variant.deterministic)?;
    device::manage(file, cuda)?;
    device::choose_attention(file.variant.attention)
}

/// CPUs that this process may use: its affinity and its container's limits count.
fn usable_cpus() -> u32 {
    thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}
