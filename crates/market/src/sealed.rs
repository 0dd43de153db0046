//! Bytes that carry their kind, version, length and checksum, and refuse to be read as another's.

use thiserror::Error;

/// What sealed bytes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// How the bytes begin.
    pub magic: [u8; 4],
    /// The version that is written and read.
    pub version: u32,
    /// What it is called in errors.
    pub name: &'static str,
}

/// Magic, version, and the length of the body that follows.
const HEADER: usize = 4 + 4 + 8;
const CHECKSUM: usize = 8;

/// Why bytes cannot be read back.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SnapshotError {
    /// They are something else.
    #[error("the snapshot of {wanted} was wanted, found bytes that begin otherwise")]
    OtherKind {
        /// What they should hold.
        wanted: &'static str,
    },
    /// Another version of this code wrote them.
    #[error("a snapshot of version {wanted} was wanted, found version {found}; update sekai")]
    OtherVersion {
        /// The version that this code reads.
        wanted: u32,
        /// The version that was found.
        found: u32,
    },
    /// Some are missing, or there are too many.
    #[error("{wanted} bytes were wanted, found {found}")]
    Length {
        /// Bytes that should be there.
        wanted: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// Some have changed.
    #[error("checksum {wanted:016x} was wanted, found {found:016x}: the bytes have changed")]
    Corrupted {
        /// The checksum that was written.
        wanted: u64,
        /// The checksum of the bytes.
        found: u64,
    },
    /// They contradict themselves.
    #[error("a state that can exist was wanted, found {found}")]
    Impossible {
        /// What cannot be.
        found: &'static str,
    },
}

/// Puts `body` between a header and a checksum.
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

/// The body of sealed bytes, once all of them are known to be there and unchanged.
///
/// # Errors
/// When the bytes are truncated, corrupted, of another kind or of another version.
pub fn open(kind: Kind, bytes: &[u8]) -> Result<&[u8], SnapshotError> {
    let mut header = Reader(bytes);
    if header.take().is_ok_and(|magic: [u8; 4]| magic != kind.magic) {
        return Err(SnapshotError::OtherKind { wanted: kind.name });
    }
    let version = header.u32()?;
    if version != kind.version {
        return Err(SnapshotError::OtherVersion { wanted: kind.version, found: version });
    }
    let length = usize::try_from(header.u64()?).unwrap_or(usize::MAX);
    let wanted = length.saturating_add(HEADER + CHECKSUM);
    if bytes.len() != wanted {
        return Err(SnapshotError::Length { wanted, found: bytes.len() });
    }
    let (content, written) = bytes.split_at(HEADER + length);
    let (wanted, found) = (Reader(written).u64()?, checksum(content));
    if wanted != found {
        return Err(SnapshotError::Corrupted { wanted, found });
    }
    Ok(&content[HEADER..])
}

/// FNV-1a of 64 bits: every step is invertible, so a change of any one byte is always seen.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Reads little-endian numbers one after the other; running out of bytes is an error.
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
            return Err(SnapshotError::Length { wanted: N, found: self.0.len() });
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
            Some(SnapshotError::OtherVersion { wanted: 1, found: 2 })
        );
    }

    #[test]
    fn bytes_of_something_else_say_so() {
        assert_eq!(
            open(KIND, b"PK\x03\x04 a zip file").err(),
            Some(SnapshotError::OtherKind { wanted: "a test" })
        );
    }

    #[test]
    fn a_header_that_promises_too_much_says_so() {
        let mut bytes = seal(KIND, b"body");
        bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes());

        let error = open(KIND, &bytes).err();

        assert_eq!(error, Some(SnapshotError::Length { wanted: usize::MAX, found: 28 }));
    }
}
