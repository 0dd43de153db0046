//! What a benchmark returned, row after row.

/// Levels of a row: of one series or asset, or of all assets whose mean return is taken.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a> {
    /// The levels; what is not finite is not known.
    pub levels: &'a [f64],
    /// Which of them are known at all, if not all.
    pub quoted: Option<&'a [bool]>,
    /// Which of them count, if not all.
    pub counted: Option<&'a [bool]>,
}

/// The last known levels, from which the next row returns something.
#[derive(Clone, Debug)]
pub struct Benchmark {
    known: Vec<f64>,
}

impl Benchmark {
    /// Goes on after these levels; NaN where none is known yet.
    #[must_use]
    pub fn after(known: Vec<f64>) -> Self {
        Self { known }
    }

    /// The last known levels.
    #[must_use]
    pub fn known(self) -> Vec<f64> {
        self.known
    }

    /// What it returned in the next row: the mean of those that were known before; 0 if none was.
    pub fn push(&mut self, row: Levels<'_>) -> f64 {
        let (mut total, mut count) = (0.0, 0.0);
        for (place, known) in self.known.iter_mut().enumerate() {
            let level = row.levels[place];
            let is_quoted = row.quoted.is_none_or(|quoted| quoted[place]);
            let latest = if is_quoted && level.is_finite() { level } else { *known };
            let change = latest / *known - 1.0;
            if change.is_finite() && row.counted.is_none_or(|counted| counted[place]) {
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
        let all = |levels| Levels { levels, quoted: None, counted: None };

        assert_eq!(benchmark.push(all(&[100.0, f64::NAN])).to_bits(), 0.0_f64.to_bits());
        assert_eq!(benchmark.push(all(&[150.0, 8.0])).to_bits(), 0.5_f64.to_bits());
        assert_eq!(benchmark.push(all(&[f64::NAN, 16.0])).to_bits(), 0.5_f64.to_bits());
        assert_eq!(benchmark.known(), [150.0, 16.0]);
    }

    #[test]
    fn only_what_is_quoted_and_counts_moves_it() {
        let mut benchmark = Benchmark::after(vec![100.0, 100.0, 100.0]);
        let levels = [200.0, 300.0, 400.0];
        let row = Levels {
            levels: &levels,
            quoted: Some(&[true, false, true]),
            counted: Some(&[true, true, false]),
        };

        assert_eq!(benchmark.push(row).to_bits(), 0.5_f64.to_bits());
        assert_eq!(benchmark.known(), [200.0, 100.0, 400.0]);
    }
}
