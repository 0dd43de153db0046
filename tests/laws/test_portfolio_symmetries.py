"""Symmetries of portfolios: units of money, order of assets, unused assets, dates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sekai.market import Constraints
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import Episode, World, play

SYMMETRIC = examples(40)


def assert_same_course(one: Episode, other: Episode, scale: float = 1.0) -> None:
    """The same returns and weights, with money counted in other units."""
    near: dict[str, Any] = {"rtol": 1e-7, "atol": 1e-7}
    assert len(one.table) == len(other.table)
    assert (one.terminated, one.truncated) == (other.terminated, other.truncated)
    largest = max(1.0, float(np.abs(one.weights()).max()))
    np.testing.assert_allclose(other.weights() / largest, one.weights() / largest, **near)
    worth = max(float(np.abs(one.of("equity")).max()), float(one.of("gross").max()))
    for name in ("equity", "cash", "cost", "gross"):
        np.testing.assert_allclose(other.of(name) / scale / worth, one.of(name) / worth, **near)
    np.testing.assert_allclose(other.of("turnover"), one.of("turnover"), **near)


@given(world=worlds(reward="log_return"), power=st.sampled_from([-7, 3, 10]))
@SYMMETRIC
def test_money_can_be_counted_in_other_units(world: World, power: int) -> None:
    """Prices and cash k times as high, with the same units: everything is k times as high."""
    scale, data = 2.0**power, world.data
    values = data.values.copy()
    values[:, :, :2] *= scale
    config = replace(
        world.config,
        initial_cash=world.config.initial_cash * scale,
        costs=replace(world.config.costs, fixed=world.config.costs.fixed * scale),
    )

    other = replace(world, data=data.replace(values=values), config=config)
    assert_same_course(play(world), play(other), scale)


@given(world=worlds(reward="log_return"), power=st.sampled_from([-7, 3, 10]))
@SYMMETRIC
def test_shares_can_be_split(world: World, power: int) -> None:
    """Prices k times as high and volumes as much smaller: the same weights and returns."""
    scale, data = 2.0**power, world.data
    values = data.values.copy()
    values[:, :, :2] *= scale
    values[:, :, 2:] /= scale

    assert_same_course(play(world), play(replace(world, data=data.replace(values=values))))


@given(world=worlds(action="weights", reward="log_return"), seed=st.integers(0, 99))
@SYMMETRIC
def test_the_order_of_assets_does_not_matter(world: World, seed: int) -> None:
    assets = len(world.data.assets)
    order = np.random.default_rng(seed).permutation(assets)
    columns = np.append(order, assets)
    world = replace(world, removals={})
    other = replace(
        world,
        data=world.data.select([world.data.assets[place] for place in order]),
        actions=world.actions[:, columns],
    )

    one, permuted = play(world), play(other)
    table = permuted.table.copy()
    table[:, -assets - 1 :] = permuted.weights()[:, np.argsort(columns)]
    assert_same_course(one, replace(permuted, table=table))


@given(world=worlds(action="weights", reward="log_return", decisions="every_row"))
@SYMMETRIC
def test_an_asset_that_cannot_be_traded_changes_nothing(world: World) -> None:
    # The mean of all assets is another benchmark, and a wish for it would be spread over others.
    data, assets = world.data, len(world.data.assets)
    stranger = np.full((len(data), 1, len(data.fields)), 7.0)
    never = np.zeros((len(data), 1), np.bool_)
    other_data = data.replace(
        assets=(*data.assets, "stranger"),
        values=np.concatenate([data.values, stranger], axis=1),
        listed=np.hstack([data.listed, ~never]),
        quoted=np.hstack([data.quoted, ~never]),
        tradable=np.hstack([data.tradable, never]),
    )
    other = replace(world, data=other_data, actions=np.insert(world.actions, assets, 0.0, axis=1))

    one, found = play(world), play(other)
    table = np.delete(found.table, found.table.shape[1] - 2, axis=1)
    assert (found.weights()[:, assets] == 0.0).all()
    assert_same_course(one, replace(found, table=table))


@given(world=worlds(), days=st.integers(-9000, 9000))
@SYMMETRIC
def test_the_date_does_not_matter(world: World, days: int) -> None:
    later = world.data.times + np.timedelta64(days, "D")
    other = replace(world, data=world.data.replace(times=later))

    one, shifted = play(world), play(other)
    lead = one.table[:, :2], shifted.table[:, :2]
    assert np.array_equal(*lead)
    assert np.array_equal(one.table[:, 3:], shifted.table[:, 3:])


@given(world=worlds(constraints=Constraints()))
@SYMMETRIC
def test_wishing_for_what_is_held_trades_nothing(world: World) -> None:
    assume(world.config.action == "weights")
    assets = len(world.data.assets)
    stay = np.append(np.zeros(assets), 1.0)

    episode = play(replace(world, actions=np.tile(stay, (len(world.data), 1)), removals={}))
    assert episode.fills() == []
    assert episode.of("turnover").sum() == 0.0
    assert episode.of("commission").sum() == pytest.approx(0.0)
