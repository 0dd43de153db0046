//! State of a panel as bytes: its last rows, and all that later rows depend on.

use market::SnapshotError;

use super::{COLUMNS, Panel, Width};

impl Panel {
    /// Bytes of the rows from `first` on, from which `decode_rows` continues bit for bit.
    ///
    /// # Panics
    /// Never: a panel can always be written.
    #[must_use]
    pub fn encode_rows(&self, first: usize) -> Vec<u8> {
        let mut last = self.clone();
        last.forget(first.saturating_sub(self.forgotten));
        postcard::to_allocvec(&last).expect("a panel can be written")
    }

    /// Panel of the same width from `encode_rows`.
    ///
    /// # Errors
    /// If the bytes do not hold a panel of this width.
    pub fn decode_rows(&self, bytes: &[u8]) -> Result<Self, SnapshotError> {
        let impossible = |got| SnapshotError::Impossible { got };
        let panel: Self = postcard::from_bytes(bytes)
            .map_err(|_| impossible("bytes that do not hold rows of a panel"))?;
        if panel.width != self.width || panel.is_open_ended != self.is_open_ended {
            return Err(impossible("rows of another panel"));
        }
        if !panel.is_consistent() || panel.times.is_empty() {
            return Err(impossible("invalid rows of a panel"));
        }
        Ok(panel)
    }

    /// Return true if all columns have the same number of rows.
    fn is_consistent(&self) -> bool {
        let Width { assets, features, .. } = self.width;
        let (rows, stride) = (self.times.len(), super::stride(assets));
        let lengths = [
            (self.facts.len(), rows),
            (self.digests.len(), rows),
            (self.numbers.len(), rows * COLUMNS * stride),
            (self.log_returns.len(), rows * stride),
            (self.movable.len(), rows * assets),
            (self.listed.len(), rows * assets),
            (self.features.len(), rows * assets * features),
            (self.impacts.len(), stride),
            (self.known.len(), stride),
        ];
        let last = self.forgotten.checked_add(rows);
        let is_action = |row: usize, asset: usize| {
            row >= self.forgotten && last.is_some_and(|last| row < last) && asset < assets
        };
        self.stride == stride
            && last.is_some()
            && lengths.into_iter().all(|(actual, expected)| actual == expected)
            && self.times.is_sorted()
            && self.actions.iter().all(|(row, asset, _)| is_action(*row, *asset))
    }
}
