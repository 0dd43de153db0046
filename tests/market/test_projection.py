"""Projected weights are the nearest allowed ones, and what cannot be met has a stated answer."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sekai.market import Compromise, project_weights
from tests.market.mandate import Mandate, random_mandate, solver_answer

PARTS = ["leverage", "sectors", "turnover", "immovable", "short", "margin"]


def combined(parts: list[str], largest: int) -> list[str]:
    return [" ".join(chosen) for size in range(largest + 1) for chosen in combinations(parts, size)]


WITHOUT_EXPOSURES = combined(PARTS, len(PARTS))
EXPOSURES = ["net", "beta", "net beta", "beta short margin"]
WITH_EXPOSURES = [
    f"{parts} {exposure}" for parts in combined([*PARTS, "to_cash"], 2) for exposure in EXPOSURES
]
COMBINATIONS = combined([*PARTS, "net", "beta", "to_cash"], len(PARTS) + 3)
FEW = settings(max_examples=200, deadline=None)


@st.composite
def mandates(draw: st.DrawFn, assets: int = 60) -> Mandate:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mandate = random_mandate(rng, draw(st.integers(1, assets)), draw(st.sampled_from(COMBINATIONS)))
    assume(is_attainable(mandate))
    return mandate


def is_attainable(mandate: Mandate) -> bool:
    try:
        mandate.project()
    except ValueError as error:
        return "assets can bring" not in str(error) and "net exposure" not in str(error)
    return True


def assert_agrees_with_the_solver(mandate: Mandate) -> None:
    projected, answer = mandate.project(), solver_answer(mandate)
    compromise = Compromise(int(projected.compromise))

    assert bool(compromise & (Compromise.CASH | Compromise.NET)) == answer.cash_gives
    assert bool(compromise & Compromise.BETA) == answer.beta_gives
    assert bool(compromise & Compromise.CUT_SHORT) == answer.cut_short
    if not answer.is_nearer(projected.weights, mandate):
        np.testing.assert_allclose(projected.weights, answer.weights, rtol=0, atol=1e-6)


@pytest.mark.parametrize("parts", [*WITHOUT_EXPOSURES, *WITH_EXPOSURES])
def test_every_combination_of_constraints_agrees_with_a_general_solver(parts: str) -> None:
    rng = np.random.default_rng(len(parts))
    tried = [random_mandate(rng, assets, parts) for assets in (1, 5, int(rng.integers(6, 61)))]

    for mandate in filter(is_attainable, tried):
        assert_agrees_with_the_solver(mandate)


@pytest.mark.nightly
@given(mandates())
@settings(max_examples=10_000, deadline=None)
def test_many_mandates_agree_with_a_general_solver(mandate: Mandate) -> None:
    assert_agrees_with_the_solver(mandate)


@given(mandates())
@FEW
def test_what_is_projected_is_allowed(mandate: Mandate) -> None:
    projected = mandate.project()
    compromise = Compromise(int(projected.compromise))

    assert abs(projected.weights.sum() - 1) <= 1e-12
    if not compromise & Compromise.CUT_SHORT:
        assert mandate.excess(projected.weights) <= 1e-12
    if not compromise & (Compromise.CUT_SHORT | Compromise.CASH | Compromise.NET):
        assert mandate.cash_excess(projected.weights) <= 1e-12
    if not compromise & (Compromise.CUT_SHORT | Compromise.BETA):
        assert mandate.beta_excess(projected.weights) <= 2e-12
    if mandate.turnover is not None:
        moved = np.abs(projected.weights - mandate.held)[:-1].sum()
        assert moved <= mandate.turnover + 1e-12


@given(mandates())
@FEW
def test_what_is_allowed_is_returned_bit_for_bit(mandate: Mandate) -> None:
    projected = mandate.project()
    assume(not int(projected.compromise) & Compromise.CUT_SHORT)

    again = mandate.with_wanted(projected.weights).project()

    assert again.weights.tobytes() == projected.weights.tobytes()
    assert again.compromise == projected.compromise


@given(mandates(), st.randoms(use_true_random=False))
@FEW
def test_the_order_of_assets_does_not_matter(mandate: Mandate, random: Any) -> None:
    order = list(range(len(mandate.lower)))
    random.shuffle(order)

    projected, shuffled = mandate.project(), mandate.permuted(order).project()

    expected = projected.weights[[*order, -1]]
    np.testing.assert_allclose(shuffled.weights, expected, rtol=0, atol=1e-11)
    assert shuffled.compromise == projected.compromise


@given(mandates())
@FEW
def test_assets_that_cannot_move_stay_exactly(mandate: Mandate) -> None:
    weights = mandate.project().weights[:-1]

    assert np.array_equal(weights[~mandate.movable], mandate.held[:-1][~mandate.movable])


@given(mandates(assets=12), st.floats(1e2, 1e12))
@FEW
def test_huge_wishes_have_allowed_answers(mandate: Mandate, factor: float) -> None:
    projected = mandate.with_wanted(factor * mandate.wanted).project()

    assert np.isfinite(projected.weights).all()
    if not projected.compromise and np.isfinite([*mandate.cash, *mandate.upper]).all():
        assert mandate.excess(projected.weights) <= 1e-12


def test_a_batch_is_its_rows() -> None:
    rng = np.random.default_rng(0)
    wanted, held = rng.normal(size=(3, 4, 6)), np.append(np.zeros(5), 1.0)
    movable = rng.random((4, 5)) < 0.8

    batch = project_weights(wanted, held, movable, upper=0.4, leverage=0.7, turnover=0.5)

    for place in np.ndindex(3, 4):
        row = project_weights(
            wanted[place], held, movable[place[1]], upper=0.4, leverage=0.7, turnover=0.5
        )
        assert np.array_equal(batch.weights[place], row.weights)
        assert batch.exact[place] == row.exact


def test_a_cap_that_stuck_assets_exceed_leaves_nothing_for_others() -> None:
    projected = project_weights(
        [0.9, 0.5, 0.5, 0.0],
        [0.7, 0.1, 0.0, 0.2],
        [False, True, True],
        upper=0.5,
        leverage=0.6,
        sectors=[0, 0, 1],
        sector_caps=[0.6, None],
    )

    np.testing.assert_allclose(projected.weights, [0.7, 0.0, 0.0, 0.3], rtol=0, atol=1e-15)
    assert int(projected.compromise) == (
        Compromise.BOUNDS | Compromise.SECTORS | Compromise.LEVERAGE
    )
    assert not projected.exact


def test_stuck_assets_worth_more_than_the_equity_are_paid_with_borrowed_cash() -> None:
    projected = project_weights([0, 0.4, 0.6], [1.3, 0.2, -0.5], [False, True], upper=2.0)

    np.testing.assert_allclose(projected.weights, [1.3, 0.0, -0.3], rtol=0, atol=1e-15)
    assert int(projected.compromise) == Compromise.CASH


def test_what_may_not_be_bought_stays_in_cash() -> None:
    projected = project_weights(
        [0.6, 0.6, 0.0], [0.0, 0.0, 1.0], [False, True], upper=0.6, cash_upper=0.1
    )

    np.testing.assert_allclose(projected.weights, [0.0, 0.6, 0.4], rtol=0, atol=1e-15)
    assert int(projected.compromise) == Compromise.CASH


def test_the_way_to_compliance_is_gone_as_far_as_the_turnover_allows() -> None:
    held, compliant = np.array([0.8, 0.1, 0.1]), np.array([0.5, 0.25, 0.25])

    first = project_weights([0.8, 0.1, 0.1], held, upper=0.5, turnover=0.1)

    expected = held + (compliant - held) * 0.1 / 0.45
    np.testing.assert_allclose(first.weights, expected, rtol=0, atol=1e-15)
    assert int(first.compromise) == Compromise.CUT_SHORT


@pytest.mark.parametrize("held", [[0.7, 0.6, -0.3], [0.05, 0.05, 0.9]])
def test_cash_that_the_turnover_keeps_outside_its_bounds_moves_towards_them(
    held: list[float],
) -> None:
    projected = project_weights(held, held, cash_upper=0.5, turnover=0.1)

    towards = 0.05 if held[-1] > 0 else -0.05
    expected = np.add(held, [towards, towards, -2 * towards])
    np.testing.assert_allclose(projected.weights, expected, rtol=0, atol=1e-15)
    assert int(projected.compromise) == Compromise.CUT_SHORT


def test_steps_that_the_turnover_cuts_short_end_in_compliance() -> None:
    weights, steps = np.array([0.8, 0.1, 0.1]), 0
    while not (step := project_weights([0.8, 0.1, 0.1], weights, upper=0.5, turnover=0.1)).exact:
        assert step.weights[0] < weights[0]
        weights, steps = step.weights, steps + 1

    assert steps < 10
    assert step.weights[0] <= 0.5 + 1e-12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lower": 0.1}, "bounds of asset 0 must allow nothing of it"),
        ({"upper": [0.5, -0.1]}, "bounds of asset 1 must allow nothing of it"),
        ({"cash_lower": 0.5, "cash_upper": 0.2}, "cash needs cash_lower <= cash_upper"),
        ({"leverage": -1.0}, "leverage must be at least 0, got -1"),
        ({"turnover": np.nan}, "turnover must be at least 0, got NaN"),
        ({"sectors": [0, 3], "sector_caps": [0.5]}, "asset 1 is in sector 3"),
        ({"sectors": [0], "sector_caps": [0.5]}, "sectors needs an entry for each of 2 assets"),
        ({"sector_caps": [0.5]}, "sectors needs an entry for each of 2 assets, got 0"),
        ({"upper": 0.2, "cash_upper": 0.5}, "assets can bring cash only from 0.6 to 1"),
        ({"upper": [0.2, 0.2, 0.2]}, r"upper must have shape \(2,\), got \(3,\)"),
        ({"held": [0.5, 0.5]}, r"held must have shape \(3,\), got \(2,\)"),
        ({"held": [0.5, np.nan, 0.5]}, "held needs finite weights, got NaN at index 1"),
        ({"wanted": [0.5, np.inf, 0.5]}, "wanted needs finite weights, got inf at index 1"),
        ({"wanted": [0.5]}, "at least one asset and cash"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        project_weights(**{"wanted": [0.5, 0.6, 0.1], **arguments})
