//! A run that computes nothing and allocates: what the allocator makes of it.

use std::{collections::HashMap, io::Write, time::Instant};

use protocol::{FailureReason, TensorEvent, Values};
use tch::{Kind, Tensor};

use super::phases::Run;
use crate::{Error, data::Tensors, device, summary::Summary};

/// Makes the tensors of a run, which are never written.
struct Maker<'a> {
    tensors: Tensors<'a>,
    live: HashMap<u64, Tensor>,
    made: u64,
}

impl Maker<'_> {
    fn make(&mut self, count: u32, place: tch::Device) -> Result<(), Error> {
        let until = self.made + u64::from(count);
        while self.made < until
            && let Some(event) = self.tensors.next()
        {
            match event {
                TensorEvent::Freed { id } => drop(self.live.remove(&id)),
                TensorEvent::Allocated { id, bytes } => {
                    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                    let tensor = Tensor::f_empty([bytes], (Kind::Uint8, place))?;
                    self.live.insert(id, tensor);
                    self.made += 1;
                }
            }
        }
        Ok(())
    }
}

impl<W: Write> Run<'_, W> {
    /// Makes a batch of tensors a step, until memory runs out.
    pub(super) fn allocate(mut self) -> Result<Summary, Error> {
        let (file, place) = (self.file, self.place);
        let count = file.variant.batch.get();
        let mut maker = Maker {
            tensors: Tensors::of(file),
            live: HashMap::new(),
            made: 0,
        };
        let began = self.begin_warmup()?;
        let warmup_steps = self.warm_up_from(0, began, |_, _| maker.make(count, place))?;
        self.end_warmup()?;
        maker.made = 0;
        let mut steps = Vec::new();
        let ((), measured) = self.measured(|run| {
            for step in 0..file.steps.measured {
                let began = Instant::now();
                match maker.make(count, place) {
                    Err(error) if error.reason() == FailureReason::OutOfMemory => {
                        crate::log(format_args!("after {} tensors: {error}", maker.made));
                        break;
                    }
                    made => made?,
                }
                device::synchronize(file.device)?;
                steps.push(began.elapsed().as_secs_f64());
                run.empty_cache(step)?;
                run.note_held(step as usize)?;
                run.results.heartbeat(step + 1)?;
            }
            Ok(())
        })?;
        let seconds: f64 = steps.iter().sum();
        let in_steps = steps.len() as f64 * f64::from(count);
        for (index, seconds) in (0..).zip(steps) {
            self.write_step(index, [("step_seconds", Some(seconds))], Values::new())?;
        }
        self.tear_down(maker.live)?;
        Ok(Summary {
            warmup_steps,
            survived_allocations: file.device.is_cuda().then_some(maker.made),
            thousand_allocations_seconds: (in_steps > 0.0).then(|| seconds / in_steps * 1000.0),
            ..measured
        })
    }
}
