//! The warm-up step whose memory and time are attributed to modules.

use std::io::Write;

use libtorch::{
    attribution::{Recording, mark},
    autograd,
};
use protocol::{Device, Event, Module, Values};

use super::phases::{Bench, Run};
use crate::{
    Error,
    attribution::{BACKWARD, FORWARD, Modules, OPTIMIZER, add_parameter, add_step},
    device,
    memory::MemoryMeter,
    nn,
    stopwatch::{Inside, StepWatch},
    summary::values,
    training::{Observer, Work},
};

impl<W: Write> Run<'_, W> {
    /// Whether this one of so many steps is: the last but one, for memory is read within the last.
    pub(super) fn is_attributed(&self, step: u32, of: u32) -> bool {
        let is_stage = self.ranks.as_ref().is_some_and(|all| all.stage().is_some());
        self.file.steps.attribution && !is_stage && step + 2 == of
    }

    /// Takes the step, and writes what modules took of it. What does not work writes none.
    pub(super) fn attributed_step(&mut self, bench: &mut Bench, step: u32) -> Result<(), Error> {
        let device = self.file.device;
        let (micro_batches, data) = (bench.work.accumulation(), false);
        let inside = Inside {
            micro_batches,
            data,
        };
        let mut observer = StepObserver {
            watch: StepWatch::new(1, Some(inside), self.place)?,
            meter: self.meter,
            last: micro_batches - 1,
            allocated: Vec::new(),
        };
        device::synchronize(device)?;
        let recording = Recording::begin(match device {
            Device::Cpu => None,
            Device::Cuda(index) => Some(index),
        });
        mark(FORWARD);
        observer.watch.mark()?;
        bench.step(step, None, &mut observer)?;
        observer.watch.mark()?;
        device::synchronize(device)?;
        let happened = match recording.and_then(Recording::end) {
            Ok(happened) => happened,
            Err(error) => {
                crate::log(format_args!("no modules: {error}"));
                return Ok(());
            }
        };
        let mut modules = of_parameters(&bench.work)?;
        add_step(&mut modules, &happened, bench.work.parameters().modules());
        modules.insert(Module::STEP.to_owned(), observer.values(&bench.work)?);
        for (name, values) in modules {
            let module = Module { name, values };
            self.results.write(&Event::Module(module))?;
        }
        Ok(())
    }
}

/// What is kept for parameters from step to step.
fn of_parameters(work: &Work) -> Result<Modules, Error> {
    let mut modules = Modules::new();
    let mut add = |name: &str, value, bytes| add_parameter(&mut modules, name, value, bytes);
    for (name, tensor) in work.parameters().frozen() {
        add(name, "parameter_bytes", nn::bytes(tensor));
    }
    for (place, (name, tensor)) in work.parameters().trained().iter().enumerate() {
        let gradient = autograd::gradient(tensor)?;
        add(name, "parameter_bytes", nn::bytes(tensor));
        add(
            name,
            "gradient_bytes",
            gradient.as_ref().map_or(0, nn::bytes),
        );
        add(name, "optimizer_bytes", work.optimizer_bytes_of(place));
    }
    Ok(modules)
}

/// Follows the step as a whole, by other means than its modules are followed.
struct StepObserver<'a> {
    watch: StepWatch,
    meter: &'a mut MemoryMeter,
    last: usize,
    /// Bytes in tensors before and after forward of the first micro-batch.
    allocated: Vec<u64>,
}

impl StepObserver<'_> {
    fn note(&mut self, micro_batch: usize) -> libtorch::Result<()> {
        if micro_batch == 0 {
            self.allocated.extend(self.meter.read()?.allocated_bytes);
        }
        Ok(())
    }

    fn values(&self, work: &Work) -> Result<Values, Error> {
        let parts = self.watch.laps()?.0.first().and_then(|lap| lap.parts);
        let parts = parts.as_ref().map(values).unwrap_or_default();
        let parts = parts.into_iter();
        let mut all: Values = parts
            .map(|(name, value)| (name.replace("step_", ""), value))
            .collect();
        let kept = match self.allocated[..] {
            [before, after] => after.checked_sub(before),
            _ => None,
        };
        for (name, bytes) in [
            ("parameter_bytes", Some(work.parameters().bytes())),
            ("gradient_bytes", work.gradient_bytes()),
            ("optimizer_bytes", work.optimizer_bytes()),
            ("kept_bytes", kept),
        ] {
            all.extend(bytes.map(|bytes| (name.to_owned(), bytes as f64)));
        }
        Ok(all)
    }
}

impl Observer for StepObserver<'_> {
    fn data(&mut self, micro_batch: usize) -> libtorch::Result<()> {
        self.note(micro_batch)
    }

    fn forward(&mut self, micro_batch: usize) -> libtorch::Result<()> {
        mark(BACKWARD);
        self.watch.forward(micro_batch)?;
        self.note(micro_batch)
    }

    fn backward(&mut self, micro_batch: usize) -> libtorch::Result<()> {
        mark([FORWARD, OPTIMIZER][usize::from(micro_batch == self.last)]);
        self.watch.backward(micro_batch)
    }
}
