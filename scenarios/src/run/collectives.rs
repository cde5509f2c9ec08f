//! A run that computes nothing and exchanges a message: what the way between ranks gives.

use std::{
    env,
    ffi::CString,
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _},
    process,
};

use libtorch::distributed::{self, ProcessGroup};
use protocol::{Collective, Event, Refusal, Values};
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
        let modes = modes(&seconds);
        let collective = summary::Collective {
            algorithm_bandwidth_bytes_per_second: algorithm,
            bus_bandwidth_bytes_per_second: algorithm * sent_share(name, world),
            iteration_p50_seconds: nearest_rank(&seconds, 50),
            iteration_p99_seconds: nearest_rank(&seconds, 99),
            iteration_lower_mode_seconds: modes.map(|modes| modes.lower_seconds),
            iteration_upper_mode_seconds: modes.map(|modes| modes.upper_seconds),
            iteration_upper_mode_ratio: modes.map(|modes| modes.upper_share),
        };
        self.note_choice(&message)?;
        self.tear_down(message)?;
        Ok(Summary {
            warmup_steps,
            collective: Some(collective),
            ..measured
        })
    }

    /// Sends the message once more, where NCCL says how it does that. It says so for each collective
    /// from then on, so that nothing is measured after it.
    fn note_choice(&mut self, message: &Message) -> Result<(), Error> {
        let says = device::nccl_variables(self.file.device);
        if !self.file.device.is_cuda() || says.contains_key("NCCL_DEBUG") {
            return Ok(());
        }
        // A folder of its own: nobody else's file or link can lie in it.
        let folder = env::temp_dir().join(format!("torchgauge-nccl-{}", process::id()));
        if fs::DirBuilder::new().mode(0o700).create(&folder).is_err() {
            return Ok(());
        }
        let file = folder.join("choices");
        let name = CString::new(file.as_os_str().as_bytes()).unwrap_or_default();
        if distributed::explain(&name)? {
            message.iterate()?;
            device::synchronize(self.file.device)?;
        }
        let said = fs::read_to_string(&file).unwrap_or_default();
        // The record has the choice, or nothing of it.
        let _ = fs::remove_dir_all(&folder);
        if let Some(choice) = choice(&said) {
            let facts = [("nccl_choice".to_owned(), choice)].into();
            self.results.write(&Event::Facts { facts })?;
        }
        Ok(())
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

/// Algorithm and protocol out of NCCL's own lines, which the first rank alone writes: `… AllReduce:
/// 1048576 Bytes -> Algo RING proto LL128 …`.
fn choice(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.contains("-> Algo"))?;
    let word = |after: &str| line.split(after).nth(1)?.split_whitespace().next();
    let choice = format!("{} {}", word("Algo ")?, word("proto ")?);
    Some(choice.to_ascii_lowercase())
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

/// Two groups that times are in.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Modes {
    /// The median of the faster ones.
    lower_seconds: f64,
    upper_seconds: f64,
    upper_share: f64,
}

/// The modes, where there are two. The sorted times, without a hundredth at either end, are split in
/// two where the means of the logarithms differ most for the sizes of the groups (Otsu 1979). Two modes
/// are groups of at least a twentieth each whose medians are 10 % apart, and whose means are five times
/// as far apart as they scatter (Ashman et al. 1994): the halves of an even distribution reach 3.5 of
/// that, those of a normal one 2.7.
fn modes(sorted: &[f64]) -> Option<Modes> {
    const LEAST: usize = 40;
    let cut = sorted.len() / 100;
    let inner = &sorted[cut..sorted.len() - cut];
    let logs: Vec<f64> = inner.iter().map(|seconds| seconds.ln()).collect();
    let count = logs.len();
    if count < LEAST || !logs.iter().all(|log| log.is_finite()) {
        return None;
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (all, mut below) = (logs.iter().sum::<f64>(), 0.0);
    let (mut split, mut widest) = (0, 0.0);
    for (place, log) in (1..count).zip(&logs) {
        below += log;
        let (low, high) = (place as f64, (count - place) as f64);
        let apart = below / low - (all - below) / high;
        if low * high * apart * apart > widest {
            (split, widest) = (place, low * high * apart * apart);
        }
    }
    if split.min(count - split) * 20 < count {
        return None;
    }
    let (low, high) = logs.split_at(split);
    let variance = |of: &[f64]| {
        let middle = mean(of);
        mean(
            &of.iter()
                .map(|log| (log - middle).powi(2))
                .collect::<Vec<_>>(),
        )
    };
    let scatter = f64::midpoint(variance(low), variance(high)).sqrt();
    let (lower, upper) = (
        nearest_rank(&inner[..split], 50),
        nearest_rank(&inner[split..], 50),
    );
    let is_apart = mean(high) - mean(low) >= 5.0 * scatter && upper >= 1.1 * lower;
    is_apart.then(|| Modes {
        lower_seconds: lower,
        upper_seconds: upper,
        upper_share: (count - split) as f64 / count as f64,
    })
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
    fn a_choice_is_read_from_nccl_s_own_lines() {
        for (said, expect) in [
            (
                "host:1:1 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto LL128 \
                 channel{Lo..Hi}={0..23}\n",
                Some("ring ll128"),
            ),
            ("h:1 [0] NCCL INFO 8 Bytes -> Algo 1\n", None),
            ("", None),
        ] {
            assert_eq!(choice(said).as_deref(), expect, "{said}");
        }
    }

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

    /// So many times around each middle, ± a tenth, evenly or, with a tail, ever rarer.
    fn times(middles: &[(f64, u32)], tail: f64) -> Vec<f64> {
        let mut all = Vec::new();
        for &(middle, count) in middles {
            let share = |place| (f64::from(place) + 0.5) / f64::from(count);
            let of = |share: f64| middle * (0.9 + 0.2 * share) - tail * (1.0 - share).ln();
            all.extend((0..count).map(|place| of(share(place))));
        }
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn two_modes_are_named_where_there_are_two() {
        let two = modes(&times(&[(20e-6, 700), (45e-6, 300)], 0.0)).unwrap();
        for (got, expected) in [
            (two.lower_seconds, 20e-6),
            (two.upper_seconds, 45e-6),
            (two.upper_share, 0.3),
        ] {
            assert!((got / expected - 1.0).abs() < 0.05, "{two:?}");
        }
        // With stragglers, which are no mode.
        let mut rough = times(&[(20e-6, 700), (45e-6, 300)], 0.0);
        rough.extend([1e-3; 5]);
        assert!(modes(&rough).is_some());
        for one in [
            times(&[(20e-6, 1000)], 0.0),
            times(&[(20e-6, 1000)], 20e-6),
            times(&[(20e-6, 980), (60e-6, 20)], 0.0),
            times(&[(20e-6, 20), (45e-6, 19)], 0.0),
            vec![20e-6; 1000],
            [vec![20.48e-6; 500], vec![20.99e-6; 500]].concat(),
            vec![0.0; 1000],
        ] {
            assert_eq!(modes(&one), None, "{:?}", &one[..3]);
        }
    }
}
