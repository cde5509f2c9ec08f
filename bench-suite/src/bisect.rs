//! Which of several images, one after the other, brought a change.
//!
//! The ends are measured beside each other first: what moved there is followed. Then one candidate
//! after the other, the bad end before the others, is held against half of the change, in
//! logarithms, beside the good end: beyond it it is bad, on this side of it good. That the bad end
//! is beyond guards against a change that looked larger than it is. A candidate that cannot be
//! measured is left out, and its neighbour is taken. At last the two images on either side of the
//! change are measured against each other.
//!
//! Every decision may be wrong, and all of them together at most as often as the search was given:
//! each one spends a part of what is left.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    path::Path,
};

use judge::compare::Interval;
use serde::{Deserialize, Serialize};

pub const VERSION: u32 = 4;
/// The file that a search is taken up from, in its folder.
pub const STATE: &str = "bisect.json";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bisection {
    pub version: u32,
    /// What the command line asked for.
    pub asked: Asked,
    /// How often the search as a whole may be wrong.
    pub error: f64,
    /// From the good end to the bad one; at least two.
    pub candidates: Vec<Candidate>,
    /// What is followed; `None` until the ends were measured.
    pub change: Option<Change>,
    /// That of the ends first.
    pub decisions: Vec<Decision>,
    /// The suite's digest, once it was measured: another suite would answer another question.
    pub suite_sha256: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The suite, as it was given, with its scenario where one was named; of a program on the command
    /// line, what its suite is called.
    pub suite: String,
    /// The suite of a program on the command line, as a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The metric to follow; `None`: the one that regressed most.
    pub metric: Option<String>,
    /// Seconds that a comparison may take.
    pub time_budget_seconds: f64,
    pub most_blocks: u32,
    /// The device's word; `None`: what there is.
    pub device: Option<String>,
    /// The executor, with its argument; `None`: the first that works.
    pub engine: Option<String>,
    pub share_gpu: bool,
    pub share_cpu: bool,
    /// Whether unified memory may be more than a GPU has.
    #[serde(default)]
    pub allow_oversubscription: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    pub name: String,
    pub image: String,
}

/// A metric of a cell, and how it moved between the ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub suite: String,
    pub scenario: String,
    /// The choice on every axis, as text.
    pub variant: String,
    pub metric: String,
    /// Bad ÷ good, as the ends showed it.
    pub ratio: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// What was compared against, by its place among the candidates.
    pub base: usize,
    pub head: usize,
    /// Whether the head lies on the side of the bad end; `None` where that could not be decided.
    pub is_bad: Option<bool>,
    /// Why it could not.
    pub why: Option<String>,
    /// How often it may be wrong.
    pub error: f64,
    /// The session's folder, below that of the search.
    pub session: String,
    /// Head ÷ base.
    pub ratio: Option<f64>,
    /// Its interval, at 1 − `error`.
    pub interval: Option<Interval>,
    pub blocks: u32,
}

impl Bisection {
    /// A search before its first comparison, or why there can be none.
    pub fn new(asked: Asked, error: f64, candidates: Vec<Candidate>) -> Result<Self, String> {
        if candidates.len() < 2 {
            return Err("--good and --bad are the same; a search takes two that differ".to_owned());
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = candidates.iter().find(|one| !names.insert(&one.name)) {
            return Err(format!(
                "two of the images are called `{}`; each needs a name of its own",
                twice.name
            ));
        }
        Ok(Self {
            version: VERSION,
            asked,
            error,
            candidates,
            change: None,
            decisions: Vec::new(),
            suite_sha256: None,
        })
    }

    /// Takes up the search in this folder.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(STATE);
        read(&path).map_err(|why| {
            let path = path.display();
            format!("{path}: {why}; expected the folder of a search, as `bisect --out` names it")
        })
    }

    /// Keeps the search as it stands.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        regular_file::replace(&folder.join(STATE), |file| file.write_all(text.as_bytes()))
    }

    /// The two to be measured beside each other next, base and head; `None` where the search is over.
    pub fn next(&self) -> Option<[usize; 2]> {
        let last = self.candidates.len() - 1;
        if self.change.is_none() || self.side_of(last).is_none() {
            return Some([0, last]);
        }
        if self.is_refuted() {
            return None;
        }
        let [good, bad] = self.range();
        let middle = usize::midpoint(good, bad);
        let nearest = self.open().min_by_key(|open| open.abs_diff(middle));
        // Beside the good end the first bad one was measured already.
        let is_done = good == 0 || self.size().is_some();
        match nearest {
            Some(candidate) => Some([0, candidate]),
            None => (!is_done).then_some([good, bad]),
        }
    }

    /// Which ratio the next decision is held against: half of the change, in logarithms, and no
    /// change between neighbours; `None` for the ends.
    pub fn centre(&self, [base, _]: [usize; 2]) -> Option<f64> {
        let change = self.change.as_ref()?;
        Some(if base == 0 { change.ratio.sqrt() } else { 1.0 })
    }

    /// Decisions on which side of half of the change a candidate lies.
    pub fn sides(&self) -> impl Iterator<Item = &Decision> {
        let sides = self.decisions.iter().skip(1);
        sides.filter(|one| one.base == 0)
    }

    fn side_of(&self, candidate: usize) -> Option<&Decision> {
        let mut sides = self.sides();
        sides.find(|one| one.head == candidate)
    }

    /// Whether the bad end is not beyond half of what the ends first showed.
    pub fn is_refuted(&self) -> bool {
        let side = self.side_of(self.candidates.len() - 1);
        side.is_some_and(|side| side.is_bad != Some(true))
    }

    /// The last candidate known to be good, and the first known to be bad. Those between them could
    /// not be measured, once the search is over.
    pub fn range(&self) -> [usize; 2] {
        let judged = |wanted| {
            let of_side = self.sides().filter(move |one| one.is_bad == Some(wanted));
            of_side.map(|one| one.head)
        };
        let last = self.candidates.len() - 1;
        [
            judged(false).max().unwrap_or(0),
            judged(true).min().unwrap_or(last),
        ]
    }

    /// Candidates within the range that nothing was tried with.
    fn open(&self) -> impl Iterator<Item = usize> {
        let [good, bad] = self.range();
        (good + 1..bad).filter(|candidate| self.side_of(*candidate).is_none())
    }

    /// The comparison of the two candidates on either side of the change.
    pub fn size(&self) -> Option<&Decision> {
        let range = self.range();
        let mut all = self.decisions.iter().rev();
        all.find(|one| [one.base, one.head] == range)
    }

    /// How often the next decision may be wrong: its part of what is left, so that however many
    /// there are, all of them together keep to [`Bisection::error`].
    pub fn next_error(&self) -> f64 {
        let spent: f64 = self.decisions.iter().map(|one| one.error).sum();
        let steps = (self.open().count() + 1).next_power_of_two().ilog2();
        let last = self.candidates.len() - 1;
        let ends = u32::from(self.change.is_none()) + u32::from(self.side_of(last).is_none());
        // The size, and one more that is never spent: a candidate that is left out makes the search
        // longer.
        (self.error - spent) / f64::from(ends + steps + 2)
    }

    /// Where the next comparison's session lies, below the folder of the search.
    pub fn next_session(&self, sides: [usize; 2]) -> String {
        let is_plain = |letter: char| letter.is_alphanumeric() || ".-_".contains(letter);
        let [base, head] = sides.map(|side| -> String {
            let name = self.candidates[side].name.chars();
            let name = name.map(|letter| if is_plain(letter) { letter } else { '-' });
            name.take(40).collect()
        });
        format!("{:02}-{base}-{head}", self.decisions.len() + 1)
    }
}

fn read(path: &Path) -> Result<Bisection, String> {
    let text = regular_file::read_text(path).map_err(|error| error.to_string())?;
    let words = |error: serde_json::Error| error.to_string();
    let value: serde_json::Value = serde_json::from_str(&text).map_err(words)?;
    if value["version"] != VERSION {
        return Err(format!("version {}, expected {VERSION}", value["version"]));
    }
    let read: Bisection = serde_json::from_value(value).map_err(words)?;
    let mut places = read.decisions.iter().flat_map(|one| [one.base, one.head]);
    if read.candidates.len() < 2 {
        return Err("fewer than two candidates".to_owned());
    }
    if places.any(|place| place >= read.candidates.len()) {
        return Err("a decision about a candidate that it does not name".to_owned());
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn search(count: usize) -> Bisection {
        let candidates = (0..count).map(|number| Candidate {
            name: format!("c{number}"),
            image: format!("c{number}"),
        });
        Bisection::new(Asked::default(), 0.05, candidates.collect()).unwrap()
    }

    fn change() -> Change {
        Change {
            suite: "smoke".into(),
            scenario: "one".into(),
            variant: "fp32".into(),
            metric: "throughput_samples_per_second".into(),
            ratio: 0.9,
        }
    }

    fn decision([base, head]: [usize; 2], is_bad: Option<bool>, error: f64) -> Decision {
        Decision {
            base,
            head,
            is_bad,
            why: None,
            error,
            session: String::new(),
            ratio: None,
            interval: None,
            blocks: 3,
        }
    }

    /// Searches to the end; candidates from `bad` on are bad, and `broken` cannot be measured.
    fn searched(count: usize, bad: usize, broken: &[usize]) -> (Bisection, [usize; 2]) {
        let mut search = search(count);
        while let Some(sides) = search.next() {
            let error = search.next_error();
            let is_bad = (!broken.contains(&sides[1])).then_some(sides[1] >= bad);
            search.change.get_or_insert_with(change);
            search.decisions.push(decision(sides, is_bad, error));
            assert!(search.decisions.len() < 2 * count + 5, "{search:?}");
        }
        assert!(!search.is_refuted(), "the bad end is bad: {search:?}");
        let range = search.range();
        (search, range)
    }

    #[test]
    fn every_culprit_is_found_in_as_many_steps_as_halving_takes() {
        for count in 2..40 {
            for bad in 1..count {
                let (search, found) = searched(count, bad, &[]);
                assert_eq!(found, [bad - 1, bad]);
                // Ends, the bad end's side, and the size besides.
                let halvings = (count - 1).next_power_of_two().ilog2() as usize;
                assert!(search.decisions.len() <= halvings + 3, "{search:?}");
                // The last decision is of the two neighbours.
                assert!(search.size().is_some(), "{search:?}");
            }
        }
    }

    #[test]
    fn all_decisions_together_keep_to_the_error() {
        for broken in [&[][..], &[3, 4, 5, 6], &[1, 2, 3, 4, 5, 6, 7, 8]] {
            let (search, _) = searched(10, 5, broken);
            let spent: f64 = search.decisions.iter().map(|one| one.error).sum();
            assert!(spent < search.error, "{spent}");
            assert!(search.decisions.iter().all(|one| one.error > 0.0));
        }
    }

    #[test]
    fn a_bad_end_that_is_not_beyond_half_ends_the_search() {
        let mut search = search(4);
        search.change = Some(change());
        let ends = decision([0, 3], Some(true), 0.01);
        for is_bad in [Some(false), None] {
            search.decisions = vec![ends.clone(), decision([0, 3], is_bad, 0.01)];
            assert_eq!((search.next(), search.is_refuted()), (None, true));
        }
    }

    #[test]
    fn what_cannot_be_measured_widens_what_is_found() {
        let (_, found) = searched(9, 5, &[4]);
        assert_eq!(found, [3, 5]);
        let (_, found) = searched(9, 5, &[4, 5, 6]);
        assert_eq!(found, [3, 7]);
        let (_, found) = searched(9, 5, &(1..8).collect::<Vec<_>>());
        assert_eq!(found, [0, 8]);
    }

    #[test]
    fn a_search_is_read_as_it_was_written_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let search = search(2);
        search.write(folder.path()).unwrap();
        assert_eq!(Bisection::read(folder.path()).unwrap(), search);
        let file = folder.path().join(STATE);
        let text = fs::read_to_string(&file).unwrap();
        let refusals = [
            ("\"version\": 4", "\"version\": 9"),
            ("\"decisions\"", "\"decided\""),
            ("{", ""),
        ]
        .map(|(from, to)| {
            fs::write(&file, text.replacen(from, to, 1)).unwrap();
            let error = Bisection::read(folder.path()).unwrap_err();
            error.replace(folder.path().to_str().unwrap(), "/folder")
        });
        insta::assert_snapshot!(refusals.join("\n"), @r"
        /folder/bisect.json: version 9, expected 4; expected the folder of a search, as `bisect --out` names it
        /folder/bisect.json: unknown field `decided`, expected one of `version`, `asked`, `error`, `candidates`, `change`, `decisions`, `suite_sha256`; expected the folder of a search, as `bisect --out` names it
        /folder/bisect.json: trailing characters at line 2 column 12; expected the folder of a search, as `bisect --out` names it
        ");
        let twice = vec![search.candidates[0].clone(); 2];
        for too_few in [twice.clone(), twice[..1].to_vec()] {
            Bisection::new(Asked::default(), 0.05, too_few).unwrap_err();
        }
    }
}
