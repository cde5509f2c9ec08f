//! The micro-batches of a step through a stage of the model.

use std::collections::VecDeque;

use libtorch::autograd;
use tch::Tensor;

use super::{Feed, Observer, StepLog, Work};
use crate::{
    Error,
    nn::{Module, Pass},
    parallel::{Sent, Together},
};

/// A micro-batch that has gone forward.
struct Flying {
    input: Tensor,
    /// What goes to the next rank; of the last one the loss.
    output: Tensor,
    sent: Option<Sent>,
}

impl Work {
    /// Forward and backward of all, by the schedule of the pipeline.
    pub(super) fn pass_stage(
        &mut self,
        number: u32,
        feed: &mut dyn Feed,
        log: &StepLog,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let Some(training) = &mut self.training else {
            return Ok(());
        };
        let Some(Together::Pipelined(pipeline)) = &mut training.together else {
            return Ok(());
        };
        let count = training.accumulation;
        let (stage, ahead) = (pipeline.stage(), pipeline.ahead().min(count));
        let pass = Pass {
            stage: Some(stage),
            ..self.pass
        };
        let mut flying: VecDeque<Flying> = VecDeque::new();
        for turn in 0..count + ahead {
            if turn < count {
                let batch = feed.micro_batch(turn)?;
                observer.data(turn)?;
                let input = pipeline.input(&batch.input)?;
                let mut output = self.arithmetic.autocast(|| {
                    let output = self.network.forward(&input, pass)?;
                    if !stage.is_last() {
                        return Ok(output);
                    }
                    let _entered = Module::LOSS.enter();
                    self.network.loss(output, &batch.labels)
                })?;
                if stage.is_last() {
                    if count > 1 {
                        output = output.f_div_scalar(count as f64)?;
                    }
                    log.add_loss(number, &output.f_detach()?)?;
                }
                observer.forward(turn)?;
                flying.push_back(Flying {
                    input,
                    output,
                    sent: None,
                });
            }
            // Before what went forward is sent: the order that the next rank takes.
            let gradient = (turn >= ahead).then(|| pipeline.gradient());
            let gradient = gradient.transpose()?.flatten();
            if turn < count
                && let Some(newest) = flying.back_mut()
            {
                newest.sent = pipeline.output(&newest.output)?;
            }
            if turn >= ahead
                && let Some(oldest) = flying.pop_front()
            {
                autograd::backward_from(&oldest.output, gradient.as_ref())?;
                pipeline.done(&oldest.input, oldest.sent)?;
                observer.backward(turn - ahead)?;
            }
        }
        Ok(pipeline.finish()?)
    }
}
