//! The tables' rows as types, in the order of the schema's columns.

use rusqlite::{
    Connection, Statement,
    types::{Value, ValueRef},
};

use crate::{SeriesKey, fault::Fault, seal::seal};

/// A type that a column holds.
pub(crate) trait Column: Sized {
    fn to_value(&self) -> Value;
    fn from_value(value: &Value) -> Option<Self>;
}

impl Column for i64 {
    fn to_value(&self) -> Value {
        Value::Integer(*self)
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

impl Column for bool {
    fn to_value(&self) -> Value {
        Value::Integer((*self).into())
    }
    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl Column for f64 {
    fn to_value(&self) -> Value {
        // SQLite keeps -0.0 as 0, and the seal must not tell them apart.
        Value::Real(*self + 0.0)
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Real(number) => Some(*number),
            // On the disk SQLite keeps 3.0 as 3.
            Value::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }
}

impl Column for String {
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl<T: Column> Column for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_value)
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// A row of one table. The first column is its integer key, save for `points`.
pub(crate) trait Row: Sized {
    const TABLE: &str;
    /// `seal` left out.
    const COLUMNS: &[&str];
    /// With a place for every column and the seal.
    const INSERT: &str;
    /// Whether the first column is SQLite's rowid.
    const ROWID: bool;

    fn values(&self) -> Vec<Value>;
    fn from_values(values: &[Value]) -> Option<Self>;

    /// From the columns and the seal behind them; `None` where they do not fit each other.
    fn unsealed(values: &[Value]) -> Option<Self> {
        let (told, values) = values.split_last()?;
        if *told != Value::Integer(seal(Self::TABLE, values)) {
            return None;
        }
        Self::from_values(values)
    }

    /// Writes a new row.
    fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut values = self.values();
        values.push(Value::Integer(seal(Self::TABLE, &values)));
        connection
            .prepare_cached(Self::INSERT)?
            .execute(rusqlite::params_from_iter(values))?;
        Ok(())
    }

    /// Changes the row of the same key. Not REPLACE, which would delete it first and break
    /// the foreign keys that point to it.
    fn update(&self, connection: &Connection) -> rusqlite::Result<()> {
        let columns = Self::COLUMNS;
        let set = columns[1..]
            .iter()
            .chain(&["seal"])
            .map(|c| format!("{c} = ?"));
        let set = set.collect::<Vec<_>>().join(", ");
        let sql = format!("UPDATE {} SET {set} WHERE {} = ?", Self::TABLE, columns[0]);
        let mut values = self.values();
        let told = seal(Self::TABLE, &values);
        let key = values.remove(0);
        values.extend([Value::Integer(told), key]);
        connection
            .prepare_cached(&sql)?
            .execute(rusqlite::params_from_iter(values))?;
        Ok(())
    }

    /// Rows where `condition` holds, such as `WHERE id = ?`, each checked against its seal.
    fn select(
        connection: &Connection,
        condition: &str,
        parameters: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<Self>, Fault> {
        let mut rows = Vec::new();
        Self::visit(connection, condition, parameters, |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// The one row with this value in the column.
    fn find(
        connection: &Connection,
        column: &str,
        value: &dyn rusqlite::ToSql,
    ) -> Result<Option<Self>, Fault> {
        Ok(Self::select(connection, &format!("WHERE {column} = ?"), &[value])?.pop())
    }

    /// As [`Row::select`], one at a time.
    fn visit(
        connection: &Connection,
        condition: &str,
        parameters: &[&dyn rusqlite::ToSql],
        mut take: impl FnMut(Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let columns = Self::COLUMNS.join(", ");
        let sql = format!("SELECT {columns}, seal FROM {} {condition}", Self::TABLE);
        let mut statement = connection.prepare_cached(&sql)?;
        each::<Self>(&mut statement, parameters, &mut take)
    }
}

fn each<T: Row>(
    statement: &mut Statement,
    parameters: &[&dyn rusqlite::ToSql],
    take: &mut dyn FnMut(T) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let width = T::COLUMNS.len() + 1;
    let mut values = Vec::with_capacity(width);
    let mut rows = statement.query(parameters)?;
    while let Some(row) = rows.next()? {
        values.clear();
        for column in 0..width {
            values.push(match row.get_ref(column)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Integer(number),
                ValueRef::Real(number) => Value::Real(number),
                // What is no UTF-8 was not written by us: the seal will not fit either.
                ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
            });
        }
        take(T::unsealed(&values).ok_or(Fault::Seal(T::TABLE))?)?;
    }
    Ok(())
}

/// The next free key of a table whose first column is its rowid.
pub(crate) fn next_id<T: Row>(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = format!(
        "SELECT coalesce(max({}), 0) + 1 FROM {}",
        T::COLUMNS[0],
        T::TABLE
    );
    connection
        .prepare_cached(&sql)?
        .query_row([], |row| row.get(0))
}

macro_rules! rows {
    (@place $column:ident) => { "?, " };
    ($($(#[$doc:meta])* $name:ident in $table:literal, rowid $rowid:literal { $($column:ident: $type:ty),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $name { $(pub(crate) $column: $type),+ }

        impl Row for $name {
            const TABLE: &str = $table;
            const COLUMNS: &[&str] = &[$(stringify!($column)),+];
            const INSERT: &str = concat!(
                "INSERT INTO ", $table, " VALUES (", $(rows!(@place $column),)+ "?)"
            );
            const ROWID: bool = $rowid;

            fn values(&self) -> Vec<Value> {
                vec![$(self.$column.to_value()),+]
            }

            fn from_values(values: &[Value]) -> Option<Self> {
                let mut values = values.iter();
                Some(Self { $($column: Column::from_value(values.next()?)?),+ })
            }
        }
    )+};
}

rows! {
    SessionRow in "sessions", rowid true {
        id: i64, name: String, started: f64, ended: Option<f64>, complete: bool, machine: String,
        driver: String, tool_version: String, revision: Option<String>, run_count: i64,
        point_count: i64,
    }
    CellRow in "cells", rowid true {
        id: i64, machine: String, device: String, driver: String, image: String, suite: String,
        scenario: String, variant: String,
    }
    SeriesRow in "series", rowid true {
        id: i64, cell_id: i64, metric: String, unit: String, direction: String, kind: String,
        point_count: i64, oldest: Option<f64>, newest: Option<f64>,
    }
    RevisionRow in "revisions", rowid true { id: i64, revision: String }
    RunRow in "runs", rowid true {
        id: i64, session_id: i64, cell_id: i64, name: String, attempt: i64, block: i64,
        started: f64, point_count: i64, image_id: Option<String>, reason: Option<String>, stage: Option<String>,
        message: Option<String>,
    }
    PointRow in "points", rowid false {
        series_id: i64, timestamp: f64, ordinal: i64, session_id: Option<i64>,
        block: Option<i64>, revision_id: i64, value: f64,
    }
    BranchRow in "branches", rowid true { session_id: i64, branch: String }
    BaselineRow in "baselines", rowid true { id: i64, name: String, session_id: i64 }
    CellInSessionRow in "cells_in_sessions", rowid false {
        cell_id: i64, session_id: i64, card: Option<String>, margins: Option<String>,
    }
}

impl CellRow {
    /// The key of the cell's series for this metric.
    pub(crate) fn key(&self, metric: &str) -> SeriesKey {
        let Self {
            machine,
            device,
            driver,
            image,
            suite,
            scenario,
            variant,
            ..
        } = self.clone();
        let metric = metric.to_owned();
        SeriesKey {
            machine,
            device,
            driver,
            image,
            suite,
            scenario,
            variant,
            metric,
        }
    }
}
