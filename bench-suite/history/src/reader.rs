//! From rows to points.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::{
    Aggregate, Point, PointFilter,
    fault::Fault,
    key::matches,
    read::orphan,
    rows::{
        BranchRow, CellInSessionRow, PointRow, RevisionRow, Row, RunRow, SeriesRow, SessionRow,
    },
};

/// Reads the points of one series after another, and remembers the names that they share.
pub(crate) struct Reader<'c> {
    connection: &'c Connection,
    filter: &'c PointFilter,
    branches: HashMap<i64, String>,
    sessions: HashMap<i64, String>,
    revisions: HashMap<i64, String>,
    runs: HashMap<i64, RunRow>,
    /// Margin and card by session, of the series at hand.
    beside: HashMap<i64, (Option<f64>, Option<String>)>,
}

impl<'c> Reader<'c> {
    pub(crate) fn new(connection: &'c Connection, filter: &'c PointFilter) -> Result<Self, Fault> {
        let branches = if filter.branch.is_some() {
            let rows = BranchRow::select(connection, "", &[])?;
            rows.into_iter()
                .map(|row| (row.session_id, row.branch))
                .collect()
        } else {
            HashMap::new()
        };
        let (sessions, revisions, runs, beside) = Default::default();
        Ok(Self {
            connection,
            filter,
            branches,
            sessions,
            revisions,
            runs,
            beside,
        })
    }

    pub(crate) fn points(
        &mut self,
        series: &SeriesRow,
        aggregate: Aggregate,
    ) -> Result<Vec<Point>, Fault> {
        let mut rows = Vec::with_capacity(
            usize::try_from(series.point_count)
                .unwrap_or(0)
                .min(1 << 20),
        );
        let order = "WHERE series_id = ? ORDER BY timestamp, ordinal";
        PointRow::visit(self.connection, order, &[&series.id], |row| {
            rows.push(row);
            Ok(())
        })?;
        // A page that was lost takes its rows along without a word.
        if i64::try_from(rows.len()).ok() != Some(series.point_count) {
            return Err(Fault::Damage(format!(
                "a series of {} points has {}",
                series.point_count,
                rows.len()
            )));
        }
        rows.retain(|row| self.takes(row));
        self.learn(series, aggregate == Aggregate::Run)?;
        match aggregate {
            Aggregate::Run => rows.iter().map(|row| self.one(row)).collect(),
            Aggregate::Session => self.medians(&rows),
        }
    }

    fn takes(&self, row: &PointRow) -> bool {
        let PointFilter {
            branch,
            since,
            until,
        } = self.filter;
        let on_branch = || {
            let pattern = branch.as_deref()?;
            let name = row.session_id.and_then(|id| self.branches.get(&id));
            Some(name.is_some_and(|name| matches(pattern, name)))
        };
        since.is_none_or(|since| row.timestamp >= since)
            && until.is_none_or(|until| row.timestamp < until)
            && on_branch().unwrap_or(true)
    }

    fn one(&self, row: &PointRow) -> Result<Point, Fault> {
        let mut point = self.shared(row)?;
        if row.session_id.is_some() {
            let run = self.runs.get(&row.ordinal);
            let run = run.ok_or_else(|| orphan("a point of run", row.ordinal))?;
            point.run = Some(run.name.clone());
            point.attempt = u32::try_from(run.attempt).ok();
            point.block = row.block.and_then(|block| u32::try_from(block).ok());
        }
        Ok(point)
    }

    fn shared(&self, row: &PointRow) -> Result<Point, Fault> {
        let name = |names: &HashMap<i64, String>, id: i64| {
            names
                .get(&id)
                .cloned()
                .ok_or_else(|| orphan("a point's session or revision", id))
        };
        let (margin, card) = match row.session_id {
            None => (None, None),
            Some(id) => {
                let said = self.beside.get(&id);
                said.cloned()
                    .ok_or_else(|| orphan("a cell of session", id))?
            }
        };
        Ok(Point {
            timestamp: row.timestamp,
            revision: name(&self.revisions, row.revision_id)?,
            value: row.value,
            runs: 1,
            session: row
                .session_id
                .map(|id| name(&self.sessions, id))
                .transpose()?,
            run: None,
            attempt: None,
            block: None,
            margin,
            card,
        })
    }

    /// A session's runs may alternate with another session's; it stands where its first run does.
    fn medians(&self, rows: &[PointRow]) -> Result<Vec<Point>, Fault> {
        let mut groups: Vec<Vec<&PointRow>> = Vec::new();
        let mut places: HashMap<(i64, i64), usize> = HashMap::new();
        for row in rows {
            // One session may have measured two revisions: images whose IDs stand for them.
            let place = match row.session_id {
                Some(id) => *places.entry((id, row.revision_id)).or_insert(groups.len()),
                None => groups.len(),
            };
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(row);
        }
        groups
            .into_iter()
            .map(|group| {
                let mut values: Vec<f64> = group.iter().map(|row| row.value).collect();
                let runs = values.len() as u64;
                Ok(Point {
                    value: median(&mut values),
                    runs,
                    ..self.shared(group[0])?
                })
            })
            .collect()
    }

    /// The names that the series' points share, in one query a table rather than one a point.
    fn learn(&mut self, series: &SeriesRow, with_runs: bool) -> Result<(), Fault> {
        let connection = self.connection;
        let of_series =
            |column: &str| format!("WHERE id IN (SELECT {column} FROM points WHERE series_id = ?)");
        RevisionRow::visit(
            connection,
            &of_series("revision_id"),
            &[&series.id],
            |row| {
                self.revisions.insert(row.id, row.revision);
                Ok(())
            },
        )?;
        SessionRow::visit(connection, &of_series("session_id"), &[&series.id], |row| {
            self.sessions.insert(row.id, row.name);
            Ok(())
        })?;
        self.beside.clear();
        let of_cell = "WHERE cell_id = ?";
        CellInSessionRow::visit(connection, of_cell, &[&series.cell_id], |row| {
            let margin = row.margin(&series.metric)?;
            self.beside.insert(row.session_id, (margin, row.card));
            Ok(())
        })?;
        self.runs.clear();
        if with_runs {
            RunRow::visit(connection, &of_series("ordinal"), &[&series.id], |row| {
                self.runs.insert(row.id, row);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Of at least one value; the mean of the middle two where their number is even.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        // Not their sum, which may overflow.
        values[middle - 1] / 2.0 + values[middle] / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    #[expect(clippy::float_cmp, reason = "computed exactly")]
    fn check(values: &[f64], expect: f64) {
        assert_eq!(median(&mut values.to_vec()), expect);
    }

    #[test]
    fn medians_by_hand() {
        check(&[3.0], 3.0);
        check(&[3.0, 1.0], 2.0);
        check(&[9.0, 1.0, 2.0], 2.0);
        check(&[f64::MAX, f64::MAX], f64::MAX);
        check(&[f64::MAX, f64::MIN], 0.0);
    }
}
