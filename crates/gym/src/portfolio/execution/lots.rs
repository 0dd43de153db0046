//! Whole lots: rounding of orders to multiples of the lot size.

use super::Execution;
use crate::portfolio::NOTHING;
use crate::portfolio::lanes::Machine;

/// Rounding residue of a number of lots: a size this close to whole lots is whole.
const NEARLY_WHOLE: f64 = 1e-9;

/// Whole lots of a change of units: rounded towards the position held, so that never more is traded
/// than wanted. A change that closes the position trades its odd remainder too. Forced reductions
/// are rounded up instead, to the whole position at most.
pub(in crate::portfolio) fn whole_lots(change: f64, held: f64, lot: f64, is_forced: bool) -> f64 {
    if change == 0.0 || !change.is_finite() {
        return change;
    }
    let (size, position) = (change.abs(), held.abs());
    let reduces = change * held < 0.0;
    let closes = reduces && size >= position * (1.0 - NOTHING);
    let lots = if closes {
        position + whole((size - position).max(0.0), lot)
    } else if reduces && is_forced {
        let least = whole(size, lot);
        let is_short = size - least > NEARLY_WHOLE * least.max(lot);
        (if is_short { least + lot } else { least }).min(position)
    } else {
        whole(size, lot)
    };
    if lots == 0.0 { 0.0 } else { lots.copysign(change) }
}

/// Largest multiple of the lot size within a size, rounding residue aside.
fn whole(size: f64, lot: f64) -> f64 {
    let lots = size / lot;
    let nearest = lots.round();
    let is_whole = (lots - nearest).abs() <= NEARLY_WHOLE * nearest.max(1.0);
    (if is_whole { nearest } else { lots.floor() }).max(0.0) * lot
}

impl<M: Machine> Execution<'_, M> {
    /// Round the requested changes to whole lots.
    #[inline(always)]
    pub(super) fn round_to_lots(&self, units: &[f64], is_forced: bool, changes: &mut [f64]) {
        let Some(lots) = &self.settings.lot_size else { return };
        let assets = self.panel.width().assets;
        for (asset, (change, held)) in changes.iter_mut().zip(units).enumerate().take(assets) {
            *change = whole_lots(*change, *held, lots.of(asset), is_forced);
        }
    }

    /// Round changes that were cut to what the account can pay: down, without a tolerance.
    #[inline(always)]
    pub(super) fn keep_lots(&self, units: &[f64], changes: &mut [f64]) {
        let Some(lots) = &self.settings.lot_size else { return };
        let assets = self.panel.width().assets;
        for (asset, (change, held)) in changes.iter_mut().zip(units).enumerate().take(assets) {
            // Reductions are never cut.
            let less = if *change * held < 0.0 { change.abs().min(held.abs()) } else { 0.0 };
            let more = change.abs() - less;
            let lot = lots.of(asset);
            *change = (less + (more / lot).floor() * lot).copysign(*change);
        }
    }

    /// Part of a change that fills if a share of it can.
    #[inline(always)]
    pub(super) fn filled_part(&self, asset: usize, change: f64, share: f64) -> f64 {
        let part = change * share;
        match &self.settings.lot_size {
            Some(lots) if asset < self.panel.width().assets => {
                let lot = lots.of(asset);
                ((part.abs() / lot).floor() * lot).copysign(change)
            }
            _ => part,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_are_rounded_towards_the_position_and_closing_sells_the_remainder() {
        for (change, held, lot, forced, expected) in [
            (12.7, 0.0, 5.0, false, 10.0),
            (-12.7, 0.0, 5.0, false, -10.0),
            (9.999_999_999_99, 0.0, 5.0, false, 10.0),
            (4.9, 100.0, 5.0, false, 0.0),
            (-3.2, 10.5, 1.0, false, -3.0),
            (-10.5, 10.5, 1.0, false, -10.5),
            (-12.7, 5.5, 1.0, false, -12.5),
            (-3.2, 10.5, 1.0, true, -4.0),
            (-3.0, 10.5, 1.0, true, -3.0),
            (-10.2, 10.5, 1.0, true, -10.5),
        ] {
            let got = whole_lots(change, held, lot, forced);
            assert!((got - expected).abs() < 1e-9, "{change} of {held}: {got}, not {expected}");
        }
    }

    proptest! {
        #[test]
        fn never_more_than_wanted(
            change in -1e4..1e4_f64, held in -1e4..1e4_f64, lot in 0.01..100.0_f64,
        ) {
            let got = whole_lots(change, held, lot, false);
            prop_assert!(got * change >= 0.0);
            prop_assert!(got.abs() <= change.abs() * (1.0 + 1e-9) + 1e-9 * lot);
            prop_assert!(got.abs() > change.abs() - lot || held * change < 0.0);
        }
    }
}
