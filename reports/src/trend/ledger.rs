//! Entries of the ledger of regressions: in a line each, and as a table.

use super::series::{AttributeChange, causes, time};
use crate::{
    document::{Cell, Kind, Mark, Table, TableRow, known},
    words::format::{self, Quantity, UNKNOWN, plural, short},
};

/// What moved at one point, or a runner that went silent.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub id: String,
    pub standing: Standing,
    /// The machine whose results stopped coming, and seconds since the last of them.
    pub silent: Option<(String, f64)>,
    pub last_good: Spot,
    pub first_bad: Option<Spot>,
    /// What was upgraded or replaced in between.
    pub attribute_changes: Vec<AttributeChange>,
    /// The series that it is about; of a silent machine all where there is none.
    pub series: Vec<Moved>,
    /// Who accepted what of it, why, and until when.
    pub acceptances: Vec<String>,
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

/// When and what a point was.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spot {
    /// In seconds since 1970-01-01 UTC.
    pub time: f64,
    /// What was measured.
    pub revision: String,
}

/// One series of an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// Its cell and metric.
    pub name: String,
    /// Its track, suite and machine.
    pub place: String,
    /// How its values are written.
    pub quantity: Quantity,
    /// Levels before and after, where it has some.
    pub levels: Option<[f64; 2]>,
    /// 95 % interval of after ÷ before.
    pub interval: Option<[f64; 2]>,
    /// Whether its level is back.
    pub is_fixed: bool,
}

impl Moved {
    fn ratio(&self) -> Option<f64> {
        let [before, after] = self.levels?;
        (before > 0.0 && after > 0.0).then_some(after / before)
    }

    fn whole_name(&self) -> String {
        match self.place.as_str() {
            "" => self.name.clone(),
            place => format!("{} · {place}", self.name),
        }
    }

    /// `100 to 96 samples/s`.
    fn levels(&self) -> String {
        self.levels.map_or_else(String::new, |levels| {
            let [before, after] = levels.map(|level| self.quantity.write(level));
            format!("{before} to {after}")
        })
    }
}

impl Entry {
    /// What happened, in a line: where, by how much, since when, with what.
    pub fn line(&self) -> String {
        let happened = match (&self.silent, &self.series[..]) {
            (Some((machine, age)), series) => silence(machine, *age, series),
            (None, [one]) => {
                let size = one.ratio().map_or_else(String::new, |ratio| {
                    format!(" by {}", format::change(ratio))
                });
                format!("{}: regressed{size}, {}", one.whole_name(), one.levels())
            }
            (None, series) => together(series),
        };
        format::clean(&format!("{} {happened}; {}", self.id, self.since()))
    }

    /// The range and what came with it; of a silent machine its last result.
    fn since(&self) -> String {
        let Some((good, bad)) = self.range() else {
            return format!("last result {}", time(self.last_good.time));
        };
        let cause = causes(self.attribute_changes.iter());
        let cause = cause.map_or_else(String::new, |cause| format!("; from {cause}"));
        format!("last good {good}, first bad {bad}{cause}")
    }

    fn range(&self) -> Option<(String, String)> {
        let (good, bad) = (&self.last_good, self.first_bad.as_ref()?);
        if good.revision == bad.revision {
            return Some((time(good.time), time(bad.time)));
        }
        Some((short(&good.revision), short(&bad.revision)))
    }

    /// As [`Self::line`], with what it is now.
    pub fn told(&self) -> String {
        let accepted = match &self.acceptances[..] {
            [] => String::new(),
            all => format!(" ({})", all.join("; ")),
        };
        let told = format!("{}: {}{accepted}", self.standing.word(), self.line());
        format::clean(&told)
    }
}

/// `runner-3: no result for 5.2 days from any of its series`.
fn silence(machine: &str, age: f64, series: &[Moved]) -> String {
    let days = age / 86_400.0;
    let from = match series {
        [] => "from any of its series".to_owned(),
        some => format!("from {}", names(some, Moved::whole_name)),
    };
    format!("{machine}: no result for {days:.1} days {from}")
}

/// `3 series regressed by -2.0 % to -4.1 %: …`.
fn together(series: &[Moved]) -> String {
    let mut ratios: Vec<f64> = series.iter().filter_map(Moved::ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let ends = ratios.first().zip(ratios.last());
    let size = match ends.map(|(least, most)| [*least, *most].map(format::change)) {
        None => String::new(),
        Some([least, most]) if least == most => format!(" by {least}"),
        Some([least, most]) => format!(" by {least} to {most}"),
    };
    let alike = series.windows(2).all(|pair| pair[0].place == pair[1].place);
    let listed = names(series, |one| {
        let name = if alike {
            one.name.clone()
        } else {
            one.whole_name()
        };
        let size = one
            .ratio()
            .map(|ratio| format!(" {}", format::change(ratio)));
        name + &size.unwrap_or_default()
    });
    let place = match series.first().map_or("", |one| &one.place) {
        place if alike && !place.is_empty() => format!("; on {place}"),
        _ => String::new(),
    };
    let count = plural(series.len(), "series", "series");
    format!("{count} regressed{size}: {listed}{place}")
}

/// The first few, and how many there are besides.
fn names(series: &[Moved], name: impl Fn(&Moved) -> String) -> String {
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
        let newest = b.last_good.time.total_cmp(&a.last_good.time);
        a.standing.cmp(&b.standing).then(newest)
    });
    let fixed = |entry: &&Entry| entry.standing == Standing::Fixed;
    let others = sorted.len() - sorted.iter().copied().filter(fixed).count();
    sorted.truncate(others + MOST_FIXED);
    Table::of(sorted.into_iter().flat_map(rows).collect())
}

/// A row for each of its series; what is to be said of all of them stands in the first.
fn rows(entry: &Entry) -> Vec<TableRow> {
    let acceptances = entry.acceptances.iter().cloned();
    let remarks: Vec<String> = [entry.since()].into_iter().chain(acceptances).collect();
    let mut note = format::clean(&remarks.join("; "));
    let mut row = |standing: Standing, name: String, level: Cell, change: Cell| -> TableRow {
        let state = Cell::from(standing.word()).marked(mark(standing));
        let name = Cell::from(name).noted(std::mem::take(&mut note));
        vec![
            Kind::Name.cell("entry", entry.id.as_str()),
            Kind::Word.cell("state", state),
            Kind::Message.cell("series", name),
            Kind::Number.cell("level", level),
            Kind::Number.cell("change", change),
        ]
    };
    if let Some((machine, age)) = &entry.silent {
        let name = silence(machine, *age, &entry.series);
        let [level, change] = [UNKNOWN; 2].map(Cell::from);
        return vec![row(entry.standing, name, level, change)];
    }
    let of_series = entry.series.iter().map(|one| {
        let standing = if one.is_fixed {
            Standing::Fixed
        } else {
            entry.standing
        };
        let interval = one.interval.map(|[low, high]| format::interval(low, high));
        let change = known(one.ratio().map(format::change)).noted(interval.unwrap_or_default());
        row(standing, one.whole_name(), one.levels().into(), change)
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
