//! The values of a run: what its workload reports, and what follows from that and from what was
//! seen from outside. Each number is worked out here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use bytesize::ByteSize;
use metrics::{Across, Metric, broken_rule, catalogue, source};
use protocol::{MemoryPoint, Moment, Phase, RunFile, Step, Task, Values};
use record::{GpuMonitor, Monitor, Place, Sampled, Scope, Series, Window};

use crate::{executors::Execution, results::RankResults};

/// Everything by which the values of one process are worked out.
pub(crate) struct Seen<'a> {
    pub(crate) rank: usize,
    pub(crate) told: &'a RankResults,
    pub(crate) execution: &'a Execution,
    /// When the measured steps passed; `None` where nobody knows.
    pub(crate) measured: Option<Window>,
    /// Whether how long it was there is a value of its own: a program that ended by itself.
    pub(crate) has_life: bool,
}

pub(crate) fn of(seen: &Seen<'_>) -> Values {
    let Seen {
        rank,
        told,
        execution,
        measured,
        has_life,
    } = seen;
    let mut values = told.values.clone();
    let mut set = |name: &str, value: Option<f64>| put(&mut values, name, value);
    let series = series(&told.steps);
    set(
        "steps_count",
        Some(told.steps.len() as f64).filter(|count| *count > 0.0),
    );
    // Whoever reports no samples is compared by steps.
    let seconds = told.values.get("measured_seconds");
    let has_samples = told.values.contains_key("throughput_samples_per_second");
    let rate = seconds.map(|seconds| told.steps.len() as f64 / seconds);
    let rate = rate.filter(|rate| !has_samples && *rate > 0.0);
    set("throughput_steps_per_second", rate);
    // The mean over the steps of what the run itself does not report.
    for (name, steps) in &series {
        let all: Option<Vec<f64>> = steps.iter().copied().collect();
        if Metric::named(name).is_some() && !told.values.contains_key(name) && all.is_some() {
            set(name, all.map(|all| mean(&all)));
        }
    }
    let of_steps = step_times(&series).into_iter().chain(growth(&series));
    of_steps.for_each(|(name, value)| set(name, value));
    for (phase, seconds) in &told.phase_seconds {
        let phase = record::word_of(phase).replace('-', "_");
        set(&format!("{phase}_seconds"), Some(*seconds));
    }
    let began = |phase| told.phase_began.get(&phase);
    let way = began(Phase::Measure).zip(began(Phase::ProcessStart));
    let way = way.map(|(measure, start)| measure - start);
    // A program without steps is measured from its start.
    set(
        catalogue::MEASURED_START.name,
        way.filter(|seconds| *seconds > 0.0),
    );
    let cost = &execution.record.harness;
    set("wall_seconds", Some(execution.record.wall_seconds));
    set(
        "container_start_seconds",
        Some(cost.create_seconds + cost.start_seconds),
    );
    set("harness_seconds", Some(cost.total_seconds()));
    let life = execution.life();
    let life = has_life.then_some(life.to - life.from);
    set("program_seconds", life);
    let monitor = &execution.record.monitor;
    let gpu = monitor.gpus.get(*rank);
    for (name, value) in of_gpu(gpu, *measured) {
        set(&name, value);
    }
    for (name, value) in peaks(&told.values, monitor, gpu, *measured) {
        set(name, value);
    }
    let of = |name: &str| values.get(name).copied();
    let (reserved, allocated) = (of("peak_reserved_bytes"), of("peak_allocated_bytes"));
    let outside = less(of("process_peak_bytes"), reserved);
    let mut more = vec![
        ("outside_bytes", outside),
        ("reserved_unused_bytes", less(reserved, allocated)),
        ("model_utilization_ratio", utilization(&values, told)),
    ];
    more.extend(memory_parts(&values, &told.memory_points));
    for (name, value) in more {
        put(&mut values, name, value);
    }
    values
}

/// What the GPU did: over the run, and over the measured steps.
fn of_gpu(gpu: Option<&GpuMonitor>, measured: Option<Window>) -> Vec<(String, Option<f64>)> {
    let series = |what| gpu.and_then(|gpu| gpu.series.get(&what));
    let power = series(Sampled::GpuPowerWatts).map(|power| power.mean);
    let run_energy = gpu.and_then(|gpu| gpu.energy_joules);
    let energy = series(Sampled::GpuEnergyJoules).zip(measured);
    let energy = energy.and_then(|(energy, window)| energy.increase_within(window));
    // A counter has no mean.
    let has_mean =
        |what: &&Sampled| what.scope() == Scope::Gpu && **what != Sampled::GpuEnergyJoules;
    let means = Sampled::ALL.iter().filter(has_mean).map(|what| {
        let mean = series(*what).and_then(|series| mean_within(series, measured?));
        (format!("gpu_mean_{}", what.word()), mean)
    });
    let others = [
        ("run_gpu_mean_power_watts".to_owned(), power),
        ("run_gpu_energy_joules".to_owned(), run_energy),
        ("gpu_energy_joules".to_owned(), energy),
    ];
    means.chain(others).collect()
}

/// The share of the ceiling that the model reached; `None` where it is more than all on a CPU, which
/// is everybody's: whoever else worked on it while the ceiling was measured lowered that.
fn utilization(values: &Values, told: &RankResults) -> Option<f64> {
    let of = |name: &str| values.get(name).copied();
    let rate = of("model_flops_per_sample")? * of("throughput_samples_per_second")?;
    let share = rate / of("matmul_flops_per_second")?;
    (share <= 1.0 || is_on_gpu(told)).then_some(share)
}

fn is_on_gpu(told: &RankResults) -> bool {
    let started = told.started.as_ref();
    started.is_some_and(|started| started.cuda.is_some())
}

/// Sets a value that is worked out here, and so is nobody's to report.
pub(crate) fn put(values: &mut Values, name: &str, value: Option<f64>) {
    match value.filter(|value| value.is_finite()) {
        Some(value) => _ = values.insert(name.to_owned(), value),
        None => _ = values.remove(name),
    }
}

/// Unified memory is not all on the GPU, where no page was touched yet or more is held than fits: what
/// a process holds there is not bound by what is reserved.
fn leave_out_unified(all: &mut Values) {
    for name in ["process_peak_bytes", "run_process_peak_bytes"] {
        all.remove(name);
    }
}

/// What contradicts itself in the values of a run that ended well; `None` where nothing does.
pub(crate) fn contradiction(
    values: &Values,
    told: &RankResults,
    asked: Option<&RunFile>,
    execution: &Execution,
) -> Option<String> {
    let is_judged = |name: &str| Metric::named(name).is_some_and(Metric::is_compared);
    let mut negative = values.iter();
    if let Some((name, value)) = negative.find(|(name, value)| **value < 0.0 && is_judged(name)) {
        return Some(format!("{name} is {value}, expected 0 or more"));
    }
    let mut all = values.clone();
    if asked.is_some_and(|asked| asked.variant.allocator.managed) {
        leave_out_unified(&mut all);
    }
    if let Some(asked) = asked {
        let batch = f64::from(asked.variant.batch.get());
        let numbers = [
            ("asked_batch", batch),
            (
                "asked_accumulation",
                asked.variant.own_samples(asked.ranks) / batch,
            ),
            ("asked_steps", asked.steps.measured.into()),
        ];
        // Memory may run out before, which says what was asked about.
        let numbers = numbers
            .into_iter()
            .filter(|_| asked.task != Task::Allocation);
        all.entry("steps_count".to_owned()).or_insert(0.0);
        all.extend(numbers.map(|(name, value)| (name.to_owned(), value)));
    }
    let gpus = execution.record.monitor.gpus.iter();
    let busy =
        gpus.filter_map(|gpu| Some(gpu.series.get(&Sampled::GpuUtilizationPercent)?.maximum));
    let more = [
        ("lived_seconds", Some(execution.lived_seconds())),
        ("most_utilization_ratio", is_on_gpu(told).then_some(1.0)),
        ("gpu_busy_percent", busy.reduce(f64::max)),
    ];
    all.extend(
        more.into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?))),
    );
    broken_rule(&all)
}

/// Of ranks that share a GPU: leaves what that GPU has used to the first of them, and what their
/// processes hold of it, which are seen together, to none. Gives what these hold of all GPUs.
pub(crate) fn count_once(ranks: &mut [Values], places: &[Place]) -> Option<f64> {
    let firsts: Vec<usize> = (0..ranks.len())
        .filter(|&rank| !places[..rank].contains(&places[rank]))
        .collect();
    if firsts.len() == ranks.len() || !places[0].device.is_cuda() {
        return None;
    }
    let held = firsts
        .iter()
        .map(|&rank| ranks[rank].get("process_peak_bytes"))
        .sum();
    for (rank, values) in ranks.iter_mut().enumerate() {
        values.retain(|name, _| {
            let is_used = Metric::named(name)
                .is_some_and(|row| row.across == Across::Sum && row.source == source::NVML);
            !OF_PROCESSES.contains(&name.as_str()) && (!is_used || firsts.contains(&rank))
        });
    }
    held
}

/// What the run's processes on a GPU come to.
const OF_PROCESSES: [&str; 6] = [
    "process_peak_bytes",
    "sampled_process_peak_bytes",
    "reported_process_peak_bytes",
    "run_process_peak_bytes",
    "gpu_mean_process_bytes",
    "outside_bytes",
];

/// What the processes of a run come to together, as each metric's row says; of what has no row, the
/// largest, but for samples, whose rate is a sum as well.
pub(crate) fn together(ranks: &[Values]) -> Values {
    let names: BTreeSet<&String> = ranks.iter().flat_map(Values::keys).collect();
    let run = names.into_iter().filter_map(|name| {
        let across = match Metric::named(name) {
            Some(metric) => metric.across,
            None if ["samples_count", "tokens_count"].contains(&name.as_str()) => Across::Sum,
            None => Across::Largest,
        };
        let values = ranks.iter().filter_map(|values| values.get(name).copied());
        Some((name.clone(), across.of(values)?))
    });
    let mut run: Values = run.collect();
    if ranks.len() > 1 {
        let of = |name: &'static str| {
            let each = ranks.iter().map(move |values| values.get(name).copied());
            each.collect::<Option<Vec<f64>>>()
        };
        put(
            &mut run,
            "rank_lag_ratio",
            of("step_median_seconds").and_then(lag),
        );
        let held = of("process_peak_bytes").map(|each| each.iter().sum());
        put(&mut run, "ranks_process_peak_bytes", held);
    }
    run
}

/// The share by which the slowest rank's step is longer than the median rank's.
fn lag(steps: Vec<f64>) -> Option<f64> {
    let slowest = steps.iter().copied().reduce(f64::max)?;
    let median = judge::median(steps).filter(|median| *median > 0.0)?;
    Some(slowest / median - 1.0)
}

/// What the steps yielded, by name.
pub(crate) fn series(steps: &[Step]) -> BTreeMap<String, Vec<Option<f64>>> {
    let names = steps.iter().flat_map(|step| step.values.keys());
    let mut series: BTreeMap<String, Vec<Option<f64>>> =
        names.map(|name| (name.clone(), Vec::new())).collect();
    for step in steps {
        for (name, values) in &mut series {
            values.push(step.values.get(name).copied());
        }
    }
    series
}

/// The distribution of step times. Quantiles are linear between order statistics.
fn step_times(series: &BTreeMap<String, Vec<Option<f64>>>) -> [(&'static str, Option<f64>); 7] {
    let steps = series.get("step_seconds").map_or(&[][..], Vec::as_slice);
    let mut times: Vec<f64> = steps.iter().copied().flatten().collect();
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let last = times.len().checked_sub(1)?;
        let place = share * last as f64;
        let below = place.floor();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place in the list, from 0 to its last index"
        )]
        let index = below as usize;
        let above = times[(index + 1).min(last)];
        Some(times[index] + (above - times[index]) * (place - below))
    };
    let is_there = !times.is_empty();
    [
        ("step_minimum_seconds", times.first().copied()),
        ("step_maximum_seconds", times.last().copied()),
        ("step_sum_seconds", is_there.then(|| times.iter().sum())),
        ("step_mean_seconds", is_there.then(|| mean(&times))),
        ("step_median_seconds", quantile(0.5)),
        ("step_p90_seconds", quantile(0.9)),
        ("step_p99_seconds", quantile(0.99)),
    ]
}

/// Stretches that the measured steps are cut into to see whether memory grows in all of them.
const STRETCHES: usize = 9;

/// Bytes a step by which allocated memory grows, with its interval: the median of the stretches'
/// growth, and the second least and second largest of nine, between which the median lies with
/// 1 − 2 · (1 + 9) ÷ 2⁹ = 96 %, whatever the distribution. A cache that grows once is in one stretch
/// and moves none of them; a leak is in all.
fn growth(series: &BTreeMap<String, Vec<Option<f64>>>) -> [(&'static str, Option<f64>); 3] {
    let steps = series.get("step_allocated_bytes");
    let after: Vec<f64> = steps.into_iter().flatten().copied().flatten().collect();
    let end = after.len().saturating_sub(1);
    let mut slopes: Vec<f64> = (0..STRETCHES)
        .map(|stretch| (stretch * end / STRETCHES, (stretch + 1) * end / STRETCHES))
        .filter(|(from, to)| from < to)
        .map(|(from, to)| (after[to] - after[from]) / (to - from) as f64)
        .collect();
    slopes.sort_by(f64::total_cmp);
    let of = |place: usize| {
        slopes
            .get(place)
            .copied()
            .filter(|_| slopes.len() == STRETCHES)
    };
    let (least, most) = (of(1), of(STRETCHES - 2));
    let has_zero = least <= Some(0.0) && Some(0.0) <= most;
    let growth = of(STRETCHES / 2).map(|median| if has_zero { 0.0 } else { median });
    [
        ("allocated_growth_bytes", growth),
        ("allocated_growth_least_bytes", least),
        ("allocated_growth_most_bytes", most),
    ]
}

/// A sentence on the memory that a run leaks, by its values.
pub(crate) fn leak_note(values: &Values) -> Option<String> {
    let of = |name: &str| values.get(name).copied();
    let growth = of("allocated_growth_bytes").filter(|growth| *growth > 0.0)?;
    let bounds = of("allocated_growth_least_bytes").zip(of("allocated_growth_most_bytes"))?;
    let shown = |bytes: f64| {
        ByteSize::b(whole(bytes.round()))
            .display()
            .iec()
            .to_string()
    };
    let activations = of("activation_bytes");
    let what = match activations.filter(|all| *all > 0.0).map(|all| growth / all) {
        Some(0.5..2.0) => {
            ", about what forward keeps for backward: are outputs kept with their graph?"
        }
        Some(..0.5) => {
            ", far less than forward keeps for backward: are losses or outputs kept in a list or sum?"
        }
        _ => ": are losses or outputs kept from step to step?",
    };
    Some(format!(
        "leak: memory in tensors grows by {} a step ({} to {}){what}",
        shown(growth),
        shown(bounds.0),
        shown(bounds.1),
    ))
}

/// A sentence on iterations in two modes, of which no median stands for all.
pub(crate) fn modes_note(values: &Values) -> Option<String> {
    let of = |name: &str| values.get(name).copied();
    let (slow, share) = of("iteration_upper_mode_seconds").zip(of("iteration_upper_mode_ratio"))?;
    Some(format!(
        "two modes: {:.0} % of the iterations take some {:.1} µs, the others some {:.1} µs: is \
         another algorithm, link or clock at work in some?",
        100.0 * share,
        1e6 * slow,
        1e6 * of("iteration_lower_mode_seconds")?,
    ))
}

/// Peaks of what was seen from outside. Those of the measured steps have plain names; those from
/// the run's start to the end of the measured steps begin with `run_`.
fn peaks(
    told: &Values,
    monitor: &Monitor,
    gpu: Option<&GpuMonitor>,
    measured: Option<Window>,
) -> Vec<(&'static str, Option<f64>)> {
    let of = |name: &str| told.get(name).copied();
    let run = measured.map(Window::up_to_the_end);
    let sampled = |what: Sampled, window: Option<Window>| {
        let series = match what.scope() {
            Scope::Gpu => &gpu?.series,
            Scope::Run | Scope::Host => &monitor.series,
        };
        series.get(&what)?.peak_within(window?)
    };
    // A process of somebody else that comes or goes moves the GPU's use, and so what the workload
    // reads; the samples are of the run's process alone.
    let is_alone = gpu.is_none_or(|gpu| gpu.other_processes.is_empty());
    let outside = outside_allocator(told).filter(|_| is_alone);
    let process = |window, reserved: Option<f64>| {
        let sampled = sampled(Sampled::GpuProcessBytes, window);
        let reported = reserved
            .zip(outside)
            .map(|(reserved, outside)| reserved + outside);
        (sampled, reported, greater(sampled, reported))
    };
    let (sampled_process, reported_process, process_peak) =
        process(measured, of("peak_reserved_bytes"));
    let run_reserved = of("run_peak_reserved_bytes");
    let (_, _, run_process_peak) = process(run, run_reserved);
    // What cuDNN's trials take for a moment of the warm-up may lie between two samples.
    let most = run_reserved.map(|held| held.min(of("device_total_bytes").unwrap_or(held)));
    let run_process_peak = run_process_peak.map(|peak| peak.max(most.unwrap_or(0.0)));
    let used = greater(
        sampled(Sampled::GpuUsedBytes, measured),
        of("device_used_bytes"),
    );
    let gpu = used.map(|used| used.max(process_peak.unwrap_or(0.0)));
    vec![
        ("sampled_process_peak_bytes", sampled_process),
        ("reported_process_peak_bytes", reported_process),
        ("process_peak_bytes", process_peak),
        ("run_process_peak_bytes", run_process_peak),
        (
            "gpu_peak_bytes",
            gpu.filter(|_| of("device_total_bytes").is_some()),
        ),
        (
            "container_peak_bytes",
            sampled(Sampled::MemoryBytes, measured),
        ),
        (
            "run_container_peak_bytes",
            sampled(Sampled::MemoryBytes, run.or(Some(Window::ALWAYS))),
        ),
    ]
}

/// Bytes of the GPU outside the allocator at the end of the last measured step: the CUDA context,
/// libraries, their workspaces. What other processes took meanwhile counts too.
fn outside_allocator(told: &Values) -> Option<f64> {
    let of = |name: &str| told.get(name).copied();
    let own = of("device_used_bytes")? - of("device_used_before_bytes")?;
    let outside = own - of("reserved_bytes")?;
    (own >= 0.0 && outside >= 0.0).then_some(outside)
}

/// Where the memory of a training run went: parameters, optimizer state, data, activations and
/// backward add up to the peak that the tensors took.
fn memory_parts(values: &Values, points: &[MemoryPoint]) -> [(&'static str, Option<f64>); 3] {
    let of = |name: &str| values.get(name).copied();
    let last = |moment| points.iter().rev().find(|point| point.moment == moment);
    let allocated = |point: &MemoryPoint| point.allocated_bytes.map(|bytes| bytes as f64);
    let (parameters, optimizer) = (of("parameter_bytes"), of("optimizer_bytes"));
    // The last step that was looked into: in the first, cuDNN tries algorithms.
    let parts = last(Moment::Forward)
        .zip(last(Moment::Data))
        .map(|(forward, data)| {
            // The first step makes the optimizer's state, unless it came with the model.
            let with_model = last(Moment::Model)
                .is_some_and(|model| allocated(model) >= sum(parameters, optimizer));
            let state_if = |there: bool| if there { optimizer } else { Some(0.0) };
            let data_bytes = less(allocated(data), sum(parameters, state_if(with_model)));
            let in_forward = state_if(with_model || forward.step > Some(0));
            let before_forward = sum(sum(parameters, in_forward), data_bytes);
            let after_forward = sum(allocated(forward), less(optimizer, in_forward));
            (
                data_bytes,
                less(allocated(forward), before_forward),
                less(of("peak_allocated_bytes"), after_forward),
            )
        });
    let (data, activations, backward) = parts.unwrap_or_default();
    [
        ("data_bytes", data),
        ("activation_bytes", activations),
        ("backward_bytes", backward),
    ]
}

fn mean_within(series: &Series, window: Window) -> Option<f64> {
    let within = series
        .samples
        .iter()
        .filter(|sample| window.holds(sample.0));
    let values: Vec<f64> = within.map(|sample| sample.1).collect();
    (!values.is_empty()).then(|| mean(&values))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one? + other?)
}

fn less(from: Option<f64>, what: Option<f64>) -> Option<f64> {
    Some((from? - what?).max(0.0))
}

fn greater(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().max_by(f64::total_cmp)
}

/// Bytes as records have them, as a count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes, which are whole and not below 0; a cast saturates"
)]
pub(crate) fn whole(bytes: f64) -> u64 {
    bytes as u64
}

#[cfg(test)]
mod tests {
    use protocol::{CudaFacts, Started};
    use record::{Isolation, Sample};

    use super::*;

    const MEASURED: Option<Window> = Some(Window { from: 2.0, to: 3.0 });

    fn named(pairs: &[(&str, f64)]) -> Values {
        let pairs = pairs.iter();
        pairs
            .map(|&(name, value)| (name.to_owned(), value))
            .collect()
    }

    fn check(
        told: &RankResults,
        monitor: &Monitor,
        measured: Option<Window>,
        expect: &[(&str, Option<f64>)],
    ) {
        let mut execution = Execution::new(Isolation::default());
        execution.record.monitor = monitor.clone();
        let values = of(&Seen {
            told,
            execution: &execution,
            rank: 0,
            measured,
            has_life: false,
        });
        for (name, expect) in expect {
            match (values.get(*name), expect) {
                (Some(got), Some(expect)) => {
                    assert!((got - expect).abs() < 1e-9, "{name} is {got}, not {expect}");
                }
                (got, expect) => assert_eq!(got, expect.as_ref(), "{name}"),
            }
        }
    }

    fn steps(name: &str, values: &[Option<f64>]) -> Vec<Step> {
        let steps = (0..).zip(values);
        steps
            .map(|(index, value)| Step {
                index,
                values: value
                    .map(|value| (name.to_owned(), value))
                    .into_iter()
                    .collect(),
            })
            .collect()
    }

    #[test]
    fn the_way_to_the_measured_steps_is_known_where_there_are_steps() {
        const NAME: &str = catalogue::MEASURED_START.name;
        let told = |measure| RankResults {
            phase_began: [(Phase::ProcessStart, 100.0), (Phase::Measure, measure)].into(),
            ..RankResults::default()
        };
        let expect = |told, seconds| check(&told, &Monitor::default(), None, &[(NAME, seconds)]);
        expect(told(112.5), Some(12.5));
        expect(told(100.0), None);
        expect(RankResults::default(), None);
    }

    #[test]
    fn several_ranks_have_a_lag_and_a_sum() {
        let rank = |step: f64, bytes: Option<f64>| {
            let values = [
                ("step_median_seconds", Some(step)),
                ("process_peak_bytes", bytes),
                ("throughput_samples_per_second", Some(10.0)),
            ];
            let known = values.into_iter();
            let known = known.filter_map(|(name, value)| Some((name.to_owned(), value?)));
            known.collect::<Values>()
        };
        let three = [
            rank(0.1, Some(5.0)),
            rank(0.125, Some(7.0)),
            rank(0.1, Some(6.0)),
        ];
        let run = together(&three);
        assert!((run["rank_lag_ratio"] - 0.25).abs() < 1e-9);
        assert_eq!(run.get("ranks_process_peak_bytes"), Some(&18.0));
        assert_eq!(run.get("process_peak_bytes"), Some(&7.0));
        assert!((run["throughput_samples_per_second"] - 30.0).abs() < 1e-9);
        // Of one that is not known there is no sum, and one rank alone lags behind nobody.
        let known = together(&[rank(0.1, None), rank(0.1, Some(7.0))]);
        assert_eq!(known.get("ranks_process_peak_bytes"), None);
        assert_eq!(together(&three[..1]).get("rank_lag_ratio"), None);
    }

    #[test]
    fn step_times_by_hand() {
        let told = RankResults {
            steps: steps(
                "step_seconds",
                &[Some(4.0), Some(1.0), Some(3.0), Some(2.0)],
            ),
            ..RankResults::default()
        };
        let expect = [
            ("steps_count", Some(4.0)),
            ("step_minimum_seconds", Some(1.0)),
            ("step_median_seconds", Some(2.5)),
            ("step_mean_seconds", Some(2.5)),
            ("step_p90_seconds", Some(3.7)),
            ("step_p99_seconds", Some(3.97)),
            ("step_maximum_seconds", Some(4.0)),
            ("step_sum_seconds", Some(10.0)),
        ];
        check(&told, &Monitor::default(), None, &expect);
        let unknown = expect.map(|(name, _)| (name, None));
        check(&RankResults::default(), &Monitor::default(), None, &unknown);
    }

    #[test]
    fn only_what_grows_in_nearly_every_stretch_is_a_leak() {
        let grown = |of: &dyn Fn(u32) -> f64, count: u32| {
            let after: Vec<_> = (0..count).map(|step| Some(of(step))).collect();
            growth(&series(&steps("step_allocated_bytes", &after))).map(|(_, value)| value)
        };
        let mib = f64::from(1 << 20);
        let noise = |step: u32| f64::from(step * 7 % 11) * 1000.0;
        for count in [10, 20, 25, 200] {
            let leak = grown(&|step| 5.0 * mib + f64::from(step) * 512.0, count);
            assert_eq!(leak, [Some(512.0); 3], "{count}");
            assert_eq!(grown(&|_| mib, count), [Some(0.0); 3], "{count}");
            // A cache that is made once, wherever.
            for at in 0..count {
                let once = grown(&|step| if step < at { mib } else { 9.0 * mib }, count);
                assert_eq!(once, [Some(0.0); 3], "{count}, {at}");
            }
            let scattered = grown(&|step| 20.0 * mib + noise(step), count);
            assert_eq!(scattered[0], Some(0.0), "{count}: {scattered:?}");
        }
        let [of, least, most] = grown(&|step| f64::from(step) * mib + noise(step), 100);
        let [of, least, most] = [of, least, most].map(|value| value.unwrap() / mib);
        assert!(0.9 < least && least <= of && of <= most && most < 1.1);
        // One that frees what the steps before kept, as a collection of cycles does.
        assert_eq!(grown(&|step| f64::from(step % 7) * mib, 64)[0], Some(0.0));
        assert_eq!(grown(&|step| f64::from(step), 9), [None; 3]);
    }

    #[test]
    fn two_modes_of_iterations_are_named() {
        let mut values = named(&[
            ("iteration_lower_mode_seconds", 2.04e-5),
            ("iteration_upper_mode_seconds", 4.5e-5),
            ("iteration_upper_mode_ratio", 0.3),
        ]);
        let note = modes_note(&values).unwrap();
        let words = "two modes: 30 % of the iterations take some 45.0 µs, the others some 20.4 µs";
        assert!(note.starts_with(words), "{note}");
        values.remove("iteration_upper_mode_ratio");
        assert_eq!(modes_note(&values), None);
    }

    #[test]
    fn the_ranks_of_a_pipeline_share_its_samples() {
        let variant = r#"{"parallel":"pipeline","batch":3,"accumulation":4}"#;
        let variant: protocol::Variant = serde_json::from_str(variant).unwrap();
        let shares = [1, 2, 4, 8].map(|ranks| variant.own_samples(ranks));
        assert_eq!(
            shares.map(f64::to_bits),
            [12.0, 6.0, 3.0, 1.5].map(f64::to_bits)
        );
        let of_rank = named(&[("samples_count", 1.5)]);
        let run = together(&vec![of_rank; 8]);
        assert!((run["samples_count"] - 12.0).abs() < 1e-12);
    }

    #[test]
    fn a_leak_is_named_with_what_grows_and_by_how_much() {
        let mut values = named(&[
            ("allocated_growth_bytes", 3.0 * 1024.0 * 1024.0),
            ("allocated_growth_least_bytes", 2.0 * 1024.0 * 1024.0),
            ("allocated_growth_most_bytes", 4.0 * 1024.0 * 1024.0),
        ]);
        let by = "leak: memory in tensors grows by 3.0 MiB a step (2.0 MiB to 4.0 MiB)";
        let end = ": are losses or outputs kept from step to step?";
        assert_eq!(leak_note(&values), Some(format!("{by}{end}")));
        values.insert("activation_bytes".to_owned(), 3e6);
        let note = leak_note(&values).unwrap();
        insta::assert_snapshot!(note, @"leak: memory in tensors grows by 3.0 MiB a step (2.0 MiB to 4.0 MiB), about what forward keeps for backward: are outputs kept with their graph?");
        values.insert("activation_bytes".to_owned(), 3e8);
        let note = leak_note(&values).unwrap();
        insta::assert_snapshot!(note, @"leak: memory in tensors grows by 3.0 MiB a step (2.0 MiB to 4.0 MiB), far less than forward keeps for backward: are losses or outputs kept in a list or sum?");
        values.insert("allocated_growth_bytes".to_owned(), 0.0);
        assert_eq!(leak_note(&values), None);
        values.insert("allocated_growth_bytes".to_owned(), -3.0);
        assert_eq!(leak_note(&values), None);
    }

    #[test]
    fn unified_memory_may_be_more_than_a_gpu_has() {
        let mut values = named(&[
            ("peak_reserved_bytes", 100e9),
            ("process_peak_bytes", 79e9),
            ("run_peak_reserved_bytes", 100e9),
            ("run_process_peak_bytes", 80e9),
            ("device_total_bytes", 80e9),
        ]);
        let broken = broken_rule(&values).unwrap();
        insta::assert_snapshot!(broken, @"peak_reserved_bytes is 100000000000, more than process_peak_bytes, which is 79000000000");
        leave_out_unified(&mut values);
        assert_eq!(broken_rule(&values), None);
    }

    #[test]
    fn a_metric_that_every_step_yields_is_their_mean() {
        let mut told = RankResults {
            steps: steps("step_forward_seconds", &[Some(1.0), Some(2.0)]),
            ..RankResults::default()
        };
        let of_forward = |value| [("step_forward_seconds", value)];
        check(&told, &Monitor::default(), None, &of_forward(Some(1.5)));
        told.steps = steps("step_forward_seconds", &[Some(1.0), None]);
        check(&told, &Monitor::default(), None, &of_forward(None));
        let one = vec![Some(1.0), None];
        assert_eq!(series(&told.steps)["step_forward_seconds"], one);
    }

    fn point(moment: Moment, step: Option<u32>, allocated: u64) -> MemoryPoint {
        MemoryPoint {
            moment,
            step,
            allocated_bytes: Some(allocated),
            peak_allocated_bytes: Some(allocated),
            reserved_bytes: None,
            device_used_bytes: None,
        }
    }

    fn training() -> RankResults {
        RankResults {
            values: named(&[
                ("peak_allocated_bytes", 1000.0),
                ("peak_reserved_bytes", 1200.0),
                ("reserved_bytes", 1200.0),
                ("parameter_bytes", 100.0),
                ("gradient_bytes", 100.0),
                ("optimizer_bytes", 200.0),
                ("device_used_before_bytes", 50.0),
                ("device_used_bytes", 1850.0),
            ]),
            memory_points: vec![
                point(Moment::Model, None, 300),
                point(Moment::Data, None, 350),
                point(Moment::Forward, Some(0), 950),
                point(Moment::Forward, Some(4), 900),
            ],
            ..RankResults::default()
        }
    }

    const PARTS: [(&str, Option<f64>); 6] = [
        ("data_bytes", Some(50.0)),
        ("activation_bytes", Some(550.0)),
        ("backward_bytes", Some(100.0)),
        ("reserved_unused_bytes", Some(200.0)),
        ("outside_bytes", Some(600.0)),
        // With 100 in parameters and 200 in the optimizer's state, the sum of all parts.
        ("process_peak_bytes", Some(1800.0)),
    ];

    #[test]
    fn parts_of_memory_add_up_to_what_the_process_had() {
        let mut told = training();
        check(&told, &Monitor::default(), MEASURED, &PARTS);
        // State that the first step makes is no activation.
        told.memory_points[0] = point(Moment::Model, None, 100);
        told.memory_points[1] = point(Moment::Data, None, 150);
        check(&told, &Monitor::default(), MEASURED, &PARTS);
        told.memory_points.truncate(2);
        let first = point(Moment::Forward, Some(0), 700);
        told.memory_points.push(first);
        check(&told, &Monitor::default(), MEASURED, &PARTS);
    }

    #[test]
    fn what_is_not_known_stays_unknown() {
        let mut told = training();
        told.values.remove("device_used_bytes");
        told.memory_points.truncate(2);
        // What the harness works out is not the workload's to report.
        told.values
            .extend(PARTS.map(|(name, _)| (name.to_owned(), 1.0)));
        let expect = PARTS.map(|(name, value)| {
            let is_known = name == "reserved_unused_bytes";
            (name, value.filter(|_| is_known))
        });
        check(&told, &Monitor::default(), MEASURED, &expect);
    }

    fn on_gpu() -> RankResults {
        RankResults {
            values: named(&[
                ("peak_reserved_bytes", 1000.0),
                ("run_peak_reserved_bytes", 3000.0),
                ("reserved_bytes", 1000.0),
                ("device_used_before_bytes", 50.0),
                ("device_used_bytes", 1150.0),
                ("device_total_bytes", 9000.0),
            ]),
            ..RankResults::default()
        }
    }

    fn monitor(samples: &[(f64, f64)]) -> Monitor {
        let samples = samples.iter().map(|&(at, value)| Sample(at, value));
        let samples: Vec<_> = samples.collect();
        let series = Series::of(&samples).unwrap();
        Monitor {
            series: [(Sampled::MemoryBytes, series.clone())].into(),
            gpus: vec![GpuMonitor {
                series: [(Sampled::GpuProcessBytes, series)].into(),
                ..GpuMonitor::default()
            }],
            ..Monitor::default()
        }
    }

    #[test]
    fn a_sample_outside_of_its_window_does_not_count() {
        let seen = monitor(&[(1.0, 2500.0), (2.5, 1200.0), (4.0, 9000.0)]);
        let expect = [
            ("sampled_process_peak_bytes", Some(1200.0)),
            ("reported_process_peak_bytes", Some(1100.0)),
            ("process_peak_bytes", Some(1200.0)),
            // Between two samples the allocator held more than any of them shows.
            ("run_process_peak_bytes", Some(3100.0)),
            ("gpu_peak_bytes", Some(1200.0)),
            ("container_peak_bytes", Some(1200.0)),
            ("run_container_peak_bytes", Some(2500.0)),
        ];
        check(&on_gpu(), &seen, MEASURED, &expect);
        let unknown = expect.map(|(name, _)| (name, None));
        check(
            &RankResults::default(),
            &Monitor::default(),
            MEASURED,
            &unknown,
        );
    }

    #[test]
    fn where_no_sample_lies_within_the_workload_s_reading_counts() {
        for measured in [MEASURED, None] {
            let expect = [
                ("sampled_process_peak_bytes", None),
                ("process_peak_bytes", Some(1100.0)),
                ("container_peak_bytes", None),
            ];
            check(&on_gpu(), &monitor(&[(1.0, 500.0)]), measured, &expect);
        }
    }

    #[test]
    fn others_on_the_gpu_do_not_count_as_the_run() {
        let mut seen = monitor(&[(2.5, 900.0)]);
        seen.gpus[0].other_processes = vec![7];
        let expect = [
            ("process_peak_bytes", Some(900.0)),
            ("reported_process_peak_bytes", None),
            ("gpu_peak_bytes", Some(1150.0)),
        ];
        check(&on_gpu(), &seen, MEASURED, &expect);
    }

    #[test]
    fn a_ceiling_that_others_lowered_is_none() {
        let values = named(&[
            ("model_flops_per_sample", 6e9),
            ("throughput_samples_per_second", 10.0),
            ("matmul_flops_per_second", 1e10),
        ]);
        let mut told = RankResults {
            started: Some(Started::default()),
            ..RankResults::default()
        };
        assert_eq!(utilization(&values, &told), None);
        told.started = Some(Started {
            cuda: Some(CudaFacts::default()),
            ..Started::default()
        });
        assert_eq!(utilization(&values, &told), Some(6.0));
    }

    #[test]
    fn what_a_shared_gpu_used_is_counted_once() {
        let place = |gpu| Place {
            host: String::new(),
            device: protocol::Device::Cuda(gpu),
        };
        let of_rank = named(&[
            ("gpu_energy_joules", 50.0),
            ("peak_allocated_bytes", 1.0),
            ("process_peak_bytes", 7.0),
        ]);
        let mut ranks = vec![of_rank; 2];
        assert_eq!(count_once(&mut ranks.clone(), &[0, 1].map(place)), None);
        assert_eq!(count_once(&mut ranks, &[0, 0].map(place)), Some(7.0));
        let expect = named(&[("gpu_energy_joules", 50.0), ("peak_allocated_bytes", 1.0)]);
        assert_eq!(together(&ranks), expect);
    }

    #[test]
    fn the_processes_of_a_run_come_to_what_each_metric_s_row_says() {
        let run = together(&[
            named(&[
                ("throughput_samples_per_second", 10.0),
                ("step_median_seconds", 0.5),
                ("peak_allocated_bytes", 100.0),
                ("model_utilization_ratio", 0.5),
                ("without_a_row", 3.0),
            ]),
            named(&[
                ("throughput_samples_per_second", 12.0),
                ("step_median_seconds", 0.4),
                ("peak_allocated_bytes", 120.0),
                ("model_utilization_ratio", 0.3),
                ("without_a_row", 2.0),
                ("of_one_alone", 7.0),
            ]),
        ]);
        let expect = named(&[
            ("throughput_samples_per_second", 22.0),
            ("step_median_seconds", 0.5),
            ("peak_allocated_bytes", 120.0),
            ("model_utilization_ratio", 0.4),
            ("without_a_row", 3.0),
            ("of_one_alone", 7.0),
            ("rank_lag_ratio", 0.5 / 0.45 - 1.0),
        ]);
        assert_eq!(run, expect);
        let one = named(&[("throughput_samples_per_second", 10.0), ("loss", 2.0)]);
        assert_eq!(together(std::slice::from_ref(&one)), one);
    }
}
