//! Benchmark returns, row by row.

use super::adjustment::ActionColumns;

/// Benchmark levels of a row: of one series or asset, or of all assets whose mean return is taken.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a> {
    /// The levels; a non-finite level is unknown.
    pub levels: &'a [f64],
    /// Mask of known levels; `None` if all are known.
    pub quoted: Option<&'a [bool]>,
    /// Mask of levels that enter the mean; `None` if all do.
    pub counted: Option<&'a [bool]>,
    /// Dividends and splits: returns are total returns.
    pub actions: ActionColumns<'a>,
}

/// Benchmark state: the last known levels.
#[derive(Clone, Debug)]
pub struct Benchmark {
    known: Vec<f64>,
}

impl Benchmark {
    /// Continue after these levels; NaN where none is known yet.
    #[must_use]
    pub fn after(known: Vec<f64>) -> Self {
        Self { known }
    }

    /// The last known levels.
    #[must_use]
    pub fn known(self) -> Vec<f64> {
        self.known
    }

    /// Benchmark return of the next row: the mean over levels that were known before; 0 if none
    /// was.
    pub fn push(&mut self, row: Levels<'_>) -> f64 {
        let (mut total, mut count) = (0.0, 0.0);
        for (index, known) in self.known.iter_mut().enumerate() {
            let level = row.levels[index];
            let is_quoted = row.quoted.is_none_or(|quoted| quoted[index]);
            let action = row.actions.of(index);
            let is_known = is_quoted && level.is_finite();
            let latest = if is_known { level } else { action.ex_price(*known) };
            let change = action.growth(*known, latest) - 1.0;
            if change.is_finite() && row.counted.is_none_or(|counted| counted[index]) {
                total += change;
                count += 1.0;
            }
            *known = latest;
        }
        if count > 0.0 { total / count } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_are_means_of_what_was_known_before() {
        let mut benchmark = Benchmark::after(vec![f64::NAN; 2]);
        let all = |levels| Levels {
            levels,
            quoted: None,
            counted: None,
            actions: ActionColumns::default(),
        };

        assert_eq!(benchmark.push(all(&[100.0, f64::NAN])).to_bits(), 0.0_f64.to_bits());
        assert_eq!(benchmark.push(all(&[150.0, 8.0])).to_bits(), 0.5_f64.to_bits());
        assert_eq!(benchmark.push(all(&[f64::NAN, 16.0])).to_bits(), 0.5_f64.to_bits());
        assert_eq!(benchmark.known(), [150.0, 16.0]);
    }

    #[test]
    fn only_quoted_and_counted_levels_move_it() {
        let mut benchmark = Benchmark::after(vec![100.0, 100.0, 100.0]);
        let levels = [200.0, 300.0, 400.0];
        let row = Levels {
            levels: &levels,
            quoted: Some(&[true, false, true]),
            counted: Some(&[true, true, false]),
            actions: ActionColumns::default(),
        };

        assert_eq!(benchmark.push(row).to_bits(), 0.5_f64.to_bits());
        assert_eq!(benchmark.known(), [200.0, 100.0, 400.0]);
    }
}
