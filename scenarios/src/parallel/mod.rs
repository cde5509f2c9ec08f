//! Ranks of a run: which one this process is, how they meet, and how they train one model.
//!
//! A run with several ranks is as many processes of this program, each with `torchrun`'s variables
//! in its environment. On GPUs each has one of its own.

mod ddp;
mod pipeline;
mod sharded;

use std::{env, time::Duration};

use libtorch::distributed::{Collective, ProcessGroup, Rendezvous};
use protocol::{Device, Parallel, Precision, RunFile, Task};
use tch::{Kind, Tensor};

pub use self::{
    ddp::Ddp,
    pipeline::{Pipeline, Sent},
    sharded::Sharded,
};
use crate::{Error, device, nn::Stage, training::Arithmetic};

/// Longest wait for the other ranks, at the meeting and in each exchange.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Set to milliseconds for tests, which do not wait as long.
const TIMEOUT_VARIABLE: &str = "TORCHGAUGE_EXCHANGE_TIMEOUT_MS";

/// Which rank this process is, and of how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    at: Rendezvous,
    /// Of a pipeline, whose ranks see the same samples.
    stage: Option<Stage>,
}

impl Ranks {
    /// Those that a run exchanges something with; `None` where there is one rank, and of replicas,
    /// which do not know of each other. Refuses a run that means nothing with so many.
    pub fn of_run(file: &RunFile) -> Result<Option<Self>, Error> {
        let ranks = Self::of(&|name| env::var(name).ok(), TIMEOUT)?;
        let world = ranks.as_ref().map_or(1, Self::world);
        let checked = file.variant.check_ranks(file.model, file.task, world);
        checked.map_err(|refusal| Error::RunFile(refusal.into()))?;
        let ranks = ranks.filter(|_| exchanges(file));
        Ok(match file.variant.parallel {
            Parallel::Pipeline => ranks.map(|ranks| ranks.in_stages(file.model.blocks())),
            _ => ranks,
        })
    }

    /// Those that measure at the same time and exchange nothing else.
    pub fn replicas(file: &RunFile) -> Result<Option<Self>, Error> {
        // One may have a slower disk, or less of a GPU; what ends it ends the others.
        let ranks = Self::of(&|name| env::var(name).ok(), Duration::from_hours(24))?;
        Ok(ranks.filter(|_| !exchanges(file)))
    }

    fn of(
        variable: &dyn Fn(&str) -> Option<String>,
        usual: Duration,
    ) -> Result<Option<Self>, Error> {
        let bad = |name: &'static str, expected: &'static str| Error::BadRank {
            variable: name,
            there: variable(name).unwrap_or_else(|| "nothing".to_owned()),
            expected,
        };
        let number = |name, least: u32, most: u32, expected| {
            let number = variable(name).and_then(|text| text.parse().ok());
            let fit = number.filter(|number| (least..=most).contains(number));
            fit.ok_or_else(|| bad(name, expected))
        };
        if variable("WORLD_SIZE").is_none() {
            return Ok(None);
        }
        let world = number("WORLD_SIZE", 1, 4096, "the number of ranks, at most 4096")?;
        if world == 1 {
            return Ok(None);
        }
        let below = "a number below that of the ranks, from 0";
        let rank = number("RANK", 0, world - 1, below)?;
        let port = number("MASTER_PORT", 1, 65_535, "the port where rank 0 listens")?;
        let timeout = variable(TIMEOUT_VARIABLE).and_then(|text| text.parse().ok());
        Ok(Some(Self {
            at: Rendezvous {
                host: variable("MASTER_ADDR")
                    .filter(|host| !host.is_empty())
                    .ok_or_else(|| bad("MASTER_ADDR", "where rank 0 listens"))?,
                port: u16::try_from(port).unwrap_or(u16::MAX),
                rank,
                world,
                timeout: timeout.map_or(usual, Duration::from_millis),
            },
            stage: None,
        }))
    }

    fn in_stages(self, all_blocks: u32) -> Self {
        let stage = Stage {
            rank: self.at.rank as usize,
            world: self.at.world as usize,
            all_blocks: all_blocks as usize,
        };
        Self {
            stage: Some(stage),
            ..self
        }
    }

    /// The part of the model that this rank has, where that is not all of it.
    pub fn stage(&self) -> Option<Stage> {
        self.stage
    }

    pub fn rank(&self) -> u32 {
        self.at.rank
    }

    pub fn world(&self) -> u32 {
        self.at.world
    }

    /// The number of its micro-batch `index` in the run's data: those of all ranks together are the
    /// samples that one rank's are, with a batch as many times as large.
    pub fn micro_batch(&self, index: usize) -> usize {
        if self.stage.is_some() {
            return index;
        }
        index * self.at.world as usize + self.at.rank as usize
    }

    /// Meets the others.
    pub fn join(&self, device: Device) -> Result<ProcessGroup, Error> {
        let gpu = match device {
            Device::Cpu => None,
            Device::Cuda(index) => Some(index),
        };
        let group = ProcessGroup::join(&self.at, gpu)?;
        meet(group, device)?;
        Ok(group)
    }
}

fn exchanges(file: &RunFile) -> bool {
    file.task == Task::Collectives || !file.variant.parallel.is_none()
}

/// How ranks train one model.
#[derive(Debug)]
pub enum Together {
    Averaged(Ddp),
    Sharded(Sharded),
    Pipelined(Pipeline),
}

/// Waits until all ranks are here.
pub fn meet(group: ProcessGroup, device: Device) -> Result<(), Error> {
    agree(group, device, true).map(|_| ())
}

/// What rank 0 has decided, which all ranks are asked for at the same time.
pub fn agree(group: ProcessGroup, device: Device, mine: bool) -> Result<bool, Error> {
    let word = Tensor::f_full([1], i64::from(mine), (Kind::Int, device::place(device)))?;
    group.run(Collective::Broadcast(0), &word, None)?;
    // Rank 0 has sent it before the others are there.
    group.run(Collective::AllReduce, &word, None)?;
    Ok(word.f_int64_value(&[0])? > 0)
}

/// The type of a message of the task collectives.
pub fn message_kind(precision: Precision) -> Kind {
    Arithmetic::kind(precision)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [(&str, &str); 4] = [
        ("WORLD_SIZE", "2"),
        ("RANK", "1"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "29500"),
    ];

    fn of(changed: (&str, &str)) -> Result<Option<Ranks>, Error> {
        Ranks::of(
            &|name| {
                let all = [changed].into_iter().chain(TWO);
                let mut found = all.filter(|(key, _)| *key == name);
                found.next().map(|(_, value)| value.to_owned())
            },
            TIMEOUT,
        )
    }

    #[test]
    fn a_rank_has_its_own_data() {
        let ranks = of(("", "")).unwrap().unwrap();
        assert_eq!((ranks.rank(), ranks.world()), (1, 2));
        assert_eq!([0, 1, 2].map(|index| ranks.micro_batch(index)), [1, 3, 5]);
        let staged = ranks.in_stages(2);
        assert_eq!([0, 1].map(|index| staged.micro_batch(index)), [0, 1]);
        assert_eq!(of(("WORLD_SIZE", "1")).unwrap(), None);
        assert_eq!(Ranks::of(&|_| None, TIMEOUT).unwrap(), None);
    }

    #[test]
    fn ranks_that_mean_nothing_are_refused_by_their_variable() {
        for (name, value) in [
            ("WORLD_SIZE", "two"),
            ("WORLD_SIZE", "0"),
            ("WORLD_SIZE", "4097"),
            ("RANK", "2"),
            ("RANK", "-1"),
            ("MASTER_ADDR", ""),
            ("MASTER_PORT", "0"),
            ("MASTER_PORT", "65536"),
        ] {
            let error = of((name, value)).unwrap_err();
            assert_eq!(error.reason(), protocol::FailureReason::BadRunFile);
            let words = error.to_string();
            assert!(words.contains(&format!("{name}={value}")), "{words}");
        }
    }
}
