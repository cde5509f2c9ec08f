//! The rows on a page, read without trust in anything around them.
//!
//! Formats: <https://www.sqlite.org/fileformat2.html>, sections 1.6 and 2.1.

use rusqlite::types::Value;

use super::pages::Pages;

/// Usable bytes of a page: all of them, as this crate reserves none.
const USABLE: usize = 4096;

/// A row as it lies in the file.
pub(super) struct RawRow {
    /// Only rows of ordinary tables have one.
    pub(super) rowid: Option<i64>,
    pub(super) values: Vec<Value>,
}

/// Every row on the page that can be read; nothing where it is no page of rows.
pub(super) fn rows(pages: &mut Pages, number: u32) -> Vec<RawRow> {
    let Some(page) = pages.page(number) else {
        return Vec::new();
    };
    // The file's own header stands before the first page's.
    let start = if number == 1 { 100 } else { 0 };
    // Rows of tables without rowid also stand between the branches of their tree.
    let (table, header) = match page[start] {
        0x0d => (true, 8),
        0x0a => (false, 8),
        0x02 => (false, 12),
        _ => return Vec::new(),
    };
    let child = if header == 12 { 4 } else { 0 };
    let count = usize::from(u16::from_be_bytes([page[start + 3], page[start + 4]]));
    page[start + header..]
        .chunks_exact(2)
        .take(count)
        .filter_map(|pointer| {
            let offset = usize::from(u16::from_be_bytes([pointer[0], pointer[1]]));
            row(pages, page.get(offset + child..)?, table)
        })
        .collect()
}

fn row(pages: &mut Pages, cell: &[u8], table: bool) -> Option<RawRow> {
    let mut rest = cell;
    let length = usize::try_from(varint(&mut rest)?).ok()?;
    // No row of ours is longer than its error message.
    if length > 1 << 26 {
        return None;
    }
    let rowid = if table {
        Some(varint(&mut rest)?)
    } else {
        None
    };
    let payload = payload(pages, rest, length, table)?;
    Some(RawRow {
        rowid,
        values: record(&payload)?,
    })
}

/// Follows the chain of overflow pages where the row does not fit its page.
fn payload(pages: &mut Pages, local: &[u8], length: usize, table: bool) -> Option<Vec<u8>> {
    let most = if table {
        USABLE - 35
    } else {
        (USABLE - 12) * 64 / 255 - 23
    };
    if length <= most {
        return Some(local.get(..length)?.to_vec());
    }
    let least = (USABLE - 12) * 32 / 255 - 23;
    let fitting = least + (length - least) % (USABLE - 4);
    let kept = if fitting <= most { fitting } else { least };
    let mut payload = local.get(..kept)?.to_vec();
    let mut next = number(local.get(kept..kept + 4)?);
    while payload.len() < length {
        if next == 0 {
            return None;
        }
        let page = pages.page(next)?;
        let part = (length - payload.len()).min(USABLE - 4);
        payload.extend_from_slice(page.get(4..4 + part)?);
        next = number(page.get(..4)?);
    }
    Some(payload)
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Columns of a record: a header of types, then the values.
fn record(payload: &[u8]) -> Option<Vec<Value>> {
    let mut types = payload;
    let header = usize::try_from(varint(&mut types)?).ok()?;
    let taken = payload.len() - types.len();
    let mut body = payload.get(header..)?;
    let mut types = payload.get(taken..header)?;
    let mut values = Vec::new();
    while !types.is_empty() {
        let kind = varint(&mut types)?;
        values.push(value(kind, &mut body)?);
    }
    Some(values)
}

fn value(kind: i64, body: &mut &[u8]) -> Option<Value> {
    Some(match kind {
        0 => Value::Null,
        1..=4 => Value::Integer(integer(take(body, usize::try_from(kind).ok()?)?)),
        5 => Value::Integer(integer(take(body, 6)?)),
        6 => Value::Integer(integer(take(body, 8)?)),
        7 => Value::Real(f64::from_be_bytes(take(body, 8)?.try_into().ok()?)),
        8 => Value::Integer(0),
        9 => Value::Integer(1),
        12.. => {
            let bytes = take(body, usize::try_from((kind - 12) / 2).ok()?)?;
            if kind % 2 == 0 {
                Value::Blob(bytes.to_vec())
            } else {
                Value::Text(String::from_utf8(bytes.to_vec()).ok()?)
            }
        }
        _ => return None,
    })
}

fn take<'b>(body: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, rest) = body.split_at_checked(length)?;
    *body = rest;
    Some(taken)
}

/// Two's complement, most significant byte first.
fn integer(bytes: &[u8]) -> i64 {
    let start = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        -1
    } else {
        0
    };
    bytes
        .iter()
        .fold(start, |number, byte| number << 8 | i64::from(*byte))
}

/// Seven bits a byte, the ninth byte whole.
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0_i64;
    for place in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if place == 8 {
            return Some(number << 8 | i64::from(*byte));
        }
        number = number << 7 | i64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_varint(mut bytes: &[u8], expect: Option<i64>) {
        assert_eq!(varint(&mut bytes), expect);
    }

    #[test]
    fn numbers_as_the_format_writes_them() {
        check_varint(&[0x7f], Some(127));
        check_varint(&[0x81, 0x00], Some(128));
        check_varint(&[0xff; 9], Some(-1));
        check_varint(&[0x81], None);
        assert_eq!(integer(&[0xff]), -1);
        assert_eq!(integer(&[0x00, 0x80]), 128);
        assert_eq!(integer(&[0xff, 0x7f, 0xff]), -32_769);
    }

    #[test]
    fn garbage_is_no_record() {
        assert!(record(&[]).is_none());
        assert!(record(&[0x00]).is_none());
        assert!(record(&[0x03, 0x06, 0x06, 1, 2]).is_none());
        assert!(record(&[0x02, 0x0a]).is_none());
        assert_eq!(
            record(&[0x03, 0x01, 0x09, 5]),
            Some(vec![Value::Integer(5), Value::Integer(1)])
        );
    }
}
