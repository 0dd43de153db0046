//! Validation of panel rows: quoted and listed assets, and default masks.

/// Masks of rows by assets, flat.
#[derive(Clone, Copy, Debug)]
pub struct Masks<'a> {
    /// Mask of listed assets.
    pub listed: &'a [bool],
    /// Mask of quoted assets.
    pub quoted: &'a [bool],
    /// Mask of tradable assets.
    pub tradable: &'a [bool],
}

/// Invalid entry of a panel and its index among rows by assets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Quoted but not listed.
    NotListed(usize),
    /// Tradable but not quoted.
    NotQuoted(usize),
    /// Quoted with a price field that is not above 0 and finite.
    NoPrice {
        /// Index of the entry.
        index: usize,
        /// Index of the field.
        field: usize,
    },
}

/// First flaw of rows of assets of `fields` values each, if any.
#[must_use]
pub fn flaw(values: &[f64], fields: usize, prices: &[usize], masks: Masks<'_>) -> Option<Flaw> {
    let Masks { listed, quoted, tradable } = masks;
    if let Some(index) = first_without(quoted, listed) {
        return Some(Flaw::NotListed(index));
    }
    if let Some(index) = first_without(tradable, quoted) {
        return Some(Flaw::NotQuoted(index));
    }
    let priced = |index: usize, field: usize| {
        let price = values[index * fields + field];
        price > 0.0 && price < f64::INFINITY
    };
    let is_priced = |index: usize| prices.iter().all(|field| priced(index, *field));
    let mut wrong = (0..quoted.len()).filter(|index| quoted[*index] && !is_priced(*index));
    wrong.next()?;
    // By field and then by index: the first flaw of the first field is reported.
    let of_field = |field: &usize| {
        let index = (0..quoted.len()).find(|index| quoted[*index] && !priced(*index, *field));
        index.map(|index| Flaw::NoPrice { index, field: *field })
    };
    prices.iter().find_map(of_field)
}

fn first_without(mask: &[bool], needed: &[bool]) -> Option<usize> {
    mask.iter().zip(needed).position(|(is_set, is_there)| *is_set && !is_there)
}

/// Mask of entries with all prices present, or all values if no field is a price.
#[must_use]
pub fn priced(values: &[f64], fields: usize, prices: &[usize]) -> Vec<bool> {
    let is_priced = |asset: &[f64]| match prices {
        [] => asset.iter().all(|value| value.is_finite()),
        _ => prices.iter().all(|field| asset[*field].is_finite()),
    };
    values.chunks_exact(fields).map(is_priced).collect()
}

/// Mask of entries with any data: a value, or a quoted flag.
#[must_use]
pub fn seen(values: &[f64], fields: usize, quoted: &[bool]) -> Vec<bool> {
    let shows = |(asset, is_quoted): (&[f64], &bool)| {
        *is_quoted || asset.iter().any(|value| value.is_finite())
    };
    values.chunks_exact(fields).zip(quoted).map(shows).collect()
}

/// Masks of a row, with defaults for those that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowMasks {
    /// Mask of listed assets; by default those with any data and those still listed.
    pub listed: Vec<bool>,
    /// Mask of quoted assets; by default those with all prices present.
    pub quoted: Vec<bool>,
    /// Mask of tradable assets; by default those quoted.
    pub tradable: Vec<bool>,
    /// Mask of assets with any data.
    pub seen: Vec<bool>,
}

impl RowMasks {
    /// Masks of a row of assets of `fields` values each, of which `prices` are prices; masks that
    /// are passed stay.
    #[must_use]
    pub fn of(
        values: &[f64],
        fields: usize,
        prices: &[usize],
        still_listed: &[bool],
        [listed, quoted, tradable]: [Option<Vec<bool>>; 3],
    ) -> Self {
        let quoted = quoted.unwrap_or_else(|| priced(values, fields, prices));
        let seen = seen(values, fields, &quoted);
        let alive = || seen.iter().zip(still_listed).map(|(now, still)| *now || *still).collect();
        Self {
            listed: listed.unwrap_or_else(alive),
            tradable: tradable.unwrap_or_else(|| quoted.clone()),
            quoted,
            seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: f64 = f64::NAN;

    fn flaw_of(values: &[f64], listed: [bool; 2], quoted: [bool; 2]) -> Option<Flaw> {
        let masks = Masks { listed: &listed, quoted: &quoted, tradable: &[true, false] };
        flaw(values, 2, &[0, 1], masks)
    }

    #[test]
    fn the_first_flaw_is_reported() {
        let good = [1.0, 2.0, 3.0, 4.0];

        assert_eq!(flaw_of(&good, [true; 2], [true; 2]), None);
        assert_eq!(flaw_of(&good, [true, false], [true; 2]), Some(Flaw::NotListed(1)));
        assert_eq!(flaw_of(&good, [true; 2], [false, true]), Some(Flaw::NotQuoted(0)));
        for bad in [GAP, 0.0, -1.0, f64::INFINITY] {
            let expected = Some(Flaw::NoPrice { index: 1, field: 0 });
            assert_eq!(flaw_of(&[1.0, 2.0, bad, 4.0], [true; 2], [true; 2]), expected);
            assert_eq!(flaw_of(&[1.0, 2.0, bad, 4.0], [true; 2], [true, false]), None);
        }
        let expected = Some(Flaw::NoPrice { index: 1, field: 0 });
        assert_eq!(flaw_of(&[1.0, GAP, GAP, 4.0], [true; 2], [true; 2]), expected);
    }

    #[test]
    fn missing_masks_take_their_defaults() {
        let values = [1.0, GAP, GAP, 5.0, GAP, GAP, GAP, GAP];
        let still_listed = [false, false, true, false];

        let got = RowMasks::of(&values, 2, &[0], &still_listed, [None, None, None]);

        assert_eq!(got.quoted, [true, false, false, false]);
        assert_eq!(got.tradable, got.quoted);
        assert_eq!(got.seen, [true, true, false, false]);
        assert_eq!(got.listed, [true, true, true, false]);
    }

    #[test]
    fn passed_masks_stay() {
        let masks = [Some(vec![true]), Some(vec![false]), Some(vec![true])];

        let got = RowMasks::of(&[1.0], 1, &[0], &[false], masks);

        assert_eq!((got.listed, got.quoted, got.tradable), (vec![true], vec![false], vec![true]));
    }
}
