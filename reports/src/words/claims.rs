//! Claims and what was measured of them in words.

use judge::claims::Outcome;
use record::{CellChoice, Claim, Expectation, Range};
use verdict::{ClaimFound, ClaimPair};

use super::{
    comparison::spelled,
    format::{self, UNKNOWN, plural},
    lists::grouped,
    metric,
};

/// `4 claims: 2 hold, 1 refuted, 0 inconclusive, 1 not measured here`.
pub(crate) fn tally(found: &[ClaimFound]) -> String {
    let measured = || found.iter().filter(|one| one.is_measured());
    let count = |wanted| measured().filter(|one| one.outcome == wanted).count();
    let unmeasured = match found.len() - measured().count() {
        0 => String::new(),
        count => format!(", {count} not measured here"),
    };
    format!(
        "{}: {} hold, {} refuted, {} inconclusive{unmeasured}.",
        plural(found.len(), "claim", "claims"),
        count(Outcome::Holds),
        count(Outcome::Refuted),
        count(Outcome::Inconclusive)
    )
}

/// The pairs of a claim; those that measured the same with the same outcome together: a metric such as
/// the CUDA context's bytes is the same in every cell.
pub(crate) fn alike(found: &ClaimFound) -> Vec<Vec<&ClaimPair>> {
    let pairs = found.pairs.iter().enumerate().map(|(place, pair)| {
        let measured = measured(&found.claim, pair);
        // What was not measured is like nothing else.
        let apart = (measured == UNKNOWN).then_some(place);
        ((measured, pair.verdict.outcome, apart), pair)
    });
    let groups = grouped(pairs).into_iter();
    groups.map(|(_, pairs)| pairs).collect()
}

/// Where a pair was measured, and how its cells differ, in few words.
pub(crate) fn where_of(found: &ClaimFound, alike: &[&ClaimPair]) -> String {
    let pair = alike[0];
    let place = match &pair.baseline {
        Some(cell) if pair.is_across_images() => {
            format!("{}, {} → {}", pair.scenario, cell.image, pair.treated.image)
        }
        _ => pair.scenario.clone(),
    };
    let words = |pair: &ClaimPair| -> Vec<String> {
        let variant = spelled(&pair.treated.variant);
        variant.split(' ').map(str::to_owned).collect()
    };
    let others = found
        .pairs
        .iter()
        .filter(|one| one.scenario == pair.scenario);
    let others: Vec<Vec<String>> = others.map(words).collect();
    let own = words(pair).into_iter().filter(|word| {
        let is_shared = alike.iter().all(|one| words(one).contains(word));
        is_shared && !others.iter().all(|other| other.contains(word))
    });
    let own = own.collect::<Vec<_>>().join(" ");
    [place, own]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" · ")
}

/// What is claimed, as people say it: `saves 30 to 50 %`.
pub(crate) fn claimed(claim: &Claim) -> String {
    let number = |number: f64| match claim.expect {
        Expectation::Ratio(_) => format::significant(number, 3),
        Expectation::Saving(_) | Expectation::Increase(_) => {
            let percent = format!("{:.1}", 100.0 * number);
            percent.strip_suffix(".0").unwrap_or(&percent).to_owned()
        }
        Expectation::Value(_) => value(claim, number),
    };
    let range = match claim.expect.range() {
        Range {
            min: Some(min),
            max: Some(max),
        } => format!("{} to {}", number(min), number(max)),
        Range { min: Some(min), .. } => format!("at least {}", number(min)),
        Range { max: Some(max), .. } => format!("at most {}", number(max)),
        Range { .. } => UNKNOWN.to_owned(),
    };
    match claim.expect {
        Expectation::Ratio(_) => format!("{range} times as much"),
        Expectation::Saving(_) => format!("{range} % less"),
        Expectation::Increase(_) => format!("{range} % more"),
        Expectation::Value(_) => range,
    }
}

/// What was measured, in the words of the claim.
pub(crate) fn measured(claim: &Claim, pair: &ClaimPair) -> String {
    let Some(middle) = pair.verdict.measured else {
        return UNKNOWN.to_owned();
    };
    // Less and more are said, and no sign, so that a saving that is none reads as what it is.
    let word = |ratio: f64| match claim.expect {
        Expectation::Saving(_) | Expectation::Increase(_) if ratio <= 1.0 => " % less",
        Expectation::Saving(_) | Expectation::Increase(_) => " % more",
        Expectation::Ratio(_) => " times as much",
        Expectation::Value(_) => "",
    };
    let bare = |ratio: f64| match claim.expect {
        Expectation::Ratio(_) => format::significant(ratio, 4),
        Expectation::Saving(_) | Expectation::Increase(_) => {
            format!("{:.1}", 100.0 * (ratio - 1.0).abs())
        }
        Expectation::Value(_) => value(claim, ratio),
    };
    let number = |ratio: f64| bare(ratio) + word(ratio);
    let Some(interval) = pair.verdict.interval else {
        return format!("{}, one block", number(middle));
    };
    // Of less, the smaller number is that of the greater ratio.
    let (low, high) = match word(middle) {
        " % less" => (interval.hi, interval.lo),
        _ => (interval.lo, interval.hi),
    };
    let is_one_way = word(low) == word(high);
    let end = |ratio| bare(ratio) + if is_one_way { "" } else { word(ratio) };
    match (end(low), number(middle), end(high)) {
        (low, middle, high) if low == high => middle,
        (low, middle, high) => format!("{middle} ({low} … {high})"),
    }
}

fn value(claim: &Claim, value: f64) -> String {
    metric::value(&claim.metric, value)
}

/// Why a claim without a pair was not judged.
pub(crate) fn not_measured(claim: &Claim) -> String {
    let metric = metric::label(&claim.metric);
    match &claim.baseline {
        Some(baseline) => format!(
            "not measured: needs cells with {baseline} and with {}, both with the metric \
             \"{metric}\"",
            claim.treated
        ),
        None if claim.treated == CellChoice::default() => {
            format!("not measured: no run has the metric \"{metric}\"")
        }
        None => format!(
            "not measured: needs cells with {} and the metric \"{metric}\"",
            claim.treated
        ),
    }
}
