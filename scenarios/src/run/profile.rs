//! Steps after the measured ones under a profiler, and what ran in them.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write,
    time::Instant,
};

use libtorch::profiler::{Profiled, Profiler};
use protocol::{Event, Kernel, Phase, Values};
use tch::{Kind, Tensor};

use super::phases::Run;
use crate::{
    Error, device,
    stopwatch::{Inside, part_ratios},
    training::Observer,
};

/// Kernels that have a line of their own.
const MOST: usize = 200;

impl<W: Write> Run<'_, W> {
    /// Takes the profiled steps, where some are asked for, writes their kernels, and returns how busy
    /// a GPU is in each part of a step, where they have parts. A profiler that does not work yields
    /// none.
    pub(super) fn profile(
        &mut self,
        (inside, stretches): (Option<Inside>, &[f64]),
        mut take: impl FnMut(u32, &mut dyn Observer) -> Result<(), Error>,
    ) -> Result<Values, Error> {
        let (steps, mut busy) = (self.file.steps.profiled, Values::new());
        if steps == 0 {
            return Ok(busy);
        }
        self.results.begin(Phase::Profile, Instant::now())?;
        let cuda = self.file.device.is_cuda();
        let inside = inside.filter(|_| cuda);
        let mut marks = GpuMarks::new(inside, self.place)?;
        let profiler = Profiler::begin(cuda);
        marks.mark()?;
        for step in 0..steps {
            take(step, &mut marks)?;
            marks.mark()?;
            self.results.heartbeat(step + 1)?;
        }
        device::synchronize(self.file.device)?;
        match profiler.and_then(Profiler::end) {
            Ok(mut all) => {
                if let Some(inside) = inside {
                    busy = busy_parts(&mut all, (inside, stretches), steps as usize);
                }
                for kernel in kernels(all, cuda, steps) {
                    self.results.write(&Event::Kernel(kernel))?;
                }
            }
            Err(error) => crate::log(format_args!("no kernels: {error}")),
        }
        self.results.end()?;
        Ok(busy)
    }
}

/// Kernels between the parts of a step, of a kind that no model has: a profiler sees them in the
/// stream, where the parts themselves are.
struct GpuMarks {
    inside: Option<Inside>,
    scratch: Tensor,
}

/// What the name of such a kernel has in it.
const MARK: &str = "heaviside";

impl GpuMarks {
    fn new(inside: Option<Inside>, place: tch::Device) -> Result<Self, Error> {
        let scratch = Tensor::f_zeros([1], (Kind::Float, place))?;
        Ok(Self { inside, scratch })
    }

    fn mark(&mut self) -> libtorch::Result<()> {
        if self.inside.is_some() {
            let values = self.scratch.shallow_clone();
            let _ = self.scratch.f_heaviside_(&values)?;
        }
        Ok(())
    }
}

impl Observer for GpuMarks {
    fn data(&mut self, _: usize) -> libtorch::Result<()> {
        match self.inside {
            Some(inside) if inside.data => self.mark(),
            _ => Ok(()),
        }
    }

    fn forward(&mut self, _: usize) -> libtorch::Result<()> {
        self.mark()
    }

    fn backward(&mut self, _: usize) -> libtorch::Result<()> {
        self.mark()
    }
}

/// The share of each part in which a kernel runs, and `all` without the marks: kernels of the profiled
/// steps over the seconds of the measured ones' stretches, for under a profiler a GPU waits for the CPU
/// as it does not otherwise. Copies count for none, as in NVML's utilisation, and neither do NCCL's
/// kernels, which wait for other ranks.
fn busy_parts(
    all: &mut Vec<Profiled>,
    (inside, stretches): (Inside, &[f64]),
    steps: usize,
) -> Values {
    let marks = all.extract_if(.., |one| one.is_on_gpu && one.name.contains(MARK));
    let mut marks: Vec<Profiled> = marks.collect();
    let expected = steps * (inside.marks() + 1) + 1;
    if marks.len() != expected {
        let found = marks.len();
        crate::log(format_args!("{found} marks among kernels, not {expected}"));
        return Values::new();
    }
    marks.sort_by_key(|mark| mark.began);
    let is_none = |name: &str| name.starts_with("Mem") || name.starts_with("nccl");
    let kernels = all
        .iter()
        .filter(|one| one.is_on_gpu && !is_none(&one.name));
    let mut kernels: Vec<(u64, u64)> = kernels
        .map(|one| (one.began, one.began + one.took))
        .collect();
    kernels.sort_unstable();
    // From one mark's end to the next one's beginning.
    let spans = marks.windows(2).zip(stretches.iter().cycle());
    let spans = spans.map(|(pair, seconds)| {
        let (from, to) = (pair[0].began + pair[0].took, pair[1].began);
        let mut busy = 0;
        let mut until = from;
        for &(began, ended) in &kernels {
            let (began, ended) = (began.max(until), ended.min(to));
            busy += ended.saturating_sub(began);
            until = until.max(ended);
        }
        [*seconds, busy as f64 / 1e9]
    });
    let ratios = part_ratios(spans, (inside.marks(), inside.data), "gpu_busy_ratio");
    // A kernel takes a little longer in one step than in another.
    let within = |(name, ratio): (String, f64)| (name, ratio.min(1.0));
    ratios.into_iter().map(within).collect()
}

/// What each of them takes of one of so many steps, the longest first.
fn kernels(mut all: Vec<Profiled>, cuda: bool, steps: u32) -> Vec<Kernel> {
    all.retain(|one| one.is_on_gpu == cuda);
    let own = if cuda {
        all.iter().map(|one| one.took).collect()
    } else {
        own_times(&mut all)
    };
    let mut by_name: BTreeMap<String, Kernel> = BTreeMap::new();
    for (one, took) in all.iter().zip(own) {
        let name = shown(&one.name);
        let kernel = by_name.entry(name.clone()).or_insert(Kernel {
            name,
            ..Kernel::default()
        });
        kernel.count += 1.0;
        kernel.seconds += took as f64 / 1e9;
    }
    let mut kernels: Vec<Kernel> = by_name.into_values().collect();
    kernels.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    if kernels.len() > MOST {
        let rest = kernels.split_off(MOST);
        kernels.push(Kernel {
            name: Kernel::REST.to_owned(),
            count: rest.iter().map(|one| one.count).sum(),
            seconds: rest.iter().map(|one| one.seconds).sum(),
        });
    }
    // Divided once, so that a kernel that every step runs as often has a whole count.
    for kernel in &mut kernels {
        kernel.count /= f64::from(steps);
        kernel.seconds /= f64::from(steps);
    }
    kernels
}

/// The time of each without those that it calls: what begins and ends within it, in its thread.
/// Sorts them by when they began.
fn own_times(all: &mut [Profiled]) -> Vec<u64> {
    all.sort_by_key(|one| (one.began, std::cmp::Reverse(one.took)));
    let mut own: Vec<u64> = all.iter().map(|one| one.took).collect();
    let mut callers: HashMap<u64, Vec<usize>> = HashMap::new();
    for (place, one) in all.iter().enumerate() {
        let callers = callers.entry(one.thread).or_default();
        while callers
            .pop_if(|&mut caller| all[caller].began + all[caller].took <= one.began)
            .is_some()
        {}
        if let Some(&caller) = callers.last() {
            own[caller] = own[caller].saturating_sub(one.took);
        }
        callers.push(place);
    }
    own
}

/// A name as one line of text that is not too long.
fn shown(name: &str) -> String {
    let printable = |letter: char| if letter.is_control() { ' ' } else { letter };
    let name: String = name.chars().map(printable).collect();
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    match name.chars().count() {
        0 => "?".to_owned(),
        1..=Kernel::LONGEST_NAME => name,
        _ => {
            let cut = name.chars().take(Kernel::LONGEST_NAME - 1);
            cut.chain(['…']).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(name: &str, thread: u64, began: u64, took: u64) -> Profiled {
        Profiled {
            name: name.to_owned(),
            thread,
            began,
            took,
            is_on_gpu: false,
        }
    }

    #[test]
    fn an_operator_s_time_is_without_those_that_it_calls() {
        let all = vec![
            ran("mm", 1, 20, 50),
            ran("linear", 1, 10, 100),
            ran("t", 1, 80, 20),
            ran("other thread", 2, 30, 10),
            ran("linear", 1, 200, 100),
            ran("mm", 1, 200, 100),
            ran("deep", 1, 210, 40),
        ];
        let found = kernels(all, false, 2);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.count, (one.seconds * 2e9).round()))
            .collect();
        let expect = [
            ("mm", 1.0, 110.0),
            ("deep", 0.5, 40.0),
            ("linear", 1.0, 30.0),
            ("t", 0.5, 20.0),
            ("other thread", 0.5, 10.0),
        ];
        assert_eq!(found, expect);
    }

    #[test]
    fn a_gpu_is_busy_where_a_kernel_runs_between_the_marks() {
        let on_gpu = |name: &str, began, took| Profiled {
            is_on_gpu: true,
            ..ran(name, 0, began, took)
        };
        let mark = |began| on_gpu("void at::native::heaviside_kernel_cuda", began, 10);
        let mut all = vec![
            // Two steps of forward, backward and optimizer: 100, 200 and 100 each.
            mark(0),
            mark(110),
            mark(320),
            mark(430),
            mark(540),
            mark(750),
            mark(860),
            // Overlapping, half of forward; a copy, which counts for none.
            on_gpu("gemm", 20, 40),
            on_gpu("relu", 30, 40),
            on_gpu("Memcpy HtoD", 70, 40),
            // All of backward, over its end into the optimizer.
            on_gpu("gemm", 120, 250),
            ran("cudaLaunchKernel", 1, 0, 900),
            // Of the second step a quarter of backward alone.
            on_gpu("gemm", 600, 50),
        ];
        let inside = Inside {
            micro_batches: 1,
            data: false,
        };
        // Without a profiler forward and backward take half of that, and the optimizer as long.
        let stretches = [50e-9, 100e-9, 100e-9];
        let busy = busy_parts(&mut all, (inside, &stretches), 2);
        let expected = [("forward", 0.5), ("backward", 1.0), ("optimizer", 0.2)];
        let expected = expected.map(|(part, ratio)| (format!("{part}_gpu_busy_ratio"), ratio));
        assert_eq!(busy, Values::from(expected));
        assert!(all.iter().all(|one| !one.name.contains(MARK)), "{all:?}");
        let none = busy_parts(&mut all, (inside, &stretches), 2);
        assert_eq!(none, Values::new(), "no marks");
    }

    #[test]
    fn kernels_of_a_gpu_overlap_and_calls_on_the_cpu_are_none() {
        let on_gpu = |one: Profiled| Profiled {
            is_on_gpu: true,
            ..one
        };
        let mut all = vec![
            on_gpu(ran("gemm", 0, 0, 100)),
            on_gpu(ran("copy", 0, 10, 50)),
            ran("cudaLaunchKernel", 1, 0, 900),
        ];
        let found = kernels(all.clone(), true, 1);
        let times: Vec<_> = found
            .iter()
            .map(|one| (one.seconds * 1e9).round())
            .collect();
        assert_eq!(times, [100.0, 50.0]);
        let long = format!("k<{}>\u{1b}\n(int)", "x".repeat(300));
        all.extend((0..300).map(|i| on_gpu(ran(&format!("k{i}"), 0, 0, 1))));
        all.push(on_gpu(ran(&long, 0, 0, 1000)));
        let found = kernels(all, true, 1);
        assert_eq!(found.len(), 201);
        assert!(found.iter().all(|one| one.problem().is_none()), "{found:?}");
        assert_eq!(found[0].name.chars().count(), 200);
        assert_eq!(
            (found[200].name.as_str(), found[200].count),
            (Kernel::REST, 103.0)
        );
    }
}
