//! Answers token by token, with requests that come and go between two tokens (Yu et al., «Orca»,
//! 2022).

use std::time::Duration;

use super::{Answer, Clock, Loop, Policy, Window};

/// What reads prompts and makes tokens. A place holds one request at a time.
pub trait Decoder {
    type Error;

    /// Has a free place read a request's prompt, until the first token of the answer is there.
    fn read(&mut self, place: usize, request: usize) -> Result<(), Self::Error>;

    /// Makes one more token in every place that is taken.
    fn step(&mut self) -> Result<(), Self::Error>;

    /// The request in this place has its answer.
    fn leave(&mut self, place: usize, request: usize) -> Result<(), Self::Error>;
}

/// A request at work.
#[derive(Debug, Clone, Copy)]
struct Taken {
    number: usize,
    answer: Answer,
    /// Tokens that are still to be made.
    left: u32,
}

/// Answers requests that arrive at these rising times with so many tokens each, at least one, in as
/// many places as a batch has. Prompts go first: a request that waits is read as soon as a place is
/// free, and those at work wait meanwhile.
pub fn decode<D: Decoder>(
    arrivals: &[Duration],
    tokens: impl Fn(usize) -> u32,
    policy: Policy,
    clock: &mut impl Clock,
    decoder: &mut D,
) -> Result<Window, D::Error> {
    let mut all = Loop::new(arrivals, policy);
    let mut places: Vec<Option<Taken>> = vec![None; policy.batch];
    loop {
        let now = clock.now();
        all.let_in(now);
        if all.is_lost() {
            return Ok(all.window);
        }
        let busy = places.iter().flatten().count();
        let free = places.iter().position(Option::is_none);
        if let (Some(place), Some(&number)) = (free, all.waiting.front()) {
            all.waiting.pop_front();
            let waiting = all.waiting.len();
            decoder.read(place, number)?;
            let first = clock.now();
            let tokens = tokens(number);
            places[place] = Some(Taken {
                number,
                answer: Answer {
                    began: now,
                    first,
                    done: first,
                    batch: busy + 1,
                    waiting,
                    tokens,
                },
                left: tokens.saturating_sub(1),
            });
        } else if busy > 0 {
            decoder.step()?;
            let done = clock.now();
            for taken in places.iter_mut().flatten() {
                taken.left -= 1;
                taken.answer.done = done;
            }
            all.window.batches += 1;
            all.window.batched += busy;
        } else if let Some(arrival) = all.next_arrival() {
            clock.wait_until(arrival);
        } else {
            return Ok(all.window);
        }
        for (place, taken) in places.iter_mut().enumerate() {
            if let Some(Taken { number, answer, .. }) = taken.take_if(|taken| taken.left == 0) {
                all.note(number, answer);
                decoder.leave(place, number)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::{
        super::{
            Objective, Request, Serving,
            tests::{Fake, ms},
        },
        *,
    };

    /// Reads a prompt in 10 ms and makes a token of all in 2 ms.
    struct Steady {
        clock: Fake,
        places: Vec<Option<usize>>,
        most: usize,
    }

    impl Decoder for Steady {
        type Error = Infallible;

        fn read(&mut self, place: usize, request: usize) -> Result<(), Infallible> {
            assert_eq!(self.places[place].replace(request), None);
            self.most = self.most.max(self.places.iter().flatten().count());
            self.clock.pass(ms(10));
            Ok(())
        }

        fn step(&mut self) -> Result<(), Infallible> {
            self.clock.pass(ms(2));
            Ok(())
        }

        fn leave(&mut self, place: usize, request: usize) -> Result<(), Infallible> {
            assert_eq!(self.places[place].take(), Some(request));
            Ok(())
        }
    }

    /// Requests at these milliseconds, each with so many tokens.
    fn decoded(
        requests: &[(u64, u32)],
        (places, queue): (usize, usize),
        patience: Option<(Objective, usize)>,
    ) -> (Window, usize) {
        let arrivals: Vec<Duration> = requests.iter().map(|&(at, _)| ms(at)).collect();
        let policy = Policy {
            batch: places,
            longest_wait: Duration::ZERO,
            queue,
            patience,
        };
        let mut clock = Fake::default();
        let mut steady = Steady {
            clock: clock.clone(),
            places: vec![None; places],
            most: 0,
        };
        let tokens = |number: usize| requests[number].1;
        let Ok(window) = decode(&arrivals, tokens, policy, &mut clock, &mut steady);
        (window, steady.most)
    }

    #[test]
    fn a_request_joins_those_at_work_and_leaves_when_it_is_done() {
        let (window, most) = decoded(&[(0, 4), (11, 2), (12, 1), (100, 3)], (2, 4), None);
        let times = |of: fn(&Request) -> Option<Duration>| -> Vec<Option<Duration>> {
            window.requests.iter().map(of).collect()
        };
        // The first token of the first is there at 10, its second at 12; then the second request is
        // read until 22, both have a token at 24, and the place that is free reads the third until
        // 34, which one token answers; the first has its last token at 36.
        let all = |times: [u64; 4]| times.map(|time| Some(ms(time))).to_vec();
        assert_eq!(times(Request::first), all([10, 11, 22, 10]));
        assert_eq!(times(Request::latency), all([36, 13, 22, 14]));
        assert_eq!(times(Request::queued), all([0, 1, 12, 0]));
        let per_token = [Some(ms(26) / 3), Some(ms(2)), None, Some(ms(2))];
        assert_eq!(times(Request::token), per_token);
        assert_eq!((most, window.deepest, window.end), (2, 2, ms(114)));
        // Tokens of one, of two, of one, and twice of the last alone.
        assert_eq!((window.batches, window.batched), (5, 6));
    }

    #[test]
    fn latencies_begin_with_the_intended_arrival_also_where_all_places_are_taken() {
        let (window, most) = decoded(&[(0, 1), (1, 1), (2, 1), (3, 1)], (1, 2), None);
        let first: Vec<_> = window.requests.iter().map(Request::first).collect();
        assert_eq!(first, [Some(ms(10)), Some(ms(19)), Some(ms(28)), None]);
        assert_eq!(most, 1);
    }

    #[test]
    fn a_window_ends_early_where_tokens_come_too_late() {
        let objective = |token| Objective {
            first: ms(1000),
            token: Some(token),
        };
        let requests: Vec<(u64, u32)> = (0..200).map(|number| (10 * number, 6)).collect();
        let of = |token| {
            let patience = Some((objective(token), 3));
            let (window, _) = decoded(&requests, (8, 200), patience);
            let answered = window.requests.iter().filter_map(Request::latency);
            (answered.count(), window)
        };
        // All places are filled before the second token, and only the last one's comes soon enough.
        assert_eq!(of(ms(2)).0, 8);
        let (answered, window) = of(ms(100));
        assert_eq!(answered, 200);
        let serving = Serving::of(&window, Some(objective(ms(100))));
        assert!(serving.answer_tokens_per_second.unwrap() > 100.0);
        assert!(serving.token_p50_seconds.unwrap() > 0.002);
        assert_eq!(serving.token_p99_seconds, None);
    }
}
