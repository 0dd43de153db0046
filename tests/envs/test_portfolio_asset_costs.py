"""Rates of costs by asset, and costs per unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.data import simulate_gbm
from sekai.envs.portfolio.config import PortfolioConfig
from sekai.market import Constraints, Costs, MarginAccount
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import FREE, World, market_of, play, settings
from tests.envs.test_portfolio_money import gains
from tests.envs.test_portfolio_reference import assert_same_episode

ASSET_RATES = ("proportional", "half_spread", "per_share", "impact", "borrow")


def by_asset(*rates: float) -> st.SearchStrategy[Any]:
    """One number for all, or one for the first asset and another for the rest."""
    number = st.sampled_from(rates)
    return number | st.builds(lambda first, rest: {"A0": first, "default": rest}, number, number)


asset_costs = st.builds(
    Costs,
    proportional=by_asset(0.0, 0.0005, 0.01),
    fixed=st.sampled_from([0.0, 3.0]),
    per_share=by_asset(0.0, 0.005, 0.3),
    half_spread=by_asset(0.0, 0.0005, 0.02),
    impact=by_asset(0.0, 0.5, 1.0),
    borrow=by_asset(0.0, 0.01, 0.5),
)


def with_costs(world: World, costs: Costs) -> World:
    impact = costs.impact if "volume" in world.data.fields else 0.0
    return replace(world, config=replace(world.config, costs=replace(costs, impact=impact)))


@given(world=worlds(max_agents=3), costs=asset_costs)
@examples(60)
def test_accounts_with_rates_by_asset_are_worth_what_the_book_says(
    world: World, costs: Costs
) -> None:
    assert_same_episode(with_costs(world, costs))


@given(world=worlds(decisions="every_row"), costs=asset_costs)
@examples(50)
def test_equity_changes_by_price_moves_less_costs(world: World, costs: Costs) -> None:
    world = with_costs(world, costs)
    episode = play(world)
    equity = np.append(world.config.initial_cash, episode.of("equity"))

    wanted = gains(world, episode) - episode.of("cost")
    scale = np.maximum(np.abs(equity[:-1]), episode.of("gross"))
    assert (np.abs(np.diff(equity) - wanted) <= 1e-9 * np.maximum(scale, np.abs(wanted))).all()


@pytest.mark.parametrize("name", ASSET_RATES)
def test_equal_rates_by_asset_are_one_rate_for_all(name: str) -> None:
    rng = np.random.default_rng(1)
    closes = 20.0 * np.exp(np.cumsum(rng.normal(0, 0.02, (30, 3)), axis=0))
    data = market_of(closes, volume=np.full((30, 3), 1e5))
    actions = rng.normal(0, 0.5, (25, 4))
    given: Any = {"account": MarginAccount(), "constraints": Constraints(long_short=True)}
    costs = Costs(per_share=0.01)
    rate = 1.0 if name == "impact" else getattr(costs, name)
    by_asset: dict[str, Any] = {name: {"A1": rate, "default": rate}}
    one, each = (
        play(World(data=data, actions=actions, config=settings(costs=own, **given)))
        for own in (costs, replace(costs, **by_asset))
    )

    np.testing.assert_allclose(one.table[:, 5:], each.table[:, 5:], rtol=1e-12, atol=1e-9)


def test_each_asset_pays_its_own_rates() -> None:
    costs = replace(
        FREE,
        proportional={"A0": 0.001, "A1": 0.002},
        half_spread={"A0": 0.01, "default": 0.0},
        per_share={"A1": 0.05, "default": 0.0},
    )
    data = market_of([[10.0, 20.0]] * 3)
    episode = play(
        World(data=data, config=settings(costs=costs), actions=np.array([[0.2, 0.4, 0.4]]))
    )

    # 20,000 in A0 at 10 and 40,000 in A1 at 20: 2,000 units of each.
    assert episode.of("commission")[0] == pytest.approx(20.0 + 80.0, rel=1e-12)
    assert episode.of("spread")[0] == pytest.approx(200.0, rel=1e-12)
    assert episode.of("per_share")[0] == pytest.approx(100.0, rel=1e-12)
    assert episode.of("cash")[0] == pytest.approx(40_000.0 - 400.0, rel=1e-12)
    rates = [rate for *_, rate in episode.fills()]
    assert rates == pytest.approx([0.011, 0.002 + 0.05 / 20])


def test_short_positions_pay_the_borrow_rate_of_their_asset() -> None:
    costs = replace(FREE, borrow={"A0": 0.1, "A1": 0.4})
    config = settings(
        costs=costs, account=MarginAccount(), constraints=Constraints(long_short=True)
    )
    data = market_of([[10.0, 20.0]] * 3, days=73)
    actions = np.array([[-0.2, -0.3, 1.5]] * 2)
    episode = play(World(data=data, config=config, actions=actions))

    # 20,000 at 10 % and 30,000 at 40 % for 73 of 365 days.
    assert episode.of("borrow").tolist() == [0.0, pytest.approx(400.0 + 2400.0, rel=1e-12)]


@given(costs=asset_costs, weight=st.floats(0.01, 0.45))
@examples(50)
def test_a_round_trip_at_constant_prices_loses_exactly_its_costs(
    costs: Costs, weight: float
) -> None:
    moving = np.array([[10.0, 20.0], [11.0, 21.0], [10.0, 20.0]])
    data = market_of(np.vstack([moving, [[10.0, 20.0]] * 8]), volume=np.full((11, 2), 1e5))
    actions = np.array([[weight, weight, 1 - 2 * weight], [0.0, 0.0, 1.0]])
    episode = play(World(data=data, config=settings(costs=costs, starts=5), actions=actions))

    values = np.array([[abs(units) * price, rate] for _, _, units, price, rate in episode.fills()])
    paid = float((values[:, 0] * values[:, 1]).sum()) + costs.fixed * len(values)
    assert episode.of("cash")[-1] == episode.of("equity")[-1]
    assert episode.of("cost").sum() == pytest.approx(paid, rel=1e-9, abs=1e-9)
    assert episode.of("equity")[-1] == pytest.approx(100_000 - paid, rel=1e-12)


def test_multiples_scale_every_rate_of_trading() -> None:
    costs = Costs(proportional={"A": 0.001, "default": 0.002}, per_share=0.01, interest=0.04)

    twice = costs.times(2.0, has_volume=True)

    assert twice.proportional == {"A": 0.002, "default": 0.004}
    assert (twice.per_share, twice.impact, twice.interest) == (0.02, 2.0, 0.04)


def test_unknown_and_missing_assets_are_errors_that_say_what_to_do() -> None:
    data = market_of([[10.0, 20.0]] * 3)
    for rates, words in (
        ({"A9": 0.1, "default": 0.0}, "unknown asset 'A9' in proportional"),
        (
            {"A0": 0.1},
            r"proportional has no number for the assets \['A1'\]; add them, or 'default'",
        ),
        ({"A0": 0.9, "default": 0.0}, "proportional from 0 to 0.5, got 0.9"),
    ):
        with pytest.raises(ValueError, match=words):
            sekai.make("Portfolio-v0", data=data, costs=Costs(proportional=rates), lookback=1)


def test_costs_by_asset_keep_with_assets_that_are_added() -> None:
    data = simulate_gbm(3, 60, seed=2)
    env: Any = sekai.make(
        "Portfolio-v0", data=data.select(data.assets[:2]).rows(0, 50), features=["log_return"],
        stream=True, slots=1, lookback=2,
        costs=Costs(proportional={data.assets[0]: 0.01, "default": 0.001}),
    ).unwrapped  # fmt: skip
    env.reset(seed=0)
    env.add_asset(data.assets[2], data=data.rows(0, 50))

    assert env.assets == data.assets


def test_settings_of_the_core_are_numbers_for_each_asset() -> None:
    config = PortfolioConfig(costs=Costs(per_share={"A1": 0.02, "default": 0.01}))

    shared = config.shared_settings(market_of([[10.0, 20.0]] * 3))

    assert shared["costs"]["per_share"] == [0.01, 0.02]
