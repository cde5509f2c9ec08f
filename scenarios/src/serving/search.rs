//! The highest rate at which requests are answered soon enough.

/// Times that a start is halved before nothing is said to be slow enough. A search starts below
/// what the model can do, so that hardly a request meets another by then.
const HALVINGS: u32 = 6;
/// Times that it is doubled at most.
const DOUBLINGS: u32 = 16;
/// Times that the stretch between two rates of which one is twice the other is halved: what is left
/// is 1.1 % wide.
const BISECTIONS: u32 = 6;

/// The highest rate that `meets` accepts, to 1.1 %; `None` where it accepts none. A rate that it
/// accepts is doubled until it refuses one, or a refused one halved until it accepts one; then the
/// middle of the two, as a ratio, is tried again and again.
pub fn highest_rate<E>(
    start: f64,
    mut meets: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<f64>, E> {
    let (mut low, mut high) = (start, start);
    if meets(start)? {
        for _ in 0..DOUBLINGS {
            high = 2.0 * low;
            if !meets(high)? {
                break;
            }
            low = high;
        }
    } else {
        let mut tries = 0..HALVINGS;
        loop {
            if tries.next().is_none() {
                return Ok(None);
            }
            low = high / 2.0;
            if meets(low)? {
                break;
            }
            high = low;
        }
    }
    for _ in 0..BISECTIONS {
        let middle = (low * high).sqrt();
        if meets(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(low))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn search(start: f64, most: f64) -> (Option<f64>, u32) {
        let mut tries = 0;
        let found = highest_rate(start, |rate| {
            tries += 1;
            Ok::<_, Infallible>(rate <= most)
        });
        let Ok(found) = found;
        (found, tries)
    }

    #[test]
    fn the_highest_rate_is_found_from_above_and_from_below() {
        for start in [10.0, 100.0, 730.0, 1000.0, 40_000.0] {
            let (found, tries) = search(start, 730.0);
            let found = found.unwrap();
            assert!(found <= 730.0 && found * 1.011 > 730.0, "{start}: {found}");
            assert!(tries <= 14, "{start}: {tries}");
        }
    }

    #[test]
    fn what_nothing_meets_is_said_after_few_tries() {
        assert_eq!(search(64.0, 0.5), (None, 7));
        assert_eq!(search(64.0, 1.0).0.map(f64::floor), Some(1.0));
        assert_eq!(highest_rate(1.0, |_| Err("broken")), Err("broken"));
    }
}
