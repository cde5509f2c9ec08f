//! SHA-256 digests of files, layers and documents, written as `sha256:…`.

use std::{
    borrow::Cow,
    fmt,
    fs::File,
    io::{self, Read, Write},
    path::Path,
    str::FromStr,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Its text form is that of the OCI image specification: `sha256:` and
/// 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of everything that a reader yields. `done` hears how much that is so far.
    pub fn of_reader(reader: impl Read, done: impl FnMut(u64)) -> io::Result<Self> {
        match copy_hashed(reader, io::sink(), done) {
            Ok((digest, _)) => Ok(digest),
            Err(CopyError::Read(error) | CopyError::Write(error)) => Err(error),
        }
    }

    /// The digest of a file's content.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Self::of_reader(File::open(path)?, |_| {})
    }

    /// The 64 hexadecimal digits, without the `sha256:`.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// As a wheel's list of files has it.
    pub(crate) fn base64(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0)
    }

    /// The first 12 hexadecimal digits: short enough for a name, long enough to tell apart.
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || {
            format!("`{text}` is no SHA-256 digest; expected `sha256:` and 64 hexadecimal digits")
        };
        let digits = text.strip_prefix("sha256:").ok_or_else(error)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| error())?;
        if digits.contains(|digit: char| digit.is_ascii_uppercase()) {
            return Err(error());
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Digest {
    fn schema_name() -> Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^sha256:[0-9a-f]{64}$",
            "description": "A SHA-256 digest",
        })
    }
}

/// Which side of a copy failed: a damaged source and a full disk call for different next steps.
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies everything, and returns its digest and size. `done` hears how much there is so far.
pub(crate) fn copy_hashed(
    mut from: impl Read,
    to: impl Write,
    done: impl FnMut(u64),
) -> Result<(Digest, u64), CopyError> {
    let mut to = HashingWriter::new(to).heard(done);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => to.write_all(&buffer[..n]).map_err(CopyError::Write)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
    let (_, digest, size_bytes) = to.finish();
    Ok((digest, size_bytes))
}

/// A writer that hashes and counts what it passes on.
pub(crate) struct HashingWriter<W, F = fn(u64)> {
    inner: W,
    hasher: Sha256,
    written: u64,
    heard: F,
}

impl<W: Write> HashingWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            hasher: Sha256::new(),
            written: 0,
            heard: |_| {},
        }
    }

    /// The same; `heard` is told how much was written so far.
    pub(crate) fn heard<F: FnMut(u64)>(self, heard: F) -> HashingWriter<W, F> {
        HashingWriter {
            inner: self.inner,
            hasher: self.hasher,
            written: self.written,
            heard,
        }
    }
}

impl<W: Write, F: FnMut(u64)> HashingWriter<W, F> {
    /// The inner writer, the digest and the number of bytes written.
    pub(crate) fn finish(self) -> (W, Digest, u64) {
        let digest = Digest(self.hasher.finalize().into());
        (self.inner, digest, self.written)
    }
}

impl<W: Write, F: FnMut(u64)> Write for HashingWriter<W, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        self.written += n as u64;
        (self.heard)(self.written);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_digest_is_the_published_one() {
        // FIPS 180-4 test vector for the empty message.
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
        assert_eq!(Digest::of(b"").short(), "e3b0c44298fc");
    }

    #[test]
    fn a_writer_hashes_what_it_passes_on() {
        let mut writer = HashingWriter::new(Vec::new());
        writer.write_all(b"one ").unwrap();
        writer.write_all(b"two").unwrap();
        assert_eq!(
            writer.finish(),
            (b"one two".to_vec(), Digest::of(b"one two"), 7)
        );
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        let refusals = [
            "",
            "sha256:",
            "sha256:ABCD",
            "md5:00",
            &format!("sha256:{}", "g".repeat(64)),
        ]
        .map(|text| text.parse::<Digest>().unwrap_err());
        insta::assert_snapshot!(refusals.join("\n"), @r"
        `` is no SHA-256 digest; expected `sha256:` and 64 hexadecimal digits
        `sha256:` is no SHA-256 digest; expected `sha256:` and 64 hexadecimal digits
        `sha256:ABCD` is no SHA-256 digest; expected `sha256:` and 64 hexadecimal digits
        `md5:00` is no SHA-256 digest; expected `sha256:` and 64 hexadecimal digits
        `sha256:gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg` is no SHA-256 digest; expected `sha256:` and 64 hexadecimal digits
        ");
    }
}
