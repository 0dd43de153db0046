//! Snapshot of features: encoding to bytes and decoding.

use market::{Kind, SnapshotError, open, seal};

use super::set::Features;

const FEATURES: Kind = Kind { magic: *b"SKFT", version: 1, name: "features" };

impl Features {
    /// Encode the full state as bytes. Features with equal bytes behave identically.
    ///
    /// # Panics
    /// Never: all parts of the state can be written.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = postcard::to_allocvec(self).expect("numbers and arrays can always be written");
        seal(FEATURES, &body)
    }

    /// Decode features from the bytes of [`Features::encode`].
    ///
    /// # Errors
    /// If the bytes are truncated, corrupted, of another version, or do not hold features.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let impossible = |got| SnapshotError::Impossible { got };
        let body = open(FEATURES, bytes)?;
        let (features, rest): (Self, _) = postcard::take_from_bytes(body)
            .map_err(|_| impossible("a body that does not hold features"))?;
        if !rest.is_empty() {
            return Err(impossible("trailing bytes"));
        }
        if !features.is_valid() {
            return Err(impossible("a window with more values than it can hold"));
        }
        Ok(features)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bar::Bar;
    use super::super::set::FeatureOptions;
    use super::*;

    fn bytes_after(bars: u32) -> Vec<u8> {
        let mut features = Features::new(FeatureOptions::default());
        for step in 0..bars {
            let close = 100.0 + f64::from(step % 7);
            features.push(&Bar { high: close, low: close, close, volume: 1.0, trades: step });
        }
        features.encode()
    }

    #[test]
    fn a_state_comes_back_byte_for_byte() {
        for bars in 0..100 {
            let bytes = bytes_after(bars);
            assert_eq!(Features::decode(&bytes).expect("a good state").encode(), bytes);
        }
    }

    #[test]
    fn a_change_of_any_byte_is_seen() {
        let bytes = bytes_after(40);
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 0x10;
            assert!(Features::decode(&changed).is_err(), "byte {index}");
        }
    }

    #[test]
    fn a_state_cut_short_anywhere_is_refused() {
        let bytes = bytes_after(40);
        for length in 0..bytes.len() {
            assert!(Features::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_newer_version_says_so() {
        let mut bytes = bytes_after(3);
        bytes[4] = 2;

        let error = Features::decode(&bytes).err();

        assert_eq!(error, Some(SnapshotError::OtherVersion { expected: 1, got: 2 }));
    }

    #[test]
    fn a_sealed_body_that_holds_no_features_says_so() {
        let body = |change: fn(&mut Vec<u8>)| {
            let bytes = bytes_after(40);
            let mut body = bytes[16..bytes.len() - 8].to_vec();
            change(&mut body);
            Features::decode(&seal(FEATURES, &body)).expect_err("forged").to_string()
        };

        assert!(body(|body| body.truncate(50)).contains("does not hold features"));
        assert!(body(|body| body.push(0)).contains("trailing bytes"));
        // Options take 3 bytes, the history 24 and an index of 1, and 64 times 24; then a length.
        assert!(body(|body| body[3 + 25 + 64 * 24] = 9).contains("more values than it can hold"));
    }
}
