//! What the requests of a window come to.

use std::time::Duration;

use protocol::requests_needed;
use serde::Serialize;

use super::{Objective, Request, Window};

/// What serving yields, over all measured requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Serving {
    /// Latencies from the intended arrival; a rejected request is slower than all. `None` where
    /// there are too few requests, or where it lies among the rejected ones.
    pub latency_p50_seconds: Option<f64>,
    pub latency_p90_seconds: Option<f64>,
    pub latency_p99_seconds: Option<f64>,
    pub latency_p999_seconds: Option<f64>,
    /// From the intended arrival to the first token; of answers of several tokens alone, as what
    /// follows.
    pub first_token_p50_seconds: Option<f64>,
    pub first_token_p99_seconds: Option<f64>,
    /// From one token of a request to the next, on average over it.
    pub token_p50_seconds: Option<f64>,
    pub token_p99_seconds: Option<f64>,
    /// Tokens of all answers over the time from the beginning of the arrivals to the last one.
    pub answer_tokens_per_second: Option<f64>,
    #[serde(rename = "answered_requests_count")]
    pub answered: usize,
    /// The highest rate that arrives at which 99 % of the requests are answered within the latency
    /// objective; `None` where the rate was asked for.
    pub highest_rate_requests_per_second: Option<f64>,
    /// Those over the time from the beginning of the arrivals to the last answer.
    pub achieved_requests_per_second: f64,
    /// Those within the latency objective, over the same time; `None` without an objective.
    pub goodput_requests_per_second: Option<f64>,
    /// Share of the requests that found the queue full.
    pub rejected_ratio: f64,
    /// Requests in a batch, on average; of answers of several tokens those at work on a token.
    #[serde(rename = "batch_mean_count")]
    pub batch_mean: f64,
    /// Most requests that waited at once.
    #[serde(rename = "queue_peak_count")]
    pub queue_peak: usize,
    /// From the intended arrival to the beginning of the batch, on average.
    pub queue_mean_seconds: f64,
}

impl Serving {
    /// Of a window at a rate that a search found. Its latencies lie at the objective, which is no
    /// property of the server.
    #[must_use]
    pub fn at_highest_rate(self, rate: f64) -> Self {
        Self {
            latency_p50_seconds: None,
            latency_p90_seconds: None,
            latency_p99_seconds: None,
            latency_p999_seconds: None,
            first_token_p50_seconds: None,
            first_token_p99_seconds: None,
            token_p50_seconds: None,
            token_p99_seconds: None,
            goodput_requests_per_second: None,
            highest_rate_requests_per_second: Some(rate),
            ..self
        }
    }

    /// Of a window with at least one answer.
    pub fn of(window: &Window, objective: Option<Objective>) -> Self {
        let seconds = window.end.as_secs_f64();
        let latencies = sorted(window, Request::latency);
        let answered = latencies.len();
        let of = |share| at(&latencies, window.requests.len(), share);
        let kept = |objective: Objective| {
            let requests = window.requests.iter();
            requests.filter(|one| objective.is_kept(one)).count()
        };
        let queued = window.requests.iter().filter_map(Request::queued);
        let answers = window.requests.iter().filter_map(|request| request.answer);
        let tokens: u64 = answers.map(|answer| u64::from(answer.tokens)).sum();
        let has_tokens = tokens > answered as u64;
        let firsts = |share| has_tokens.then(|| quantile(window, Request::first, share))?;
        let each = |share| quantile(window, Request::token, share);
        Self {
            latency_p50_seconds: of(0.5),
            latency_p90_seconds: of(0.9),
            latency_p99_seconds: of(0.99),
            latency_p999_seconds: of(0.999),
            first_token_p50_seconds: firsts(0.5),
            first_token_p99_seconds: firsts(0.99),
            token_p50_seconds: each(0.5),
            token_p99_seconds: each(0.99),
            answer_tokens_per_second: has_tokens.then(|| tokens as f64 / seconds),
            answered,
            highest_rate_requests_per_second: None,
            achieved_requests_per_second: answered as f64 / seconds,
            goodput_requests_per_second: objective.map(|one| kept(one) as f64 / seconds),
            rejected_ratio: 1.0 - answered as f64 / window.requests.len() as f64,
            batch_mean: window.batched as f64 / window.batches.max(1) as f64,
            queue_peak: window.deepest,
            queue_mean_seconds: queued.sum::<Duration>().as_secs_f64() / answered as f64,
        }
    }
}

/// Whether this share of the requests, of which there must be enough, keep each part of an
/// objective.
pub fn keeps(window: &Window, objective: Objective, share: f64) -> bool {
    let within = |of: fn(&Request) -> Option<Duration>, most: Duration| {
        quantile(window, of, share).is_some_and(|got| got <= most.as_secs_f64())
    };
    // An answer of one token has no next one to wait for.
    let token = |one: &Request| one.answer.map(|_| one.token().unwrap_or_default());
    within(Request::first, objective.first)
        && objective.token.is_none_or(|most| within(token, most))
}

/// What this share of the window's requests is at or below, in seconds; `None` where there are
/// fewer than [`requests_needed`], or where that many were not answered. Answered ones that have no
/// such time do not count.
fn quantile(window: &Window, of: fn(&Request) -> Option<Duration>, share: f64) -> Option<f64> {
    let times = sorted(window, of);
    let rejected = window.requests.iter().filter(|one| one.answer.is_none());
    at(&times, times.len() + rejected.count(), share)
}

fn sorted(window: &Window, of: fn(&Request) -> Option<Duration>) -> Vec<Duration> {
    let mut times: Vec<_> = window.requests.iter().filter_map(of).collect();
    times.sort_unstable();
    times
}

fn at(times: &[Duration], requests: usize, share: f64) -> Option<f64> {
    if requests < requests_needed(share) as usize {
        return None;
    }
    let rank = requests - above(requests, share);
    Some(times.get(rank - 1)?.as_secs_f64())
}

/// How many of so many requests lie above this quantile.
pub fn above(requests: usize, share: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count is a smaller count"
    )]
    let rank = (requests as f64 * share).ceil() as usize;
    requests - rank
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{ms, served, soon},
        *,
    };

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "{got} {expected}");
    }

    #[test]
    fn quantiles_are_given_where_there_are_requests_for_them() {
        // Every 10th of these takes 5 ms, every other one 1 ms.
        let of = |count: u64| {
            let arrivals: Vec<u64> = (0..count).map(|number| 10 * number).collect();
            let window = served(
                &arrivals,
                (1, 0, 1),
                |batch| if batch % 10 == 9 { 5 } else { 1 },
            );
            Serving::of(&window, None)
        };
        let given = |of: &Serving| {
            [
                of.latency_p50_seconds,
                of.latency_p90_seconds,
                of.latency_p99_seconds,
                of.latency_p999_seconds,
            ]
        };
        assert_eq!(given(&of(10)), [None; 4]);
        assert_eq!(given(&of(11)), [Some(0.001), None, None, None]);
        assert_eq!(given(&of(64)), [Some(0.001), Some(0.001), None, None]);
        assert_eq!(given(&of(661))[2], None);
        assert_eq!(given(&of(662))[2], Some(0.005));
        let fast = Some(0.001);
        assert_eq!(given(&of(6636)), [fast, fast, Some(0.005), Some(0.005)]);
    }

    #[test]
    fn a_rejected_request_is_slower_than_all() {
        // A queue of 2 and a server that hangs: of 20 at once 2 are answered, then 80 in peace.
        let arrivals: Vec<u64> = (0..100)
            .map(|number| if number < 20 { 0 } else { 100 * number })
            .collect();
        let window = served(&arrivals, (2, 0, 2), |_| 10);
        let serving = Serving::of(&window, Some(soon(ms(10))));
        assert_eq!(serving.latency_p50_seconds, Some(0.01));
        assert_eq!(serving.latency_p90_seconds, None);
        assert!(!keeps(&window, soon(ms(1000)), 0.9));
        close(serving.rejected_ratio, 0.18);
        assert_eq!(serving.answered, 82);
    }

    #[test]
    fn goodput_counts_what_was_soon_enough() {
        // Batches of 2 that take 10 ms: latencies of 10, 19, 18, 27.
        let window = served(&[0, 1, 2, 3], (2, 0, 4), |_| 10);
        let serving = Serving::of(&window, Some(soon(ms(19))));
        close(serving.achieved_requests_per_second, 4.0 / 0.03);
        close(serving.goodput_requests_per_second.unwrap(), 3.0 / 0.03);
        close(serving.batch_mean, 4.0 / 3.0);
        close(
            serving.queue_mean_seconds,
            (0.0 + 0.009 + 0.008 + 0.017) / 4.0,
        );
        assert_eq!(serving.queue_peak, 3);
        assert_eq!(Serving::of(&window, None).goodput_requests_per_second, None);
    }
}
