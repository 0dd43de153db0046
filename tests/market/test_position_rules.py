"""Rules of positions: the heuristic meets all constraints, keeps what is allowed, and is near."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sekai.market import Compromise, ProjectedWeights, project_weights
from tests.market.mandate import Mandate, Vector, random_mandate
from tests.market.test_projection import COMBINATIONS, is_attainable

FEW = settings(max_examples=150, deadline=None)
RULES = ["", "short", "leverage", "sectors", "turnover", "immovable", "short margin", "beta"]


@dataclass(frozen=True)
class Positions:
    """A mandate with rules of positions."""

    mandate: Mandate
    min_weight: float
    max_names: int | None

    def project(self) -> ProjectedWeights:
        it = self.mandate
        return project_weights(
            it.wanted,
            it.held,
            it.movable,
            lower=it.lower,
            upper=it.upper,
            cash_lower=it.cash[0],
            cash_upper=it.cash[1],
            leverage=it.leverage,
            sectors=it.sectors,
            sector_caps=it.sector_caps,
            turnover=it.turnover,
            net_exposure=it.net,
            betas=it.betas,
            beta_exposure=it.beta,
            untradable=it.untradable,
            min_weight=self.min_weight,
            max_names=self.max_names,
        )

    def meets_rules(self, weights: Vector) -> bool:
        sizes = np.abs(weights[:-1])
        small = self.mandate.movable & (sizes > 1e-12) & (sizes < self.min_weight - 1e-12)
        names = int((sizes > 1e-12).sum())
        return not small.any() and (self.max_names is None or names <= self.max_names)

    def meets_all(self, weights: Vector) -> bool:
        it = self.mandate
        excess = max(it.excess(weights), it.cash_excess(weights), it.beta_excess(weights))
        return self.meets_rules(weights) and excess <= 3e-12

    def distance(self, weights: Vector) -> float:
        return float(np.linalg.norm(weights - self.mandate.target))

    def nearest(self) -> float | None:
        """Distance of the nearest weights that meet everything, by trying all choices."""
        points = [point for sides in self.choices() if (point := self.solved(sides)) is not None]
        return min(map(self.distance, points), default=None)

    def choices(self) -> Iterator[tuple[int, ...]]:
        """For each asset short, nothing or long."""
        it, most = self.mandate, self.max_names or len(self.mandate.movable)
        options = []
        for asset, can in enumerate(it.movable):
            sides = [0]
            sides += [1] if it.upper[asset] >= self.min_weight else []
            sides += [-1] if -it.lower[asset] >= max(self.min_weight, 1e-12) else []
            options.append(sides if can else [int(np.sign(it.held[asset]))])
        return (sides for sides in product(*options) if np.count_nonzero(sides) <= most)

    def solved(self, sides: tuple[int, ...]) -> Vector | None:
        """Nearest weights with positions on these sides, by a general solver."""
        return solve_sides(self.mandate, np.array(sides), self.min_weight)


def solve_sides(mandate: Mandate, sides: Any, least: float) -> Vector | None:
    from tests.market import mandate as solver

    cp = solver.cp
    weights = cp.Variable(len(mandate.held))
    bounded = [
        *solver._without_cash(mandate, weights),
        *solver._cash(mandate, weights, 0.0),
        *solver._beta(mandate, weights, 0.0),
    ]
    if mandate.turnover is not None:
        bounded.append(cp.norm1(weights[:-1] - mandate.held[:-1]) <= mandate.turnover)
    for asset in np.flatnonzero(mandate.movable):
        side = sides[asset]
        bounded.append(side * weights[asset] >= least if side else weights[asset] == 0)
    if not solver._solve(cp.sum_squares(weights - mandate.target), bounded):
        return None
    point: Vector = weights.value
    return point if mandate.excess(point) <= 1e-6 else None


@st.composite
def any_rules(draw: st.DrawFn, assets: int, combinations: list[str]) -> Positions:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mandate = random_mandate(rng, draw(st.integers(2, assets)), draw(st.sampled_from(combinations)))
    assume(is_attainable(mandate))
    return random_rules(mandate, rng)


def ruled(assets: int, combinations: list[str]) -> st.SearchStrategy[Positions]:
    return any_rules(assets, combinations).filter(lambda rules: not is_refused(rules))


def is_refused(rules: Positions) -> bool:
    try:
        rules.project()
    except ValueError as error:
        return re.match(r"(max_names|min_weight) .* allows no weights", str(error)) is not None
    return False


def random_rules(mandate: Mandate, rng: np.random.Generator) -> Positions:
    count = len(mandate.movable)
    caps = np.minimum(mandate.upper, 1.0)
    least = float(rng.choice([0.0, 0.3, 0.7]) * np.median(caps))
    names = None if rng.random() < 0.3 else int(rng.integers(1, count + 1))
    return Positions(mandate, least, names)


@given(ruled(40, COMBINATIONS))
@FEW
def test_what_is_chosen_meets_all_constraints_or_says_so(rules: Positions) -> None:
    projected = rules.project()
    compromise = Compromise(int(projected.compromise))

    assert abs(projected.weights.sum() - 1) <= 1e-12
    assert bool(compromise & Compromise.POSITIONS) or rules.meets_rules(projected.weights)
    if not compromise:
        assert rules.meets_all(projected.weights)
    if rules.mandate.turnover is not None:
        moved = np.abs(projected.weights - rules.mandate.held)[:-1].sum()
        assert moved <= rules.mandate.turnover + 1e-12


@given(ruled(40, COMBINATIONS))
@FEW
def test_what_is_chosen_stays_bit_for_bit(rules: Positions) -> None:
    projected = rules.project()
    assume(not int(projected.compromise))

    wanted = replace(rules.mandate, wanted=projected.weights)
    again = replace(rules, mandate=wanted).project()

    assert again.weights.tobytes() == projected.weights.tobytes()
    assert again.exact


@given(ruled(40, COMBINATIONS))
@FEW
def test_what_cannot_be_traded_stays_whatever_the_rules(rules: Positions) -> None:
    weights, stays = rules.project().weights[:-1], ~rules.mandate.movable

    assert np.array_equal(weights[stays], rules.mandate.held[:-1][stays])


def gaps(parts: str, cases: int, assets: int = 4) -> list[float]:
    """Distance of the heuristic's weights over the least one, less one; infinite if missed."""
    rng = np.random.default_rng(len(parts))
    result: list[float] = []
    while len(result) < cases:
        mandate = random_mandate(rng, assets, parts)
        if not is_attainable(mandate):
            continue
        rules = random_rules(mandate, rng)
        nearest = rules.nearest()
        if nearest is None:
            continue
        projected = rules.project()
        is_met = not int(projected.compromise) & Compromise.POSITIONS
        is_met = is_met and rules.meets_all(projected.weights)
        result.append(rules.distance(projected.weights) / nearest - 1 if is_met else np.inf)
    return result


@pytest.mark.parametrize("parts", RULES)
def test_the_heuristic_is_near_the_nearest_of_all_choices(parts: str) -> None:
    measured = np.array(gaps(parts, cases=6))

    assert np.isfinite(measured).all(), "weights that meet everything were not found"
    assert measured.min() >= -1e-6
    assert measured.mean() <= 0.1


@pytest.mark.nightly
@pytest.mark.parametrize("parts", RULES)
def test_many_choices_are_near_the_nearest(parts: str) -> None:
    measured = np.array(gaps(parts, cases=60))

    assert np.isfinite(measured).all(), "weights that meet everything were not found"
    assert measured.mean() <= 0.05


@pytest.mark.parametrize(
    "options",
    [
        {"upper": 0.3, "cash_upper": 0.1, "max_names": 2},
        {"upper": [0.5, 0.3, 0.2], "cash_upper": 0.1, "max_names": 2},
        {"upper": 0.3, "net_exposure": (0.9, 1.0), "max_names": 2},
        {
            "sectors": [0, 0, 1], "sector_caps": [0.5, 0.3],
            "upper": 0.3, "cash_upper": 0.25, "max_names": 2,
        },
        {"lower": -0.3, "upper": 0.3, "net_exposure": (-1.0, -0.7), "max_names": 2},
        {"upper": 0.6, "min_weight": 0.6, "cash_upper": 0.3},
        {"upper": 0.6, "min_weight": 0.5, "max_names": 1, "cash_upper": 0.3},
    ],
)  # fmt: skip
def test_rules_that_no_weights_can_meet_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"(max_names|min_weight) .* cash .* got"):
        project_weights([0.3, 0.3, 0.3, 0.1], **{"cash_upper": 2.0, **options})


@pytest.mark.parametrize("parts", ["", "leverage", "sectors", "sectors leverage"])
def test_rules_are_refused_just_where_no_choice_meets_them(parts: str) -> None:
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(200):
        mandate = random_mandate(rng, 3, parts)
        if not is_attainable(mandate):
            continue
        rules = random_rules(replace(mandate, cash=(0.0, float(rng.uniform(0.0, 0.5)))), rng)
        if not is_attainable(rules.mandate):
            continue
        if is_refused(rules):
            refused += 1
            assert rules.nearest() is None
        else:
            # Weights that meet the rules show that they can be met.
            assert rules.project().exact or rules.nearest() is not None

    assert refused > 2


@given(any_rules(4, ["short", "short beta", "short sectors leverage", "beta", "short net"]))
@settings(max_examples=60, deadline=None)
def test_what_is_refused_has_no_choice_that_meets_it(rules: Positions) -> None:
    if is_refused(rules):
        assert rules.nearest() is None


def test_the_largest_names_are_kept() -> None:
    projected = project_weights([0.4, 0.1, 0.3, 0.15, 0.05], max_names=2)

    share = 0.25 / 3
    assert projected.weights == pytest.approx([0.4 + share, 0.0, 0.3 + share, 0.0, 0.05 + share])


def test_small_positions_are_dropped_below_half_and_raised_above() -> None:
    projected = project_weights([0.6, 0.03, 0.08, 0.29], min_weight=0.1)

    assert projected.weights == pytest.approx([0.605, 0.0, 0.1, 0.295])


def test_a_held_position_that_may_not_be_sold_in_one_step_stays_large_enough() -> None:
    projected = project_weights([0.0, 1.0], [0.06, 0.94], min_weight=0.05, turnover=0.02)

    assert projected.weights == pytest.approx([0.05, 0.95])
    assert projected.exact


def test_too_many_names_for_the_turnover_are_sold_step_by_step() -> None:
    weights, steps = np.array([0.3, 0.3, 0.3, 0.1]), 0
    rules: dict[str, Any] = {"max_names": 2, "turnover": 0.2}
    while not (step := project_weights([0.4, 0.3, 0.2, 0.1], weights, **rules)).exact:
        assert int(step.compromise) == Compromise.CUT_SHORT | Compromise.POSITIONS
        weights, steps = step.weights, steps + 1

    assert 0 < steps < 10
    assert (step.weights[:-1] > 0).sum() == 2


def test_stuck_names_count_and_may_be_small() -> None:
    projected = project_weights(
        [0.0, 0.5, 0.4, 0.1], [0.02, 0.0, 0.0, 0.98], [False, True, True],
        min_weight=0.1, max_names=2,
    )  # fmt: skip

    assert projected.weights[0] == 0.02
    assert projected.weights[2] == 0.0
    assert projected.exact
