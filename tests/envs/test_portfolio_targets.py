"""A constant target at constant prices is reached, and never exceeded on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.envs import Portfolio
from sekai.market import CashAccount, Constraints, Execution, MarginAccount
from tests.envs.portfolio_worlds import env_of, market_of

ROWS = 120
TRADED = 24
"""Rows at the end in which every asset can be traded."""

executions = st.builds(
    Execution,
    fill=st.sampled_from(["next_open", "next_close"]),
    sizing=st.sampled_from(["fill", "decision"]),
    delay=st.integers(0, 3),
    unfilled=st.sampled_from(["drop", "carry"]),
    participation=st.sampled_from([None, 0.1, 0.3, 1.0]),
)
decisions = st.sampled_from(["every_row", "trading_days", "complete"])


def still_market(seed: int, halts: float, together: bool) -> MarketData:
    """Prices that never move; halts of one asset or of all of them."""
    rng = np.random.default_rng(seed)
    quoted = np.repeat(rng.random((ROWS, 1 if together else 2)) >= halts, 2, axis=1)[:, :2]
    quoted[0] = quoted[-TRADED:] = True
    values = np.broadcast_to(np.array([10.0, 400.0]), quoted.shape)
    volume = np.broadcast_to(np.array([4_000.0, 100.0]), quoted.shape)
    listed = np.ones_like(quoted)
    return market_of(np.where(quoted, values, np.nan), volume=volume, listed=listed, quoted=quoted)


def held_on_the_way(env: Portfolio, target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of the assets after each step."""
    env.reset(seed=0)
    rows, is_done = [], False
    while not is_done:
        result = env.step(target)
        rows.append(result.observation["weights"][:-1].astype(np.float64))
        is_done = result.done
    return np.array(rows)


@given(
    execution=executions,
    decides=decisions,
    seed=st.integers(0, 2**32),
    halts=st.sampled_from([0.0, 0.2, 0.5]),
    weights=st.tuples(st.floats(-0.8, 0.8), st.floats(-0.8, 0.8)),
)
@example(
    # What was carried over a row without a decision was ordered a second time.
    execution=Execution(sizing="decision", delay=1, unfilled="carry", participation=0.1),
    decides="every_row", seed=1, halts=0.5, weights=(0.0, 0.5),
)  # fmt: skip
@hypothesis_settings(deadline=None, max_examples=200)
def test_a_constant_target_is_reached_and_never_exceeded(
    execution: Execution,
    decides: Any,
    seed: int,
    halts: float,
    weights: tuple[float, float],
) -> None:
    is_short = min(weights) < 0
    account = MarginAccount(leverage=2.0) if is_short else CashAccount()
    target = np.array([*weights, 1.0 - sum(weights)])
    if not is_short and sum(weights) > 1.0:
        target = np.array([*weights, 0.0]) / sum(weights)
    # What one asset cannot take is wanted of another, unless nothing is decided in such rows.
    market = still_market(seed, halts, together=decides != "complete")
    env = env_of(
        market, execution=execution, decisions=decides, account=account,
        constraints=Constraints(long_short=is_short, max_weight=1.0),
    )  # fmt: skip

    held = held_on_the_way(env, target)

    assert (np.sign(held) * np.sign(target[:-1]) >= 0).all()
    assert (np.abs(held) <= np.abs(target[:-1]) + 1e-6).all()
    assert held[-1] == pytest.approx(target[:-1], abs=3e-6)


def test_what_is_carried_over_rows_without_a_decision_is_not_ordered_again() -> None:
    # Decisions fall on every third row; 12 % of the account fit into the volume of a row.
    quoted = np.ones((12, 2), np.bool_)
    quoted[2::3, 1] = False
    data = market_of(
        np.where(quoted, 10.0, np.nan), volume=np.full((12, 2), 1_200.0),
        listed=np.ones_like(quoted), quoted=quoted,
    )  # fmt: skip
    execution = Execution(sizing="decision", delay=1, unfilled="carry", participation=1.0)
    env = env_of(data, execution=execution, decisions="complete")
    target = np.array([0.3, 0.0, 0.7])
    env.reset(seed=0)

    ordered, held = [], []
    for _ in range(3):
        ordered.append(float(env.orders(target)[0]))
        held.append(float(env.step(target).observation["weights"][0]))

    assert held == pytest.approx([0.24, 0.3, 0.3])
    assert ordered == pytest.approx([3_000.0, np.nan, 0.0], nan_ok=True)


@given(seed=st.integers(0, 2**32), delay=st.integers(0, 3), carries=st.booleans())
@hypothesis_settings(deadline=None, max_examples=60)
def test_what_orders_says_is_what_is_then_ordered(seed: int, delay: int, carries: bool) -> None:
    rng = np.random.default_rng(seed)
    closes = 50.0 * np.exp(np.cumsum(rng.normal(0, 0.02, (30, 2)), axis=0))
    unfilled: Any = "carry" if carries else "drop"
    env = env_of(
        market_of(closes), account=MarginAccount(leverage=4.0), record=True,
        execution=Execution(sizing="decision", delay=delay, unfilled=unfilled),
        constraints=Constraints(long_short=True, max_weight=1.0),
    )  # fmt: skip
    env.reset(seed=0)
    ordered = np.zeros(closes.shape)

    for row in range(len(closes) - 1):
        weights = rng.normal(0.0, 0.3, 2)
        action = np.append(weights, 1.0 - weights.sum())
        if row + 1 + delay < len(ordered):
            ordered[row + 1 + delay] = env.orders(action)
        else:
            env.orders(action)
        env.step(action)

    (log,) = env.take_log()
    filled = np.zeros(closes.shape)
    places = [env.assets.index(name) for name in log.trades.asset]
    filled[log.trades.row, places] = log.trades.units
    assert np.array_equal(filled, ordered)
