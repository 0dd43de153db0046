//! Newton's method on the dual, for all prices at once: exact once the right piece is found.
//!
//! The dual rises in the direction of the step, since the matrix is made positive definite where it
//! is singular. A step that gains too little is shortened; after too many steps it fails, and the
//! caller uses nested root finding.

use super::evaluate::{Prices, Sums};
use super::problem::Workspace;

const MOST_STEPS: usize = 40;
const MOST_TRIALS: usize = 12;

/// Residuals this small, relative to the largest target weight, are those of rounding.
const EXACT: f64 = 2e-14;

/// Pivots below this belong to a singular matrix.
const SINGULAR: f64 = 1e-9;
/// Replacement for such pivots: the step is as large as the residual. After each full step it
/// shrinks by `FASTER`, down to `LEAST`.
const REPLACED: f64 = 1.0;
const FASTER: f64 = 0.25;
const LEAST: f64 = 1e-5;

/// Below this residual the gain is not checked, because rounding dominates it.
const CLOSE: f64 = 1e-9;

/// The farthest that prices go in a step, relative to the largest target weight.
const FARTHEST: f64 = 4.0;
/// Sufficient share of the expected gain (Armijo), and backtracking factor.
const ENOUGH: f64 = 1e-4;
const SHORTER: f64 = 0.4;

/// Excess over each constraint at some prices.
#[derive(Clone, Copy, Default)]
struct Residuals {
    sum: f64,
    leverage: f64,
    turnover: f64,
}

/// The dual at some prices.
#[derive(Clone, Copy)]
struct Point {
    prices: Prices,
    total: Sums,
    cash_free: f64,
    residuals: Residuals,
    /// The value of the dual.
    value: f64,
    /// The largest breach of the optimality conditions.
    breach: f64,
}

impl Workspace {
    /// Prices at which all constraints are met, or `None` if Newton's method fails.
    pub(super) fn newton(&mut self, level: f64) -> Option<Prices> {
        let scale = self.scale();
        for slot in &mut self.slots {
            (slot.price, slot.trial) = (0.0, 0.0);
        }
        let mut point = self.point(Prices { level, ..Prices::default() });
        let mut replaced = REPLACED;
        for _ in 0..MOST_STEPS {
            if point.breach <= EXACT * scale {
                return Some(point.prices);
            }
            let step = self.step_from(&point, replaced);
            let (next, is_full) = self.advance(&point, step, scale)?;
            replaced = if is_full { (FASTER * replaced).max(LEAST) } else { REPLACED };
            point = next;
        }
        None
    }

    /// The dual at `prices`, with sector prices from the trials.
    fn point(&mut self, prices: Prices) -> Point {
        let mut total = Sums::default();
        let (mut value, mut breach) = (0.0, 0.0_f64);
        for slot in 0..self.slots.len() {
            let price = self.slots[slot].trial;
            let sums = self.slot_sums(slot, prices, price);
            let slot = &mut self.slots[slot];
            slot.sums = sums;
            total.add(&sums);
            if slot.cap.is_finite() {
                value += price * (sums.gross - slot.cap);
                breach = breach.max(breach_of(price, sums.gross - slot.cap));
            }
        }
        let cash = self.cash.at(prices.level);
        let off = cash - self.cash.target;
        let residuals = Residuals {
            sum: total.net + cash - self.budget,
            leverage: finite(total.gross - self.leverage),
            turnover: finite(total.turnover - self.turnover),
        };
        value += total.distance + 0.5 * off * off + prices.level * residuals.sum;
        value += prices.leverage * residuals.leverage + prices.turnover * residuals.turnover;
        breach = breach.max(residuals.sum.abs());
        breach = breach.max(breach_of(prices.leverage, residuals.leverage));
        breach = breach.max(breach_of(prices.turnover, residuals.turnover));
        Point { prices, total, cash_free: self.cash.free(prices.level), residuals, value, breach }
    }

    /// The Newton step: sectors are eliminated first, since each is tied to the three others only.
    fn step_from(&mut self, point: &Point, replaced: f64) -> Prices {
        let mut system = System::new(point, replaced);
        for slot in &mut self.slots {
            slot.excess = finite(slot.sums.gross - slot.cap);
            if is_active(slot.price, slot.excess) {
                system.eliminate(&slot.sums, slot.excess);
            }
        }
        let step = system.solve();
        for slot in &mut self.slots {
            slot.step = 0.0;
            if is_active(slot.price, slot.excess) {
                slot.step = system.eliminated(&slot.sums, slot.excess, step);
            }
        }
        Prices { level: step[0], leverage: step[1], turnover: step[2] }
    }

    /// Take the step with backtracking; returns true if the full step was taken.
    fn advance(&mut self, from: &Point, step: Prices, scale: f64) -> Option<(Point, bool)> {
        let sectors = self.slots.iter().map(|slot| slot.step);
        let all = sectors.chain([step.level, step.leverage, step.turnover]);
        let largest = all.fold(0.0_f64, |largest, step| largest.max(step.abs()));
        let mut part = 1.0_f64.min(FARTHEST * scale / largest);
        for trial in 0..MOST_TRIALS {
            let (prices, expected) = self.try_part(from, step, part);
            let point = self.point(prices);
            let gains = point.value - from.value >= ENOUGH * expected;
            if gains || point.breach <= CLOSE * scale {
                for slot in &mut self.slots {
                    slot.price = slot.trial;
                }
                return Some((point, trial == 0));
            }
            part *= SHORTER;
        }
        None
    }

    /// Prices after a part of the step, clipped at zero, and the expected gain by the slope.
    fn try_part(&mut self, from: &Point, step: Prices, part: f64) -> (Prices, f64) {
        let (old, residuals) = (from.prices, from.residuals);
        let prices = Prices {
            level: old.level + part * step.level,
            leverage: (old.leverage + part * step.leverage).max(0.0),
            turnover: (old.turnover + part * step.turnover).max(0.0),
        };
        let mut expected = residuals.sum * (prices.level - old.level)
            + residuals.leverage * (prices.leverage - old.leverage)
            + residuals.turnover * (prices.turnover - old.turnover);
        for slot in &mut self.slots {
            slot.trial = (slot.price + part * slot.step).max(0.0);
            expected += slot.excess * (slot.trial - slot.price);
        }
        (prices, expected)
    }
}

/// Linear system of the Newton step in the prices of sum, leverage and turnover.
struct System {
    matrix: [[f64; 3]; 3],
    right: [f64; 3],
    /// 0 for an inactive constraint.
    active: [f64; 3],
    /// Replacement for a singular pivot.
    replaced: f64,
}

impl System {
    fn new(point: &Point, replaced: f64) -> Self {
        let Point { prices, total, residuals, .. } = point;
        let active = |price, excess| if is_active(price, excess) { 1.0 } else { 0.0 };
        let leverage = active(prices.leverage, residuals.leverage);
        let turnover = active(prices.turnover, residuals.turnover);
        let signs = leverage * total.signs;
        let turns = turnover * total.turns;
        let products = leverage * turnover * total.products;
        Self {
            matrix: [
                [total.free + point.cash_free, signs, turns],
                [signs, leverage * total.free, products],
                [turns, products, turnover * total.free],
            ],
            right: [residuals.sum, leverage * residuals.leverage, turnover * residuals.turnover],
            active: [1.0, leverage, turnover],
            replaced,
        }
    }

    /// Coupling of a sector cap to the three other constraints.
    fn ties(&self, sector: &Sums) -> [f64; 3] {
        let [sum, leverage, turnover] = self.active;
        [sum * sector.signs, leverage * sector.free, turnover * sector.products]
    }

    fn eliminate(&mut self, sector: &Sums, excess: f64) {
        let (ties, pivot) = (self.ties(sector), self.regular(sector.free));
        for row in 0..3 {
            let factor = ties[row] / pivot;
            self.right[row] -= factor * excess;
            for (entry, tie) in self.matrix[row].iter_mut().zip(ties) {
                *entry -= factor * tie;
            }
        }
    }

    /// The step of an eliminated sector.
    fn eliminated(&self, sector: &Sums, excess: f64, step: [f64; 3]) -> f64 {
        let [sum, leverage, turnover] = self.ties(sector);
        let known = sum * step[0] + leverage * step[1] + turnover * step[2];
        (excess - known) / self.regular(sector.free)
    }

    /// Gaussian elimination without pivoting: the matrix has no negative pivots, and those near
    /// zero are replaced.
    fn solve(&self) -> [f64; 3] {
        let ([mut first, mut second, mut third], mut right) = (self.matrix, self.right);
        first[0] = self.regular(first[0]);
        let factor = second[0] / first[0];
        second[1] = self.regular(second[1] - factor * first[1]);
        second[2] -= factor * first[2];
        right[1] -= factor * right[0];
        let factor = third[0] / first[0];
        third[1] -= factor * first[1];
        third[2] -= factor * first[2];
        right[2] -= factor * right[0];
        let factor = third[1] / second[1];
        third[2] = self.regular(third[2] - factor * second[2]);
        right[2] -= factor * right[1];
        let turnover = right[2] / third[2];
        let leverage = (right[1] - second[2] * turnover) / second[1];
        let level = (right[0] - first[1] * leverage - first[2] * turnover) / first[0];
        [level, leverage, turnover]
    }

    fn regular(&self, pivot: f64) -> f64 {
        if pivot > SINGULAR { pivot } else { self.replaced }
    }
}

/// Return true if a constraint is active: exceeded, or with a positive price.
fn is_active(price: f64, excess: f64) -> bool {
    price > 0.0 || excess > 0.0
}

/// Complementarity breach: distance from no excess, and from a price only where no slack is left.
fn breach_of(price: f64, excess: f64) -> f64 {
    if price > 0.0 { excess.abs() } else { excess.max(0.0) }
}

/// The excess, or 0 where there is no cap.
fn finite(excess: f64) -> f64 {
    if excess == f64::NEG_INFINITY { 0.0 } else { excess }
}
