//! What must hold between the values of a run. A run where a rule is broken is no measurement.
//!
//! A rule applies where every value that it is about is there, whatever the workload is.

use protocol::Values;

/// Relative difference up to which two values count as equal: one is computed from the other, so
/// only rounding lies between them.
const ROUNDING: f64 = 1e-6;
/// Bytes by which one reading may exceed a later one of a larger value: NVML rounds to pages, and
/// other processes' memory comes and goes.
const SLACK: f64 = (64 << 20) as f64;
/// Share by which the workload's clock may run ahead of the harness's, and the sum of the steps of
/// the time around them: steps on a GPU are timed by the GPU's own, in ticks of some 0.5 µs.
const CLOCK: f64 = 0.01;

enum Rule {
    /// The first is at most the second, but for so much in its unit.
    AtMost(&'static str, &'static str, f64),
    /// The first is at most the second, but for such a share.
    AtMostNearly(&'static str, &'static str, f64),
    /// The first is at least such a share of the second.
    AtLeastShare(&'static str, &'static str, f64),
    /// The first is the product of the others.
    Product(&'static str, [&'static str; 2]),
    /// Above zero.
    Positive(&'static str),
    Least(&'static str, f64),
    Within(&'static str, f64, f64),
}

use Rule::{AtLeastShare, AtMost, AtMostNearly, Least, Positive, Product, Within};

const RULES: &[Rule] = &[
    Positive("throughput_samples_per_second"),
    Positive("measured_seconds"),
    // What was asked for, which the harness adds, and what was done.
    Product("micro_batch_samples", ["asked_batch", "one"]),
    Product(
        "effective_batch_samples",
        ["asked_batch", "asked_accumulation"],
    ),
    Product("steps_count", ["asked_steps", "one"]),
    Product("samples_count", ["effective_batch_samples", "steps_count"]),
    Product(
        "samples_count",
        ["throughput_samples_per_second", "measured_seconds"],
    ),
    Product(
        "tokens_count",
        ["throughput_tokens_per_second", "measured_seconds"],
    ),
    Positive("prefill_tokens_per_second"),
    Positive("decode_tokens_per_second"),
    AtMostNearly("time_to_first_token_seconds", "measured_seconds", CLOCK),
    Positive("latency_p50_seconds"),
    Positive("highest_rate_requests_per_second"),
    AtMost("latency_p50_seconds", "latency_p90_seconds", 0.0),
    AtMost("latency_p90_seconds", "latency_p99_seconds", 0.0),
    AtMost("latency_p99_seconds", "latency_p999_seconds", 0.0),
    AtMost("latency_p999_seconds", "measured_seconds", 0.0),
    AtMost(
        "goodput_requests_per_second",
        "achieved_requests_per_second",
        0.0,
    ),
    Product(
        "answered_requests_count",
        ["achieved_requests_per_second", "measured_seconds"],
    ),
    AtMost("answered_requests_count", "asked_steps", 0.0),
    Within("rejected_ratio", 0.0, 1.0),
    Positive("algorithm_bandwidth_bytes_per_second"),
    Positive("bus_bandwidth_bytes_per_second"),
    AtMost("iteration_p50_seconds", "iteration_p99_seconds", 0.0),
    AtMost("iteration_p99_seconds", "measured_seconds", 0.0),
    AtMost("iteration_p50_seconds", "iteration_upper_mode_seconds", 0.0),
    Within("iteration_upper_mode_ratio", 0.0, 1.0),
    Within("exposed_exchange_ratio", 0.0, 1.0),
    Within("pipeline_idle_ratio", 0.0, 1.0),
    AtMost("batch_mean_count", "asked_batch", 0.0),
    Within("data_wait_ratio", 0.0, 1.0),
    Within("data_gpu_busy_ratio", 0.0, 1.0),
    Within("forward_gpu_busy_ratio", 0.0, 1.0),
    Within("backward_gpu_busy_ratio", 0.0, 1.0),
    Within("optimizer_gpu_busy_ratio", 0.0, 1.0),
    Positive("loader_samples_per_second"),
    Positive("host_to_device_bytes_per_second"),
    // Launching one kernel takes some 5 µs.
    Least("step_minimum_seconds", 1e-5),
    AtMostNearly("step_sum_seconds", "measured_seconds", CLOCK),
    // Where more time lies between the steps, something that is no step was measured too.
    AtLeastShare("step_sum_seconds", "measured_seconds", 0.5),
    // Nobody measures longer than it lived, or outside of the phase that measures.
    AtMostNearly("measured_seconds", "measure_seconds", CLOCK),
    AtMostNearly("measured_seconds", "lived_seconds", CLOCK),
    // Bounded on a GPU alone. A CPU is everybody's, and a share above one is not given of it.
    Positive("model_utilization_ratio"),
    AtMost("model_utilization_ratio", "most_utilization_ratio", 0.0),
    Within("gpu_busy_percent", 0.0, 100.0),
    // The measured steps, then the run, then each of one in the other.
    AtMost("peak_allocated_bytes", "peak_reserved_bytes", 0.0),
    AtMost("peak_reserved_bytes", "process_peak_bytes", SLACK),
    AtMost("process_peak_bytes", "gpu_peak_bytes", SLACK),
    AtMost("gpu_peak_bytes", "device_total_bytes", 0.0),
    AtMost("run_peak_allocated_bytes", "run_peak_reserved_bytes", 0.0),
    AtMost("run_peak_reserved_bytes", "run_process_peak_bytes", SLACK),
    AtMost("run_process_peak_bytes", "device_total_bytes", SLACK),
    AtMost("peak_allocated_bytes", "run_peak_allocated_bytes", 0.0),
    AtMost("peak_reserved_bytes", "run_peak_reserved_bytes", 0.0),
    AtMost("process_peak_bytes", "run_process_peak_bytes", 0.0),
    // The end, which lies within both.
    AtMost("allocated_bytes", "peak_allocated_bytes", 0.0),
    AtMost("reserved_bytes", "peak_reserved_bytes", 0.0),
    AtMost("device_used_bytes", "device_total_bytes", 0.0),
];

/// The first rule that these values break, with the values; `None` where all hold.
pub fn broken_rule(values: &Values) -> Option<String> {
    RULES.iter().find_map(|rule| rule.broken(values))
}

impl Rule {
    fn broken(&self, values: &Values) -> Option<String> {
        let of = |name: &str| match name {
            "one" => Some(1.0),
            name => values.get(name).copied(),
        };
        let more = |small: &str, large: &str| {
            let (got, most) = (of(small)?, of(large)?);
            Some(format!(
                "{small} is {got}, more than {large}, which is {most}"
            ))
        };
        match *self {
            AtMost(small, large, slack) => {
                (of(small)? > of(large)? + slack).then(|| more(small, large))?
            }
            AtMostNearly(small, large, share) => {
                (of(small)? > of(large)? * (1.0 + share)).then(|| more(small, large))?
            }
            AtLeastShare(small, large, share) => (of(small)? < of(large)? * share).then(|| {
                format!(
                    "{small} is {}, less than {} % of {large}, which is {}",
                    values[small],
                    100.0 * share,
                    values[large]
                )
            }),
            Product(name, factors) => {
                let got = of(name)?;
                let expected = of(factors[0])? * of(factors[1])?;
                let what = match factors {
                    [one, "one"] => one.to_owned(),
                    factors => factors.join(" × "),
                };
                ((got - expected).abs() > ROUNDING * expected.abs())
                    .then(|| format!("{name} is {got}, but {what} is {expected}"))
            }
            Positive(name) => {
                let got = of(name)?;
                let is_positive = got.is_finite() && got > 0.0;
                (!is_positive).then(|| format!("{name} is {got}, expected a number above 0"))
            }
            Least(name, least) => {
                let got = of(name)?;
                let is_enough = got.is_finite() && got >= least;
                (!is_enough).then(|| format!("{name} is {got}, but none takes less than {least}"))
            }
            Within(name, low, high) => {
                let got = of(name)?;
                let is_within = (low..=high).contains(&got);
                (!is_within).then(|| format!("{name} is {got}, expected {low} to {high}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Values {
        let mib = |count: u32| f64::from(count << 20);
        let pairs = [
            ("asked_batch", 4.0),
            ("asked_accumulation", 2.0),
            ("asked_steps", 2.0),
            ("micro_batch_samples", 4.0),
            ("effective_batch_samples", 8.0),
            ("steps_count", 2.0),
            ("samples_count", 16.0),
            ("measured_seconds", 1.01),
            ("throughput_samples_per_second", 16.0 / 1.01),
            ("tokens_count", 202.0),
            ("throughput_tokens_per_second", 200.0),
            ("prefill_tokens_per_second", 300.0),
            ("decode_tokens_per_second", 30.0),
            ("time_to_first_token_seconds", 0.1),
            ("latency_p50_seconds", 0.1),
            ("highest_rate_requests_per_second", 2.0),
            ("latency_p90_seconds", 0.2),
            ("latency_p99_seconds", 0.3),
            ("latency_p999_seconds", 0.4),
            ("goodput_requests_per_second", 1.0),
            ("achieved_requests_per_second", 2.0 / 1.01),
            ("answered_requests_count", 2.0),
            ("rejected_ratio", 0.0),
            ("batch_mean_count", 2.0),
            ("data_wait_ratio", 0.25),
            ("loader_samples_per_second", 20.0),
            ("host_to_device_bytes_per_second", 5e9),
            ("step_minimum_seconds", 0.5),
            ("step_sum_seconds", 1.0),
            ("measure_seconds", 1.02),
            ("lived_seconds", 3.0),
            ("model_utilization_ratio", 0.5),
            ("most_utilization_ratio", 1.0),
            ("gpu_busy_percent", 99.0),
            ("peak_allocated_bytes", mib(100)),
            ("peak_reserved_bytes", mib(200)),
            ("process_peak_bytes", mib(800)),
            ("gpu_peak_bytes", mib(900)),
            ("run_peak_allocated_bytes", mib(150)),
            ("run_peak_reserved_bytes", mib(250)),
            ("run_process_peak_bytes", mib(850)),
            ("allocated_bytes", mib(50)),
            ("reserved_bytes", mib(200)),
            ("device_used_bytes", mib(900)),
            ("device_total_bytes", mib(2000)),
        ];
        pairs
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    #[test]
    fn a_sound_run_is_sound_and_so_is_what_is_not_known() {
        assert_eq!(broken_rule(&sound()), None);
        assert_eq!(broken_rule(&Values::new()), None);
        for name in sound().keys() {
            let mut values = sound();
            values.remove(name);
            assert_eq!(broken_rule(&values), None, "without {name}");
        }
    }

    fn check_broken(name: &str, value: f64, expect: &str) {
        let mut values = sound();
        values.insert(name.to_owned(), value);
        let found = broken_rule(&values).unwrap_or_default();
        assert!(found.contains(expect), "{name}: {found}");
    }

    #[test]
    fn a_contradiction_names_both_values() {
        let mib = |count: u32| f64::from(count << 20);
        for (name, value, expect) in [
            (
                "throughput_samples_per_second",
                16.0,
                "samples_count is 16, but throughput",
            ),
            (
                "tokens_count",
                200.0,
                "tokens_count is 200, but throughput_tokens_per_second × measured_seconds is 202",
            ),
            (
                "decode_tokens_per_second",
                f64::NAN,
                "expected a number above 0",
            ),
            (
                "time_to_first_token_seconds",
                1.1,
                "more than measured_seconds, which is 1.01",
            ),
            (
                "samples_count",
                17.0,
                "effective_batch_samples × steps_count is 16",
            ),
            ("micro_batch_samples", 5.0, "is 5, but asked_batch is 4"),
            (
                "effective_batch_samples",
                9.0,
                "asked_batch × asked_accumulation is 8",
            ),
            ("steps_count", 1.0, "steps_count is 1, but asked_steps is 2"),
            ("measured_seconds", f64::NAN, "expected a number above 0"),
            (
                "measured_seconds",
                0.0,
                "measured_seconds is 0, expected a number above 0",
            ),
            ("step_minimum_seconds", 1e-7, "none takes less than 0.00001"),
            ("step_minimum_seconds", -0.5, "is -0.5, but none takes less"),
            (
                "step_sum_seconds",
                5.5,
                "more than measured_seconds, which is 1.01",
            ),
            (
                "step_sum_seconds",
                0.1,
                "less than 50 % of measured_seconds",
            ),
            (
                "measure_seconds",
                0.5,
                "more than measure_seconds, which is 0.5",
            ),
            (
                "lived_seconds",
                0.9,
                "more than lived_seconds, which is 0.9",
            ),
            (
                "model_utilization_ratio",
                1.01,
                "more than most_utilization_ratio",
            ),
            (
                "model_utilization_ratio",
                f64::NAN,
                "is NaN, expected a number above 0",
            ),
            ("gpu_busy_percent", 101.0, "expected 0 to 100"),
            (
                "peak_allocated_bytes",
                mib(201),
                "more than peak_reserved_bytes, which is 209715200",
            ),
            (
                "run_peak_reserved_bytes",
                mib(1900),
                "more than run_process_peak_bytes",
            ),
            (
                "process_peak_bytes",
                mib(100),
                "more than process_peak_bytes",
            ),
            ("process_peak_bytes", mib(1900), "more than gpu_peak_bytes"),
        ] {
            check_broken(name, value, expect);
        }
    }
    #[test]
    fn a_contradiction_of_requests_names_both_values() {
        for (name, value, expect) in [
            (
                "latency_p90_seconds",
                0.31,
                "more than latency_p99_seconds, which is 0.3",
            ),
            (
                "goodput_requests_per_second",
                2.1,
                "more than achieved_requests_per_second",
            ),
            (
                "answered_requests_count",
                3.0,
                "achieved_requests_per_second × measured_seconds is 2",
            ),
            ("rejected_ratio", 1.5, "is 1.5, expected 0 to 1"),
            ("batch_mean_count", 5.0, "more than asked_batch, which is 4"),
            ("data_wait_ratio", 1.01, "is 1.01, expected 0 to 1"),
            ("loader_samples_per_second", 0.0, "a number above 0"),
        ] {
            check_broken(name, value, expect);
        }
    }
}
