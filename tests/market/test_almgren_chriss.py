"""The optimal way to work an order: its closed form, its limits, and what nothing beats."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sekai.market import AlmgrenChriss, almgren_chriss_schedule

cp: Any = cvxpy
"""Much of its interface has no types."""

PAPER = AlmgrenChriss(
    shares=1e6,
    horizon=5.0,
    steps=5,
    volatility=0.95,
    temporary_impact=2.5e-6,
    permanent_impact=2.5e-7,
    half_spread=0.0625,
    risk_aversion=1e-6,
    initial_price=50.0,
)
"""The example of the paper: a million shares at 50 in five days."""

models = st.builds(
    lambda steps, horizon, aversion, volatility, impact, lasting: AlmgrenChriss(
        shares=1000.0,
        horizon=horizon,
        steps=steps,
        volatility=volatility,
        temporary_impact=impact,
        # Always below the bound that makes trading in lumps cheap.
        permanent_impact=lasting * 2.0 * impact * steps / horizon,
        half_spread=0.01,
        risk_aversion=aversion,
    ),
    steps=st.integers(1, 30),
    horizon=st.floats(0.1, 10.0),
    aversion=st.one_of(st.just(0.0), st.floats(1e-8, 1e3)),
    volatility=st.floats(0.0, 3.0),
    impact=st.floats(1e-4, 1.0),
    lasting=st.floats(0.0, 0.9),
)


def with_aversion(aversion: float, model: AlmgrenChriss = PAPER) -> AlmgrenChriss:
    return dataclasses.replace(model, risk_aversion=aversion)


def test_the_figures_of_the_paper_come_out() -> None:
    assert PAPER.notional == 50e6
    assert PAPER.effective_impact == pytest.approx(2.375e-6)
    assert PAPER.urgency == pytest.approx(0.61, abs=0.005)
    assert PAPER.urgency * PAPER.horizon == pytest.approx(3.0, abs=0.05)
    assert PAPER.half_life == pytest.approx(1 / 0.6073, rel=1e-3)
    # cosh(0.6073) is 1 + 0.9025 * 1e-6 / (2 * 2.375e-6).
    assert math.cosh(PAPER.urgency) == pytest.approx(1.19)


def test_the_slowest_and_the_fastest_schedule_cost_what_the_paper_says() -> None:
    slow = with_aversion(0.0)
    half, sold = 0.125e6, 0.0625e6

    # Half the permanent impact, the spread, and the effective impact over the time there is.
    assert slow.expected_cost() == pytest.approx(half + sold + 2.375e-6 * 1e12 / 5)
    assert slow.variance() == pytest.approx(0.95**2 * 1e12 * 5 / 3 * (1 - 1 / 5) * (1 - 1 / 10))
    at_once = [1e6, 0, 0, 0, 0]
    assert PAPER.expected_cost(at_once) == pytest.approx(sold + 2.5e-6 * 1e12)
    assert PAPER.variance(at_once) == 0.0


def test_mean_and_variance_are_the_hyperbolic_functions_of_the_paper() -> None:
    kappa, tau, whole = PAPER.urgency, 1.0, 5.0
    across = math.sinh(kappa * whole) ** 2
    turn = tau * math.sinh(2 * kappa * whole) + 2 * whole * math.sinh(kappa * tau)
    mean = math.tanh(kappa * tau / 2) * turn / (2 * tau**2 * across)
    kept = tau * math.sinh(kappa * whole) * math.cosh(kappa * (whole - tau))
    spread = (kept - whole * math.sinh(kappa * tau)) / (across * math.sinh(kappa * tau))

    assert PAPER.expected_cost() == pytest.approx(0.1875e6 + 2.375e-6 * 1e12 * mean)
    assert PAPER.variance() == pytest.approx(0.95**2 * 1e12 * spread / 2)


def test_holdings_are_hyperbolic_sines_and_trades_hyperbolic_cosines() -> None:
    kappa = PAPER.urgency
    held = 1e6 * np.sinh(kappa * (5 - np.arange(6))) / np.sinh(kappa * 5)
    middle = np.arange(5) + 0.5
    traded = 2e6 * np.sinh(kappa / 2) / np.sinh(kappa * 5) * np.cosh(kappa * (5 - middle))

    assert PAPER.trajectory() == pytest.approx(held, abs=1e-6)
    assert PAPER.trades() == pytest.approx(traded, rel=1e-12)


@given(model=models)
@settings(max_examples=150, deadline=None)
def test_a_schedule_is_whole_and_says_the_same_in_all_its_forms(model: AlmgrenChriss) -> None:
    held, traded, rest = model.trajectory(), model.trades(), model.shares_of_rest()

    assert held[0] == model.shares
    assert held[-1] == 0.0
    assert rest[-1] == 1.0
    assert traded.sum() == pytest.approx(model.shares, rel=1e-12)
    assert -np.diff(held) == pytest.approx(traded, abs=1e-12 * model.shares)
    assert np.all(np.diff(traded) <= 1e-12 * model.shares), "nobody waits to trade faster"
    assert np.all((rest > 0) & (rest <= 1))


@given(model=models, data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_rest_of_an_optimal_schedule_is_optimal_for_the_rest(
    model: AlmgrenChriss, data: st.DataObject
) -> None:
    assume(model.steps > 1)
    done = data.draw(st.integers(1, model.steps - 1))
    left = model.trajectory()[done]
    assume(left > 1e-200)
    later = dataclasses.replace(
        model,
        shares=left,
        steps=model.steps - done,
        horizon=model.step_time * (model.steps - done),
    )

    assert later.trades() == pytest.approx(model.trades()[done:], rel=1e-9)


@pytest.mark.parametrize("kind", ["risk_aversion", "volatility"])
def test_without_risk_the_schedule_is_a_straight_line(kind: str) -> None:
    model = dataclasses.replace(PAPER, **{kind: 0.0}, steps=8)

    assert np.array_equal(model.trades(), np.full(8, 125_000.0))
    assert np.array_equal(model.trajectory(), 125_000.0 * np.arange(8, -1, -1))
    assert model.urgency == 0.0
    assert model.half_life == math.inf


@pytest.mark.parametrize("aversion", [1e-300, 1e-30, 1e-23, 1e-22, 1e-21, 1e-18])
def test_a_little_risk_aversion_changes_the_schedule_a_little(aversion: float) -> None:
    model = dataclasses.replace(with_aversion(aversion), steps=100)
    bound = model.urgency * 5.0

    # The straight line, and what the next term of the series takes from it.
    left = np.arange(100, -1, -1) / 100
    bent = left * (1 - bound**2 * (1 - left**2) / 6)
    assert model.trajectory() / 1e6 == pytest.approx(bent, abs=1e-15)
    assert model.trades() == pytest.approx(np.full(100, 1e4), rel=1e-5)


@pytest.mark.parametrize("aversion", [1e2, 1e10, 1e100, 1e300])
def test_the_most_averse_trade_at_once_without_overflow(aversion: float) -> None:
    model = with_aversion(aversion)

    assert model.trades()[0] == pytest.approx(1e6, rel=1e-6)
    assert model.trades().sum() == pytest.approx(1e6)
    assert np.isfinite([*model.trajectory(), model.urgency, model.expected_cost()]).all()


@given(model=models)
@settings(max_examples=60, deadline=None)
def test_the_closed_form_solves_the_quadratic_program(model: AlmgrenChriss) -> None:
    share = cp.Variable(model.steps)
    scale = model.effective_impact / model.step_time
    risk = model.risk_aversion * model.volatility**2 * model.step_time
    # Divided by the larger of them, so that the solver meets numbers of order one.
    unit = max(scale, risk)
    held = 1.0 - cp.cumsum(share)
    cost = (scale / unit) * cp.sum_squares(share) + (risk / unit) * cp.sum_squares(held)
    tight = {f"tol_{name}": 1e-13 for name in ("gap_abs", "gap_rel", "feas")}
    cp.Problem(cp.Minimize(cost), [cp.sum(share) == 1]).solve(solver=cp.CLARABEL, **tight)

    assert model.trades() / model.shares == pytest.approx(share.value, abs=1e-6)


@given(model=models, data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_other_schedule_is_better(model: AlmgrenChriss, data: st.DataObject) -> None:
    moves = data.draw(
        st.lists(st.floats(-1.0, 1.0), min_size=model.steps, max_size=model.steps).map(np.array)
    )
    other = model.trades() + model.shares * (moves - moves.mean())
    other[-1] += model.shares - other.sum()

    best = model.objective()
    assert model.objective(other) >= best - 1e-9 * best


@given(model=models, data=st.data())
@settings(max_examples=100, deadline=None)
def test_costs_add_up_trade_by_trade(model: AlmgrenChriss, data: st.DataObject) -> None:
    parts = st.lists(st.floats(0.0, 1.0), min_size=model.steps, max_size=model.steps)
    raw = np.array(data.draw(parts)) + 1e-3
    trades = model.shares * raw / raw.sum()
    held, price, mean, variance = model.shares, 0.0, 0.0, 0.0
    for traded in trades:
        paid = price - model.half_spread - model.temporary_impact * traded / model.step_time
        mean -= traded * paid
        price -= model.permanent_impact * traded
        held -= traded
        variance += model.volatility**2 * model.step_time * held**2

    assert model.expected_cost(trades) == pytest.approx(mean, rel=1e-9)
    assert model.variance(trades) == pytest.approx(variance, rel=1e-9, abs=1e-9)


def test_the_frontier_is_convex_and_falls() -> None:
    frontier = PAPER.frontier(np.geomspace(1e-8, 1e-4, 60))
    slopes = np.diff(frontier.expected_costs) / np.diff(frontier.variances)

    assert np.all(np.diff(frontier.variances) < 0)
    assert np.all(np.diff(frontier.expected_costs) > 0)
    assert np.all(np.diff(slopes) < 0)
    # At its every point the slope is what variance is worth to the one whom it suits.
    worth = frontier.risk_aversions
    assert np.all((worth[:-1] < -slopes) & (-slopes < worth[1:]))


def test_rows_of_schedules_are_judged_row_by_row() -> None:
    rows = np.array([PAPER.trades(), np.full(5, 2e5), [1e6, 0, 0, 0, 0]])

    for judge in (PAPER.expected_cost, PAPER.variance, PAPER.objective):
        assert judge(rows) == pytest.approx([judge(row) for row in rows])
        assert judge(rows)[0] == pytest.approx(judge())


def test_the_schedule_alone_can_be_asked_for() -> None:
    found = almgren_chriss_schedule(
        1e6,
        5,
        horizon=5.0,
        volatility=0.95,
        temporary_impact=2.5e-6,
        permanent_impact=2.5e-7,
        risk_aversion=1e-6,
    )

    assert np.array_equal(found, PAPER.trades())


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("shares", 0.0, "above 0"),
        ("shares", math.nan, "above 0"),
        ("horizon", -1.0, "above 0"),
        ("initial_price", math.inf, "above 0"),
        ("volatility", -0.1, "at least 0"),
        ("permanent_impact", -1e-9, "at least 0"),
        ("half_spread", math.nan, "at least 0"),
        ("risk_aversion", -1e-9, "at least 0"),
        ("temporary_impact", 1.25e-7, r"above permanent_impact \* horizon / steps / 2 = 1.25e-07"),
        ("temporary_impact", math.inf, "above permanent_impact"),
        ("steps", 0, "an integer of at least 1, got 0"),
        ("steps", 2.0, "an integer of at least 1, got 2.0"),
        ("steps", True, "an integer"),
    ],
)
def test_an_order_that_makes_no_sense_never_gets_in(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*{wanted}"):
        dataclasses.replace(PAPER, **{name: value})


@pytest.mark.parametrize(
    ("trades", "wanted"),
    [
        (np.ones(4), r"must have 5 trades, got an array of shape \(4,\)"),
        (3.0, r"must have 5 trades, got an array of shape \(\)"),
        (np.full(5, 1e5), "must trade 1e[+]06 in total, got 500000"),
        ([1e6, 0, 0, 0, math.nan], "in total, got nan"),
        (np.array([[2e5] * 5, [3e5] * 5]), "in total, got 1.5e[+]06"),
    ],
)
def test_what_is_no_schedule_of_the_order_is_refused(trades: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        PAPER.variance(trades)
