import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.evaluation import evaluate
from sekai.evaluation.baselines import baseline
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.scorer import COST_MULTIPLES, break_even
from sekai.evaluation.tasks import task_of
from tests.evaluation.worlds import planted

OPTIONS: dict[str, Any] = {
    "data": planted(), "features": ["log_return"], "lookback": 2, "episode_rows": 60,
}  # fmt: skip


@given(crossing=st.floats(0.01, 3.99), slope=st.floats(0.1, 10.0))
def test_a_straight_lead_is_gone_where_it_crosses_zero(crossing: float, slope: float) -> None:
    found = break_even(lambda multiple: slope * (crossing - multiple), COST_MULTIPLES)
    assert found == pytest.approx(crossing)


def test_a_bent_lead_is_looked_at_more_closely() -> None:
    found = break_even(lambda multiple: 2.0 - multiple**1.2, COST_MULTIPLES)
    assert found == pytest.approx(2.0 ** (1 / 1.2), rel=0.01)


def test_who_is_always_ahead_has_no_break_even_and_who_never_is_has_none_left() -> None:
    assert break_even(lambda multiple: 1.0, COST_MULTIPLES) == math.inf
    assert break_even(lambda multiple: -1.0, COST_MULTIPLES) == 0.0
    assert math.isnan(break_even(lambda multiple: math.nan, COST_MULTIPLES))


def test_the_break_even_of_a_schedule_is_that_of_its_closed_form() -> None:
    found = evaluate("all_at_once", "OptimalExecution-v0", seeds=16, baselines=["twap"])
    assert found.sensitivity is not None
    config = sekai.envs.OptimalExecutionConfig()
    steps, model = config.episode_steps, config.model
    at_once, evenly = np.append(config.shares, np.zeros(steps - 1)), np.full(steps, config.shares / steps)  # fmt: skip  # noqa: E501
    cost = {name: model.expected_cost(trades) / model.notional * 1e4
            for name, trades in (("at_once", at_once), ("evenly", evenly))}  # fmt: skip
    # Costs are in proportion to the multiple; risk, and what prices did, are not.
    rest = found.policies["twap"].metrics["risk_adjusted_shortfall"].value - cost["evenly"]
    wanted = rest / (cost["at_once"] - cost["evenly"])
    assert found.sensitivity.break_even["twap"] == pytest.approx(wanted, rel=1e-3)


def test_costs_grow_with_their_multiple_and_are_none_at_zero() -> None:
    task = task_of(as_env_source("Portfolio-v0", OPTIONS))
    paid = []
    for multiple in COST_MULTIPLES:
        arena = task.with_costs(multiple)
        assert arena is not None
        paid.append(
            run_episodes(baseline("equal_weight", "portfolio"), arena, task, [0])[0].total_cost
        )
    assert paid[0] == 0.0
    np.testing.assert_allclose(np.array(paid[1:]) / paid[2], COST_MULTIPLES[1:], rtol=0.02)


def test_what_costs_are_without_a_change_is_what_was_measured() -> None:
    found = evaluate("momentum", "Portfolio-v0", seeds=8, env_options=OPTIONS,
                     baselines=["equal_weight"])  # fmt: skip
    swept = found.sensitivity
    assert swept is not None
    for name, policy in found.policies.items():
        assert swept.by_cost[name][COST_MULTIPLES.index(1.0)] == policy.metrics["sharpe"].value
        assert swept.by_delay[name][0] == policy.metrics["sharpe"].value
        assert swept.by_cost[name][0] > swept.by_cost[name][-1]


def test_a_signal_of_one_day_is_gone_when_orders_wait() -> None:
    def follow(seen: Any) -> Any:
        return np.eye(6)[int(np.argmax(seen["windows"][-1, :, 0]))]

    free = sekai.market.Costs(proportional=0.0, half_spread=0.0, impact=0.0)
    found = evaluate(follow, "Portfolio-v0", seeds=16, baselines=["equal_weight"],
                     env_options=OPTIONS | {"costs": free, "episode_rows": 200})  # fmt: skip
    assert found.sensitivity is not None
    now, later, _ = found.sensitivity.by_delay["follow"]
    assert now > 3.0
    assert later < now / 2


def test_an_order_that_waits_is_the_one_that_was_decided() -> None:
    seen: list[float] = []

    def count(observation: Any) -> np.ndarray:
        seen.append(len(seen) / 1000)
        return np.array([seen[-1], 0, 0, 0, 0, 1 - seen[-1]])

    task = task_of(as_env_source("Portfolio-v0", OPTIONS))
    from sekai.evaluation.policy import as_policy

    episode = run_episodes(as_policy(count), task.source, task, [0], delay=2)[0]
    assert not episode.actions[:2, 0].any()
    np.testing.assert_allclose(episode.actions[2:, 0], np.arange(58) / 1000)


def test_without_costs_there_is_nothing_to_multiply() -> None:
    found = evaluate("constant_quotes", "MarketMaking-v0", seeds=8, baselines=["wide_quotes"])
    assert found.sensitivity is not None
    assert found.sensitivity.cost_multiples == []
    assert found.sensitivity.break_even == {}
    assert found.sensitivity.delays == [0, 1, 2]
