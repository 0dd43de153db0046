"""Permanent and transient impact: own trading moves the fill prices of own later trades."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.data import simulate_gbm
from sekai.envs import AgentConfig
from sekai.market import Constraints, Costs, MarginAccount
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import FREE, Episode, Floats, World, market_of, play, settings
from tests.envs.test_portfolio_money import gains

FLAT = market_of([10.0] * 12)
MARGIN: Any = {
    "account": MarginAccount(leverage=4.0),
    "constraints": Constraints(long_short=True, max_weight=4.0),
}
displacing = st.builds(
    replace,
    st.just(FREE),
    permanent_impact=st.sampled_from([0.0, 1e-9, 1e-6, {"A0": 2e-7, "default": 1e-8}]),
    transient_impact=st.sampled_from([0.0, 1e-9, 1e-6, {"A0": 2e-7, "default": 1e-8}]),
    impact_half_life=st.sampled_from([0.3, 1.0, 20.0]),
    proportional=st.sampled_from([0.0, 0.001]),
)


def trade(units: list[float], costs: Costs, data: Any = FLAT) -> Episode:
    """Trade units of one asset at 10, one order in each row, from a million."""
    equity, held, actions = 1e6, 0.0, []
    for change in units:
        held += change
        actions.append([10.0 * held / equity, 1 - 10.0 * held / equity])
    config = settings(costs=costs, initial_cash=equity, **MARGIN)
    return play(World(data=data, config=config, actions=np.array(actions)))


def values(episode: Episode) -> Floats:
    """Signed values traded in each row."""
    rows = np.zeros(len(FLAT))
    for row, _, units, price, _ in episode.fills():
        rows[row] = units * price
    return rows


def half_form(traded: Floats, kept: float) -> float:
    """Half of v'Gv with the kernel `kept ** rows between`."""
    rows = np.arange(len(traded))
    kernel = kept ** np.abs(rows[:, None] - rows)
    return float(traded @ kernel @ traded) / 2


def test_a_purchase_pays_half_of_its_own_displacement() -> None:
    episode = trade([5000.0], replace(FREE, permanent_impact=1e-6))

    # 50,000 displaces the price by 5 %; it was bought at 2.5 % above 10 on average.
    assert episode.of("permanent_impact")[0] == pytest.approx(1250.0, rel=1e-12)
    assert episode.of("equity")[0] == pytest.approx(998_750.0, rel=1e-12)
    assert [rate for *_, rate in episode.fills()] == pytest.approx([0.025])


def test_the_second_of_two_equal_trades_pays_what_is_left_of_the_first() -> None:
    for half_life, kept in ((1.0, 0.5), (2.0, 0.5**0.5)):
        costs = replace(FREE, transient_impact=1e-6, impact_half_life=half_life)
        episode = trade([5000.0, 5000.0], costs)
        first, second = values(episode)[1:3]

        paid = episode.of("transient_impact")
        assert paid[0] == pytest.approx(1e-6 * first**2 / 2, rel=1e-12)
        assert paid[1] == pytest.approx(1e-6 * (first * kept * second + second**2 / 2), rel=1e-9)


def test_a_round_trip_under_permanent_impact_costs_nothing_and_earns_nothing() -> None:
    episode = trade([8000.0, 0.0, -8000.0], replace(FREE, permanent_impact=1e-6))

    assert episode.of("permanent_impact")[0] > 0
    assert episode.of("permanent_impact").sum() == pytest.approx(0.0, abs=1e-6)
    assert episode.of("equity")[-1] == pytest.approx(1e6, rel=1e-12)


def test_a_round_trip_under_transient_impact_loses_what_decayed() -> None:
    costs = replace(FREE, transient_impact=1e-6, impact_half_life=1.0)
    episode = trade([8000.0, 0.0, 0.0, -8000.0], costs)

    # About v'Gv / 2 of v and -v with three rows between them; equity moves a little meanwhile.
    assert 1e6 - episode.of("equity")[-1] == pytest.approx(
        1e-6 * 80_000**2 * (1 - 0.5**3), rel=0.01
    )
    lost = 1e-6 * half_form(values(episode), 0.5)
    assert episode.of("equity")[-1] == pytest.approx(1e6 - lost, rel=1e-12)


@given(units=st.lists(st.floats(-9000, 9000), min_size=1, max_size=9), kept=st.floats(0.05, 0.99))
@examples(40)
def test_costs_of_any_path_are_the_quadratic_form_of_what_was_traded(
    units: list[float], kept: float
) -> None:
    half_life = float(-np.log(2.0) / np.log(kept))
    costs = replace(FREE, permanent_impact=1e-8, transient_impact=1e-8, impact_half_life=half_life)
    episode = trade(units, costs)
    traded = values(episode)

    lasting, passing = (episode.of(f"{kind}_impact").sum() for kind in ("permanent", "transient"))
    assert lasting == pytest.approx(1e-8 * half_form(traded, 1.0), rel=1e-9, abs=1e-6)
    assert passing == pytest.approx(1e-8 * half_form(traded, kept), rel=1e-9, abs=1e-6)
    assert passing >= -1e-9


@given(world=worlds(max_agents=3, decisions="every_row"), costs=displacing)
@examples(60)
def test_no_trading_earns_money_by_impact(world: World, costs: Costs) -> None:
    """Round trips lose money for any prices, and for all agents of a market together."""
    impact = 0.0
    world = replace(world, config=replace(world.config, costs=replace(costs, impact=impact)))
    episode = play(world)
    agents = range(len(world.agents))
    total = sum(
        episode.of(f"{kind}_impact", agent).sum()
        for kind in ("permanent", "transient")
        for agent in agents
    )

    worth = max(float(np.abs(episode.of("equity", agent)).max()) for agent in agents)
    assert total >= -1e-9 * worth


@given(world=worlds(decisions="every_row"), costs=displacing)
@examples(40)
def test_equity_changes_by_price_moves_less_costs(world: World, costs: Costs) -> None:
    """Positions are marked at the prices of the data; displacement is paid on trading."""
    world = replace(world, config=replace(world.config, costs=replace(costs, impact=0.0)))
    episode = play(world)
    equity = np.append(world.config.initial_cash, episode.of("equity"))

    wanted = gains(world, episode) - episode.of("cost")
    scale = np.maximum(np.abs(equity[:-1]), episode.of("gross"))
    assert (np.abs(np.diff(equity) - wanted) <= 1e-9 * np.maximum(scale, np.abs(wanted))).all()


def test_agents_of_one_market_share_the_displacement() -> None:
    costs = replace(FREE, permanent_impact=1e-6)
    others = (AgentConfig(initial_cash=1e6), AgentConfig(initial_cash=1e6))
    config = settings(costs=costs, initial_cash=1e6)
    keep, buy = [0.0, 1.0], [0.05, 0.95]
    actions = np.array([keep + buy + buy, buy + buy + buy])
    episode = play(World(data=FLAT, config=config, others=others, actions=actions))

    # Two buy 50,000 each: 10 % in all, and half of it on average; then one more at 12.5 %.
    paid = [episode.of("permanent_impact", agent)[0] for agent in range(3)]
    assert paid == pytest.approx([0.0, 2500.0, 2500.0])
    assert episode.of("permanent_impact", 0)[1] == pytest.approx(50_000 * 0.125, rel=1e-2)


def test_the_displacement_is_part_of_states() -> None:
    data = simulate_gbm(3, 60, seed=1)
    options: Any = {
        "data": data, "features": ["log_return"], "lookback": 2, "starts": 5,
        "costs": Costs(permanent_impact=1e-7, transient_impact=1e-7, impact_half_life=5.0),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    first, actions = sekai.make("Portfolio-v0", **options), rng.dirichlet(np.ones(4), 20)
    first.reset(seed=0)
    for action in actions[:10]:
        first.step(action)
    second = sekai.make("Portfolio-v0", **options)
    second.reset(seed=9)
    second.load_state_dict(first.state_dict())

    for action in actions[10:]:
        here, there = first.step(action), second.step(action)
        assert dict(here.info) == dict(there.info)
        assert here.info["permanent_impact"] != 0.0


def test_transient_impact_needs_a_half_life() -> None:
    costs = Costs(transient_impact=1e-9, impact_half_life=0.0)
    with pytest.raises(ValueError, match="impact_half_life above 0, with transient_impact"):
        sekai.make("Portfolio-v0", data=FLAT, costs=costs, lookback=1)


def test_multiples_scale_impact_and_leave_its_half_life() -> None:
    twice = Costs(permanent_impact=1e-9, transient_impact=2e-9, impact_half_life=3.0).times(2, True)

    assert (twice.permanent_impact, twice.transient_impact) == (2e-9, 4e-9)
    assert twice.impact_half_life == 3.0
