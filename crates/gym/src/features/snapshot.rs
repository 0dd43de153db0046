//! Features as bytes, and the same features from them.

use market::{Kind, SnapshotError, open, seal};

use super::set::Features;

const FEATURES: Kind = Kind { magic: *b"SKFT", version: 1, name: "features" };

impl Features {
    /// The whole state as bytes. Features with equal bytes show the same for ever.
    ///
    /// # Panics
    /// Never: all parts of the state can be written.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = postcard::to_allocvec(self).expect("numbers and arrays can always be written");
        seal(FEATURES, &body)
    }

    /// The features that [`Features::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are truncated, corrupted, of another version, or no features at all.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let impossible = |found| SnapshotError::Impossible { found };
        let body = open(FEATURES, bytes)?;
        let (features, rest): (Self, _) = postcard::take_from_bytes(body)
            .map_err(|_| impossible("a body that does not hold features"))?;
        if !rest.is_empty() {
            return Err(impossible("bytes behind the last feature"));
        }
        if !features.is_sound() {
            return Err(impossible("a window with more values than it can hold"));
        }
        Ok(features)
    }
}
