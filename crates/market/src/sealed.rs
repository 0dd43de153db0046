//! Sealed bytes: a snapshot format with kind, version, length and checksum.

use thiserror::Error;

/// Kind of sealed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Magic number at the start of the bytes.
    pub magic: [u8; 4],
    /// Format version.
    pub version: u32,
    /// Name in errors.
    pub name: &'static str,
}

/// Magic, version, and the length of the body that follows.
const HEADER: usize = 4 + 4 + 8;
const CHECKSUM: usize = 8;

/// Error of decoding a snapshot.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SnapshotError {
    /// Wrong magic number.
    #[error("expected a snapshot of {expected}, got other bytes")]
    OtherKind {
        /// Expected content, in words.
        expected: &'static str,
    },
    /// Unsupported version.
    #[error("expected a snapshot of version {expected}, got version {got}; update sekai")]
    OtherVersion {
        /// Supported version.
        expected: u32,
        /// Version of the bytes.
        got: u32,
    },
    /// Wrong length.
    #[error("expected {expected} bytes, got {got}")]
    Length {
        /// Expected number of bytes.
        expected: usize,
        /// Actual number of bytes.
        got: usize,
    },
    /// Wrong checksum.
    #[error("expected checksum {expected:016x}, got {got:016x}: the bytes have changed")]
    Corrupted {
        /// Stored checksum.
        expected: u64,
        /// Actual checksum.
        got: u64,
    },
    /// Inconsistent state.
    #[error("inconsistent snapshot: {got}")]
    Impossible {
        /// Name of the invalid content.
        got: &'static str,
    },
}

/// Seal `body` with a header and a checksum.
#[must_use]
pub fn seal(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len() + CHECKSUM);
    bytes.extend(kind.magic);
    bytes.extend(kind.version.to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// Verify sealed bytes and return their body.
///
/// # Errors
/// If the bytes are truncated, corrupted, of another kind or of another version.
pub fn open(kind: Kind, bytes: &[u8]) -> Result<&[u8], SnapshotError> {
    let mut header = Reader(bytes);
    if header.take().is_ok_and(|magic: [u8; 4]| magic != kind.magic) {
        return Err(SnapshotError::OtherKind { expected: kind.name });
    }
    let version = header.u32()?;
    if version != kind.version {
        return Err(SnapshotError::OtherVersion { expected: kind.version, got: version });
    }
    let length = usize::try_from(header.u64()?).unwrap_or(usize::MAX);
    let expected = length.saturating_add(HEADER + CHECKSUM);
    if bytes.len() != expected {
        return Err(SnapshotError::Length { expected, got: bytes.len() });
    }
    let (content, written) = bytes.split_at(HEADER + length);
    let (expected, got) = (Reader(written).u64()?, checksum(content));
    if expected != got {
        return Err(SnapshotError::Corrupted { expected, got });
    }
    Ok(&content[HEADER..])
}

/// FNV-1a of 64 bits: every step is invertible, so a change of any one byte is always detected.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Reader of little-endian numbers; running out of bytes is an error.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> Result<u8, SnapshotError> {
        Ok(u8::from_le_bytes(self.take()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, SnapshotError> {
        Ok(i32::from_le_bytes(self.take()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let Some((first, rest)) = self.0.split_first_chunk() else {
            return Err(SnapshotError::Length { expected: N, got: self.0.len() });
        };
        self.0 = rest;
        Ok(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { magic: *b"TEST", version: 1, name: "a test" };

    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(checksum(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn bytes_of_a_newer_version_say_so() {
        let mut bytes = seal(KIND, b"body");
        bytes[4] = 2;

        assert_eq!(
            open(KIND, &bytes).err(),
            Some(SnapshotError::OtherVersion { expected: 1, got: 2 })
        );
    }

    #[test]
    fn bytes_of_something_else_say_so() {
        assert_eq!(
            open(KIND, b"PK\x03\x04 a zip file").err(),
            Some(SnapshotError::OtherKind { expected: "a test" })
        );
    }

    #[test]
    fn a_header_that_promises_too_much_says_so() {
        let mut bytes = seal(KIND, b"body");
        bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes());

        let error = open(KIND, &bytes).err();

        assert_eq!(error, Some(SnapshotError::Length { expected: usize::MAX, got: 28 }));
    }
}
