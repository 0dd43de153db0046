//! Feature blocks for training: values without NaN, and masks of those present.

/// Memory layout of the channels of a block.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// Channels of values for each asset.
    pub channels: usize,
    /// The first channel of each feature, rising from 0, if each has a mask of its own; one mask
    /// for all if not.
    pub firsts: Option<&'a [usize]>,
    /// Clipping range.
    pub limits: Option<(f64, f64)>,
}

impl Layout<'_> {
    /// Masks for each asset.
    #[must_use]
    pub fn masks(&self) -> usize {
        self.firsts.map_or(1, <[usize]>::len)
    }

    /// Mask index of each channel.
    fn owners(&self) -> Vec<usize> {
        let firsts = self.firsts.unwrap_or(&[0]);
        let owner = |channel: usize| firsts.partition_point(|first| *first <= channel) - 1;
        (0..self.channels).map(owner).collect()
    }
}

/// Output float type.
pub trait Float: Copy {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Nearest value.
    fn nearest(value: f64) -> Self;
    /// Return true if the value is not NaN.
    fn is_there(self) -> bool;
}

impl Float for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[allow(clippy::cast_possible_truncation)] // an overflow is infinite, and missing
    fn nearest(value: f64) -> Self {
        value as Self
    }

    fn is_there(self) -> bool {
        self.is_finite()
    }
}

impl Float for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn nearest(value: f64) -> Self {
        value
    }

    fn is_there(self) -> bool {
        self.is_finite()
    }
}

/// All values and then all masks of each asset in each row, and the masks alone; a missing value is
/// 0, and so is its mask.
#[must_use]
pub fn show<T: Float>(values: &[f64], layout: Layout<'_>) -> (Vec<T>, Vec<bool>) {
    let (channels, masks, owners) = (layout.channels, layout.masks(), layout.owners());
    let assets = values.len() / channels.max(1);
    let mut block = vec![T::ZERO; assets * (channels + masks)];
    let mut present = vec![true; assets * masks];
    let rows = values.chunks_exact(channels.max(1)).zip(present.chunks_exact_mut(masks));
    for ((asset, present), shown) in rows.zip(block.chunks_exact_mut(channels + masks)) {
        let (numbers, mask_values) = shown.split_at_mut(channels);
        for ((value, number), owner) in asset.iter().zip(numbers).zip(&owners) {
            let nearest = T::nearest(within(*value, layout.limits));
            let is_there = nearest.is_there();
            *number = if is_there { nearest } else { T::ZERO };
            present[*owner] &= is_there;
        }
        for (mask, there) in mask_values.iter_mut().zip(present) {
            *mask = if *there { T::ONE } else { T::ZERO };
        }
    }
    (block, present)
}

fn within(value: f64, limits: Option<(f64, f64)>) -> f64 {
    // NaN stays NaN: it is neither below nor above.
    let (low, high) = limits.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let raised = if value < low { low } else { value };
    if raised > high { high } else { raised }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 6] = [1.0, -9.0, f64::NAN, 2.0, 1e300, 3.0];

    #[test]
    fn missing_values_are_zero_and_masked() {
        let layout = Layout { channels: 3, firsts: None, limits: Some((-5.0, f64::MAX)) };

        let (block, present) = show::<f32>(&VALUES, layout);

        assert_eq!(block, [1.0, -5.0, 0.0, 0.0, 2.0, 0.0, 3.0, 0.0]);
        assert_eq!(present, [false, false]);
    }

    #[test]
    fn each_feature_can_have_its_own_mask() {
        let layout = Layout { channels: 3, firsts: Some(&[0, 2]), limits: None };

        let (block, present) = show::<f64>(&VALUES, layout);

        assert_eq!(block, [1.0, -9.0, 0.0, 1.0, 0.0, 2.0, 1e300, 3.0, 1.0, 1.0]);
        assert_eq!(present, [true, false, true, true]);
    }
}
