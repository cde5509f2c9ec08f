//! Entries of the ledger of regressions: in a line each, and as a table.

use history::{Acceptance, Change, Place, SeriesKey, State};
use jiff::Timestamp;

use super::series::{AttributeChange, causes, time};
use crate::{
    document::{Cell, Kind, Mark, Table, TableRow, known},
    words::{
        format::{self, Quantity, UNKNOWN, plural, short},
        metric,
    },
};

/// An entry of the ledger as it is at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub kept: history::Entry,
    pub standing: Standing,
    pub now: Timestamp,
}

/// What an entry is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Open, and a gate fails for it.
    Failing,
    /// Open since earlier.
    Open,
    /// As somebody wants it.
    Accepted,
    /// Fixed with the last run.
    JustFixed,
    Fixed,
}

impl From<State> for Standing {
    fn from(state: State) -> Self {
        match state {
            State::Open => Self::Open,
            State::Accepted => Self::Accepted,
            State::Fixed => Self::Fixed,
        }
    }
}

impl Standing {
    pub fn word(self) -> &'static str {
        match self {
            Self::Failing => "new",
            Self::Open => "open",
            Self::Accepted => "accepted",
            Self::JustFixed | Self::Fixed => "fixed",
        }
    }
}

/// The cell and metric of a change.
fn name(one: &Change) -> String {
    let key = &one.key;
    match key.machine.as_str() {
        SeriesKey::ELSEWHERE => key.cell(),
        _ => format!("{} · {}", key.cell(), metric::label(&key.metric)),
    }
}

/// Its track, suite and machine; empty for a series from a file.
fn place(one: &Change) -> String {
    let key = &one.key;
    match key.machine.as_str() {
        SeriesKey::ELSEWHERE => String::new(),
        machine => [&key.track, &key.suite, machine].join(" · "),
    }
}

fn whole_name(one: &Change) -> String {
    let parts = [name(one), place(one)];
    parts[..if parts[1].is_empty() { 1 } else { 2 }].join(" · ")
}

/// `100 to 96 samples/s`.
fn levels(one: &Change) -> String {
    one.before
        .zip(one.after)
        .map_or_else(String::new, |(before, after)| {
            let quantity = Quantity::of_metric(&one.key.metric);
            format!("{} to {}", quantity.write(before), quantity.write(after))
        })
}

fn seconds(place: &Place) -> f64 {
    place.time.as_duration().as_secs_f64()
}

impl Entry {
    /// On a night that says nothing about it.
    pub fn of(kept: &history::Entry, now: Timestamp) -> Self {
        Self {
            standing: kept.state(now).into(),
            kept: kept.clone(),
            now,
        }
    }

    /// The machine whose results stopped coming, and seconds since the last of them.
    fn silent(&self) -> Option<(&str, f64)> {
        let age = self.now.duration_since(self.kept.last_good.time);
        Some((self.kept.machine.as_deref()?, age.as_secs_f64()))
    }

    /// What happened, in a line: where, by how much, since when, with what.
    pub fn line(&self) -> String {
        let happened = match (self.silent(), &self.kept.series[..]) {
            (Some((machine, age)), series) => silence(machine, age, series),
            (None, [one]) => {
                let size = one.ratio().map_or_else(String::new, |ratio| {
                    format!(" by {}", format::change(ratio))
                });
                format!("{}: regressed{size}, {}", whole_name(one), levels(one))
            }
            (None, series) => together(series),
        };
        format::clean(&format!("{} {happened}; {}", self.kept.id, self.since()))
    }

    /// The range and what came with it; of a silent machine its last result.
    fn since(&self) -> String {
        let good = &self.kept.last_good;
        let Some(bad) = &self.kept.first_bad else {
            return format!("last result {}", time(seconds(good)));
        };
        let changes = AttributeChange::all(0, good.changes_to(bad));
        let cause = causes(changes.iter());
        let cause = cause.map_or_else(String::new, |cause| format!("; from {cause}"));
        let [good, bad] = if good.revision == bad.revision {
            [good, bad].map(|place| time(seconds(place)))
        } else {
            [good, bad].map(|place| short(&place.revision))
        };
        format!("last good {good}, first bad {bad}{cause}")
    }

    /// Who accepted what of it, why, and until when.
    fn acceptances(&self) -> Vec<String> {
        let accepted = self.kept.accepted.iter();
        accepted.map(|one| accepted_by(one, self.now)).collect()
    }

    /// As [`Self::line`], with what it is now.
    pub fn told(&self) -> String {
        let accepted = match &self.acceptances()[..] {
            [] => String::new(),
            all => format!(" ({})", all.join("; ")),
        };
        let told = format!("{}: {}{accepted}", self.standing.word(), self.line());
        format::clean(&told)
    }
}

/// `accepted by ada until 2027-01-01 for metric peak_*: the new cache costs it`.
fn accepted_by(one: &Acceptance, now: Timestamp) -> String {
    let until = one.until.map_or_else(String::new, |day| {
        let expired = if one.has_expired(now) {
            ", expired"
        } else {
            ""
        };
        format!(" until {day}{expired}")
    });
    let only = [("cell", &one.cells), ("metric", &one.metrics)];
    let only = only
        .into_iter()
        .filter(|(_, patterns)| !patterns.is_empty());
    let only: Vec<String> = only
        .map(|(word, patterns)| format!("{word} {}", patterns.join(" or ")))
        .collect();
    let only = match &only[..] {
        [] => String::new(),
        some => format!(" for {}", some.join(", ")),
    };
    format!("accepted by {}{until}{only}: {}", one.by, one.why)
}

/// `runner-3: no result for 5.2 days from any of its series`.
fn silence(machine: &str, age: f64, series: &[Change]) -> String {
    let days = age / 86_400.0;
    let from = match series {
        [] => "from any of its series".to_owned(),
        some => format!("from {}", names(some, whole_name)),
    };
    format!("{machine}: no result for {days:.1} days {from}")
}

/// `3 series regressed by -2.0 % to -4.1 %: …`.
fn together(series: &[Change]) -> String {
    let mut ratios: Vec<f64> = series.iter().filter_map(Change::ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let ends = ratios.first().zip(ratios.last());
    let size = match ends.map(|(least, most)| [*least, *most].map(format::change)) {
        None => String::new(),
        Some([least, most]) if least == most => format!(" by {least}"),
        Some([least, most]) => format!(" by {least} to {most}"),
    };
    let alike = series
        .windows(2)
        .all(|pair| place(&pair[0]) == place(&pair[1]));
    let listed = names(series, |one| {
        let name = if alike { name(one) } else { whole_name(one) };
        let size = one
            .ratio()
            .map(|ratio| format!(" {}", format::change(ratio)));
        name + &size.unwrap_or_default()
    });
    let place = match series.first().map(place).unwrap_or_default() {
        place if alike && !place.is_empty() => format!("; on {place}"),
        _ => String::new(),
    };
    let count = plural(series.len(), "series", "series");
    format!("{count} regressed{size}: {listed}{place}")
}

/// The first few, and how many there are besides.
fn names(series: &[Change], name: impl Fn(&Change) -> String) -> String {
    const MOST: usize = 3;
    let more = series.len().saturating_sub(MOST);
    let first: Vec<String> = series.iter().take(MOST).map(name).collect();
    let more = (more > 0).then(|| format!(" and {more} more"));
    first.join(", ") + &more.unwrap_or_default()
}

/// What was fixed earlier than so many others is not shown.
const MOST_FIXED: usize = 20;

/// Entries with a row for each of their series; those that call for somebody first.
pub(super) fn table(entries: &[Entry]) -> Option<Table> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|a, b| {
        let newest = b.kept.last_good.time.cmp(&a.kept.last_good.time);
        a.standing.cmp(&b.standing).then(newest)
    });
    let fixed = |entry: &&Entry| entry.standing == Standing::Fixed;
    let others = sorted.len() - sorted.iter().copied().filter(fixed).count();
    sorted.truncate(others + MOST_FIXED);
    Table::of(sorted.into_iter().flat_map(rows).collect())
}

/// A row for each of its series; what is to be said of all of them stands in the first.
fn rows(entry: &Entry) -> Vec<TableRow> {
    let acceptances = entry.acceptances();
    let remarks: Vec<String> = [entry.since()].into_iter().chain(acceptances).collect();
    let mut note = format::clean(&remarks.join("; "));
    let mut row = |standing: Standing, name: String, level: Cell, change: Cell| -> TableRow {
        let state = Cell::from(standing.word()).marked(mark(standing));
        let name = Cell::from(name).noted(std::mem::take(&mut note));
        vec![
            Kind::Name.cell("entry", entry.kept.id.as_str()),
            Kind::Word.cell("state", state),
            Kind::Message.cell("series", name),
            Kind::Number.cell("level", level),
            Kind::Number.cell("change", change),
        ]
    };
    if let Some((machine, age)) = entry.silent() {
        let name = silence(machine, age, &entry.kept.series);
        let [level, change] = [UNKNOWN; 2].map(Cell::from);
        return vec![row(entry.standing, name, level, change)];
    }
    let of_series = entry.kept.series.iter().map(|one| {
        let standing = if one.fixed.is_some() {
            Standing::Fixed
        } else {
            entry.standing
        };
        let interval = one.interval.map(|[low, high]| format::interval(low, high));
        let change = known(one.ratio().map(format::change)).noted(interval.unwrap_or_default());
        row(standing, whole_name(one), levels(one).into(), change)
    });
    of_series.collect()
}

fn mark(standing: Standing) -> Mark {
    match standing {
        Standing::Failing | Standing::Open => Mark::Bad,
        Standing::Accepted => Mark::Same,
        Standing::JustFixed | Standing::Fixed => Mark::Good,
    }
}
