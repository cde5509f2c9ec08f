//! An open loop: requests arrive whether or not the model is free, wait in a bounded queue, and
//! are answered in batches. Arithmetic over a clock and whatever answers a batch; no libtorch.

mod clock;
mod latency;
mod search;

use std::{collections::VecDeque, time::Duration};

pub use self::{
    clock::{Clock, WallClock},
    latency::{Serving, above, quantile},
    search::highest_rate,
};

#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Requests in a batch at most.
    pub batch: usize,
    /// How long a request waits for others to share its batch; a full batch does not wait.
    pub longest_wait: Duration,
    /// Requests that wait at most, at least a batch; one that finds the queue full is rejected.
    pub queue: usize,
    /// A latency, and how many requests may take longer: with one more the window is over, and
    /// the requests that are left have no answer.
    pub patience: Option<(Duration, usize)>,
}

impl Policy {
    fn is_over(&self, slow: usize) -> bool {
        self.patience.is_some_and(|(_, most)| slow > most)
    }

    fn is_slow(&self, latency: Duration) -> bool {
        self.patience.is_some_and(|(most, _)| latency > most)
    }
}

/// A request and what came of it. Times are those of the window's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it was to arrive. A server that falls behind cannot put it off.
    pub arrival: Duration,
    /// `None` where it was rejected.
    pub answer: Option<Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// When its batch began.
    pub began: Duration,
    /// When its batch was done.
    pub done: Duration,
    pub batch: usize,
}

impl Request {
    /// From the intended arrival to the answer; `None` where there is none.
    pub fn latency(&self) -> Option<Duration> {
        Some(self.answer?.done.saturating_sub(self.arrival))
    }

    /// From the intended arrival to the beginning of its batch.
    pub fn queued(&self) -> Option<Duration> {
        Some(self.answer?.began.saturating_sub(self.arrival))
    }
}

/// What came of a stretch of requests.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// All of them, in the order of their arrivals.
    pub requests: Vec<Request>,
    pub batches: usize,
    /// Most requests that waited at once.
    pub deepest: usize,
    /// When the last batch was done, after the clock began.
    pub end: Duration,
}

/// Answers requests that arrive at these rising times, one batch after the other. `answer` is given
/// the numbers of the requests of a batch, and returns when they are answered.
pub fn serve<E>(
    arrivals: &[Duration],
    policy: Policy,
    clock: &mut impl Clock,
    mut answer: impl FnMut(&[usize]) -> Result<(), E>,
) -> Result<Window, E> {
    let request = |&arrival| Request {
        arrival,
        answer: None,
    };
    let mut window = Window {
        requests: arrivals.iter().map(request).collect(),
        ..Window::default()
    };
    let mut queue = VecDeque::with_capacity(policy.queue);
    let mut next = 0;
    // Requests that took too long, or were rejected.
    let mut slow = 0;
    loop {
        let now = clock.now();
        // Nothing left the queue since the last look, so each finds it as at its own arrival.
        while arrivals.get(next).is_some_and(|&arrival| arrival <= now) {
            if queue.len() < policy.queue {
                queue.push_back(next);
                window.deepest = window.deepest.max(queue.len());
            } else {
                slow += 1;
            }
            next += 1;
        }
        if policy.is_over(slow) {
            return Ok(window);
        }
        let due = match (queue.front(), arrivals.get(next)) {
            (None, None) => return Ok(window),
            (None, Some(&arrival)) => arrival,
            (Some(&oldest), _) if queue.len() < policy.batch => {
                arrivals[oldest] + policy.longest_wait
            }
            (Some(_), _) => now,
        };
        if now < due {
            let arrival = arrivals.get(next).copied().unwrap_or(due);
            clock.wait_until(due.min(arrival));
            continue;
        }
        let batch: Vec<usize> = queue.drain(..policy.batch.min(queue.len())).collect();
        answer(&batch)?;
        let done = clock.now();
        for &number in &batch {
            window.requests[number].answer = Some(Answer {
                began: now,
                done,
                batch: batch.len(),
            });
            slow += usize::from(policy.is_slow(done.saturating_sub(arrivals[number])));
        }
        window.batches += 1;
        window.end = done;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible, rc::Rc};

    use super::*;

    /// Time that passes only where somebody waits or works.
    #[derive(Clone, Default)]
    pub(super) struct Fake(Rc<Cell<Duration>>);

    impl Fake {
        pub(super) fn pass(&self, time: Duration) {
            self.0.set(self.0.get() + time);
        }
    }

    impl Clock for Fake {
        fn now(&mut self) -> Duration {
            self.0.get()
        }

        fn wait_until(&mut self, time: Duration) {
            assert!(time > self.0.get(), "waiting for what is over never ends");
            self.0.set(time);
        }
    }

    pub(super) fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// Serves requests that arrive at these milliseconds, each batch in `took(its number)`
    /// milliseconds.
    pub(super) fn served(
        arrivals: &[u64],
        (batch, wait, queue): (usize, u64, usize),
        took: impl Fn(usize) -> u64,
    ) -> Window {
        let arrivals: Vec<Duration> = arrivals.iter().map(|&at| ms(at)).collect();
        let policy = Policy {
            batch,
            longest_wait: ms(wait),
            queue,
            patience: None,
        };
        let mut clock = Fake::default();
        let within = clock.clone();
        let mut number = 0;
        let window = serve(&arrivals, policy, &mut clock, |_| {
            within.pass(ms(took(number)));
            number += 1;
            Ok::<(), Infallible>(())
        });
        let Ok(window) = window;
        window
    }

    fn check(window: &Window, began_done_batch: &[Option<(u64, u64, usize)>]) {
        let expected = began_done_batch.iter().map(|of| {
            of.map(|(began, done, batch)| Answer {
                began: ms(began),
                done: ms(done),
                batch,
            })
        });
        let got = window.requests.iter().map(|request| request.answer);
        assert_eq!(got.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_free_server_answers_at_once() {
        let window = served(&[5, 20], (4, 0, 8), |_| 3);
        check(&window, &[Some((5, 8, 1)), Some((20, 23, 1))]);
        assert_eq!((window.batches, window.deepest, window.end), (2, 1, ms(23)));
    }

    #[test]
    fn a_batch_waits_for_others_until_it_is_full_or_due() {
        // Full at 12, so that it begins before 10 + 8; the last one alone at 30 + 8.
        let window = served(&[10, 11, 12, 30], (3, 8, 8), |_| 1);
        let full = Some((12, 13, 3));
        check(&window, &[full, full, full, Some((38, 39, 1))]);
        // Due at 10 + 5, with the one that came until then.
        let window = served(&[10, 14, 16], (3, 5, 8), |_| 10);
        let due = Some((15, 25, 2));
        check(&window, &[due, due, Some((25, 35, 1))]);
    }

    #[test]
    fn a_stalled_server_does_not_put_arrivals_off() {
        // The first batch hangs for a second; requests come every 10 ms and count from there.
        let window = served(&[0, 10, 20, 30, 40, 50], (2, 0, 8), |batch| {
            if batch == 0 { 1000 } else { 5 }
        });
        let latencies: Vec<_> = window.requests.iter().map(Request::latency).collect();
        let expected = [1000, 995, 985, 980, 970, 965].map(|time| Some(ms(time)));
        assert_eq!(latencies, expected);
        let queued = window.requests[5].queued();
        assert_eq!((window.deepest, queued), (5, Some(ms(960))));
    }

    #[test]
    fn a_full_queue_rejects_and_has_room_again_afterwards() {
        let window = served(&[0, 1, 2, 3, 4, 200], (2, 0, 2), |_| 100);
        let second = Some((100, 200, 2));
        check(
            &window,
            &[
                Some((0, 100, 1)),
                second,
                second,
                None,
                None,
                Some((200, 300, 1)),
            ],
        );
        assert_eq!(window.deepest, 2);
    }

    /// How many of 100 requests, one every 10 ms, a server that takes 15 ms answers within this
    /// patience.
    fn answered_within(patience: (Duration, usize)) -> usize {
        let arrivals: Vec<Duration> = (0..100).map(|number| ms(10 * number)).collect();
        let policy = Policy {
            batch: 1,
            longest_wait: ms(0),
            queue: 10,
            patience: Some(patience),
        };
        let mut clock = Fake::default();
        let within = clock.clone();
        let window = serve(&arrivals, policy, &mut clock, |_| {
            within.pass(ms(15));
            Ok::<(), Infallible>(())
        });
        let Ok(window) = window;
        window.requests.iter().filter_map(Request::latency).count()
    }

    #[test]
    fn a_window_that_cannot_be_saved_ends_early() {
        // Each request waits 5 ms longer than the one before it.
        assert_eq!(answered_within((ms(15), 0)), 2);
        assert_eq!(answered_within((ms(30), 1)), 6);
        // Some are rejected, and count as slow.
        let patient = answered_within((Duration::from_secs(10), 5));
        assert!((20..60).contains(&patient), "{patient}");
        assert!(answered_within((Duration::from_secs(10), 100)) > 60);
    }

    #[test]
    fn a_search_finds_what_a_server_can_do() {
        // Even arrivals and 4 requests in 8 ms: 500 a second, and never 1 ms.
        let of = |objective: Duration| {
            highest_rate(100.0, |rate| {
                let times = (0..3000).map(|number| f64::from(number) / rate);
                let times: Vec<Duration> = times.map(Duration::from_secs_f64).collect();
                let policy = Policy {
                    batch: 4,
                    longest_wait: ms(2),
                    queue: 1000,
                    patience: Some((objective, above(times.len(), 0.99))),
                };
                let mut clock = Fake::default();
                let within = clock.clone();
                let window = serve(&times, policy, &mut clock, |_| {
                    within.pass(ms(8));
                    Ok::<(), Infallible>(())
                })?;
                let latency = quantile(&window, 0.99);
                Ok::<_, Infallible>(latency.is_some_and(|one| one <= objective.as_secs_f64()))
            })
        };
        let Ok(found) = of(ms(100));
        // A window of 3000 ends before the last of them have waited for more than 92 ms.
        let found = found.unwrap();
        assert!((490.0..=510.0).contains(&found), "{found}");
        assert_eq!(of(ms(1)), Ok(None));
    }

    #[test]
    fn a_server_that_fails_ends_the_window() {
        let policy = Policy {
            batch: 1,
            longest_wait: ms(0),
            queue: 1,
            patience: None,
        };
        let outcome = serve(&[ms(1)], policy, &mut Fake::default(), |_| Err("broken"));
        assert_eq!(outcome.unwrap_err(), "broken");
        let outcome = serve(&[], policy, &mut Fake::default(), |_| Err("broken"));
        assert_eq!(outcome.unwrap().batches, 0);
    }
}
