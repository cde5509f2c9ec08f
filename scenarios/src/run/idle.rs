//! A run that computes nothing: what a container takes once libtorch is loaded and, on a GPU, the
//! context is made.

use std::{io::Write, thread, time::Instant};

use protocol::{IDLE_STEP, Values};

use super::phases::Run;
use crate::{Error, summary::Summary};

impl<W: Write> Run<'_, W> {
    /// Lets as many steps pass as the run file says, each a stretch of sleep.
    pub(super) fn idle(mut self) -> Result<Summary, Error> {
        let began = self.begin_warmup()?;
        let warmup_steps = self.warm_up_from(0, began, |_, _| {
            thread::sleep(IDLE_STEP);
            Ok(())
        })?;
        self.end_warmup()?;
        let mut stretches = Vec::new();
        let ((), measured) = self.measured(|run| {
            run.each_measured(|_, _| {
                let began = Instant::now();
                thread::sleep(IDLE_STEP);
                stretches.push(began.elapsed().as_secs_f64());
                Ok(())
            })
        })?;
        for (index, seconds) in (0..).zip(stretches) {
            // As long as it was asked to be, which is no step time of the image's.
            self.write_step(index, [("idle_seconds", Some(seconds))], Values::new())?;
        }
        Ok(Summary {
            warmup_steps,
            ..measured
        })
    }
}
