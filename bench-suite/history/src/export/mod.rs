//! Points as files: CSV, JSON lines and Parquet.

mod parquet;
mod text;

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use jiff::Timestamp;
use tempfile::NamedTempFile;

use crate::{
    Aggregate, History, HistoryError, Point, PointFilter, SeriesFilter, SeriesInfo, SeriesKey,
    read::{info, series_rows},
    reader::Reader,
};

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One header line, one point a line. Text that a spreadsheet would run as a formula has an
    /// apostrophe before it.
    Csv,
    /// One JSON object a line.
    JsonLines,
    /// Apache Parquet, Snappy-compressed.
    Parquet,
}

/// What to export.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Of these series.
    pub series: SeriesFilter,
    /// These points.
    pub points: PointFilter,
    /// Runs, or one median a session.
    pub aggregate: Aggregate,
}

/// What was exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Series with a point in it.
    pub series: usize,
    /// Points.
    pub points: usize,
}

/// Takes points, series by series.
trait Sink {
    fn point(&mut self, series: &SeriesInfo, point: &Point) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl History {
    /// Writes the selected points, ordered by series and time.
    pub fn export(
        &self,
        format: Format,
        selection: &Selection,
        out: impl Write + Send,
    ) -> Result<Exported, HistoryError> {
        let failed = |source| HistoryError::Export { source };
        let mut sink: Box<dyn Sink + '_> = match format {
            Format::Csv => Box::new(text::Csv::begin(out).map_err(failed)?),
            Format::JsonLines => Box::new(text::JsonLines::begin(out)),
            Format::Parquet => Box::new(parquet::Parquet::begin(out).map_err(failed)?),
        };
        let done = self.read("export", |connection| {
            let mut done = Exported::default();
            let mut reader = Reader::new(connection, &selection.points)?;
            for (key, row) in series_rows(connection, &selection.series)? {
                let points = reader.points(&row, selection.aggregate)?;
                let series = info(key, row)?;
                for point in &points {
                    sink.point(&series, point).map_err(failed)?;
                }
                done.points += points.len();
                done.series += usize::from(!points.is_empty());
            }
            Ok(done)
        })?;
        sink.finish().map_err(failed)?;
        Ok(done)
    }

    /// As [`History::export`], to a new file: whole, or not at all.
    pub fn export_to(
        &self,
        path: &Path,
        format: Format,
        selection: &Selection,
    ) -> Result<Exported, HistoryError> {
        if path.exists() {
            return Err(HistoryError::Exists {
                path: path.to_owned(),
            });
        }
        let failed = |source| HistoryError::Write {
            path: path.to_owned(),
            source,
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let fresh = NamedTempFile::new_in(folder).map_err(failed)?;
        let done = self
            .export(format, selection, io::BufWriter::new(fresh.as_file()))
            .map_err(|error| match error {
                HistoryError::Export { source } => failed(source),
                other => other,
            })?;
        fresh.as_file().sync_all().map_err(failed)?;
        let file = fresh
            .persist_noclobber(path)
            .map_err(|error| failed(error.error))?;
        open_to_others(&file).map_err(failed)?;
        Ok(done)
    }

    /// Writes one series as `timestamp,revision,value`: what `trend --input` and
    /// [`History::import_csv`] read.
    pub fn export_series(
        &self,
        key: &SeriesKey,
        filter: &PointFilter,
        aggregate: Aggregate,
        out: impl Write,
    ) -> Result<usize, HistoryError> {
        let points = self.points(key, filter, aggregate)?;
        text::series(&points, out).map_err(|source| HistoryError::Export { source })?;
        Ok(points.len())
    }
}

/// A temporary file is made for its owner alone; an export is for whom the umask says.
#[cfg(unix)]
pub(crate) fn open_to_others(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // The umask can only be read by setting it: a fresh file tells what it allows.
    let probe = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile()?;
    file.set_permissions(probe.as_file().metadata()?.permissions())
}

#[cfg(not(unix))]
pub(crate) fn open_to_others(_: &File) -> io::Result<()> {
    Ok(())
}

/// As a moment; `None` outside the years −9999 to 9999.
fn moment(seconds: f64) -> Option<Timestamp> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and is then out of range"
    )]
    let microseconds = (seconds * 1e6).round() as i64;
    Timestamp::from_microsecond(microseconds).ok()
}
