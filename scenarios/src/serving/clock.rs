//! The time that requests arrive by.

use std::{
    hint, thread,
    time::{Duration, Instant},
};

pub trait Clock {
    /// Since the clock began.
    fn now(&mut self) -> Duration;

    /// Returns at this time, or at once where it is over.
    fn wait_until(&mut self, time: Duration);
}

/// This machine's.
#[derive(Debug)]
pub struct WallClock {
    began: Instant,
}

/// Waiting ends awake: a sleep may end some 0.1 ms late, and then the request would look slow.
const AWAKE: Duration = Duration::from_micros(200);

impl WallClock {
    pub fn begin() -> Self {
        Self {
            began: Instant::now(),
        }
    }
}

impl Clock for WallClock {
    fn now(&mut self) -> Duration {
        self.began.elapsed()
    }

    fn wait_until(&mut self, time: Duration) {
        let asleep = time.saturating_sub(self.began.elapsed());
        let asleep = asleep.saturating_sub(AWAKE);
        if !asleep.is_zero() {
            thread::sleep(asleep);
        }
        while self.began.elapsed() < time {
            hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_too_short_or_for_what_is_over() {
        let mut clock = WallClock::begin();
        for time in [Duration::from_micros(50), Duration::from_millis(3)] {
            clock.wait_until(time);
            assert!(clock.now() >= time);
        }
        let soon = clock.now() + Duration::from_secs(1);
        clock.wait_until(Duration::ZERO);
        assert!(clock.now() < soon);
    }
}
