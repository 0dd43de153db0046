//! Places of a panel that are kept free, and assets that come into them later.

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{Panel, Width, all};

/// Why an asset cannot come in. The panel is as it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SlotError {
    /// Its place is taken, or there is no such place.
    #[error("a place of which nothing was ever listed was wanted, found {found}")]
    Taken {
        /// The place.
        found: usize,
    },
    /// Its rows are of another kind, or it is not one asset.
    #[error("one asset with the columns of the others was wanted, found {found:?}")]
    Width {
        /// How wide its rows are.
        found: Width,
    },
    /// Its rows are not those of the panel.
    #[error("the {wanted} rows that are known were wanted, found {found} rows or other times")]
    Rows {
        /// How many rows are known.
        wanted: usize,
        /// How many rows it has.
        found: usize,
    },
}

impl Panel {
    /// Whether nothing was ever listed in a place.
    #[must_use]
    pub fn is_free(&self, place: usize) -> bool {
        let assets = self.width.assets;
        place < assets && !self.listed.chunks_exact(assets).any(|listed| listed[place])
    }

    /// Lets an asset into a free place, with all rows that are known.
    ///
    /// # Errors
    /// When the place is taken, or the asset has other rows.
    pub fn fill(&mut self, place: usize, asset: &Self) -> Result<(), SlotError> {
        self.check_slot(place, asset)?;
        let (wide, one) = (self.stride, asset.stride);
        // A row has all columns one after the other, so that each is a row of its own here.
        fill_column(&mut self.numbers, wide, place, &asset.numbers, one);
        fill_column(&mut self.log_returns, wide, place, &asset.log_returns, one);
        fill_column(&mut self.impacts, wide, place, &asset.impacts, one);
        fill_column(&mut self.known, wide, place, &asset.known, one);
        fill_column(&mut self.movable, self.width.assets, place, &asset.movable, 1);
        fill_column(&mut self.listed, self.width.assets, place, &asset.listed, 1);
        self.fill_features(place, asset);
        self.note_all();
        self.chain(place, asset);
        Ok(())
    }

    fn check_slot(&self, place: usize, asset: &Self) -> Result<(), SlotError> {
        if !self.is_free(place) {
            return Err(SlotError::Taken { found: place });
        }
        if asset.width != (Width { assets: 1, ..self.width }) {
            return Err(SlotError::Width { found: asset.width });
        }
        if asset.times != self.times {
            return Err(SlotError::Rows { wanted: self.rows(), found: asset.rows() });
        }
        Ok(())
    }

    fn fill_features(&mut self, place: usize, asset: &Self) {
        let Width { assets, features, .. } = self.width;
        if features == 0 {
            return;
        }
        let rows = self.features.chunks_exact_mut(assets * features);
        for (row, values) in rows.zip(asset.features.chunks_exact(features)) {
            row[place * features..][..features].copy_from_slice(values);
        }
    }

    fn note_all(&mut self) {
        let listed = self.listed.chunks_exact(self.width.assets);
        let masks = listed.zip(self.movable.chunks_exact(self.width.assets));
        for (facts, (listed, movable)) in self.facts.iter_mut().zip(masks) {
            (facts.all_listed, facts.all_movable) = (all(listed), all(movable));
        }
    }

    /// From here on a digest is of the rows, of the asset, and of its place.
    fn chain(&mut self, place: usize, asset: &Self) {
        for (digest, more) in self.digests.iter_mut().zip(&asset.digests) {
            let mut state = Sha256::new();
            state.update(*digest);
            state.update(more);
            state.update((place as u64).to_le_bytes());
            *digest = state.finalize().into();
        }
    }
}

/// Copies the first number of each row of `values` into one place of the rows of `column`.
fn fill_column<E: Copy>(column: &mut [E], wide: usize, place: usize, values: &[E], width: usize) {
    for (row, values) in column.chunks_exact_mut(wide).zip(values.chunks_exact(width)) {
        row[place] = values[0];
    }
}
