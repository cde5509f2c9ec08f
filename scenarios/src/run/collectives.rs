//! A run that computes nothing and exchanges a message: what the way between ranks gives.

use std::io::Write;

use libtorch::distributed::{self, ProcessGroup};
use protocol::{Collective, Refusal, Values};
use tch::{Kind, Tensor};

use super::phases::Run;
use crate::{
    Error, device, parallel,
    stopwatch::Stopwatch,
    summary::{self, Summary},
};

/// A message on its way again and again.
struct Message {
    group: ProcessGroup,
    collective: distributed::Collective,
    output: Tensor,
    /// Where the collective is not in place.
    input: Option<Tensor>,
}

impl Message {
    fn iterate(&self) -> Result<(), Error> {
        let done = self
            .group
            .run(self.collective, &self.output, self.input.as_ref());
        Ok(done?)
    }

    /// Sends it once with values that say what arrives: a rank's number, from 1.
    fn check(&self, rank: u32, name: Collective) -> Result<(), Error> {
        let mut sent = self.input.as_ref().unwrap_or(&self.output).shallow_clone();
        let _ = sent.f_fill_(f64::from(rank + 1))?;
        self.iterate()?;
        let world = f64::from(self.group.world());
        let sum = world * (world + 1.0) / 2.0;
        let (least, most) = match name {
            Collective::AllReduce | Collective::ReduceScatter => (sum, sum),
            Collective::AllGather => (1.0, world),
            Collective::Broadcast => (1.0, 1.0),
            Collective::Send => (f64::from(rank & !1) + 1.0, f64::from(rank & !1) + 1.0),
        };
        let values = self.output.f_to_kind(Kind::Double)?;
        let mean = f64::midpoint(least, most);
        for (got, expected) in [
            (values.f_min()?, least),
            (values.f_max()?, most),
            (values.f_mean(Kind::Double)?, mean),
        ] {
            let got = got.f_double_value(&[])?;
            if (got - expected).abs() > 1e-9 * expected {
                let collective = serde_json::to_string(&name).unwrap_or_default();
                return Err(Error::WrongMessage {
                    collective,
                    got,
                    expected,
                });
            }
        }
        let _ = sent.f_zero_()?;
        Ok(())
    }
}

impl<W: Write> Run<'_, W> {
    /// Sends the message as often as a batch says a step.
    pub(super) fn exchange(mut self) -> Result<Summary, Error> {
        let file = self.file;
        let name = file.variant.collective.unwrap_or_default();
        let iterations = file.variant.batch.get();
        let began = self.begin_warmup()?;
        let message = self.message(name)?;
        if let Some(ranks) = &self.ranks {
            message.check(ranks.rank(), name)?;
        }
        let warmup_steps = self.warm_up_from(0, began, |_, _| {
            (0..iterations).try_for_each(|_| message.iterate())
        })?;
        self.end_warmup()?;
        let laps = (iterations * file.steps.measured) as usize;
        let mut watch = Stopwatch::new(laps, self.place)?;
        let ((), measured) = self.measured(|run| {
            watch.mark()?;
            run.each_measured(|_, _| {
                (0..iterations).try_for_each(|_| {
                    message.iterate()?;
                    Ok(watch.mark()?)
                })
            })
        })?;
        let mut seconds = watch.seconds()?;
        for (index, step) in (0..).zip(seconds.chunks(iterations as usize)) {
            let values = [("step_seconds", Some(step.iter().sum()))];
            self.write_step(index, values, Values::new())?;
        }
        let algorithm = f64::from(file.variant.message_bytes()) * seconds.len() as f64
            / seconds.iter().sum::<f64>();
        seconds.sort_by(f64::total_cmp);
        let world = f64::from(message.group.world());
        let collective = summary::Collective {
            algorithm_bandwidth_bytes_per_second: algorithm,
            bus_bandwidth_bytes_per_second: algorithm * sent_share(name, world),
            iteration_p50_seconds: nearest_rank(&seconds, 50),
            iteration_p99_seconds: nearest_rank(&seconds, 99),
        };
        self.tear_down(message)?;
        Ok(Summary {
            warmup_steps,
            collective: Some(collective),
            ..measured
        })
    }

    fn message(&self, name: Collective) -> Result<Message, Error> {
        // Refused before, where there is one rank alone.
        let (Some(group), Some(ranks)) = (self.group, &self.ranks) else {
            return Err(refused("collectives need ranks of at least 2".to_owned()));
        };
        let variant = &self.file.variant;
        let kind = parallel::message_kind(variant.precision);
        let bytes = variant.message_bytes() as usize;
        let parts = match name {
            Collective::AllGather | Collective::ReduceScatter => group.world() as usize,
            _ => 1,
        };
        let part_bytes = parts * kind.elt_size_in_bytes();
        if !bytes.is_multiple_of(part_bytes) {
            return Err(refused(format!(
                "{bytes} bytes are no {parts} equal parts; use a multiple of {part_bytes}"
            )));
        }
        let values = i64::try_from(bytes / kind.elt_size_in_bytes()).unwrap_or(i64::MAX);
        let part = values / i64::try_from(parts).unwrap_or(1);
        let zeros = |length| Tensor::f_zeros([length], (kind, device::place(self.file.device)));
        let rank = ranks.rank();
        let (collective, output, input) = match name {
            Collective::AllReduce => (distributed::Collective::AllReduce, values, None),
            Collective::AllGather => (distributed::Collective::AllGather, values, Some(part)),
            Collective::ReduceScatter => {
                (distributed::Collective::ReduceScatter, part, Some(values))
            }
            Collective::Broadcast => (distributed::Collective::Broadcast(0), values, None),
            Collective::Send if rank.is_multiple_of(2) => {
                (distributed::Collective::Send(rank + 1), values, None)
            }
            Collective::Send => (distributed::Collective::Receive(rank - 1), values, None),
        };
        Ok(Message {
            group,
            collective,
            output: zeros(output)?,
            input: input.map(zeros).transpose()?,
        })
    }
}

/// What of a message each rank must send, as nccl-tests counts it.
fn sent_share(name: Collective, world: f64) -> f64 {
    match name {
        Collective::AllReduce => 2.0 * (world - 1.0) / world,
        Collective::AllGather | Collective::ReduceScatter => (world - 1.0) / world,
        Collective::Broadcast | Collective::Send => 1.0,
    }
}

/// The value that so many per cent of the sorted ones are at or below.
fn nearest_rank(sorted: &[f64], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied().unwrap_or_default()
}

fn refused(reason: String) -> Error {
    Error::RunFile(
        Refusal {
            axis: "message",
            reason,
        }
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_that_of_nccl_tests() {
        let check = |name, world, share: f64| {
            assert!((sent_share(name, world) - share).abs() < 1e-12, "{name:?}");
        };
        check(Collective::AllReduce, 2.0, 1.0);
        check(Collective::AllReduce, 8.0, 1.75);
        check(Collective::AllGather, 4.0, 0.75);
        check(Collective::ReduceScatter, 2.0, 0.5);
        check(Collective::Broadcast, 8.0, 1.0);
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((nearest_rank(&ten, 50) - 5.0).abs() < 1e-12);
        assert!((nearest_rank(&ten, 99) - 10.0).abs() < 1e-12);
    }
}
