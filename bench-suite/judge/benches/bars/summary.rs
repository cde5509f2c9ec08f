//! Every bar that was asked for, beside what was measured.

use std::fmt::Display;

/// The bars, in the order in which they were measured.
#[derive(Default)]
pub(crate) struct Summary {
    rows: Vec<(String, String, String, bool)>,
}

impl Summary {
    /// At most so much; gives the metric back.
    pub(crate) fn at_most(&mut self, what: impl Display, bar: f64, measured: f64) -> f64 {
        let row = (
            what.to_string(),
            format!("≤ {bar}"),
            measured,
            measured <= bar,
        );
        self.row(row)
    }

    /// At least so much; gives the metric back.
    pub(crate) fn at_least(&mut self, what: impl Display, bar: f64, measured: f64) -> f64 {
        let row = (
            what.to_string(),
            format!("≥ {bar}"),
            measured,
            measured >= bar,
        );
        self.row(row)
    }

    fn row(&mut self, (what, bar, measured, met): (String, String, f64, bool)) -> f64 {
        self.rows.push((what, bar, format!("{measured:.1}"), met));
        measured
    }

    /// Prints them; whether every one is met.
    pub(crate) fn print(&self) -> bool {
        if self.rows.is_empty() {
            return true;
        }
        println!("\n## The bars\n");
        println!("| bar | asked | measured | |");
        println!("|---|---|---|---|");
        for (what, bar, measured, met) in &self.rows {
            let met = if *met { "met" } else { "**missed**" };
            println!("| {what} | {bar} | {measured} | {met} |");
        }
        let missed = self.rows.iter().filter(|(.., met)| !met).count();
        println!("\n{} bars, {missed} missed.", self.rows.len());
        missed == 0
    }
}
