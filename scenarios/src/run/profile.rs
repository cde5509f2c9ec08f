//! Steps after the measured ones under a profiler, and what ran in them.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write,
    time::Instant,
};

use libtorch::profiler::{Profiled, Profiler};
use protocol::{Event, Kernel, Phase};

use super::phases::Run;
use crate::{Error, device};

/// Kernels that have a line of their own.
const MOST: usize = 200;

impl<W: Write> Run<'_, W> {
    /// Takes the profiled steps, where some are asked for, and writes their kernels. A profiler
    /// that does not work yields none.
    pub(super) fn profile(
        &mut self,
        mut take: impl FnMut(u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let steps = self.file.steps.profiled;
        if steps == 0 {
            return Ok(());
        }
        self.results.begin(Phase::Profile, Instant::now())?;
        let cuda = self.file.device.is_cuda();
        let profiler = Profiler::begin(cuda);
        for step in 0..steps {
            take(step)?;
            self.results.heartbeat(step + 1)?;
        }
        device::synchronize(self.file.device)?;
        match profiler.and_then(Profiler::end) {
            Ok(all) => {
                for kernel in kernels(all, cuda, steps) {
                    self.results.write(&Event::Kernel(kernel))?;
                }
            }
            Err(error) => crate::log(format_args!("no kernels: {error}")),
        }
        self.results.end()
    }
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
