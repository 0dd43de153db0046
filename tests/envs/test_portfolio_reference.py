"""Native episodes of portfolios equal the reference to rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import INFO, Episode, World, play
from tests.envs.reference_portfolio import Reference

RELATIVE = 1e-9


def assert_same_episode(world: World) -> None:
    """Every number of every step and every fill, relative to what it is a part of."""
    wanted = Reference(world).run()
    found = play(world)
    if world.config.costs.fixed and has_dust(wanted, found):
        return

    assert (found.terminated, found.truncated) == (wanted.terminated, wanted.truncated)
    assert len(found.table) == len(wanted.steps) * len(world.agents)
    for agent, settings in enumerate(world.agents):
        assert_same_account(wanted, found, agent, settings.initial_cash)
        assert_same_fills(wanted, found, agent)


def has_dust(wanted: Reference, found: Episode) -> bool:
    """Return True if an order is within rounding, where its commission is undetermined."""
    book = [
        abs(units) * wanted.market.prices[row, asset] for _, row, asset, units, _ in wanted.fills
    ]
    done = np.abs(found.trades["units"]) * found.trades["price"]
    least = min(agent.initial_cash for agent in wanted.world.agents)
    return bool((np.append(book, done) < 1e-9 * least).any())


def assert_same_account(wanted: Reference, found: Episode, agent: int, cash: float) -> None:
    # Of what rounding left of nothing, shares are anything, and so is whether it is called.
    worth_it = [step.infos[agent]["equity"] > RELATIVE * cash for step in wanted.steps]
    for name in (*INFO, "refused", "waived"):
        if name == "margin_call":
            calls = np.array([step.infos[agent][name] for step in wanted.steps])
            assert (found.of(name, agent) == calls)[worth_it].all()
            continue
        numbers = np.array([step.infos[agent][name] for step in wanted.steps])
        shown = found.of(name, agent)
        if name == "turnover":
            numbers, shown = numbers[worth_it], shown[worth_it]
        most = max(cash, *np.abs([step.infos[agent]["gross"] for step in wanted.steps]))
        scale = 1.0 if name in ("turnover", "drawdown", "time_index") else most
        np.testing.assert_allclose(
            shown, numbers, rtol=RELATIVE, atol=RELATIVE * scale, err_msg=name
        )
    rewards = [step.rewards[agent] for step in wanted.steps]
    # Rewards may be means of those of others, and profits are as exact as what they change.
    largest = max(1.0, *(account.largest_reward for account in wanted.accounts))
    worth = max(info["gross"] + abs(info["cash"]) for step in wanted.steps for info in step.infos)
    exact = RELATIVE * largest + 1e-13 * worth
    np.testing.assert_allclose(found.of("reward", agent), rewards, atol=exact, rtol=0)
    weights = np.array([step.weights[agent] for step in wanted.steps])[worth_it]
    scale = max(1.0, float(np.abs(weights).max(initial=0.0)))
    shown = found.weights(agent)[worth_it]
    np.testing.assert_allclose(shown, weights, rtol=0, atol=1e-8 * scale)


def assert_same_fills(wanted: Reference, found: Episode, agent: int) -> None:
    mine = [fill[1:] for fill in wanted.fills if fill[0] == agent]
    book = {(row, asset): (units, rate) for row, asset, units, rate in mine}
    done = {(row, asset): (units, rate) for row, asset, units, _, rate in found.fills(agent)}
    for place in book.keys() | done.keys():
        price = wanted.market.prices[place]
        value = max(a.peak for a in wanted.accounts)
        units, rate = np.subtract(book.get(place, (0.0, 0.0)), done.get(place, (0.0, 0.0)))
        assert abs(units) * price <= 1e-8 * value, (place, book.get(place), done.get(place))
        if place in book and place in done:
            # The root of a size that is all rounding is no rate: what it costs is compared.
            assert abs(rate * done[place][0]) * price <= RELATIVE * value


@given(world=worlds())
@examples(300)
def test_one_portfolio_is_worth_what_the_book_says(world: World) -> None:
    assert_same_episode(world)


@given(world=worlds(max_agents=4))
@examples(150)
def test_several_portfolios_are_worth_what_the_book_says(world: World) -> None:
    assert_same_episode(world)


@pytest.mark.nightly
@given(world=worlds(max_agents=4))
@examples(20_000)
def test_thousands_of_portfolios_are_worth_what_the_book_says(world: World) -> None:
    assert_same_episode(world)
