//! An open loop: requests arrive whether or not the model is free, wait in a bounded queue, and
//! are answered: in batches of one forward, or token by token, where each request joins those at
//! work as soon as there is a place. Arithmetic over a clock and whatever answers; no libtorch.

mod clock;
mod continuous;
mod latency;
mod search;

use std::{collections::VecDeque, time::Duration};

pub use self::{
    clock::{Clock, WallClock},
    continuous::{Decoder, decode},
    latency::{Serving, above, keeps},
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
    /// An objective, and how many requests may miss it: with one more the window is over, and
    /// the requests that are left have no answer.
    pub patience: Option<(Objective, usize)>,
}

/// How soon requests are to be answered.
#[derive(Debug, Clone, Copy)]
pub struct Objective {
    /// From the intended arrival to the answer, or to its first token.
    pub first: Duration,
    /// From there to the next one and so on, on average.
    pub token: Option<Duration>,
}

impl Objective {
    fn is_kept(self, request: &Request) -> bool {
        let within = |got: Option<Duration>, most| got.is_none_or(|got| got <= most);
        request.answer.is_some()
            && within(request.first(), self.first)
            && self.token.is_none_or(|most| within(request.token(), most))
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
    /// When its batch, or reading its prompt, began.
    pub began: Duration,
    /// When its first token was there; of one forward as `done`.
    pub first: Duration,
    /// When all of it was there.
    pub done: Duration,
    /// Requests that were at work when it began, with itself.
    pub batch: usize,
    /// Requests that waited then, beside those that began with it.
    pub waiting: usize,
    pub tokens: u32,
}

impl Request {
    /// From the intended arrival to the answer; `None` where there is none.
    pub fn latency(&self) -> Option<Duration> {
        Some(self.answer?.done.saturating_sub(self.arrival))
    }

    /// From the intended arrival to the first token.
    pub fn first(&self) -> Option<Duration> {
        Some(self.answer?.first.saturating_sub(self.arrival))
    }

    /// From one token to the next, on average; `None` where there is one alone.
    pub fn token(&self) -> Option<Duration> {
        let answer = self.answer.filter(|answer| answer.tokens > 1)?;
        Some(answer.done.saturating_sub(answer.first) / (answer.tokens - 1))
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
    /// Requests of all batches; one that is answered token by token is in several.
    pub batched: usize,
    /// Most requests that waited at once.
    pub deepest: usize,
    /// When the last answer was there, after the clock began.
    pub end: Duration,
}

/// A window under way.
struct Loop<'a> {
    arrivals: &'a [Duration],
    policy: Policy,
    waiting: VecDeque<usize>,
    /// The next to arrive.
    next: usize,
    /// Requests that missed the objective, or were rejected.
    slow: usize,
    window: Window,
}

impl<'a> Loop<'a> {
    fn new(arrivals: &'a [Duration], policy: Policy) -> Self {
        let request = |&arrival| Request {
            arrival,
            answer: None,
        };
        Self {
            arrivals,
            policy,
            waiting: VecDeque::with_capacity(policy.queue),
            next: 0,
            slow: 0,
            window: Window {
                requests: arrivals.iter().map(request).collect(),
                ..Window::default()
            },
        }
    }

    /// Lets in whoever has arrived by now. Nothing left the queue since the last look, so each
    /// finds it as at its own arrival.
    fn let_in(&mut self, now: Duration) {
        while self.next_arrival().is_some_and(|arrival| arrival <= now) {
            if self.waiting.len() < self.policy.queue {
                self.waiting.push_back(self.next);
                self.window.deepest = self.window.deepest.max(self.waiting.len());
            } else {
                self.slow += 1;
            }
            self.next += 1;
        }
    }

    fn next_arrival(&self) -> Option<Duration> {
        self.arrivals.get(self.next).copied()
    }

    /// Whether more requests missed the objective than may.
    fn is_lost(&self) -> bool {
        let patience = self.policy.patience;
        patience.is_some_and(|(_, most)| self.slow > most)
    }

    fn note(&mut self, number: usize, answer: Answer) {
        let request = &mut self.window.requests[number];
        request.answer = Some(answer);
        let patience = self.policy.patience;
        self.slow += usize::from(patience.is_some_and(|(most, _)| !most.is_kept(request)));
        self.window.end = answer.done;
    }
}

/// Answers requests that arrive at these rising times, one batch after the other. `answer` is given
/// the numbers of the requests of a batch, and returns when they are answered.
pub fn serve<E>(
    arrivals: &[Duration],
    policy: Policy,
    clock: &mut impl Clock,
    mut answer: impl FnMut(&[usize]) -> Result<(), E>,
) -> Result<Window, E> {
    let mut all = Loop::new(arrivals, policy);
    loop {
        let now = clock.now();
        all.let_in(now);
        if all.is_lost() {
            return Ok(all.window);
        }
        let due = match (all.waiting.front(), all.next_arrival()) {
            (None, None) => return Ok(all.window),
            (None, Some(arrival)) => arrival,
            (Some(&oldest), _) if all.waiting.len() < policy.batch => {
                arrivals[oldest] + policy.longest_wait
            }
            (Some(_), _) => now,
        };
        if now < due {
            clock.wait_until(due.min(all.next_arrival().unwrap_or(due)));
            continue;
        }
        let taken = policy.batch.min(all.waiting.len());
        let batch: Vec<usize> = all.waiting.drain(..taken).collect();
        answer(&batch)?;
        let done = clock.now();
        let answer = Answer {
            began: now,
            first: done,
            done,
            batch: taken,
            waiting: all.waiting.len(),
            tokens: 1,
        };
        for number in batch {
            all.note(number, answer);
        }
        all.window.batches += 1;
        all.window.batched += taken;
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

    /// An answer within this time.
    pub(super) fn soon(first: Duration) -> Objective {
        Objective { first, token: None }
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
                first: ms(done),
                tokens: 1,
                began: ms(began),
                done: ms(done),
                batch,
                waiting: 0,
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
        let answers = window.requests.iter().filter_map(|request| request.answer);
        let waiting: Vec<usize> = answers.map(|answer| answer.waiting).collect();
        assert_eq!(waiting, [0, 3, 3, 1, 1, 0]);
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
            patience: Some((soon(patience.0), patience.1)),
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
                    patience: Some((soon(objective), above(times.len(), 0.99))),
                };
                let mut clock = Fake::default();
                let within = clock.clone();
                let window = serve(&times, policy, &mut clock, |_| {
                    within.pass(ms(8));
                    Ok::<(), Infallible>(())
                })?;
                Ok::<_, Infallible>(keeps(&window, soon(objective), 0.99))
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
