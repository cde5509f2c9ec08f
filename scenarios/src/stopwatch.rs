//! Times of steps, and of their parts, that do not contaminate the steps.

use std::time::{Duration, Instant};

use libtorch::{Result, cuda};
use protocol::Values;
use rustix::time::{ClockId, clock_gettime};
use tch::Device;

use crate::{summary::StepParts, training::Observer};

/// Marks between steps: CUDA events on a GPU, which the GPU itself stamps when it gets
/// there, or the clock on the CPU, where a step is done when it returns.
#[derive(Debug)]
pub enum Stopwatch {
    /// Marks that a GPU stamps; made beforehand.
    Gpu {
        events: Vec<cuda::Event>,
        set: usize,
    },
    /// Marks of the clock.
    Clock(Vec<Instant>),
}

impl Stopwatch {
    /// Room for the marks around this many laps.
    pub fn new(laps: usize, device: Device) -> Result<Self> {
        Ok(match device {
            Device::Cuda(_) => Self::Gpu {
                events: (0..=laps)
                    .map(|_| cuda::Event::new())
                    .collect::<Result<_>>()?,
                set: 0,
            },
            _ => Self::Clock(Vec::with_capacity(laps + 1)),
        })
    }

    /// Sets the next mark. Returns at once.
    pub fn mark(&mut self) -> Result<()> {
        match self {
            Self::Gpu { events, set } => {
                if let Some(event) = events.get_mut(*set) {
                    event.record()?;
                    *set += 1;
                }
            }
            Self::Clock(instants) => instants.push(Instant::now()),
        }
        Ok(())
    }

    /// Seconds between marks. Waits for the GPU.
    pub fn seconds(&self) -> Result<Vec<f64>> {
        match self {
            Self::Gpu { events, set } => events[..*set]
                .windows(2)
                .map(|pair| Ok(pair[1].elapsed_since(&pair[0])?.as_secs_f64()))
                .collect(),
            Self::Clock(instants) => Ok(instants
                .windows(2)
                .map(|pair| (pair[1] - pair[0]).as_secs_f64())
                .collect()),
        }
    }
}

/// A stopwatch over steps, with marks inside each where the parts are wanted.
#[derive(Debug)]
pub struct StepWatch {
    stopwatch: Stopwatch,
    /// Marks inside a step; 0 for steps as a whole.
    inner: usize,
    /// Whether one of them stands after the data of each micro-batch, before its forward.
    data: bool,
    /// When the CPU set each mark, and the CPU time that the process had taken by then, in seconds;
    /// none for steps as a whole.
    host: Vec<[f64; 2]>,
    began: Instant,
}

/// What is timed within a step: after each forward and each backward of so many micro-batches.
#[derive(Debug, Clone, Copy)]
pub struct Inside {
    pub micro_batches: usize,
    /// Whether the way of their data to the device is timed too.
    pub data: bool,
}

impl Inside {
    /// Marks within a step.
    pub fn marks(self) -> usize {
        self.micro_batches * passes(self.data)
    }
}

/// CPU time of the process so far, all threads together.
fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Time of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lap {
    pub seconds: f64,
    pub parts: Option<StepParts>,
}

impl StepWatch {
    /// For this many steps, each with its parts, or as a whole.
    pub fn new(steps: usize, inside: Option<Inside>, device: Device) -> Result<Self> {
        let data = inside.is_some_and(|inside| inside.data);
        let inner = inside.map_or(0, Inside::marks);
        Ok(Self {
            stopwatch: Stopwatch::new(steps * (inner + 1), device)?,
            inner,
            data,
            host: Vec::with_capacity(if inner > 0 {
                steps * (inner + 1) + 1
            } else {
                0
            }),
            began: Instant::now(),
        })
    }

    /// A step begins, or the last one ended.
    pub fn mark(&mut self) -> Result<()> {
        if self.inner > 0 {
            let at = self.began.elapsed().as_secs_f64();
            self.host.push([at, process_cpu_time().as_secs_f64()]);
        }
        self.stopwatch.mark()
    }

    /// `forward_host_cpu_ratio` and so on: how many CPUs the process kept at work in each part, of all
    /// steps together, while the CPU did its share of it. None for steps as a whole.
    pub fn host_loads(&self) -> Values {
        let spans = self.host.windows(2);
        let spans = spans.map(|pair| [0, 1].map(|of| pair[1][of] - pair[0][of]));
        part_ratios(spans, (self.inner, self.data), "host_cpu_ratio")
    }

    /// The times of each step, and the mean seconds from each mark of a step to the next one. Waits
    /// for the GPU.
    pub fn laps(&self) -> Result<(Vec<Lap>, Vec<f64>)> {
        let times = self.stopwatch.seconds()?;
        let laps = times.chunks_exact(self.inner + 1);
        let mut means = vec![0.0; self.inner + 1];
        for (place, seconds) in times.iter().enumerate() {
            means[place % (self.inner + 1)] += seconds / laps.len() as f64;
        }
        Ok((laps.map(|times| lap(times, self.data)).collect(), means))
    }
}

/// Stretches of a micro-batch.
fn passes(data: bool) -> usize {
    2 + usize::from(data)
}

/// Data where they are timed, forward and backward in turn, and the optimizer at last.
fn lap(times: &[f64], data: bool) -> Lap {
    let seconds = times.iter().sum();
    let parts = match times {
        [] | [_] => None,
        [inner @ .., optimizer_seconds] => {
            let every = |first: usize| inner.iter().skip(first).step_by(passes(data)).sum();
            let forward = usize::from(data);
            Some(StepParts {
                data_seconds: data.then(|| every(0)),
                forward_seconds: every(forward),
                backward_seconds: every(forward + 1),
                optimizer_seconds: *optimizer_seconds,
            })
        }
    };
    Lap { seconds, parts }
}

/// What is between the marks of steps, of all of them together, as a share of the time between them:
/// `forward_{name}` and so on. `spans` are time and something of it, from mark to mark.
pub fn part_ratios(
    spans: impl Iterator<Item = [f64; 2]>,
    (inner, data): (usize, bool),
    name: &str,
) -> Values {
    let mut sums = [vec![0.0; inner + 1], vec![0.0; inner + 1]];
    for (place, span) in spans.enumerate() {
        for (sum, value) in sums.iter_mut().zip(span) {
            sum[place % (inner + 1)] += value;
        }
    }
    let [Some(time), Some(of)] = sums.map(|sums| lap(&sums, data).parts) else {
        return Values::new();
    };
    let ratios = [
        ("data", of.data_seconds.zip(time.data_seconds)),
        ("forward", Some((of.forward_seconds, time.forward_seconds))),
        (
            "backward",
            Some((of.backward_seconds, time.backward_seconds)),
        ),
        (
            "optimizer",
            Some((of.optimizer_seconds, time.optimizer_seconds)),
        ),
    ];
    let known = ratios.into_iter().filter_map(|(part, ratio)| {
        let (of, time) = ratio.filter(|(_, time)| *time > 0.0)?;
        Some((format!("{part}_{name}"), of / time))
    });
    known.collect()
}

impl Observer for StepWatch {
    fn data(&mut self, _: usize) -> Result<()> {
        if self.data {
            return self.inner_mark();
        }
        Ok(())
    }

    fn forward(&mut self, _: usize) -> Result<()> {
        self.inner_mark()
    }

    fn backward(&mut self, _: usize) -> Result<()> {
        self.inner_mark()
    }
}

impl StepWatch {
    fn inner_mark(&mut self) -> Result<()> {
        if self.inner == 0 {
            return Ok(());
        }
        self.mark()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_is_the_sum_of_its_parts() {
        let whole = lap(&[2.0], false);
        assert_eq!((whole.seconds, whole.parts), (2.0, None));
        let parts = lap(&[1.0, 2.0, 3.0, 4.0, 5.0], false);
        assert!((parts.seconds - 15.0).abs() < 1e-12);
        let parts = parts.parts.unwrap();
        assert!((parts.forward_seconds - 4.0).abs() < 1e-12);
        assert!((parts.backward_seconds - 6.0).abs() < 1e-12);
        assert!((parts.optimizer_seconds - 5.0).abs() < 1e-12);
        assert_eq!(parts.data_seconds, None);
        let fed = lap(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], true);
        assert!((fed.seconds - 28.0).abs() < 1e-12);
        let fed = fed.parts.unwrap();
        assert!((fed.data_seconds.unwrap() - 5.0).abs() < 1e-12);
        assert!((fed.forward_seconds - 7.0).abs() < 1e-12);
        assert!((fed.backward_seconds - 9.0).abs() < 1e-12);
        assert!((fed.optimizer_seconds - 7.0).abs() < 1e-12);
    }

    #[test]
    fn steps_are_told_apart_by_their_marks() {
        let inside = Inside {
            micro_batches: 1,
            data: true,
        };
        let mut watch = StepWatch::new(2, Some(inside), Device::Cpu).unwrap();
        watch.mark().unwrap();
        for _ in 0..2 {
            watch.data(0).unwrap();
            watch.forward(0).unwrap();
            watch.backward(0).unwrap();
            watch.mark().unwrap();
        }
        let (laps, stretches) = watch.laps().unwrap();
        assert_eq!(laps.len(), 2);
        let (whole, parts) = (
            laps[0].seconds + laps[1].seconds,
            stretches.iter().sum::<f64>(),
        );
        assert!((whole - 2.0 * parts).abs() < 1e-9, "{stretches:?}");
        assert!(laps.iter().all(|lap| lap.parts.is_some()));
        assert_eq!(watch.host_loads().len(), 4);
        let mut whole = StepWatch::new(1, None, Device::Cpu).unwrap();
        whole.mark().unwrap();
        whole.mark().unwrap();
        assert_eq!(whole.host_loads(), Values::new());
    }

    #[test]
    fn a_part_that_computes_takes_a_cpu_and_one_that_sleeps_none() {
        let inside = Inside {
            micro_batches: 1,
            data: false,
        };
        let mut watch = StepWatch::new(1, Some(inside), Device::Cpu).unwrap();
        watch.mark().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        watch.forward(0).unwrap();
        let began = process_cpu_time();
        while process_cpu_time() < began + Duration::from_millis(50) {}
        watch.backward(0).unwrap();
        watch.mark().unwrap();
        let loads = watch.host_loads();
        // Other tests of the process compute meanwhile.
        let (slept, computed) = (
            loads["forward_host_cpu_ratio"],
            loads["backward_host_cpu_ratio"],
        );
        assert!(slept >= 0.0 && computed > 0.0, "{loads:?}");
        let spans = [
            [1.0, 0.5],
            [2.0, 4.0],
            [4.0, 1.0],
            [3.0, 0.5],
            [2.0, 0.0],
            [1.0, 1.0],
        ];
        let ratios = part_ratios(spans.into_iter(), (2, false), "host_cpu_ratio");
        let expected = [("forward", 0.25), ("backward", 1.0), ("optimizer", 0.4)];
        let expected = expected.map(|(part, ratio)| (format!("{part}_host_cpu_ratio"), ratio));
        assert_eq!(ratios, Values::from(expected));
    }
}
