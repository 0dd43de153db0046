//! Free slots of a panel, and assets listed in them later.

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{Panel, Width, all};

/// Error of listing an asset; the panel is unchanged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SlotError {
    /// The slot is taken, or does not exist.
    #[error("expected an unused slot, got {got}")]
    Taken {
        /// Index of the slot.
        got: usize,
    },
    /// Wrong columns, or not exactly one asset.
    #[error("expected a single asset with the same columns, got {got:?}")]
    Width {
        /// Width of its rows.
        got: Width,
    },
    /// The rows are not those of the panel.
    #[error("expected the {expected} known rows, got {got} rows or other times")]
    Rows {
        /// Number of known rows.
        expected: usize,
        /// Number of rows it has.
        got: usize,
    },
}

impl Panel {
    /// Return true if nothing was ever listed in a slot.
    #[must_use]
    pub fn is_free(&self, slot: usize) -> bool {
        let assets = self.width.assets;
        slot < assets && !self.listed.chunks_exact(assets).any(|listed| listed[slot])
    }

    /// List an asset in a free slot, with all known rows.
    ///
    /// # Errors
    /// If the slot is taken, or the asset has other rows.
    pub fn fill(&mut self, slot: usize, asset: &Self) -> Result<(), SlotError> {
        self.check_slot(slot, asset)?;
        let (wide, width) = (self.stride, asset.stride);
        // A row stores its columns one after the other, so that each is filled like a row.
        fill_column(&mut self.numbers, wide, slot, &asset.numbers, width);
        fill_column(&mut self.log_returns, wide, slot, &asset.log_returns, width);
        fill_column(&mut self.impacts, wide, slot, &asset.impacts, width);
        fill_column(&mut self.known, wide, slot, &asset.known, width);
        fill_column(&mut self.movable, self.width.assets, slot, &asset.movable, 1);
        fill_column(&mut self.listed, self.width.assets, slot, &asset.listed, 1);
        self.fill_features(slot, asset);
        self.actions.extend(asset.actions.iter().map(|(row, _, action)| (*row, slot, *action)));
        self.actions.sort_by_key(|(row, asset, _)| (*row, *asset));
        for (row, _, _) in &asset.actions {
            self.facts[row - self.forgotten].actions += 1;
        }
        self.note_all();
        self.chain(slot, asset);
        Ok(())
    }

    fn check_slot(&self, slot: usize, asset: &Self) -> Result<(), SlotError> {
        if !self.is_free(slot) {
            return Err(SlotError::Taken { got: slot });
        }
        if asset.width != (Width { assets: 1, ..self.width }) {
            return Err(SlotError::Width { got: asset.width });
        }
        if asset.times != self.times {
            return Err(SlotError::Rows { expected: self.rows(), got: asset.rows() });
        }
        Ok(())
    }

    fn fill_features(&mut self, slot: usize, asset: &Self) {
        let Width { assets, features, .. } = self.width;
        if features == 0 {
            return;
        }
        let rows = self.features.chunks_exact_mut(assets * features);
        for (row, values) in rows.zip(asset.features.chunks_exact(features)) {
            row[slot * features..][..features].copy_from_slice(values);
        }
    }

    fn note_all(&mut self) {
        let listed = self.listed.chunks_exact(self.width.assets);
        let masks = listed.zip(self.movable.chunks_exact(self.width.assets));
        for (facts, (listed, movable)) in self.facts.iter_mut().zip(masks) {
            (facts.all_listed, facts.all_movable) = (all(listed), all(movable));
        }
    }

    /// Chain the asset and its slot into the digest.
    fn chain(&mut self, slot: usize, asset: &Self) {
        for (digest, more) in self.digests.iter_mut().zip(&asset.digests) {
            let mut state = Sha256::new();
            state.update(*digest);
            state.update(more);
            state.update((slot as u64).to_le_bytes());
            *digest = state.finalize().into();
        }
    }
}

/// Copy the first number of each row of `values` into one slot of the rows of `column`.
fn fill_column<E: Copy>(column: &mut [E], wide: usize, slot: usize, values: &[E], width: usize) {
    for (row, values) in column.chunks_exact_mut(wide).zip(values.chunks_exact(width)) {
        row[slot] = values[0];
    }
}
