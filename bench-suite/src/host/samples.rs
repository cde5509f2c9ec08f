//! Samples of a run, before they are thinned for the record.

use std::collections::BTreeMap;

use record::{GpuMonitor, Monitor, Sample, Sampled, Series};

/// Samples of each kind, in order of time. They count their seconds from the run's start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns(BTreeMap<Sampled, Vec<Sample>>);

impl Columns {
    /// Takes a sample in; what cannot be read or is no number is left out.
    pub(crate) fn push(&mut self, what: Sampled, at: f64, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.entry(what).or_default().push(Sample(at, value));
        }
    }

    pub(crate) fn series(&self) -> BTreeMap<Sampled, Series> {
        let series =
            |(what, samples): (&Sampled, &Vec<Sample>)| Some((*what, Series::of(samples)?));
        self.0.iter().filter_map(series).collect()
    }
}

/// Everything that was seen of a run from outside.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Of the run and the host.
    pub(crate) columns: Columns,
    /// What is no series of these.
    pub(crate) rest: Monitor,
    /// What was seen of the GPU of each rank.
    pub(crate) gpus: BTreeMap<usize, GpuMonitor>,
}

impl Samples {
    /// Takes a sample in; what cannot be read or is no number is left out.
    pub(crate) fn push(&mut self, what: Sampled, at: f64, value: Option<f64>) {
        self.columns.push(what, at, value);
    }

    /// With what is missing here of the run that `other` has, and the GPUs of both.
    #[must_use]
    pub(crate) fn or(mut self, other: Self) -> Self {
        for (what, samples) in other.columns.0 {
            self.columns.0.entry(what).or_insert(samples);
        }
        self.rest.read_bytes = self.rest.read_bytes.or(other.rest.read_bytes);
        self.rest.written_bytes = self.rest.written_bytes.or(other.rest.written_bytes);
        self.gpus.extend(other.gpus);
        self
    }

    /// With all samples in its series.
    pub fn monitor(mut self) -> Monitor {
        let mut monitor = self.rest;
        // A rank whose GPU could not be read keeps its place.
        let ranks = self.gpus.keys().next_back().map_or(0, |last| last + 1);
        let of_rank = |rank| self.gpus.remove(&rank).unwrap_or_default();
        monitor.gpus = (0..ranks).map(of_rank).collect();
        monitor.series = self.columns.series();
        monitor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_ranks(ranks: &[usize]) -> Samples {
        let gpu = |rank: &usize| GpuMonitor {
            xids: vec![*rank as u64],
            ..GpuMonitor::default()
        };
        Samples {
            gpus: ranks.iter().map(|rank| (*rank, gpu(rank))).collect(),
            ..Samples::default()
        }
    }

    #[test]
    fn a_gpu_is_that_of_its_rank_whichever_host_it_is_on() {
        let xids = |samples: Samples| -> Vec<Vec<u64>> {
            let gpus = samples.monitor().gpus.into_iter();
            gpus.map(|gpu| gpu.xids).collect()
        };
        let interleaved = of_ranks(&[1, 3]).or(of_ranks(&[0, 2]));
        assert_eq!(xids(interleaved), [[0], [1], [2], [3]]);
        // The host of the ranks 0 and 2 has no NVML.
        assert_eq!(xids(of_ranks(&[1])), [vec![], vec![1]]);
        assert!(xids(of_ranks(&[])).is_empty());
    }
}
