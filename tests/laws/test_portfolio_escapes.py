"""No way out of a loss: halts, margin calls and the spread take what they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.market import Constraints, Costs, Execution, MarginAccount
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import (
    Floats,
    World,
    holdings,
    market_of,
    play,
    settings,
)
from tests.envs.reference_market import ReferenceMarket


def bounce(costs: Costs | None = None, rows: int = 400) -> float:
    """Profit of buying at the bid and selling at the ask of a constant mid price."""
    side = np.where(np.arange(rows) % 2, 1.0, -1.0)
    half = Costs().half_spread
    close = 100 * (1 + half * side)
    # The day opens where the last one closed: who buys low is filled low, if that were all.
    data = market_of(close, open_=np.append(close[0], close[:-1]), volume=np.full(rows, 1e9))
    actions = np.where(side[:-1, None] < 0, [1.0, 0.0], [0.0, 1.0])
    given: dict[str, Any] = {} if costs is None else {"costs": costs}
    config = settings(**{"costs": Costs(), **given})

    episode = play(World(data=data, config=config, actions=actions))
    return float(np.log(episode.of("equity")[-1] / 100_000))


def test_a_bid_ask_bounce_earns_nothing_at_the_default_costs() -> None:
    free = Costs(proportional=0.0, half_spread=0.0, impact=0.0)

    assert bounce(free) > 0.15
    assert bounce() < 0.0
    # With the spread alone all that is left is the last mark, at the ask.
    half_spread: Any = Costs().half_spread
    assert bounce(Costs(proportional=0.0, impact=0.0)) < 1.01 * half_spread


def crash(halted: slice, unfilled: str, sells: bool, fill: str) -> tuple[Floats, list[int]]:
    """Equity of a holder, who may sell, while an asset is halted in a crash."""
    close = np.array([100.0] * 4 + [90.0, 70.0, 50.0, 40.0, 35.0, 35.0, 35.0])
    shown = close.copy()
    shown[halted] = np.nan
    data = market_of(shown, open_=np.where(np.isnan(shown), np.nan, close))
    execution = Execution(fill=fill, unfilled=unfilled)  # type: ignore[arg-type]
    first = halted.start if sells else len(close)
    actions = np.array([[1.0, 0.0]] * first + [[0.0, 1.0]] * (len(close) - first))[: len(close) - 1]
    config = settings(execution=execution, decisions="every_row")
    episode = play(World(data=data, config=config, actions=actions))
    return episode.of("equity"), [row for row, *_ in episode.fills()]


@pytest.mark.parametrize("unfilled", ["drop", "carry"])
@pytest.mark.parametrize("fill", ["next_open", "next_close"])
@pytest.mark.parametrize("halted", [slice(4, 8), slice(4, 6), slice(5, 9)])
def test_a_halt_in_a_crash_is_no_way_out(halted: slice, fill: str, unfilled: str) -> None:
    held, _ = crash(halted, unfilled, sells=False, fill=fill)
    sold, rows = crash(halted, unfilled, sells=True, fill=fill)

    # The order was given when nothing could be traded, and fills on resumption at the earliest.
    assert not set(rows) & set(range(halted.start, halted.stop))
    before, after = halted.start - 1, halted.stop - 1
    assert (sold[before:after] == sold[before - 1]).all()
    assert np.array_equal(sold[: after + 1], held[: after + 1])
    assert sold[after] < 0.75 * sold[before]


def called_worlds() -> st.SearchStrategy[World]:
    """Accounts that borrow much, in markets that move much."""
    account = MarginAccount(leverage=4.0, maintenance=0.25)
    mandate = st.builds(Constraints, long_short=st.booleans(), max_weight=st.just(4.0))
    return mandate.flatmap(
        lambda constraints: worlds(
            account=account, constraints=constraints, decisions="every_row", action="weights"
        )
    )


@given(world=called_worlds())
@examples(80)
def test_a_margin_call_never_adds_to_a_position(world: World) -> None:
    episode = play(world)
    before, after = holdings(world, episode)
    rows = episode.of("time_index").astype(int)
    called = rows[:-1][episode.of("margin_call")[:-1] > 0] + 1

    for row in called:
        assert (np.abs(after[row]) <= np.abs(before[row]) * (1 + 1e-12)).all()
        assert (after[row] * before[row] >= 0).all()


@given(world=called_worlds())
@examples(80)
def test_a_margin_call_brings_holdings_down_to_the_leverage(world: World) -> None:
    episode = play(world)
    market, execution = ReferenceMarket(world.data, world.config), world.config.execution
    _, after = holdings(world, episode)
    rows = episode.of("time_index").astype(int)

    for place in np.flatnonzero(episode.of("margin_call")[:-1] > 0) + 1:
        row = rows[place]
        if execution.participation is None and world.data.tradable[row].all():
            moves = after[row] @ (market.marks[row] - market.prices[row])
            # At the prices of fills, before what the fills themselves cost.
            worth = episode.of("equity")[place] - moves + episode.of("cost")[place]
            gross = np.abs(after[row]) @ market.prices[row]
            assert gross <= 4.0 * max(worth, 0.0) * (1 + 1e-9) + 1e-6


@pytest.mark.parametrize("unfilled", ["drop", "carry"])
@pytest.mark.parametrize("delay", [0, 2])
def test_neither_carried_nor_delayed_orders_borrow_again_under_a_call(
    unfilled: str, delay: int
) -> None:
    close = np.array([100.0] * 6 + [80.0] + [78.0] * 6)
    data = market_of(close, open_=np.append(100.0, close[:-1]), volume=np.full(13, 2000.0))
    account = MarginAccount(leverage=4.0, maintenance=0.25)
    execution = Execution(unfilled=unfilled, delay=delay, participation=0.5)  # type: ignore[arg-type]
    mandate = Constraints(max_weight=4.0)
    config = settings(account=account, execution=execution, constraints=mandate)
    world = World(data=data, config=config, actions=np.array([[4.0, -3.0]] * 12))

    episode = play(world)
    units = holdings(world, episode)[1][:, 0]
    calls = np.flatnonzero(episode.of("margin_call")) + 1

    assert calls.size
    for row in calls[calls + 1 < len(units)]:
        assert units[row + 1] <= units[row]


def test_what_was_carried_gives_way_to_a_call() -> None:
    close = np.array([100.0] * 4 + [70.0] * 4)
    halted = np.full(8, 100.0)
    halted[2:7] = np.nan
    # The second asset is halted, so that nothing is decided and the first order stands alone.
    data = market_of(
        np.stack([close, halted], axis=1),
        open_=np.stack([np.append(100.0, close[:-1]), halted], axis=1),
        volume=np.full((8, 2), 2000.0),
    )
    config = settings(
        account=MarginAccount(leverage=4.0, maintenance=0.25),
        constraints=Constraints(max_weight=4.0),
        execution=Execution(unfilled="carry", participation=0.5),
        decisions="complete",
        starts=1,
    )

    episode = play(World(data=data, config=config, actions=np.array([[4.0, 0.0, -3.0]] * 4)))

    # A thousand a row until the call in row 4, and then as much out again, nothing in.
    fills = [(row, round(units, 6)) for row, _, units, _, _ in episode.fills()]
    assert fills[:4] == [(2, 1000.0), (3, 1000.0), (4, 1000.0), (5, -1000.0)]
    assert all(units < 0 for row, units in fills if row > 4)


def test_what_was_carried_ends_with_the_life_of_its_asset() -> None:
    close = np.array([[10.0], [10.0], [10.0], [np.nan], [np.nan], [10.0], [10.0], [5.0]])
    listed = np.array([True, True, True, False, False, True, True, True])[:, None]
    tradable = np.array([True, True, False, False, False, True, True, True])[:, None]
    data = market_of(close, listed=listed, tradable=tradable)
    config = settings(execution=Execution(unfilled="carry"))
    # All in, then out; the sale meets a halt, and then the asset is gone.
    actions = np.array([[1.0, 0.0], [0.0, 1.0]] + [[0.0, 1.0]] * 5)

    episode = play(World(data=data, config=config, actions=actions))

    assert [row for row, *_ in episode.fills()] == [1]
    assert (episode.weights()[2:, 0] == 0.0).all()


@pytest.mark.parametrize("unfilled", ["drop", "carry"])
def test_who_owes_more_than_is_held_at_the_open_is_sold_out_there(unfilled: str) -> None:
    """The close is above the open: whoever was not sold out would come back from ruin."""
    steady = np.full(6, 100.0)
    open_ = steady.copy()
    open_[3] = 60.0
    halted = steady.copy()
    halted[2] = np.nan
    # The second asset is halted in row 2, so that nothing is decided there and no order is due.
    data = market_of(np.stack([steady, halted], axis=1), open_=np.stack([open_, halted], axis=1))
    config = settings(
        account=MarginAccount(leverage=4.0, maintenance=0.25),
        constraints=Constraints(max_weight=4.0),
        execution=Execution(unfilled=unfilled),  # type: ignore[arg-type]
        decisions="complete",
        starts=1,
    )

    episode = play(World(data=data, config=config, actions=np.array([[4.0, 0.0, -3.0]] * 4)))

    assert [(row, units) for row, _, units, _, _ in episode.fills()] == [(2, 4000.0), (3, -4000.0)]
    assert episode.of("equity")[-1] == -60_000.0
    assert episode.terminated
