//! The warm-up step whose memory and time are attributed to modules.

use std::io::Write;

use libtorch::{
    attribution::{Recording, mark},
    autograd,
};
use protocol::{Device, Event, Values};

use super::phases::{Bench, Run};
use crate::{
    Error,
    attribution::{Attribution, BACKWARD, FORWARD, OPTIMIZER},
    device,
    memory::MemoryMeter,
    nn,
    stopwatch::{Inside, StepWatch},
    training::{Observer, Work},
};

impl<W: Write> Run<'_, W> {
    /// Whether this one of so many steps is: the last but one, for memory is read within the last.
    pub(super) fn is_attributed(&self, step: u32, of: u32) -> bool {
        self.file.steps.attribution && step + 2 == of
    }

    /// Takes the step, and writes what modules took of it. What does not work writes none.
    pub(super) fn attributed_step(&mut self, bench: &mut Bench, step: u32) -> Result<(), Error> {
        let device = self.file.device;
        let inside = Inside {
            micro_batches: bench.work.accumulation(),
            data: false,
        };
        let mut observer = StepObserver {
            watch: StepWatch::new(1, Some(inside), self.place)?,
            meter: self.meter,
            last: bench.work.accumulation() - 1,
            entry: 0,
            kept: None,
            peaks: [0; 2],
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
        let values = observer.values(&bench.work)?;
        let mut attribution = of_parameters(&bench.work)?;
        attribution.add_step(&happened, bench.work.parameters().modules());
        for module in attribution.finish(values) {
            self.results.write(&Event::Module(module))?;
        }
        Ok(())
    }
}

/// What is kept for parameters from step to step.
fn of_parameters(work: &Work) -> Result<Attribution, Error> {
    let mut attribution = Attribution::default();
    let parameters = work.parameters();
    for (name, tensor) in parameters.frozen() {
        attribution.add_parameter(name, "parameter_bytes", nn::bytes(tensor));
    }
    for (place, (name, tensor)) in parameters.trained().iter().enumerate() {
        let gradient = autograd::gradient(tensor)?;
        let gradient = gradient.as_ref().map_or(0, nn::bytes);
        attribution.add_parameter(name, "parameter_bytes", nn::bytes(tensor));
        attribution.add_parameter(name, "gradient_bytes", gradient);
        let state = work.optimizer_bytes_of(place);
        attribution.add_parameter(name, "optimizer_bytes", state);
    }
    Ok(attribution)
}

/// Follows the step as a whole, by other means than its modules are followed.
struct StepObserver<'a> {
    watch: StepWatch,
    meter: &'a mut MemoryMeter,
    /// The last micro-batch.
    last: usize,
    /// Bytes in tensors as the pass began.
    entry: u64,
    /// What forward of the first micro-batch left.
    kept: Option<u64>,
    /// Most bytes above entry, in forward and in backward.
    peaks: [u64; 2],
}

impl StepObserver<'_> {
    /// A pass ends, and the next one begins.
    fn note(&mut self, pass: Option<u32>) -> libtorch::Result<()> {
        let now = self.meter.read()?;
        let allocated = now.allocated_bytes.unwrap_or_default();
        if let Some(pass) = pass {
            let above = now.peak_allocated_bytes.unwrap_or_default();
            let peak = &mut self.peaks[pass as usize];
            *peak = (*peak).max(above.saturating_sub(self.entry));
        }
        if pass == Some(FORWARD) {
            let kept = allocated.saturating_sub(self.entry);
            self.kept.get_or_insert(kept);
        }
        self.entry = allocated;
        self.meter.reset_peaks()
    }

    fn values(&self, work: &Work) -> Result<Values, Error> {
        let laps = self.watch.laps()?;
        let parts = laps.first().and_then(|lap| lap.parts);
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
        let all = [
            ("parameter_bytes", Some(work.parameters().bytes() as f64)),
            ("gradient_bytes", bytes(work.gradient_bytes())),
            ("optimizer_bytes", bytes(work.optimizer_bytes())),
            ("kept_bytes", bytes(self.kept)),
            ("forward_peak_bytes", Some(self.peaks[0] as f64)),
            ("backward_peak_bytes", Some(self.peaks[1] as f64)),
            ("forward_seconds", parts.map(|parts| parts.forward_seconds)),
            (
                "backward_seconds",
                parts.map(|parts| parts.backward_seconds),
            ),
            (
                "optimizer_seconds",
                parts.map(|parts| parts.optimizer_seconds),
            ),
        ];
        let known = all.into_iter();
        Ok(known
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect())
    }
}

impl Observer for StepObserver<'_> {
    fn data(&mut self, _: usize) -> libtorch::Result<()> {
        self.note(None)
    }

    fn forward(&mut self, micro_batch: usize) -> libtorch::Result<()> {
        mark(BACKWARD);
        self.watch.forward(micro_batch)?;
        self.note(Some(FORWARD))
    }

    fn backward(&mut self, micro_batch: usize) -> libtorch::Result<()> {
        mark(if micro_batch == self.last {
            OPTIMIZER
        } else {
            FORWARD
        });
        self.watch.backward(micro_batch)?;
        self.note(Some(BACKWARD))
    }
}
