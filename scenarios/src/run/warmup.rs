//! The steps before measuring.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use libtorch::cuda;
use protocol::{Event, Execution, MemoryPoint, Moment, Phase};

use super::{
    losses::check_finite,
    phases::{Bench, Run},
};
use crate::{
    Error, device,
    memory::MemoryMeter,
    training::{Captured, EAGER_STEPS, Observer, Unobserved},
};

/// Steps of a deterministic run whose gradients are digested: from these on two runs differ.
const DIGESTED: u32 = 4;

impl<W: Write> Run<'_, W> {
    /// At least as many steps and seconds as asked for.
    ///
    /// Memory is read within the first step, and within the last one that is run for the number
    /// of steps: in the first, cuDNN tries algorithms whose workspaces no later step needs. Where
    /// lengths vary it is not, for what one step takes says nothing of another.
    pub(super) fn warm_up(&mut self, bench: &mut Bench) -> Result<(), Error> {
        let began = self.begin_warmup()?;
        let steps = self.warmup_steps();
        let mut first = 0;
        if self.file.variant.execution == Execution::CudaGraph {
            first = self.capture(bench)?;
            self.apply_budget()?;
        }
        bench.warmup_steps = self.warm_up_from(first, began, |run, next| {
            run.warmup_step(bench, next, steps)
        })?;
        let losses = bench.log.losses()?;
        check_finite(&losses[..losses.len().min(steps as usize + 1)], 0)?;
        self.end_warmup()
    }

    /// Begins the warm-up; returns when.
    pub(super) fn begin_warmup(&mut self) -> Result<Instant, Error> {
        let began = Instant::now();
        self.results.begin(Phase::Warmup, began)?;
        Ok(began)
    }

    /// Takes steps of the warm-up, the first of which has the number `next`, until there are as many
    /// as asked for and they took as long as asked for. Returns how many there are.
    pub(super) fn warm_up_from(
        &mut self,
        mut next: u32,
        began: Instant,
        mut take: impl FnMut(&mut Self, u32) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        let least = Duration::from_secs(self.file.steps.warmup_seconds.into());
        let steps = self.warmup_steps();
        // Ranks take the same steps, whose clocks differ.
        while next < steps || (!least.is_zero() && self.agree(began.elapsed() < least)?) {
            take(self, next)?;
            self.empty_cache(next)?;
            next += 1;
            if next == 1 {
                self.apply_budget()?;
            }
            if next >= steps {
                // From here on the clock decides, so the device may not lag behind.
                device::synchronize(self.file.device)?;
            }
            self.results.heartbeat(next)?;
        }
        device::synchronize(self.file.device)?;
        Ok(next)
    }

    /// Ends the warm-up, after which the allocator may have what the libraries have left.
    pub(super) fn end_warmup(&mut self) -> Result<(), Error> {
        if let Some(budget) = &self.budget {
            budget.apply(self.meter)?;
        }
        self.results.end()
    }

    pub(super) fn apply_budget(&self) -> Result<(), Error> {
        match &self.budget {
            Some(budget) => budget.apply_anew(self.meter),
            None => Ok(()),
        }
    }

    /// Steps of the warm-up that have a place of their own in the log. A capture wants some
    /// before it, whatever the run file asks for.
    pub(super) fn warmup_steps(&self) -> u32 {
        match self.file.variant.execution {
            Execution::Eager => self.file.steps.warmup,
            Execution::CudaGraph => self.file.steps.warmup.max(EAGER_STEPS),
        }
    }

    /// The eager steps before a capture, and the capture. Returns the next step's number.
    fn capture(&mut self, bench: &mut Bench) -> Result<u32, Error> {
        cuda::on_side_stream(|| {
            for step in 0..EAGER_STEPS {
                self.warmup_step(bench, step, EAGER_STEPS)?;
            }
            Ok::<(), Error>(())
        })??;
        self.meter.reset_peaks()?;
        let captured = Captured::new(&mut bench.work, &bench.batches, self.place)?;
        bench.captured = Some(captured);
        Ok(EAGER_STEPS)
    }

    /// One of so many steps that have a place of their own in the log, or one beyond them.
    fn warmup_step(&mut self, bench: &mut Bench, step: u32, of: u32) -> Result<(), Error> {
        let length = bench.lengths.map(|lengths| lengths.in_warmup(step));
        let is_eager = bench.captured.is_none();
        if is_eager && self.is_attributed(step, of) {
            self.attributed_step(bench, step)?;
        } else if is_eager && length.is_none() && (step == 0 || step + 1 == of) {
            self.observed_step(bench, step)?;
        } else {
            bench.step(step.min(of), length, &mut Unobserved)?;
        }
        let is_digested = self.file.variant.deterministic && step < DIGESTED;
        if is_digested && let Some(digest) = bench.work.gradient_digest()? {
            let name = format!("warmup_step_{}_gradient_digest", step + 1);
            self.digests.insert(name, digest);
        }
        Ok(())
    }

    /// One eager step with memory read after each of its parts.
    fn observed_step(&mut self, bench: &mut Bench, step: u32) -> Result<(), Error> {
        let mut observer = MemoryObserver {
            meter: self.meter,
            step,
            last: bench.work.accumulation() - 1,
            points: Vec::new(),
        };
        // So that the first part's peak is its own.
        observer.meter.reset_peaks()?;
        bench.step(step, None, &mut observer)?;
        if bench.work.trained().is_empty() {
            return Ok(());
        }
        observer.note(Moment::OptimizerStep)?;
        for point in observer.points {
            self.results.write(&Event::Memory(point))?;
        }
        Ok(())
    }
}

/// Reads memory after the parts of a step. It waits for the device.
struct MemoryObserver<'a> {
    meter: &'a mut MemoryMeter,
    step: u32,
    /// The last micro-batch, whose gradients are all.
    last: usize,
    points: Vec<MemoryPoint>,
}

impl MemoryObserver<'_> {
    fn note(&mut self, moment: Moment) -> libtorch::Result<()> {
        self.points.push(self.meter.point(moment, Some(self.step))?);
        Ok(())
    }
}

impl Observer for MemoryObserver<'_> {
    fn forward(&mut self, micro_batch: usize) -> libtorch::Result<()> {
        if micro_batch == 0 {
            self.note(Moment::Forward)?;
        }
        Ok(())
    }

    fn backward(&mut self, micro_batch: usize) -> libtorch::Result<()> {
        if micro_batch == self.last {
            self.note(Moment::Backward)?;
        }
        Ok(())
    }
}
