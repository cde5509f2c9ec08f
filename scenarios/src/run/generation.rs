//! Generation: a prompt at once, then one token after the other, the likeliest each time.

use std::{io::Write, time::Instant};

use libtorch::cuda;
use protocol::{Device, Execution, Values};
use tch::{Kind, Tensor};

use super::{MakeBatch, phases::Run};
use crate::{
    Error, device,
    models::{KeyValues, input_size},
    summary::{Generation, Summary},
    training::{EAGER_STEPS, Work},
};

/// What came of a request.
#[derive(Debug)]
pub struct Answer {
    /// `[batch, new tokens]`.
    pub tokens: Tensor,
    /// From the idle device to the first new tokens.
    pub prefill_seconds: f64,
    /// From there to the last ones.
    pub decode_seconds: f64,
}

/// Answers `[batch, length]` prompts with so many tokens each, decoded one after the other or as
/// `fixed` does it. The CPU waits for the first and for the last ones alone.
pub fn answer(
    work: &Work,
    prompt: &Tensor,
    new_tokens: u32,
    seen: &mut KeyValues,
    fixed: Option<&mut Fixed>,
    device: Device,
) -> Result<Answer, Error> {
    seen.clear();
    device::synchronize(device)?;
    let began = Instant::now();
    let mut tokens = vec![likeliest(work, prompt, seen)?];
    device::synchronize(device)?;
    let prefilled = Instant::now();
    match fixed {
        None => {
            for last in 1..new_tokens as usize {
                tokens.push(likeliest(work, &tokens[last - 1], seen)?);
            }
        }
        Some(fixed) => {
            fixed.begin(&tokens[0], prompt.size2()?.1, seen)?;
            for _ in 1..new_tokens {
                fixed.step(work, seen)?;
                tokens.push(fixed.tokens.f_detach_copy()?);
            }
        }
    }
    device::synchronize(device)?;
    Ok(Answer {
        prefill_seconds: (prefilled - began).as_secs_f64(),
        decode_seconds: prefilled.elapsed().as_secs_f64(),
        tokens: Tensor::f_cat(&tokens, 1)?,
    })
}

/// What most likely comes after these tokens and those seen, `[batch, 1]`.
pub(super) fn likeliest(
    work: &Work,
    tokens: &Tensor,
    seen: &mut KeyValues,
) -> Result<Tensor, Error> {
    Ok(work.next_scores(tokens, seen)?.f_argmax(-1, false)?)
}

/// Decoding at fixed addresses: every step is as the one before, so that it can be captured once as
/// a CUDA graph and replayed for each token.
#[derive(Debug)]
pub struct Fixed {
    /// `[batch, 1]`: the last ones.
    tokens: Tensor,
    /// `[1]`: theirs, or `[batch]` where each sequence has its own.
    position: Tensor,
    /// How far a step takes each position: 0 where no request is at work.
    stride: Tensor,
    /// There once a step is captured.
    graph: Option<cuda::Graph>,
}

impl Fixed {
    /// For so many sequences, all at one position.
    pub fn new(batch: u32, place: tch::Device) -> Result<Self, Error> {
        let options = (Kind::Int64, place);
        Ok(Self {
            tokens: Tensor::f_zeros([i64::from(batch), 1], options)?,
            position: Tensor::f_zeros([1], options)?,
            stride: Tensor::f_ones([1], options)?,
            graph: None,
        })
    }

    /// For so many sequences that come and go, none of which is there.
    pub(super) fn of_places(count: u32, place: tch::Device) -> Result<Self, Error> {
        let zeros = || Tensor::f_zeros([i64::from(count)], (Kind::Int64, place));
        Ok(Self {
            position: zeros()?,
            stride: zeros()?,
            ..Self::new(count, place)?
        })
    }

    /// A sequence goes on with this token at this position, or, with none, is over.
    pub(super) fn set(&mut self, index: usize, next: Option<(&Tensor, i64)>) -> Result<(), Error> {
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        let position = next.map_or(0, |(_, position)| position);
        let _ = self.position.f_narrow(0, index, 1)?.f_fill_(position)?;
        let stride = i64::from(next.is_some());
        let _ = self.stride.f_narrow(0, index, 1)?.f_fill_(stride)?;
        if let Some((token, _)) = next {
            self.tokens.f_narrow(0, index, 1)?.f_copy_(token)?;
        }
        Ok(())
    }

    /// The first new tokens are these, at this position.
    fn begin(&mut self, first: &Tensor, position: i64, seen: &mut KeyValues) -> Result<(), Error> {
        self.tokens.f_copy_(first)?;
        let _ = self.position.f_fill_(position)?;
        self.lead(seen);
        Ok(())
    }

    /// From now on a step says where the next tokens go.
    pub(super) fn lead(&self, seen: &mut KeyValues) {
        seen.follow(&self.position);
    }

    pub(super) fn step(&mut self, work: &Work, seen: &mut KeyValues) -> Result<(), Error> {
        match &mut self.graph {
            Some(graph) => Ok(graph.replay()?),
            None => self.eager_step(work, seen),
        }
    }

    fn eager_step(&mut self, work: &Work, seen: &mut KeyValues) -> Result<(), Error> {
        let next = likeliest(work, &self.tokens, seen)?;
        self.tokens.f_copy_(&next)?;
        let _ = self.position.f_add_(&self.stride)?;
        Ok(())
    }

    /// Captures a step. Answer some requests before.
    pub(super) fn capture(&mut self, work: &Work, seen: &mut KeyValues) -> Result<(), Error> {
        cuda::synchronize()?;
        cuda::empty_cache()?;
        let (graph, outcome) =
            cuda::Graph::capture(|| self.eager_step(work, seen)).map_err(Error::NotCapturable)?;
        outcome.map_err(Error::not_capturable)?;
        self.graph = Some(graph);
        Ok(())
    }
}

impl<W: Write> Run<'_, W> {
    /// All phases of a run that generates; a step is a request.
    pub(super) fn generate(mut self, make_batch: MakeBatch<'_>) -> Result<Summary, Error> {
        let (file, bench) = (self.file, self.prepare(make_batch)?);
        let new_tokens = file.variant.new_tokens();
        let mut seen = KeyValues::new(input_size(file.model, &file.variant) + new_tokens);
        let (work, prompt) = (&bench.work, &bench.batches[0].input);
        let began = self.begin_warmup()?;
        let mut eager_steps = 0;
        let mut fixed = None;
        if file.variant.execution == Execution::CudaGraph {
            let fixed = fixed.insert(Fixed::new(file.variant.batch.get(), self.place)?);
            cuda::on_side_stream(|| {
                (0..EAGER_STEPS).try_for_each(|_| {
                    let (seen, fixed) = (&mut seen, Some(&mut *fixed));
                    answer(work, prompt, new_tokens, seen, fixed, file.device).map(|_| ())
                })
            })??;
            eager_steps = EAGER_STEPS;
            self.meter.reset_peaks()?;
            fixed.capture(work, &mut seen)?;
            self.apply_budget()?;
        }
        let mut request = || {
            let fixed = fixed.as_mut();
            answer(work, prompt, new_tokens, &mut seen, fixed, file.device)
        };
        let warmup_steps = self.warm_up_from(eager_steps, began, |_, _| request().map(|_| ()))?;
        self.end_warmup()?;

        let mut summary = self.measure_requests(&mut request)?;
        self.profile((None, &[]), |_, _| request().map(|_| ()))?;
        summary.warmup_steps = warmup_steps;
        summary.parameters = Some(bench.work.parameters().count());
        summary.memory.parameter_bytes = Some(bench.work.parameters().bytes());
        summary.kv_cache_token_bytes = Some(seen.bytes_per_token());
        self.tear_down((bench, seen))?;
        Ok(summary)
    }

    fn measure_requests(
        &mut self,
        request: &mut dyn FnMut() -> Result<Answer, Error>,
    ) -> Result<Summary, Error> {
        let file = self.file;
        let mut answers = Vec::with_capacity(file.steps.measured as usize);
        let ((), measured) = self.measured(|run| {
            run.each_measured(|run, step| {
                let answer = request()?;
                run.empty_cache(step)?;
                answers.push((answer.prefill_seconds, answer.decode_seconds));
                Ok(())
            })
        })?;
        for (index, &(prefill, decode)) in (0..).zip(&answers) {
            let values = [
                ("step_seconds", Some(prefill + decode)),
                ("prefill_seconds", Some(prefill)),
                ("decode_seconds", Some(decode)),
            ];
            self.write_step(index, values, Values::new())?;
        }
        let batch = file.variant.batch.get();
        let samples = f64::from(batch) * f64::from(file.steps.measured);
        Ok(Summary {
            micro_batch: Some(batch.into()),
            effective_batch: Some(batch.into()),
            samples: Some(samples),
            throughput_samples_per_second: Some(samples / measured.measured_seconds),
            generation: Some(self.rates(answers)),
            ..measured
        })
    }

    /// What requests whose prefill and decoding took these times come to.
    fn rates(&self, mut answers: Vec<(f64, f64)>) -> Generation {
        let variant = &self.file.variant;
        let requests = answers.len() as f64;
        let prefill: f64 = answers.iter().map(|(prefill, _)| prefill).sum();
        let decode: f64 = answers.iter().map(|(_, decode)| decode).sum();
        let length = f64::from(input_size(self.file.model, variant));
        let prompts = f64::from(variant.batch.get()) * length;
        let decoded = f64::from(variant.new_tokens() - 1);
        answers.sort_by(|one, other| one.0.total_cmp(&other.0));
        let middle = answers.len() / 2;
        Generation {
            prefill_tokens_per_second: requests * prompts / prefill,
            decode_tokens_per_second: (decoded > 0.0).then(|| requests * decoded / decode),
            time_to_first_token_seconds: f64::midpoint(
                answers[(answers.len() - 1) / 2].0,
                answers[middle].0,
            ),
        }
    }
}
