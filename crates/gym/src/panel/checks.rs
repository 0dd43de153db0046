//! What a panel can hold: which assets can be quoted where, and what rows leave unsaid.

/// Masks of rows by assets, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Masks<'a> {
    /// Which assets exist.
    pub listed: &'a [bool],
    /// Which have prices.
    pub quoted: &'a [bool],
    /// In which orders can be filled.
    pub tradable: &'a [bool],
}

/// What is wrong, and at which place among rows by assets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It has a price and does not exist.
    NotListed(usize),
    /// It can be traded and has no price.
    NotQuoted(usize),
    /// It is quoted without this field, which is a price, being above 0 and finite.
    NoPrice {
        /// Where.
        place: usize,
        /// Which field.
        field: usize,
    },
}

/// The first thing that is wrong with rows of assets of `fields` values each, if anything is.
#[must_use]
pub fn flaw(values: &[f64], fields: usize, prices: &[usize], masks: Masks<'_>) -> Option<Flaw> {
    let Masks { listed, quoted, tradable } = masks;
    if let Some(place) = first_without(quoted, listed) {
        return Some(Flaw::NotListed(place));
    }
    if let Some(place) = first_without(tradable, quoted) {
        return Some(Flaw::NotQuoted(place));
    }
    let priced = |place: usize, field: usize| {
        let price = values[place * fields + field];
        price > 0.0 && price < f64::INFINITY
    };
    let is_whole = |place: usize| prices.iter().all(|field| priced(place, *field));
    let mut wrong = (0..quoted.len()).filter(|place| quoted[*place] && !is_whole(*place));
    wrong.next()?;
    // By field and then by place: what is told is the first of the first field.
    let of_field = |field: &usize| {
        let place = (0..quoted.len()).find(|place| quoted[*place] && !priced(*place, *field));
        place.map(|place| Flaw::NoPrice { place, field: *field })
    };
    prices.iter().find_map(of_field)
}

fn first_without(mask: &[bool], needed: &[bool]) -> Option<usize> {
    mask.iter().zip(needed).position(|(is_set, is_there)| *is_set && !is_there)
}

/// Where all prices are there, or all values if none is a price.
#[must_use]
pub fn priced(values: &[f64], fields: usize, prices: &[usize]) -> Vec<bool> {
    let is_priced = |asset: &[f64]| match prices {
        [] => asset.iter().all(|value| value.is_finite()),
        _ => prices.iter().all(|field| asset[*field].is_finite()),
    };
    values.chunks_exact(fields).map(is_priced).collect()
}

/// Where assets show anything: a value, or that they are quoted.
#[must_use]
pub fn seen(values: &[f64], fields: usize, quoted: &[bool]) -> Vec<bool> {
    let shows = |(asset, is_quoted): (&[f64], &bool)| {
        *is_quoted || asset.iter().any(|value| value.is_finite())
    };
    values.chunks_exact(fields).zip(quoted).map(shows).collect()
}

/// What a row says of its assets, with what it leaves unsaid filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowMasks {
    /// Which exist: if not given, those that show anything, and those that are listed still.
    pub listed: Vec<bool>,
    /// Which have prices: if not given, those whose prices are all there.
    pub quoted: Vec<bool>,
    /// In which orders can be filled: if not given, those quoted.
    pub tradable: Vec<bool>,
    /// Which show anything.
    pub seen: Vec<bool>,
}

impl RowMasks {
    /// Of a row of assets of `fields` values each, of which `prices` are prices; what is given of
    /// which are listed, quoted and tradable stays.
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

    fn found(values: &[f64], listed: [bool; 2], quoted: [bool; 2]) -> Option<Flaw> {
        let masks = Masks { listed: &listed, quoted: &quoted, tradable: &[true, false] };
        flaw(values, 2, &[0, 1], masks)
    }

    #[test]
    fn the_first_flaw_is_told() {
        let good = [1.0, 2.0, 3.0, 4.0];

        assert_eq!(found(&good, [true; 2], [true; 2]), None);
        assert_eq!(found(&good, [true, false], [true; 2]), Some(Flaw::NotListed(1)));
        assert_eq!(found(&good, [true; 2], [false, true]), Some(Flaw::NotQuoted(0)));
        for bad in [GAP, 0.0, -1.0, f64::INFINITY] {
            let told = Some(Flaw::NoPrice { place: 1, field: 0 });
            assert_eq!(found(&[1.0, 2.0, bad, 4.0], [true; 2], [true; 2]), told);
            assert_eq!(found(&[1.0, 2.0, bad, 4.0], [true; 2], [true, false]), None);
        }
        let told = Some(Flaw::NoPrice { place: 1, field: 0 });
        assert_eq!(found(&[1.0, GAP, GAP, 4.0], [true; 2], [true; 2]), told);
    }

    #[test]
    fn what_is_unsaid_is_filled_in() {
        let values = [1.0, GAP, GAP, 5.0, GAP, GAP, GAP, GAP];
        let still_listed = [false, false, true, false];

        let found = RowMasks::of(&values, 2, &[0], &still_listed, [None, None, None]);

        assert_eq!(found.quoted, [true, false, false, false]);
        assert_eq!(found.tradable, found.quoted);
        assert_eq!(found.seen, [true, true, false, false]);
        assert_eq!(found.listed, [true, true, true, false]);
    }

    #[test]
    fn what_is_said_stays() {
        let given = [Some(vec![true]), Some(vec![false]), Some(vec![true])];

        let found = RowMasks::of(&[1.0], 1, &[0], &[false], given);

        assert_eq!(
            (found.listed, found.quoted, found.tradable),
            (vec![true], vec![false], vec![true])
        );
    }
}
