//! Projection problem: movable assets, remaining caps, and the choice of solver.

use super::beta::BetaSpace;
use super::bounds::{Bounded, Cash};
use super::evaluate::{Asset, Sums};
use super::positions::PositionSpace;
use super::reach::{Room, attainable_sums};
use super::{Compromise, Constraints, TARGET_LIMIT, TOLERANCE, Untradable, is_within};

/// Reusable workspace for projections of one shape.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Columns of the movable assets, those of a sector side by side.
    pub(super) target: Vec<f64>,
    pub(super) held: Vec<f64>,
    pub(super) lower: Vec<f64>,
    pub(super) upper: Vec<f64>,
    /// Projected weights.
    pub(super) weights: Vec<f64>,
    pub(super) cash_weight: f64,
    /// Index of each of them among all assets.
    origin: Vec<usize>,
    /// One for each sector, and the last for assets without a cap of their own.
    pub(super) slots: Vec<Slot>,
    pub(super) cash: Cash,
    /// Required sum of movable assets and cash.
    pub(super) budget: f64,
    /// Remaining caps; infinite where there is none.
    pub(super) leverage: f64,
    pub(super) turnover: f64,
    pub(super) beta: BetaSpace,
    /// Constraints relaxed to the tolerance, and those of chosen positions.
    pub(super) drifted: Option<Box<Constraints>>,
    pub(super) chosen: Option<Box<PositionSpace>>,
}

/// The assets that share a cap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) cap: f64,
    /// Price of the cap, its step, and its trial value.
    pub(super) price: f64,
    pub(super) step: f64,
    pub(super) trial: f64,
    /// Excess over the cap at `price`, and the sums of the trial.
    pub(super) excess: f64,
    pub(super) sums: Sums,
}

impl Workspace {
    /// Workspace for projections of `assets` weights (and cash) in `sectors` sectors.
    #[must_use]
    pub fn new(assets: usize, sectors: usize) -> Self {
        let zeros = || vec![0.0; assets];
        Self {
            target: zeros(),
            held: zeros(),
            lower: zeros(),
            upper: zeros(),
            weights: zeros(),
            cash_weight: 0.0,
            origin: vec![0; assets],
            slots: vec![Slot::default(); sectors + 1],
            cash: Cash { target: 0.0, lower: 0.0, upper: 0.0 },
            budget: 0.0,
            leverage: f64::INFINITY,
            turnover: f64::INFINITY,
            beta: BetaSpace::default(),
            drifted: None,
            chosen: None,
        }
    }

    /// Solve the general problem.
    pub(super) fn solve(
        &mut self,
        constraints: &Constraints,
        target: &[f64],
        held: &[f64],
        movable: &[bool],
        allowed: &mut [f64],
    ) -> Compromise {
        let mut compromise = self.prepare(constraints, target, held, movable);
        let turnover = self.turnover;
        if turnover.is_finite() && self.least_turnover() > turnover + TOLERANCE {
            compromise.cut_short = true;
            self.turnover = f64::INFINITY;
        }
        if self.beta.is_bounded() {
            self.find_with_beta(&mut compromise);
        } else {
            self.find_weights();
        }
        if compromise.cut_short {
            self.stop_at(turnover);
        }
        allowed.copy_from_slice(held);
        for (weight, &origin) in self.weights[..self.count()].iter().zip(&self.origin) {
            allowed[origin] = *weight;
        }
        allowed[target.len() - 1] = self.cash_weight;
        compromise
    }

    pub(super) fn asset(&self, index: usize) -> Asset {
        Asset {
            target: self.target[index],
            held: self.held[index],
            lower: self.lower[index],
            upper: self.upper[index],
        }
    }

    /// Number of movable assets.
    pub(super) fn count(&self) -> usize {
        self.slots[self.slots.len() - 1].end
    }

    /// Scale of the numbers that rounding is relative to.
    pub(super) fn scale(&self) -> f64 {
        let target = self.target[..self.count()].iter();
        target.fold(self.cash.target.abs().max(1.0), |scale, target| scale.max(target.abs()))
    }

    pub(super) fn bounded(&self) -> Bounded<'_> {
        let count = self.count();
        Bounded {
            target: &self.target[..count],
            lower: &self.lower[..count],
            upper: &self.upper[..count],
            cash: self.cash,
            budget: self.budget,
        }
    }

    /// Gather the movable assets; the others use up their part of the caps.
    pub(super) fn prepare(
        &mut self,
        constraints: &Constraints,
        target: &[f64],
        held: &[f64],
        movable: &[bool],
    ) -> Compromise {
        let assets = constraints.assets();
        let mut compromise = self.take_caps(constraints, held, movable);
        self.gather(constraints, target, held, movable);
        let (lower, upper) = constraints.cash_bounds();
        let mut wanted = target[assets];
        if constraints.untradable == Untradable::Cash {
            let stuck = movable.iter().zip(target.iter().zip(held)).filter(|(can, _)| !**can);
            wanted += stuck.map(|(_, (target, held))| target - held).sum::<f64>();
        }
        self.cash = Cash { target: limited(wanted), lower, upper };
        if let Some(cash) = self.relax_cash() {
            let is_outside = |bounds| !is_within(cash, bounds);
            compromise.cash = is_outside((constraints.cash_lower, constraints.cash_upper));
            compromise.net = constraints.net.is_some_and(|(l, u)| is_outside((1.0 - u, 1.0 - l)));
        }
        compromise
    }

    /// Lay out the slots, and reduce each cap by the assets that cannot be moved.
    fn take_caps(
        &mut self,
        constraints: &Constraints,
        held: &[f64],
        movable: &[bool],
    ) -> Compromise {
        let slots = constraints.sector_caps.len() + 1;
        assert!(slots == self.slots.len() && movable.len() == self.origin.len(), "{MISFIT}");
        for (slot, cap) in self.slots.iter_mut().zip(constraints.sector_caps.iter().chain([&None]))
        {
            *slot = Slot { cap: cap.unwrap_or(f64::INFINITY), ..Slot::default() };
        }
        let mut compromise = Compromise::default();
        (self.budget, self.leverage) = (1.0, constraints.leverage.unwrap_or(f64::INFINITY));
        self.turnover = constraints.turnover.unwrap_or(f64::INFINITY);
        for (asset, (&can, &weight)) in movable.iter().zip(held).enumerate() {
            let slot = &mut self.slots[slot_of(constraints, asset)];
            if can {
                slot.end += 1;
            } else {
                self.budget -= weight;
                self.leverage -= weight.abs();
                slot.cap -= weight.abs();
                compromise.bounds |= weight < constraints.lower[asset] - TOLERANCE
                    || weight > constraints.upper[asset] + TOLERANCE;
            }
        }
        compromise.leverage = self.leverage < -TOLERANCE;
        self.leverage = self.leverage.max(0.0);
        let mut start = 0;
        for slot in &mut self.slots {
            compromise.sectors |= slot.cap < -TOLERANCE;
            // `end` counts the slot's assets until `gather` has put them there.
            (slot.start, slot.end, start) = (start, start, start + slot.end);
            slot.cap = slot.cap.max(0.0);
        }
        compromise
    }

    fn gather(
        &mut self,
        constraints: &Constraints,
        target: &[f64],
        held: &[f64],
        movable: &[bool],
    ) {
        for (asset, _) in movable.iter().enumerate().filter(|(_, can)| **can) {
            let slot = &mut self.slots[slot_of(constraints, asset)];
            let index = slot.end;
            slot.end += 1;
            self.origin[index] = asset;
            self.target[index] = limited(target[asset]);
            self.held[index] = held[asset];
            self.lower[index] = constraints.lower[asset];
            self.upper[index] = constraints.upper[asset];
        }
        let origin = &self.origin[..self.slots[self.slots.len() - 1].end];
        self.beta.gather(constraints, held, movable, origin);
    }

    /// Relax the bounds of cash if assets cannot meet them; returns the weight of cash if relaxed.
    fn relax_cash(&mut self) -> Option<f64> {
        let room_of = |slot: &Slot| {
            let mut room = Room::new(slot.cap);
            for asset in slot.start..slot.end {
                room.add(self.lower[asset], self.upper[asset]);
            }
            room
        };
        let sums = attainable_sums(self.slots.iter().map(room_of), self.leverage);
        let (least, most) = (self.budget - sums.most, self.budget - sums.least);
        let above = (least - self.cash.upper > TOLERANCE).then_some(least);
        let below = (self.cash.lower - most > TOLERANCE).then_some(most);
        self.cash.upper = self.cash.upper.max(least);
        self.cash.lower = self.cash.lower.min(most);
        above.or(below)
    }

    /// Find the weights; a second time from the result if huge numbers left rounding errors.
    pub(super) fn find_weights(&mut self) {
        let count = self.count();
        self.weights[..count].copy_from_slice(&self.target[..count]);
        self.cash_weight = self.cash.target;
        for _ in 0..2 {
            if self.is_met() {
                return;
            }
            self.target[..count].copy_from_slice(&self.weights[..count]);
            self.cash.target = self.cash_weight;
            self.nearest();
        }
    }

    /// Solve by Newton's method from the price of the sum alone; by nested root finding if it
    /// fails.
    fn nearest(&mut self) {
        let (level, _) = self.bounded().level();
        let prices = self.newton(level).unwrap_or_else(|| self.nested());
        self.write_weights(prices);
    }

    /// Return true if the weights meet every remaining constraint.
    fn is_met(&self) -> bool {
        let mut total = Sums::default();
        for slot in &self.slots {
            let mut gross = 0.0;
            for index in slot.start..slot.end {
                let (weight, asset) = (self.weights[index], self.asset(index));
                if weight < asset.lower - TOLERANCE || weight > asset.upper + TOLERANCE {
                    return false;
                }
                gross += weight.abs();
                total.net += weight;
                total.turnover += (weight - asset.held).abs();
            }
            if gross > slot.cap + TOLERANCE {
                return false;
            }
            total.gross += gross;
        }
        let cash = self.cash_weight;
        cash >= self.cash.lower - TOLERANCE
            && cash <= self.cash.upper + TOLERANCE
            && (total.net + cash - self.budget).abs() <= TOLERANCE
            && total.gross <= self.leverage + TOLERANCE
            && total.turnover <= self.turnover + TOLERANCE
    }

    /// Move from the held weights towards the solution, as far as the turnover cap allows.
    fn stop_at(&mut self, turnover: f64) {
        let count = self.count();
        let pairs = || self.weights[..count].iter().zip(&self.held);
        let way: f64 = pairs().map(|(weight, held)| (weight - held).abs()).sum();
        let part = (turnover / way).min(1.0);
        let mut net = 0.0;
        for (weight, held) in self.weights[..count].iter_mut().zip(&self.held) {
            *weight = held + part * (*weight - held);
            net += *weight;
        }
        self.cash_weight = self.budget - net;
    }
}

const MISFIT: &str = "the workspace was made for other numbers of assets or sectors";

/// Slot of an asset; sectors without a cap share the slot of assets without a sector.
fn slot_of(constraints: &Constraints, asset: usize) -> usize {
    let sector = constraints.sectors.get(asset).copied().flatten();
    let capped = sector.filter(|&sector| constraints.sector_caps[sector].is_some());
    capped.unwrap_or(constraints.sector_caps.len())
}

fn limited(target: f64) -> f64 {
    target.clamp(-TARGET_LIMIT, TARGET_LIMIT)
}
