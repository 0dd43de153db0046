"""Orders in units: what an action means at the last known prices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.envs import Portfolio
from sekai.error import InvalidActionError, ResetRequired
from sekai.market import Costs, Execution
from tests.data.holed_panels import make_panel
from tests.envs.streamed_worlds import LOOKBACK, same, wanted, worlds

DATA = make_panel(rows=40, assets=3, seed=1, holes=0.0)
HALF = np.array([0.2, 0.2, 0.2, 0.4])
FREE = Costs(proportional=0.0, half_spread=0.0, impact=0.0, fixed=0.0)


def an_env(**options: Any) -> Portfolio:
    execution = Execution(**{"sizing": "decision", **options.pop("execution", {})})
    given = {"data": DATA, "features": ["log_return"], "lookback": LOOKBACK, "starts": 10}
    env = Portfolio(**{**given, "execution": execution, **options})
    env.reset(seed=0)
    return env


def worth(env: Portfolio) -> float:
    return float(env.batch.infos()["equity"][0])


def marks(row: int) -> Any:
    return DATA.field("close")[row]


@pytest.mark.parametrize("sizing", ["decision", "fill"])
def test_a_change_as_large_as_the_smallest_is_traded_whatever_the_price(sizing: str) -> None:
    # Of fifty prices some round a share of 0.01 to less than it is.
    data = make_panel(rows=40, assets=50, seed=2, holes=0.0)
    env = an_env(data=data, execution={"smallest_trade": 0.01, "sizing": sizing}, costs=FREE)

    env.step(np.append(np.full(50, 0.01), 0.5))
    held = env.step(np.append(np.full(50, 0.01), 0.5)).observation["weights"]

    assert np.all(held[:50] > 0)


@given(world=worlds(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_asking_what_to_order_moves_nothing(world: dict[str, Any], seed: int) -> None:
    rng, assets = np.random.default_rng(seed), len(world["data"].assets)
    fields = ("fill", "delay", "unfilled", "participation")
    kept = {name: getattr(world["execution"], name) for name in fields}
    world["execution"] = Execution(sizing="decision", **kept)
    both = [Portfolio(**world, starts=LOOKBACK, record=True) for _ in range(2)]
    for env in both:
        env.reset(seed=seed)

    is_done = False
    while not is_done:
        action, other = wanted(rng, assets), wanted(rng, assets)
        before = both[0].batch.state_dict()
        units = both[0].orders(other)
        assert both[0].orders(other).tobytes() == units.tobytes()
        assert both[0].batch.state_dict() == before
        results = [env.step(action) for env in both]
        assert same(*results)
        is_done = results[0].done
    logs = [env.take_log()[0] for env in both]
    assert logs[0].trades.units.tobytes() == logs[1].trades.units.tobytes()


def test_weights_become_units_at_the_last_close() -> None:
    env = an_env()

    assert env.orders(HALF) == pytest.approx(0.2 * 100_000.0 / marks(10))


def test_what_is_held_and_on_its_way_is_not_ordered_again() -> None:
    env = an_env(execution={"delay": 2}, costs=FREE)
    ordered = np.zeros(3)

    for row in (10, 11, 12, 13, 14):
        units = env.orders(HALF)
        ordered += units
        assert ordered == pytest.approx(0.2 * worth(env) / marks(row))
        assert env.step(HALF).info["time_index"] == row + 1


def test_changes_that_are_too_small_are_orders_of_nothing() -> None:
    env = an_env(execution={"smallest_trade": 0.5})

    assert env.orders(HALF).tolist() == [0.0, 0.0, 0.0]
    assert env.orders(np.array([0.6, 0.2, 0.1, 0.1]))[0] > 0.0


def test_what_closes_a_position_is_never_too_small() -> None:
    env = an_env(execution={"smallest_trade": 0.15}, costs=FREE)
    env.step(np.array([0.2, 0.0, 0.0, 0.8]))

    sale = env.orders(np.array([0.0, 0.0, 0.0, 1.0]))

    assert sale[0] == pytest.approx(-0.2 * 1e5 / marks(10)[0])


def test_weights_drift_with_the_price_until_the_fill() -> None:
    at_fill, at_decision = an_env(execution={"sizing": "fill"}, costs=FREE), an_env(costs=FREE)
    quarter = np.full(4, 0.25)

    filled, decided = at_fill.step(quarter), at_decision.step(quarter)

    opens, closes = DATA.field("open")[11], DATA.field("close")
    held = 0.25 * 1e5 / closes[10]
    cash = 1e5 - held @ opens
    assert decided.info["cash"] == pytest.approx(cash)
    assert decided.info["equity"] == pytest.approx(cash + held @ closes[11])
    assert filled.info["cash"] == pytest.approx(25_000.0)


def test_a_cash_account_is_never_short_whatever_became_of_its_purchases() -> None:
    env = an_env(execution={"delay": 1, "participation": 1e-3}, costs=FREE)
    everything, nothing = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.0, 1.0])

    env.step(everything)
    for _ in range(4):
        result = env.step(nothing)
        assert result.info["net"] >= 0.0
        assert result.info["net"] == result.info["gross"]


def test_orders_need_sizes_that_are_known_when_it_is_decided() -> None:
    env = an_env(execution={"sizing": "fill"})

    with pytest.raises(ValueError, match=r'make the env with Execution\(sizing="decision"\)'):
        env.orders(HALF)


def test_what_is_no_action_is_no_order() -> None:
    env = an_env()

    for action in (np.full(4, np.nan), np.full(3, 0.2), "all"):
        with pytest.raises(InvalidActionError, match="the action does not fit"):
            env.orders(action)


def test_there_is_nothing_to_order_outside_an_episode() -> None:
    env = Portfolio(data=DATA, features=["log_return"], execution=Execution(sizing="decision"))

    with pytest.raises(ResetRequired):
        env.orders(HALF)


def test_sizing_has_two_ways() -> None:
    with pytest.raises(ValueError, match="sizing"):
        an_env(execution={"sizing": "never"})
