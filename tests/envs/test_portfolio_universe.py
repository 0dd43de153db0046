"""Assets that leave and come while an episode goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sekai
from sekai.data import Bar, MarketData, Pipeline
from sekai.envs import Portfolio
from sekai.error import StateError
from sekai.market import Constraints, Costs, Execution, MarginAccount
from tests.data.holed_panels import make_panel
from tests.envs.agents_apart import new_asset
from tests.envs.portfolio_worlds import World, env_of, market_of, play
from tests.envs.portfolio_worlds import settings as portfolio_settings
from tests.envs.streamed_worlds import (
    LOOKBACK,
    episode_bytes,
    push_until_ready,
    same,
    wanted,
    worlds,
)

DATA = make_panel(rows=40, assets=4, seed=1, holes=0.0)
OLD = DATA.select(DATA.assets[:3])
SETTINGS: dict[str, Any] = {"lookback": LOOKBACK, "features": ("log_return", "volatility(4)")}


def begun(data: MarketData = OLD, **options: Any) -> Portfolio:
    env = Portfolio(data=data, **{"starts": 10, **SETTINGS, **options})
    env.reset(seed=0)
    return env


def carrying(
    data: MarketData, delay: int, decisions: str, leverage: float | None = None, **options: Any
) -> dict[str, Any]:
    """A world in which orders wait, fill in parts, and are carried over rows without a decision."""
    execution = Execution(
        sizing="decision", delay=delay, unfilled="carry", participation=0.5,
        fill=options.pop("fill", "next_open"),
    )  # fmt: skip
    world = {"data": data, "lookback": LOOKBACK, "features": ["log_return"], **options}
    if leverage is not None:
        world["account"] = MarginAccount(leverage=leverage)
    return {**world, "execution": execution, "decisions": decisions}


@example(
    # After the last of it was sold, a sale that was still on its way was made good by a purchase.
    world=carrying(make_panel(42, 8, 2283328780, 0.05), 1, "complete"),
    place=3, count=5, seed=3608848293,
)  # fmt: skip
@example(
    # Two sales of the same units sold it short, and it was bought back.
    world=carrying(
        make_panel(39, 4, 3409559072, 0.05), 2, "complete", 1.5, fill="next_close",
        initial_cash=1e3, costs=Costs(fixed=3.0, impact=0.3),
    ),
    place=2, count=4, seed=330484754,
)  # fmt: skip
@example(
    world=carrying(make_panel(28, 1, 3571393831, 0.4), 2, "trading_days", 3.0, initial_cash=1e3),
    place=0, count=3, seed=1002426291,
)  # fmt: skip
@given(world=worlds(), place=st.integers(0, 8), count=st.integers(0, 5), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=100)
def test_what_is_removed_is_sold_and_never_bought(
    world: dict[str, Any], place: int, count: int, seed: int
) -> None:
    data, rng = world["data"], np.random.default_rng(seed)
    env = Portfolio(**world, starts=LOOKBACK, record=True, episode_rows=len(data))
    env.reset(seed=seed)
    place %= len(data.assets)
    name = data.assets[place]
    is_done = any(env.step(wanted(rng, len(data.assets))).done for _ in range(count))
    if is_done:
        return
    env.take_log()

    env.remove_asset(name)
    while not is_done:
        result = env.step(wanted(rng, len(data.assets)))
        assert result.observation["mask"][place] == 0
        is_done = result.done

    (log,) = env.take_log()
    held = log.opening_units[0, place]
    for units in log.trades.units[log.trades.asset == name]:
        assert abs(held + units) <= abs(held)
        assert held * (held + units) >= -1e-9 * held**2  # sold in parts, to the last bit but one
        held += units
    open_rows = data.tradable[log.opening_row + 4 : log.steps.row[-1] + 1, place]
    is_free = world["execution"].participation is None and not log.steps.margin_call.any()
    if is_free and open_rows.any() and world["decisions"] == "every_row":
        assert held == 0


def test_an_order_on_its_way_buys_nothing_of_what_is_removed() -> None:
    env = begun(execution=Execution(delay=2), record=True)
    everything = np.array([1.0, 0.0, 0.0, 0.0])
    env.step(everything)

    env.remove_asset("asset0")
    for _ in range(6):
        env.step(everything)

    assert "asset0" not in env.take_log()[0].trades.asset


@pytest.mark.parametrize("sizing", ["fill", "decision"])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_removal_in_a_halt_cancels_at_once_and_closes_when_trading_resumes(
    side: float, sizing: Any
) -> None:
    rows, halted = 16, slice(5, 9)
    quoted = np.ones((rows, 2), np.bool_)
    quoted[halted, 0] = False
    data = market_of(
        np.where(quoted, 10.0, np.nan), volume=np.full((rows, 2), 2_000.0),
        listed=np.ones_like(quoted), quoted=quoted,
    )  # fmt: skip
    execution = Execution(sizing=sizing, delay=1, unfilled="carry", participation=1.0)
    env = env_of(
        data, execution=execution, record=True, account=MarginAccount(leverage=2.0),
        constraints=Constraints(long_short=True, max_weight=1.0),
    )  # fmt: skip
    env.reset(seed=0)
    half = np.array([0.5 * side, 0.0, 1.0 - 0.5 * side])
    while env.step(half).info["time_index"] < 6:  # 2,000 units in rows 2, 3; then it is halted
        pass
    env.take_log()

    env.remove_asset("A0")
    while not env.step(half).done:
        pass

    (log,) = env.take_log()
    before, closing = log.opening_units[0, 0] * side, log.trades.asset == "A0"
    units = log.trades.units[closing] * side
    assert before > 2_000.0
    assert (units < 0.0).all()
    assert log.trades.row[closing].min() == 9
    assert units.sum() == pytest.approx(-before)


def test_a_sale_that_stands_goes_on_after_a_removal() -> None:
    data = market_of(np.full((12, 2), 10.0), volume=np.full((12, 2), 2_000.0))
    execution = Execution(sizing="decision", delay=3, participation=1.0)
    env = env_of(data, execution=execution, record=True)
    env.reset(seed=0)
    for weight in (0.2, 0.2, 0.2, 0.2, 0.1, 0.2):
        env.step(np.array([weight, 0.0, 1.0 - weight]))

    # On its way: a sale of 1,000, due in row 8, and a purchase of as many, due in row 9.
    env.remove_asset("A0")
    while not env.step(np.array([0.2, 0.0, 0.8])).done:
        pass

    trades = env.take_log()[0].trades
    closing = trades.asset == "A0"
    assert trades.row[closing].tolist() == [4, 8, 10]
    assert trades.units[closing] == pytest.approx([2_000.0, -1_000.0, -1_000.0])


def test_removal_cancels_what_every_agent_has_on_its_way() -> None:
    data = market_of(np.full((14, 2), 10.0), volume=np.full((14, 2), 1_000.0))
    config = portfolio_settings(
        execution=Execution(sizing="decision", delay=1, unfilled="carry", participation=1.0),
        account=MarginAccount(leverage=2.0),
        constraints=Constraints(long_short=True, max_weight=1.0),
    )
    both = np.array([0.5, 0.0, 0.5, -0.5, 0.0, 1.5])
    world = World(
        data=data, config=config, others=(config,), actions=np.tile(both, (13, 1)),
        removals={3: (0, True)},
    )  # fmt: skip

    episode = play(world)

    for agent, side in enumerate((1.0, -1.0)):
        fills = [fill for fill in episode.fills(agent) if fill[1] == 0]
        assert all((units * side > 0.0) == (row <= 3) for row, _, units, *_ in fills)
        assert episode.weights(agent)[-1, 0] == pytest.approx(0.0, abs=1e-12)


def test_what_is_let_in_again_can_be_bought() -> None:
    env = begun()
    everything = np.array([1.0, 0.0, 0.0, 0.0])
    env.step(everything)

    env.remove_asset("asset0")
    assert env.step(everything).observation["weights"][0] == 0
    env.add_asset("asset0")

    assert env.step(everything).observation["mask"][0] == 1
    assert env.step(everything).observation["weights"][0] > 0.9


def test_removal_ends_with_the_episode() -> None:
    env = begun()
    env.remove_asset("asset0")

    assert env.reset(seed=0).observation["mask"][0] == 1


def test_removed_assets_are_part_of_the_state() -> None:
    env, other = begun(), begun()
    env.remove_asset("asset1")

    other.load_state_dict(env.state_dict())

    assert other.step(np.full(4, 0.25)).observation["weights"][1] == 0


@given(world=worlds(), seed=st.integers(0, 2**32), slots=st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_free_places_change_nothing_for_the_others(
    world: dict[str, Any], seed: int, slots: int
) -> None:
    assets, rng = len(world["data"].assets), np.random.default_rng(seed)
    bare = Portfolio(**world, starts=LOOKBACK, episode_rows=99)
    wide = Portfolio(**world, starts=LOOKBACK, episode_rows=99, slots=slots)

    one: Any = bare.reset(seed=0)
    other: Any = wide.reset(seed=0)
    while True:
        seen = other.observation
        assert same(one.observation["windows"], seen["windows"][:, :assets])
        assert same(one.observation["account"], seen["account"])
        assert same(one.observation["weights"][:-1], seen["weights"][:assets])
        assert same(one.info, other.info)
        for part in (seen["windows"][:, assets:], seen["mask"][assets:]):
            assert not part.any()
        if getattr(one, "done", False):
            break
        action = wanted(rng, assets)
        one, other = bare.step(action), wide.step(np.insert(action, assets, np.zeros(slots)))


@given(world=worlds(), draw=st.data(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_a_new_asset_is_as_if_it_had_always_been_there(
    world: dict[str, Any], draw: st.DataObject, seed: int
) -> None:
    # Apart from what compares assets with each other: that stays as it was when it was seen.
    world |= {"features": ("log_return", "volatility(4)", "drawdown")}
    world["decisions"] = "every_row"
    data, rng = world.pop("data"), np.random.default_rng(seed)
    if len(data.assets) == 1:
        return
    old, assets = data.select(data.assets[:-1]), len(data.assets)
    stop = draw.draw(st.integers(LOOKBACK + 1, len(data) - 3))
    whole = Portfolio(data=data.rows(0, 5), stream=True, **world)
    grown = Portfolio(data=old.rows(0, 5), stream=True, slots=1, **world)
    bars = list(Bar.each(data, 5)), list(Bar.each(old, 5))
    whole.reset(seed=0), grown.reset(seed=0)
    # Or else it would be given what others cannot take.
    whole.remove_asset(data.assets[-1])

    for row in range(5, len(data)):
        if row == max(5, stop):
            whole.add_asset(data.assets[-1])
            grown.add_asset(data.assets[-1], new_asset(data, len(grown.data)))
            bars = bars[0], list(Bar.each(data, len(grown.data)))
        for env, queue in zip((whole, grown), bars, strict=True):
            push_until_ready(env, queue)
        action = wanted(rng, assets - 1, 1) if row < stop else wanted(rng, assets)
        results = whole.step(action), grown.step(action)
        if row >= stop:
            assert same(*results)
        if results[0].done:
            return

    assert grown.assets == data.assets
    assert grown.data == whole.data
    # The digest of the history tells the two apart, and where no order is on its way, nothing
    # else does.
    assert world["execution"].delay or episode_bytes(whole)[65:] == episode_bytes(grown)[65:]


def test_a_new_asset_can_come_into_a_panel_that_is_all_known() -> None:
    env = begun(slots=2)
    env.step(np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.5]))

    env.add_asset("asset3", new_asset(DATA))
    result = env.step(np.array([0.5, 0.0, 0.0, 0.5, 0.0, 0.0]))

    assert env.assets == DATA.assets
    assert result.observation["mask"].tolist() == [1, 1, 1, 1, 0]
    assert result.observation["weights"][3] > 0.4
    shown = Pipeline(SETTINGS["features"]).transform(DATA).values[10:13]
    assert (result.observation["windows"][:, :4] == shown).all()


def test_all_envs_of_a_vector_get_the_new_asset() -> None:
    vec: Any = sekai.make_vec("Portfolio-v0", num_envs=3, data=OLD, slots=1, starts=10, **SETTINGS)
    vec.reset(seed=0)
    actions = np.tile([0.3, 0.0, 0.0, 0.4, 0.3], (3, 1))
    vec.step(actions)

    vec.batch.add_asset("asset3", new_asset(DATA))
    vec.batch.remove_asset("asset0", env=1)
    weights = vec.step(actions).observations["weights"]

    assert (weights[:, 3] > 0.3).all()
    assert (weights[:, 0] > 0).tolist() == [True, False, True]
    vec.close()


def test_a_new_asset_is_held_to_the_cap_of_its_sector() -> None:
    sectors = dict.fromkeys(DATA.assets, "tech")
    data = DATA.replace(sectors=sectors)
    env = begun(data.select(data.assets[:3]), slots=1, constraints=Constraints(sector_caps=0.3))

    env.add_asset("asset3", new_asset(data))
    weights = env.step(np.array([0.0, 0.0, 0.0, 1.0, 0.0])).observation["weights"]

    assert 0.2 < weights[3] < 0.32


def test_a_state_after_a_new_asset_needs_the_same_asset() -> None:
    env, like, without = (begun(slots=1) for _ in range(3))
    env.step(np.array([0.5, 0.0, 0.0, 0.0, 0.5]))
    for one in (env, like):
        one.add_asset("asset3", new_asset(DATA))
    env.step(np.array([0.5, 0.0, 0.0, 0.5, 0.0]))
    state, before = env.state_dict(), without.batch.state_dict()

    like.load_state_dict(state)
    with pytest.raises(StateError, match="on other data"):
        without.load_state_dict(state)

    assert without.batch.state_dict() == before
    action = np.array([0.1, 0.2, 0.3, 0.4, 0.0])
    assert same(env.step(action), like.step(action))


def test_features_of_others_stay_what_they_were_when_they_were_seen() -> None:
    settings: dict[str, Any] = {"features": ("rank(log_return)",), "lookback": LOOKBACK}
    env = Portfolio(data=OLD.rows(0, 20), stream=True, slots=1, **settings)
    seen = env.reset(seed=0).observation["windows"]

    env.add_asset("asset3", new_asset(DATA, 20))
    env.push(next(Bar.each(DATA, 20)))
    now = env.step(np.full(5, 0.2)).observation["windows"]

    assert (now[:-1, :3] == seen[1:, :3]).all()
    assert now[:-1, 3].any()
    together = Pipeline(["rank(log_return)"]).transform(DATA).values
    assert (now[-1] == together[20]).all()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("asset3", None, "a new asset needs data"),
        ("asset1", DATA, "asset 'asset1' is in the universe"),
        ("asset9", DATA, "unknown asset 'asset9'"),
        ("asset3", DATA.rows(0, 39), "the 40 known rows"),
        ("asset3", DATA.select(fields=["close"]), "unknown field 'open'"),
    ],
)
def test_a_new_asset_that_does_not_fit_changes_nothing(
    name: str, data: MarketData | None, message: str
) -> None:
    env = begun(slots=1)
    before = env.batch.state_dict()

    with pytest.raises((ValueError, KeyError), match=message):
        env.add_asset(name, data)

    assert env.batch.state_dict() == before
    assert env.assets == OLD.assets


def test_a_new_asset_needs_a_free_place() -> None:
    env = begun()

    with pytest.raises(ValueError, match="no free slot for asset 'asset3'"):
        env.add_asset("asset3", new_asset(DATA))


def test_an_asset_that_is_not_there_cannot_be_removed() -> None:
    env = begun(slots=1)

    for name in ("slot_3", "asset7"):
        with pytest.raises(KeyError, match="unknown asset"):
            env.remove_asset(name)


def test_bars_carry_the_assets_that_are_there() -> None:
    env = Portfolio(data=OLD.rows(0, 20), stream=True, slots=2, **SETTINGS)
    env.reset(seed=0)
    env.push(next(Bar.each(OLD, 20)))
    env.add_asset("asset3", new_asset(DATA, 21))

    with pytest.raises(ValueError, match="4 assets by the fields"):
        env.push(next(Bar.each(OLD, 21)))
    env.push(next(Bar.each(DATA, 21)))

    assert len(env.data) == 22


@pytest.mark.parametrize("slots", [-1, 1.5])
def test_slots_are_counted(slots: Any) -> None:
    with pytest.raises(ValueError, match="slots must be a whole number"):
        Portfolio(data=OLD, slots=slots, **SETTINGS)
