"""Agents meet in the market and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.core.result import MAStepResult
from sekai.envs import AgentConfig, Portfolio
from sekai.market import Constraints, Costs, Execution, MarginAccount
from tests.envs.shared_markets import (
    ASSETS,
    FEATURES,
    FREE,
    Plan,
    crash,
    market,
    plan,
    play,
    reported,
    several,
    trades,
)

STEPS = 20
SEEDS = st.integers(0, 2**32 - 1)

PRICED = Costs(fixed=1.0, impact=0.0)
CROWDED = Costs(impact=1.0)
CAPPED = Execution(participation=0.05, unfilled="carry")


def parts_of(results: list[MAStepResult], name: str) -> list[Any]:
    """All that one agent was given, as values that tell every bit apart."""
    return [
        (
            {key: value.tobytes() for key, value in result.observations[name].items()},
            result.rewards[name].hex(),
            result.terminated[name],
            result.truncated[name],
            {key: value.hex() for key, value in result.info[name].items()},
        )
        for result in results
        if name in result.observations
    ]


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, other=SEEDS, costs=st.sampled_from([FREE, PRICED]))
def test_without_shared_limits_an_agent_is_alone(seed: int, other: int, costs: Costs) -> None:
    env = several(costs=costs, account=MarginAccount(), constraints=Constraints(long_short=True))
    weights = plan(STEPS, 3, seed)
    changed = weights.copy()
    changed[:, 1] = plan(STEPS, 1, other)[:, 0] * np.array([-1.0, 1.0, 1.0, 1.0])

    before, after = play(env, weights), play(env, changed)

    for name in ("agent_0", "agent_2"):
        assert parts_of(before, name) == parts_of(after, name)
    assert parts_of(before, "agent_1") != parts_of(after, "agent_1")


@settings(max_examples=15, deadline=None)
@given(
    seed=SEEDS,
    order=st.permutations(range(4)),
    mode=st.sampled_from(["own", "cooperative", "competitive"]),
    is_crowded=st.booleans(),
)
def test_other_places_give_the_same_results(
    seed: int, order: list[int], mode: str, is_crowded: bool
) -> None:
    crowded = {
        "costs": CROWDED,
        "execution": CAPPED,
        "shared_leverage": 0.8,
        "data": market(volume=3_000.0),
    }
    shared: dict[str, Any] = {"reward_mode": mode, **(crowded if is_crowded else {})}
    configs = {f"n{place}": AgentConfig(initial_cash=1e5 * (1 + place)) for place in range(4)}
    moved = {f"n{place}": configs[f"n{place}"] for place in order}
    weights = plan(STEPS, 4, seed)

    results = play(several(agents=configs, **shared), weights)
    others = play(several(agents=moved, **shared), weights[:, order])

    for result, other in zip(results, others, strict=True):
        for name in configs:
            # Sums over agents are rounded in the order of their places.
            assert result.rewards[name] == pytest.approx(other.rewards[name], abs=1e-12)
            assert result.info[name] == pytest.approx(other.info[name], rel=1e-9, abs=1e-6)
            for part, value in result.observations[name].items():
                assert value == pytest.approx(other.observations[name][part], abs=1e-6)


@pytest.mark.parametrize("mode", ["own", "cooperative", "competitive"])
@pytest.mark.parametrize("observation", ["window", "index"])
@pytest.mark.parametrize("action", ["weights", "tilts"])
def test_one_agent_is_a_portfolio_bit_for_bit(mode: str, observation: str, action: str) -> None:
    data = market(volume=5_000.0)
    shared: dict[str, Any] = {
        "lookback": 4,
        "episode_rows": 15,
        "costs": CROWDED,
        "execution": CAPPED,
        "reward": {"differential_sharpe": 1.0, "turnover_penalty": 0.1},
        "observation": observation,
        "action": action,
    }
    env = several(data, agents=["only"], reward_mode=mode, starts="random", **{**shared})
    alone = Portfolio(data, FEATURES, starts="random", **shared)
    alone.action_space.seed(3)

    for seed in (5, None):
        begun, started = alone.reset(seed=seed), env.reset(seed=seed)
        assert _plain(begun.observation) == _plain(started.observations["only"])
        assert begun.info == started.info["only"]
        while env.agents:
            action_taken = alone.action_space.sample()
            single = alone.step(action_taken)
            results = [env.step({"only": action_taken})]
            assert parts_of(results, "only") == [
                (
                    _plain(single.observation),
                    single.reward.hex(),
                    single.terminated,
                    single.truncated,
                    {key: value.hex() for key, value in single.info.items()},
                )
            ]
        assert single.truncated


def _plain(observation: dict[str, Any]) -> dict[str, bytes]:
    return {key: value.tobytes() for key, value in observation.items()}


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, share=st.floats(0.001, 0.2), unfilled=st.sampled_from(["drop", "carry"]))
def test_all_together_never_trade_more_than_their_share_of_the_volume(
    seed: int, share: float, unfilled: Any
) -> None:
    data = market(volume=5_000.0)
    env = several(data, execution=Execution(participation=share, unfilled=unfilled))
    env.batch.keep_log(True)

    play(env, plan(STEPS, 3, seed))

    log = trades(env)
    units = np.zeros((len(data), ASSETS))
    np.add.at(units, (log["row"].astype(int), log["asset"].astype(int)), np.abs(log["units"]))
    most = share * data.field("volume")
    assert (units <= most * (1 + 1e-12)).all()
    assert (units > 0.99 * most).any()


def test_what_there_is_of_volume_is_shared_in_proportion() -> None:
    data = market(volume=1_000.0)
    execution = Execution(participation=0.1)
    agents = {name: AgentConfig(initial_cash=cash) for name, cash in [("a", 1e5), ("b", 3e5)]}
    env = several(data, agents=agents, execution=execution)
    env.batch.keep_log(True)

    play(env, np.tile([1.0, 0.0, 0.0, 0.0], (1, 2, 1)))

    units = trades(env)["units"]
    assert units.sum() == pytest.approx(0.1 * data.field("volume")[11, 0])
    assert units[1] == pytest.approx(3 * units[0])


def test_everybody_pays_the_impact_of_all() -> None:
    data = market(volume=10_000.0)
    costs = Costs(proportional=0.0, half_spread=0.0, impact=1.0)
    half = np.tile([0.5, 0.0, 0.0, 0.5], (1, 2, 1))
    alone = half.copy()
    alone[0, 1] = [0.0, 0.0, 0.0, 1.0]
    env = several(data, agents=2, costs=costs)

    env.batch.keep_log(True)
    play(env, half)
    together = trades(env)
    play(env, alone)
    apart = trades(env)

    assert len(set(together["rate"])) == 1
    assert together["rate"][0] == pytest.approx(np.sqrt(2.0) * apart["rate"][0])
    assert list(apart["agent"]) == [0]
    assert together["units"][0] == pytest.approx(together["units"][1])


def test_impact_reaches_others_through_what_they_pay_and_nothing_else() -> None:
    # Enough cash is left to pay for more impact, or orders would be cut.
    data, weights = market(volume=10_000.0), 0.5 * plan(1, 3)
    weights[:, :, -1] += 0.5
    changed = weights.copy()
    changed[0, 1] = [0.8, 0.05, 0.05, 0.1]
    env = several(data, costs=Costs(impact=1.0))

    env.batch.keep_log(True)
    before = play(env, weights)
    first = trades(env)
    after = play(env, changed)
    second = trades(env)

    for place in (0, 2):
        name = f"agent_{place}"
        own, other = first["agent"] == place, second["agent"] == place
        assert np.array_equal(first["units"][own], second["units"][other])
        assert np.array_equal(first["price"][own], second["price"][other])
        paid = reported(after, name, "impact")[0] - reported(before, name, "impact")[0]
        cash = reported(after, name, "cash")[0] - reported(before, name, "cash")[0]
        assert paid != 0.0
        assert cash == pytest.approx(-paid, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, most=st.floats(0.1, 1.5))
def test_all_together_hold_no_more_than_they_may_when_they_buy(seed: int, most: float) -> None:
    account = MarginAccount(leverage=2.0)
    env = several(shared_leverage=most, account=account)
    rng = np.random.default_rng(seed)
    weights = np.concatenate(
        [rng.uniform(0.0, 0.6, (STEPS, 3, ASSETS)), np.zeros((STEPS, 3, 1))], axis=2
    )
    weights[:, :, -1] = 1.0 - weights.sum(axis=2)
    env.batch.keep_log(True)

    play(env, weights)

    log = trades(env)
    assert _gross_after_fills(env, log, weights) <= most * (1 + 1e-9)


def _gross_after_fills(env: Any, log: dict[str, Any], weights: Plan) -> float:
    """The most that all held together right after fills, as a share of all equity."""
    agents, data = len(env.possible_agents), env.data
    units, cash = np.zeros((agents, ASSETS)), np.full(agents, 1e5)
    worst = 0.0
    for row in sorted(set(log["row"].astype(int))):
        now = log["row"] == row
        bought_more = False
        for agent, asset, amount, price in zip(
            *(log[key][now] for key in ("agent", "asset", "units", "price")), strict=True
        ):
            bought_more |= amount > 0
            units[int(agent), int(asset)] += amount
            cash[int(agent)] -= amount * price
        opens = data.field("open")[row]
        gross, equity = np.abs(units) @ opens, cash + units @ opens
        if bought_more:
            worst = max(worst, float(gross.sum() / equity.sum()))
    return worst


def test_a_shared_limit_cuts_everybodys_purchases_alike() -> None:
    agents = {name: AgentConfig(initial_cash=cash) for name, cash in [("a", 1e5), ("b", 3e5)]}
    env = several(agents=agents, shared_leverage=0.3)
    env.batch.keep_log(True)

    play(env, np.array([[[0.6, 0.0, 0.0, 0.4], [0.6, 0.0, 0.0, 0.4]]]))

    log = trades(env)
    assert log["units"] * log["price"] == pytest.approx([3e4, 9e4])


def test_what_a_ruined_agent_still_holds_takes_no_room_from_the_others() -> None:
    bold = AgentConfig(
        initial_cash=1e6,
        ruin=0.6,
        account=MarginAccount(leverage=2.0),
        constraints=Constraints(max_weight=2.0),
    )
    agents = {"bold": bold, "late": AgentConfig()}
    env = several(crash(at=13, fall=0.3), agents=agents, shared_leverage=1.6)
    env.batch.keep_log(True)
    env.reset(seed=0)
    for _ in range(3):
        env.step({"bold": [1.6, 0.0, 0.0, -0.6], "late": [0.0, 0.0, 0.0, 1.0]})
    assert env.agents == ["late"]

    env.step({"late": [0.0, 0.9, 0.0, 0.1]})

    log = trades(env)
    late = log["agent"] == 1
    assert (log["units"] * log["price"])[late] == pytest.approx([9e4])
