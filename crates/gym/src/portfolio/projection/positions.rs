//! Rules of positions: at most `max_names` of them, none smaller than `min_weight`.
//!
//! These rules are not convex, and the nearest weights that meet them are not computed: a search
//! around the exact projection is used. If the exact projection meets the rules, it is the result.
//! Otherwise:
//!
//! 1. The names of the largest absolute weights are kept, as many as `max_names` allows and as
//!    positions of `min_weight` fit within the leverage. The others are excluded, and the target is
//!    projected again.
//! 2. While there is a position below `min_weight`: the smallest is excluded if it is below half of
//!    it, otherwise the largest of them is raised to at least `min_weight`; and the target is
//!    projected again. A choice that other constraints do not allow is replaced by the opposite one.
//! 3. The same with exclusion alone; the nearer of both results is used. If other constraints do
//!    not allow either, held positions are kept first; then all are raised; then all choices are
//!    tried in depth, up to [`MOST_NODES`] projections. The first result is used.
//! 4. If nothing is found within the turnover cap, the weights move from those held towards a result
//!    without it. If nothing is found at all, the exact projection is the result.
//!
//! Assets that cannot be traded keep their weights, count as names, and may be smaller.

use super::{Compromise, Constraints, Input, Projection, TOLERANCE, Workspace, moved};

/// Choice for an asset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Choice {
    #[default]
    Free,
    Excluded,
    /// Raised to at least `min_weight`, long or short.
    Long,
    Short,
}

/// Order of the choices in a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preference {
    Round,
    Exclude,
    KeepHeld,
    Raise,
}

const PREFERENCES: [Preference; 4] =
    [Preference::Round, Preference::Exclude, Preference::KeepHeld, Preference::Raise];

/// Projections in a search of all choices.
const MOST_NODES: usize = 256;

/// Working memory of the search.
#[derive(Clone, Debug, Default)]
pub(super) struct PositionSpace {
    choices: Vec<Choice>,
    /// The projection with choices: constraints, target and held weights less what is raised.
    constraints: Constraints,
    target: Vec<f64>,
    held: Vec<f64>,
    /// Constraints without turnover cap.
    free: Constraints,
    /// Weights of the search, those before the last choice, and the nearest that are allowed.
    weights: Vec<f64>,
    previous: Vec<f64>,
    best: Vec<f64>,
    ranked: Vec<usize>,
    /// Assets chosen so far in a search of all choices, and whether each was long.
    path: Vec<(usize, bool)>,
}

impl Constraints {
    /// Return true if weights meet the rules of positions.
    pub(super) fn allows_positions(&self, weights: &[f64], movable: &[bool]) -> bool {
        let names = weights[..self.assets()].iter().filter(|weight| is_position(**weight)).count();
        let is_small = |(weight, can): (&f64, &bool)| *can && self.is_small(*weight);
        self.max_names.is_none_or(|most| names <= most)
            && !weights.iter().zip(movable).any(is_small)
    }

    /// Search weights that meet the rules; `allowed` has those of the exact projection.
    pub(super) fn choose_positions(
        &self,
        input: Input<'_>,
        exact: Projection,
        workspace: &mut Workspace,
        allowed: &mut [f64],
    ) -> Compromise {
        let mut space = workspace.chosen.take().unwrap_or_default();
        let compromise = self.search(input, compromise_of(exact), workspace, &mut space, allowed);
        workspace.chosen = Some(space);
        compromise
    }

    fn search(
        &self,
        input: Input<'_>,
        mut compromise: Compromise,
        workspace: &mut Workspace,
        space: &mut PositionSpace,
        allowed: &mut [f64],
    ) -> Compromise {
        if !compromise.cut_short
            && let Some(relaxed) = space.search(self, input, compromise, workspace, allowed)
        {
            allowed.copy_from_slice(&space.best);
            return relaxed;
        }
        compromise.positions = true;
        let Some(cap) = self.turnover else { return compromise };
        let mut free = std::mem::take(&mut space.free);
        free.copy_from(self);
        free.turnover = None;
        let base = free.project_exactly(input, workspace, allowed);
        let found = space.search(&free, input, compromise_of(base), workspace, allowed);
        space.free = free;
        if let Some(relaxed) = found {
            let way = moved(&space.best, input.held);
            let part = if way > cap { cap / way } else { 1.0 };
            for ((weight, held), best) in allowed.iter_mut().zip(input.held).zip(&space.best) {
                *weight = held + part * (best - held);
            }
            return Compromise { cut_short: true, positions: true, ..relaxed };
        }
        self.project_exactly(input, workspace, allowed);
        compromise
    }

    fn is_small(&self, weight: f64) -> bool {
        is_position(weight) && weight.abs() < self.min_weight - TOLERANCE
    }

    /// Return true if a position of at least `min_weight` is possible on this side.
    fn can_raise(&self, asset: usize, is_long: bool) -> bool {
        let most = if is_long { self.upper[asset] } else { -self.lower[asset] };
        most >= self.min_weight
    }

    /// Largest number of names that can be traded.
    fn most_names(&self, input: Input<'_>) -> usize {
        let stuck = input.movable.iter().zip(input.held).filter(|(can, _)| !**can);
        let (mut stuck_names, mut gross) = (0, 0.0);
        for (_, held) in stuck.filter(|(_, held)| is_position(**held)) {
            (stuck_names, gross) = (stuck_names + 1, gross + held.abs());
        }
        let most = self.max_names.unwrap_or(usize::MAX).saturating_sub(stuck_names);
        let is_long = self.lower.iter().all(|lower| *lower == 0.0);
        let of_cash = if is_long { 1.0 - self.cash_bounds().0 } else { f64::INFINITY };
        let room = self.leverage.unwrap_or(f64::INFINITY).min(of_cash) - gross;
        let fitting = (room + TOLERANCE) / self.min_weight;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        most.min(if fitting.is_nan() { usize::MAX } else { fitting.max(0.0) as usize })
    }
}

impl PositionSpace {
    /// Search by all preferences until one finds weights, which are then in `best`.
    fn search(
        &mut self,
        constraints: &Constraints,
        input: Input<'_>,
        base: Compromise,
        workspace: &mut Workspace,
        exact: &[f64],
    ) -> Option<Compromise> {
        let mut found: Option<(f64, Compromise)> = None;
        for (index, preference) in PREFERENCES.into_iter().map(Some).chain([None]).enumerate() {
            if index > 1 && found.is_some() {
                break;
            }
            let dive = Dive { constraints, input, base, preference };
            self.begin(constraints, exact);
            let relaxed = match preference {
                Some(_) => dive.run(self, workspace),
                None => dive.try_all(self, workspace),
            };
            let Some(relaxed) = relaxed else { continue };
            let off = distance(&self.weights, input.target);
            if found.is_none_or(|(nearest, _)| off < nearest) {
                found = Some((off, relaxed));
                self.best.clone_from(&self.weights);
            }
        }
        found.map(|(_, relaxed)| relaxed)
    }

    /// Begin with the exact projection; assets that no position can be large enough in are
    /// excluded.
    fn begin(&mut self, constraints: &Constraints, exact: &[f64]) {
        let choice = |asset| {
            let is_possible =
                constraints.can_raise(asset, true) || constraints.can_raise(asset, false);
            if is_possible { Choice::Free } else { Choice::Excluded }
        };
        self.choices.clear();
        self.choices.extend((0..constraints.assets()).map(choice));
        self.weights.clear();
        self.weights.extend_from_slice(exact);
    }
}

/// One search, by one preference.
#[derive(Clone, Copy)]
struct Dive<'a> {
    constraints: &'a Constraints,
    input: Input<'a>,
    /// Constraints that are relaxed without rules of positions.
    base: Compromise,
    preference: Option<Preference>,
}

impl Dive<'_> {
    /// Weights that meet the rules, in `space.weights`.
    fn run(&self, space: &mut PositionSpace, workspace: &mut Workspace) -> Option<Compromise> {
        self.keep_names(space);
        let mut last = None;
        // Each asset is chosen at most twice.
        for _ in 0..2 * self.constraints.assets() + 2 {
            match self.project(space, workspace) {
                Some(relaxed)
                    if self.constraints.allows_positions(&space.weights, self.movable()) =>
                {
                    return Some(relaxed);
                }
                Some(_) => {
                    self.keep_names(space);
                    last = self.choose(space);
                }
                None => {
                    let asset = last.take()?;
                    space.choices[asset] = self.opposite(space, asset)?;
                }
            }
        }
        None
    }

    fn movable(&self) -> &[bool] {
        self.input.movable
    }

    /// Try all choices in depth: the smallest position that breaks a rule is excluded first, then
    /// raised.
    fn try_all(&self, space: &mut PositionSpace, workspace: &mut Workspace) -> Option<Compromise> {
        let mut path = std::mem::take(&mut space.path);
        path.clear();
        let mut found = None;
        for _ in 0..MOST_NODES {
            let relaxed = self.project(space, workspace);
            let is_met = self.constraints.allows_positions(&space.weights, self.movable());
            found = relaxed.filter(|_| is_met);
            let branch = relaxed.and_then(|_| self.smallest_violation(space));
            if found.is_some() || !self.step_on(space, &mut path, branch) {
                break;
            }
        }
        space.path = path;
        found
    }

    /// Exclude a position, or make the next choice of the last one that has any; false at the end.
    fn step_on(
        &self,
        space: &mut PositionSpace,
        path: &mut Vec<(usize, bool)>,
        branch: Option<usize>,
    ) -> bool {
        if let Some(asset) = branch {
            space.choices[asset] = Choice::Excluded;
            path.push((asset, space.weights[asset] > 0.0));
            return true;
        }
        while let Some(&(asset, is_long)) = path.last() {
            let side = |is_long| if is_long { Choice::Long } else { Choice::Short };
            let order = [Choice::Excluded, side(is_long), side(!is_long)];
            let current = order.iter().position(|choice| *choice == space.choices[asset]);
            let later = &order[current.map_or(order.len(), |current| current + 1)..];
            let can = |side: &&Choice| self.constraints.can_raise(asset, **side == Choice::Long);
            if let Some(choice) = later.iter().find(can) {
                space.choices[asset] = *choice;
                return true;
            }
            space.choices[asset] = Choice::Free;
            path.pop();
        }
        false
    }

    /// The smallest position without a choice that is too small, or one of too many.
    fn smallest_violation(&self, space: &PositionSpace) -> Option<usize> {
        let is_position = |asset: usize| is_position(space.weights[asset]);
        let positions = (0..space.choices.len()).filter(|&asset| is_position(asset));
        let are_many = self.constraints.max_names.is_some_and(|most| positions.count() > most);
        let is_open = |asset: &usize| {
            self.movable()[*asset]
                && space.choices[*asset] == Choice::Free
                && is_position(*asset)
                && (are_many || self.constraints.is_small(space.weights[*asset]))
        };
        let by_size =
            |a: &usize, b: &usize| space.weights[*a].abs().total_cmp(&space.weights[*b].abs());
        (0..space.choices.len()).filter(is_open).min_by(by_size)
    }

    /// Exclude all but the names of the largest weights, if there are too many.
    fn keep_names(&self, space: &mut PositionSpace) {
        let most = self.constraints.most_names(self.input);
        let PositionSpace { ranked, weights, choices, .. } = space;
        let movable = self.movable();
        ranked.clear();
        ranked.extend((0..choices.len()).filter(|&asset| movable[asset]));
        let names = ranked.iter().filter(|&&asset| is_position(weights[asset])).count();
        if names <= most {
            return;
        }
        let is_kept = |asset: usize| {
            let is_held = is_position(self.input.held[asset]);
            let is_raised = matches!(choices[asset], Choice::Long | Choice::Short);
            (is_raised, self.preference == Some(Preference::KeepHeld) && is_held)
        };
        ranked.retain(|&asset| choices[asset] != Choice::Excluded);
        ranked.sort_by(|&first, &second| {
            let kept = is_kept(second).cmp(&is_kept(first));
            kept.then(weights[second].abs().total_cmp(&weights[first].abs()))
        });
        for &asset in ranked.iter().skip(most) {
            choices[asset] = Choice::Excluded;
        }
    }

    /// Choose for one position below the least weight; returns its asset.
    fn choose(&self, space: &mut PositionSpace) -> Option<usize> {
        let weights = &space.weights;
        let is_open = |asset: &usize| {
            self.movable()[*asset]
                && space.choices[*asset] == Choice::Free
                && self.constraints.is_small(weights[*asset])
        };
        let by_size = |a: &usize, b: &usize| weights[*a].abs().total_cmp(&weights[*b].abs());
        let smallest = (0..space.choices.len()).filter(is_open).min_by(by_size)?;
        let largest = (0..space.choices.len()).filter(is_open).max_by(by_size)?;
        let half = 0.5 * self.constraints.min_weight;
        let held = (0..space.choices.len()).filter(is_open);
        let held = held.filter(|&asset| is_position(self.input.held[asset])).max_by(by_size);
        let (asset, is_raised) = match self.preference? {
            Preference::Round if weights[smallest].abs() >= half => (largest, true),
            Preference::Round | Preference::Exclude => (smallest, false),
            Preference::KeepHeld => held.map_or((smallest, false), |asset| (asset, true)),
            Preference::Raise => (largest, true),
        };
        let raised = self.raised(weights[asset], asset).filter(|_| is_raised);
        space.choices[asset] = raised.unwrap_or(Choice::Excluded);
        Some(asset)
    }

    /// Raise to the side of a weight, if its bound allows it.
    fn raised(&self, weight: f64, asset: usize) -> Option<Choice> {
        let is_long = weight > 0.0;
        let side = if is_long { Choice::Long } else { Choice::Short };
        self.constraints.can_raise(asset, is_long).then_some(side)
    }

    /// The other choice for an asset whose last one is infeasible.
    fn opposite(&self, space: &PositionSpace, asset: usize) -> Option<Choice> {
        match space.choices[asset] {
            Choice::Long | Choice::Short => Some(Choice::Excluded),
            _ => self.raised(space.weights[asset], asset),
        }
    }

    /// Project with the choices; `None` if that relaxes more than without them.
    fn project(&self, space: &mut PositionSpace, workspace: &mut Workspace) -> Option<Compromise> {
        let sum = space.shift(self.constraints, self.input)?;
        space.previous.clone_from(&space.weights);
        let input = Input { target: &space.target, held: &space.held, movable: self.input.movable };
        let projection = space.constraints.project_exactly(input, workspace, &mut space.weights);
        space.unshift(self.constraints.min_weight, sum);
        let relaxed = compromise_of(projection);
        if is_part_of(relaxed, self.base) {
            return Some(relaxed);
        }
        // The weights before an infeasible choice say which side it was on.
        std::mem::swap(&mut space.weights, &mut space.previous);
        None
    }
}

impl PositionSpace {
    /// Write the constraints and weights with the choices: raised positions are those above
    /// `min_weight`. Returns their sum; `None` if they exceed a cap.
    fn shift(&mut self, constraints: &Constraints, input: Input<'_>) -> Option<f64> {
        let least = constraints.min_weight;
        let Self { constraints: shifted, target, held, choices, .. } = self;
        shifted.copy_from(constraints);
        target.clear();
        target.extend_from_slice(input.target);
        held.clear();
        held.extend_from_slice(input.held);
        let mut sum = 0.0;
        for (asset, choice) in choices.iter().enumerate().filter(|(asset, _)| input.movable[*asset])
        {
            let base = match choice {
                Choice::Free => continue,
                Choice::Excluded => {
                    (shifted.lower[asset], shifted.upper[asset]) = (0.0, 0.0);
                    continue;
                }
                Choice::Long => least,
                Choice::Short => -least,
            };
            shifted.raise(asset, base, *choice == Choice::Long);
            target[asset] -= base;
            held[asset] -= base;
            sum += base;
        }
        let cash = target.len() - 1;
        (target[cash], held[cash]) = (target[cash] + sum, held[cash] + sum);
        shifted.cash_lower += sum;
        shifted.cash_upper += sum;
        shifted.net = shifted.net.map(|(lower, upper)| (lower - sum, upper - sum));
        shifted.has_caps().then_some(sum)
    }

    /// Add the raised parts to the weights again.
    fn unshift(&mut self, least: f64, sum: f64) {
        for (weight, choice) in self.weights.iter_mut().zip(&self.choices) {
            match choice {
                Choice::Long => *weight += least,
                Choice::Short => *weight -= least,
                Choice::Free | Choice::Excluded => {}
            }
        }
        *self.weights.last_mut().expect("cash is always there") -= sum;
    }
}

impl Constraints {
    /// Reduce bounds and caps by a part of a position that is always held.
    fn raise(&mut self, asset: usize, base: f64, is_long: bool) {
        let (lower, upper) = (&mut self.lower[asset], &mut self.upper[asset]);
        (*lower, *upper) =
            if is_long { (0.0, (*upper - base).max(0.0)) } else { ((*lower - base).min(0.0), 0.0) };
        self.leverage = self.leverage.map(|cap| cap - base.abs());
        if let Some(Some(sector)) = self.sectors.get(asset) {
            let cap = &mut self.sector_caps[*sector];
            *cap = cap.map(|cap| cap - base.abs());
        }
        if let Some((lower, upper)) = &mut self.beta {
            let taken = self.betas[asset] * base;
            (*lower, *upper) = (*lower - taken, *upper - taken);
        }
    }

    fn has_caps(&self) -> bool {
        let is_left = |cap: &Option<f64>| cap.is_none_or(|cap| cap >= -TOLERANCE);
        is_left(&self.leverage) && self.sector_caps.iter().all(is_left)
    }
}

fn is_position(weight: f64) -> bool {
    weight.abs() > TOLERANCE
}

fn compromise_of(projection: Projection) -> Compromise {
    match projection {
        Projection::Exact => Compromise::default(),
        Projection::Compromise(compromise) => compromise,
    }
}

/// Return true if everything relaxed in the first is relaxed in the second.
fn is_part_of(first: Compromise, second: Compromise) -> bool {
    first.facts().iter().zip(second.facts()).all(|(first, second)| !first || second)
}

fn distance(weights: &[f64], target: &[f64]) -> f64 {
    weights.iter().zip(target).map(|(weight, target)| (weight - target) * (weight - target)).sum()
}
