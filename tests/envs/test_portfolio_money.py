"""No money appears or vanishes: equity moves by prices and costs, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.market import CashAccount, Constraints, Costs, Execution, MarginAccount
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import (
    KINDS,
    Episode,
    Floats,
    World,
    holdings,
    market_of,
    play,
    settings,
)
from tests.envs.reference_market import ReferenceMarket

every = examples(50)
by_row = worlds(decisions="every_row")


def gains(world: World, episode: Episode) -> Floats:
    """PnL of positions in each row, from fills and the panel alone."""
    marks = ReferenceMarket(world.data, world.config).marks
    _, after = holdings(world, episode)
    gained = np.zeros(len(marks))
    gained[1:] = (after * marks)[1:].sum(axis=1) - (after * marks)[:-1].sum(axis=1)
    gone = np.zeros_like(after)
    gone[1:] = np.where(world.data.listed[1:], 0.0, (after * marks)[:-1])
    gained += gone.sum(axis=1)
    for row, _, units, price, _ in episode.fills():
        gained[row] -= units * price
    rows: Floats = gained[episode.of("time_index").astype(int)]
    return rows


@given(world=by_row)
@every
def test_equity_changes_by_price_moves_less_costs(world: World) -> None:
    episode = play(world)
    equity = np.append(world.config.initial_cash, episode.of("equity"))

    wanted = gains(world, episode) - episode.of("cost")
    scale = np.maximum(np.abs(equity[:-1]), episode.of("gross"))
    assert (np.abs(np.diff(equity) - wanted) <= 1e-9 * np.maximum(scale, np.abs(wanted))).all()


@given(world=by_row)
@every
def test_costs_by_kind_add_up_to_the_cost(world: World) -> None:
    episode = play(world)

    kinds = sum(episode.of(kind) for kind in KINDS)
    np.testing.assert_allclose(kinds, episode.of("cost"), rtol=1e-12, atol=1e-9)


@given(world=by_row)
@every
def test_what_fills_cost_follows_from_the_fills(world: World) -> None:
    costs: Any = world.config.costs
    episode = play(world)
    values = np.array([[abs(units) * price, rate] for _, _, units, price, rate in episode.fills()])
    traded, rates = values.reshape(-1, 2).T
    base = costs.proportional + costs.half_spread

    paid = {kind: episode.of(kind).sum() for kind in KINDS}
    near: dict[str, Any] = {"rel": 1e-9, "abs": 1e-9 * max(1.0, float(traded.sum()))}
    assert paid["commission"] == pytest.approx(costs.proportional * traded.sum(), **near)
    assert paid["spread"] == pytest.approx(costs.half_spread * traded.sum(), **near)
    assert paid["impact"] == pytest.approx(float((traded * (rates - base)).sum()), **near)
    assert paid["fixed"] == pytest.approx(costs.fixed * len(traded), **near)


@given(
    costs=st.builds(
        Costs,
        proportional=st.floats(0, 0.05),
        half_spread=st.floats(0, 0.05),
        impact=st.floats(0, 2),
        fixed=st.floats(0, 20),
    ),
    weight=st.floats(0.01, 0.9),
    fill=st.sampled_from(["next_open", "next_close"]),
)
@every
def test_a_round_trip_at_constant_prices_loses_exactly_its_costs(
    costs: Any, weight: float, fill: Any
) -> None:
    moving = [10.0, 11.0, 10.0, 12.0]
    data = market_of(moving + [10.0] * 8, volume=[1e5] * 12)
    config = settings(costs=costs, execution=Execution(fill=fill), starts=5)
    actions = np.array([[weight, 1 - weight], [0.0, 1.0]])

    episode = play(World(data=data, config=config, actions=actions))
    (_, _, bought, price, rate), (_, _, sold, _, other) = episode.fills()
    base = costs.proportional + costs.half_spread
    kinds = {
        "commission": 2 * bought * price * costs.proportional,
        "spread": 2 * bought * price * costs.half_spread,
        "impact": bought * price * (rate + other - 2 * base),
        "fixed": 2 * costs.fixed,
    }

    assert sold == -bought
    assert price == 10.0
    for kind in KINDS:
        wanted = kinds.get(kind, 0.0)
        assert episode.of(kind).sum() == pytest.approx(wanted, rel=1e-9, abs=1e-9), kind
    assert episode.of("equity")[-1] == pytest.approx(100_000 - sum(kinds.values()), rel=1e-12)
    assert episode.of("cash")[-1] == episode.of("equity")[-1]


@pytest.mark.parametrize("term", ["profit", "log_return"])
@given(world=by_row)
@every
def test_rewards_add_up_to_what_became_of_the_equity(term: str, world: World) -> None:
    world = replace(world, config=replace(world.config, reward=term, ruin=0.0))
    episode = play(world)
    first, last = world.config.initial_cash, episode.of("equity")[-1]
    if last <= 1e-12 * first:
        return

    total = episode.of("reward").sum()
    if term == "profit":
        most = max(first, float(episode.of("gross").max()))
        assert total == pytest.approx(last - first, abs=1e-9 * most)
    else:
        assert total == pytest.approx(np.log(last / first), abs=1e-9)


@given(world=worlds(account=CashAccount(), constraints=Constraints()))
@every
def test_a_cash_account_owes_nothing(world: World) -> None:
    episode = play(world)

    # Rounding is of what the account was worth, even once that is lost.
    worth = np.maximum.accumulate(np.maximum(episode.of("equity"), 0.0))
    assert (episode.of("cash") >= -1e-9 * worth).all()
    assert (episode.weights()[:, :-1] >= -1e-9).all()


@given(world=worlds(max_agents=3))
@every
def test_fills_never_exceed_their_share_of_the_volume(world: World) -> None:
    share = world.config.execution.participation
    if share is None:
        return
    trades, volume = play(world).trades, np.nan_to_num(world.data.field("volume"))

    filled = np.zeros(volume.shape)
    np.add.at(filled, (trades["row"], trades["asset"]), np.abs(trades["units"]))
    assert (filled <= share * volume * (1 + 1e-12)).all()


@given(world=worlds(max_agents=3))
@every
def test_nothing_trades_where_it_cannot(world: World) -> None:
    trades, data = play(world).trades, world.data

    assert data.tradable[trades["row"], trades["asset"]].all()
    column = {"next_open": "open", "next_close": "close"}[world.config.execution.fill]
    prices = data.field(column)[trades["row"], trades["asset"]]
    assert np.array_equal(trades["price"], prices)


@given(world=worlds())
@every
def test_fills_keep_to_the_leverage_of_the_account(world: World) -> None:
    """In every row in which something is added, at the prices of fills and after their costs."""
    if world.config.decisions != "every_row":
        return
    episode, market = play(world), ReferenceMarket(world.data, world.config)
    before, after = holdings(world, episode)
    for row, equity in zip(episode.of("time_index").astype(int), episode.of("equity"), strict=True):
        adds = (np.abs(after[row]) > np.abs(before[row]) * (1 + 1e-9)).any()
        value = equity - after[row] @ (market.marks[row] - market.prices[row])
        gross = np.abs(after[row]) @ market.prices[row]
        assert not adds or gross <= world.config.account.leverage * value + 1e-9 * equity


def test_margin_pays_lenders_by_calendar_days() -> None:
    data = market_of([10.0] * 4, days=3)
    costs = Costs(proportional=0, half_spread=0, financing=0.1, borrow=0.2)
    config = settings(
        costs=costs, account=MarginAccount(), constraints=Constraints(long_short=True, max_weight=2)
    )
    long = play(World(data=data, config=config, actions=np.array([[2.0, -1.0]] * 2)))
    short = play(World(data=data, config=config, actions=np.array([[-1.0, 2.0]] * 2)))

    assert long.of("financing").tolist() == [0.0, pytest.approx(100_000 * 0.1 * 3 / 365)]
    assert short.of("borrow").tolist() == [0.0, pytest.approx(100_000 * 0.2 * 3 / 365)]
