//! Parquet, written without Arrow: a flat table needs none of it.

use std::{
    io::{self, Write},
    sync::Arc,
};

use parquet::{
    basic::Compression,
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::parser::parse_message_type,
};

use super::{Sink, moment};
use crate::{
    Point, SeriesInfo,
    writer::{direction_word, kind_word},
};

/// `timestamp` is the exact number of seconds since 1970-01-01 UTC, `time` the same moment to the
/// microsecond, null where it lies outside the years −9999 to 9999.
const SCHEMA: &str = "
message points {
    required binary machine (UTF8);
    required binary device (UTF8);
    required binary driver (UTF8);
    required binary image (UTF8);
    required binary suite (UTF8);
    required binary scenario (UTF8);
    required binary variant (UTF8);
    required binary metric (UTF8);
    required binary unit (UTF8);
    required binary direction (UTF8);
    required binary kind (UTF8);
    optional binary session (UTF8);
    optional binary run (UTF8);
    optional int32 attempt;
    optional int32 block;
    required int64 runs;
    optional int64 time (TIMESTAMP(MICROS, true));
    required double timestamp;
    required binary revision (UTF8);
    required double value;
    optional double margin;
    optional binary card (UTF8);
}";

/// Points in a row group: enough to compress well, and some 100 MB at most while writing.
const ROW_GROUP: usize = 200_000;
/// Text columns before `session`.
const SERIES_TEXTS: usize = 11;

pub(super) struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    group: Group,
}

/// Columns of one row group, in the order of the schema.
#[derive(Default)]
struct Group {
    series: [Vec<ByteArray>; SERIES_TEXTS],
    session: Optional<ByteArray>,
    run: Optional<ByteArray>,
    attempt: Optional<i32>,
    block: Optional<i32>,
    runs: Vec<i64>,
    time: Optional<i64>,
    timestamp: Vec<f64>,
    revision: Vec<ByteArray>,
    value: Vec<f64>,
    margin: Optional<f64>,
    card: Optional<ByteArray>,
}

/// Values that are there, and for each row whether it has one.
#[derive(Default)]
struct Optional<T> {
    values: Vec<T>,
    there: Vec<i16>,
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.there.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn begin(out: W) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("torchgauge ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer =
            SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(failed)?;
        Ok(Self {
            writer,
            group: Group::default(),
        })
    }

    fn write_group(&mut self) -> io::Result<()> {
        let group = std::mem::take(&mut self.group);
        if group.value.is_empty() {
            return Ok(());
        }
        let mut row_group = self.writer.next_row_group().map_err(failed)?;
        group.write(&mut row_group).map_err(failed)?;
        row_group.close().map_err(failed)?;
        Ok(())
    }
}

impl Group {
    fn write<W: Write + Send>(
        &self,
        out: &mut SerializedRowGroupWriter<W>,
    ) -> Result<(), ParquetError> {
        for texts in &self.series {
            column::<ByteArrayType, W>(out, texts, None)?;
        }
        for optional in [&self.session, &self.run] {
            column::<ByteArrayType, W>(out, &optional.values, Some(&optional.there))?;
        }
        for optional in [&self.attempt, &self.block] {
            column::<Int32Type, W>(out, &optional.values, Some(&optional.there))?;
        }
        column::<Int64Type, W>(out, &self.runs, None)?;
        column::<Int64Type, W>(out, &self.time.values, Some(&self.time.there))?;
        column::<DoubleType, W>(out, &self.timestamp, None)?;
        column::<ByteArrayType, W>(out, &self.revision, None)?;
        column::<DoubleType, W>(out, &self.value, None)?;
        column::<DoubleType, W>(out, &self.margin.values, Some(&self.margin.there))?;
        column::<ByteArrayType, W>(out, &self.card.values, Some(&self.card.there))
    }
}

fn column<T: DataType, W: Write + Send>(
    out: &mut SerializedRowGroupWriter<W>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns than the data".into());
    let mut column = out.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, there, None)?;
    column.close()
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn point(&mut self, series: &SeriesInfo, point: &Point) -> io::Result<()> {
        let parts = series.key.parts();
        let texts = parts.iter().map(|(_, part)| *part).chain([
            series.unit.as_str(),
            direction_word(series.direction),
            kind_word(series.kind),
        ]);
        let group = &mut self.group;
        for (column, text) in group.series.iter_mut().zip(texts) {
            column.push(text.into());
        }
        let text = |text: &Option<String>| text.as_deref().map(ByteArray::from);
        let number = |number: Option<u32>| number.and_then(|number| number.try_into().ok());
        group.session.push(text(&point.session));
        group.run.push(text(&point.run));
        group.attempt.push(number(point.attempt));
        group.block.push(number(point.block));
        group.runs.push(point.runs.try_into().unwrap_or(i64::MAX));
        group
            .time
            .push(moment(point.timestamp).map(jiff::Timestamp::as_microsecond));
        group.timestamp.push(point.timestamp);
        group.revision.push(point.revision.as_str().into());
        group.value.push(point.value);
        group.margin.push(point.margin);
        group.card.push(text(&point.card));
        if group.value.len() == ROW_GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write_group()?;
        self.writer.finish().map_err(failed)?;
        self.writer.inner_mut().flush()
    }
}
