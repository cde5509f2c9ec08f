//! The advice of a search, in words.

use bytesize::ByteSize;
use record::fit::{Attempt, Found};

/// A smaller batch is worth a word where it is so many times as fast as the largest.
const DEAR: f64 = 1.2;

/// One sentence for each image and scenario: what the largest batch takes and costs.
pub fn advice(found: &[Found], memory_bytes: u64) -> Vec<String> {
    let mut keys: Vec<(&str, &str)> = found
        .iter()
        .map(|one| (one.image.as_str(), one.scenario.as_str()))
        .collect();
    keys.dedup();
    keys.iter()
        .map(|&(image, scenario)| {
            let own: Vec<&Found> = found
                .iter()
                .filter(|one| (one.image.as_str(), one.scenario.as_str()) == (image, scenario))
                .collect();
            sentence(&own, memory_bytes)
        })
        .collect()
}

/// The attempt at the largest batch of one combination, with its throughput.
fn largest(found: &Found) -> Option<(&Found, &Attempt, f64)> {
    let attempt = found.largest_attempt()?;
    Some((found, attempt, attempt.throughput_samples_per_second?))
}

fn sentence(found: &[&Found], memory_bytes: u64) -> String {
    let budget = ByteSize(memory_bytes).display().iec();
    let name = found.first().map_or("", |one| one.model.as_str());
    let fitting: Vec<_> = found.iter().filter_map(|one| largest(one)).collect();
    // Of equal batches the faster one.
    let most = fitting.iter().rev().max_by(|one, other| {
        let batches = one.1.batch.cmp(&other.1.batch);
        batches.then(one.2.total_cmp(&other.2))
    });
    let Some(&(most, attempt, throughput)) = most else {
        return format!("{name} fits {budget} in no combination that was attempted.");
    };
    let batch = attempt.batch;
    let more = if most.reached_most { "≥ " } else { "" };
    let peak = attempt.peak_bytes.map_or_else(String::new, |peak| {
        format!(" (peak {})", ByteSize(peak).display().iec())
    });
    let accumulated = match most.accumulation {
        0 | 1 => String::new(),
        steps => {
            let effective = u64::from(batch) * u64::from(steps);
            format!(", {steps} accumulated steps for an effective batch of {effective}")
        }
    };
    let first = format!(
        "{name} at batch {more}{batch} fits {budget} with {}{peak}{accumulated}, \
         {throughput:.1} samples/s",
        most.combination
    );
    let fastest = fitting
        .iter()
        .max_by(|one, other| one.2.total_cmp(&other.2));
    let cost = match fastest {
        Some((other, attempt, speed))
            if other.combination != most.combination && *speed > throughput =>
        {
            format!(
                "{first}: {:.2} × slower than {}, whose largest batch is {}.",
                speed / throughput,
                other.combination,
                attempt.batch
            )
        }
        _ => format!("{first}; no other combination is faster within it."),
    };
    cost + &smaller(most, throughput)
}

/// Where the largest batch pays dearly for the last of the memory: which smaller one does not.
fn smaller(found: &Found, throughput: f64) -> String {
    let attempts = found
        .attempts
        .iter()
        .filter(|attempt| attempt.outcome.is_ok());
    let speeds = attempts
        .filter_map(|attempt| Some((attempt.batch, attempt.throughput_samples_per_second?)));
    let fastest = speeds.max_by(|one, other| one.1.total_cmp(&other.1));
    match fastest {
        Some((batch, speed)) if speed > DEAR * throughput => format!(
            " At batch {batch} the same is {:.2} × faster.",
            speed / throughput
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use record::Outcome;

    use super::*;

    fn found(combination: &str, attempts: &[(u32, u64, f64)]) -> Found {
        Found {
            image: "local".into(),
            suite: "s".into(),
            scenario: "vit".into(),
            model: "vit-l16".into(),
            combination: combination.into(),
            accumulation: 4,
            largest_batch: attempts.iter().map(|one| one.0).max(),
            too_large_batch: None,
            reached_most: false,
            problem: None,
            attempts: attempts
                .iter()
                .map(|&(batch, gib, throughput)| Attempt {
                    batch,
                    outcome: Outcome::Ok,
                    peak_bytes: Some(gib << 30),
                    throughput_samples_per_second: Some(throughput),
                    seconds: 1.0,
                    stalled: false,
                })
                .collect(),
        }
    }

    #[test]
    fn what_the_largest_batch_costs_is_said() {
        let all = [
            found("fp32", &[(4, 6, 100.0)]),
            found("amp-bf16", &[(4, 4, 300.0), (8, 7, 320.0)]),
            found(
                "amp-bf16 checkpointing=blocks",
                &[(8, 3, 200.0), (16, 7, 210.0)],
            ),
        ];
        assert_eq!(
            advice(&all, 8 << 30),
            [
                "vit-l16 at batch 16 fits 8.0 GiB with amp-bf16 checkpointing=blocks (peak 7.0 GiB), \
              4 accumulated steps for an effective batch of 64, 210.0 samples/s: 1.52 × slower \
              than amp-bf16, whose largest batch is 8."
            ]
        );
    }

    #[test]
    fn a_full_memory_that_slows_everything_is_said() {
        let all = [found("fp32", &[(96, 7, 1500.0), (103, 8, 250.0)])];
        assert_eq!(
            advice(&all, 8 << 30),
            [
                "vit-l16 at batch 103 fits 8.0 GiB with fp32 (peak 8.0 GiB), 4 accumulated steps \
              for an effective batch of 412, 250.0 samples/s; no other combination is faster \
              within it. At batch 96 the same is 6.00 × faster."
            ]
        );
    }

    #[test]
    fn nothing_that_fits_is_said_too() {
        assert_eq!(
            advice(&[found("fp32", &[])], 1 << 30),
            ["vit-l16 fits 1.0 GiB in no combination that was attempted."]
        );
    }
}
