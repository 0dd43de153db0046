"""TradingRenderer: the chart equals the episode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.rendering import TradingRenderer
from sekai.rendering.trading_renderer import (
    SHADES,
    TradingScene,
    depth_codes,
    next_power_of_two,
    trades_by_tick,
)
from tests.rendering.episodes import SMALL, play, trading


def drawn(ticks: int, seed: int = 24, **options: Any) -> TradingRenderer:
    """A renderer that has watched an episode and drawn its end."""
    renderer = TradingRenderer(**{**SMALL, **options})
    env = trading()
    play(env, ticks, seed, renderer.watch)
    renderer.render(env)
    return renderer


def test_prices_are_those_of_the_market() -> None:
    renderer = drawn(20)
    scenes = renderer.history.scenes

    assert renderer.mid.get_xdata().tolist() == list(range(21))  # type: ignore[union-attr]
    assert np.array_equal(renderer.mid.get_ydata(), [0.01 * scene.mid for scene in scenes])
    fair = [0.01 * scene.fair for scene in scenes if scene.fair is not None]
    assert np.array_equal(renderer.fair.get_ydata(), fair)
    low, high = renderer.prices.get_ylim()
    assert low < 0.01 * min(scene.mid for scene in scenes) - 0.1
    assert high > 0.01 * max(scene.mid for scene in scenes) + 0.1


def test_the_fair_value_stays_unseen_unless_the_agent_sees_it() -> None:
    env = trading(privileged=False)
    env.reset(seed=1)

    with TradingRenderer(**SMALL) as renderer:
        renderer.render(env)

        assert np.isnan(renderer.fair.get_ydata()).all()
        (legend,) = renderer.prices.figure.legends
        assert "fair value" not in [text.get_text() for text in legend.get_texts()]


def test_the_ladder_is_the_book() -> None:
    renderer = drawn(10, margin=60)
    scene = renderer.history.last

    for side, stairs in (("bid", renderer.ladder.bids), ("ask", renderer.ladder.asks)):
        values, edges, _ = stairs.get_data()
        prices = np.round((edges[:-1] + edges[1:]) / 2 / scene.tick_size).astype(int)
        shown = {int(p): int(v) for p, v in zip(prices, values, strict=True) if v > 0}
        columns = getattr(scene, f"{side}_price"), getattr(scene, f"{side}_size")
        assert shown == dict(zip(*(column.tolist() for column in columns), strict=True))


def test_the_map_has_a_column_for_every_tick_and_a_row_for_every_price() -> None:
    renderer = drawn(12)
    codes = renderer.depth.image.get_array()
    left, right, bottom, top = renderer.depth.image.get_extent()
    scene = renderer.history.last

    assert codes is not None
    assert codes.shape[1] == right - left == 13
    assert codes.shape[0] == round((top - bottom) / scene.tick_size)
    best_bid = round(scene.bid_price[0] - bottom / scene.tick_size - 0.5)
    assert codes[best_bid, -1] > 0
    best_ask = round(scene.ask_price[0] - bottom / scene.tick_size - 0.5)
    assert codes[best_ask, -1] < 0


def test_own_fills_are_marked_and_nobody_elses() -> None:
    renderer = drawn(30)
    scenes = renderer.history.scenes

    for sign in (1, -1):
        marked = {
            int(tick): price for tick, price in np.asarray(renderer.trades.own[sign].get_offsets())
        }
        for scene in scenes:
            is_own = scene.trade_own == sign
            assert (scene.tick in marked) == is_own.any()
            if is_own.any():
                paid = np.average(scene.trade_price[is_own], weights=scene.trade_size[is_own])
                assert marked[scene.tick] == pytest.approx(0.01 * paid)
    lots = sum(int((scene.trade_own * scene.trade_size).sum()) for scene in scenes)
    assert lots == scenes[-1].lots != 0


def test_marks_grow_with_volume() -> None:
    renderer = drawn(30)
    _, _, volumes = trades_by_tick(renderer.history.scenes, 1, is_own=False)
    areas = renderer.trades.others[1].get_sizes()

    assert len(set(volumes)) > 3
    assert np.array_equal(np.argsort(volumes, kind="stable"), np.argsort(areas, kind="stable"))


def test_news_is_shaded_from_its_first_tick_until_now() -> None:
    before, after = drawn(57), drawn(80)

    assert not before.news.spans
    ((news, (strip, *areas, name)),) = after.news.spans.items()
    assert news[0] == "guidance"
    assert news[3] == 58
    for area in (strip, *areas):
        assert (area.get_x(), area.get_width()) == (57.5, 23)
    assert len(areas) == 2
    assert name.get_text() == " ▼ guidance -1.0"
    # A name that is longer than its strip ends with it.
    assert name.get_clip_box().bounds == pytest.approx(strip.get_window_extent().bounds)


def test_news_that_has_left_the_picture_is_removed() -> None:
    renderer = drawn(70)
    artists = len(renderer.prices.patches)

    env = trading()
    play(env, 3, seed=7, look=renderer.render)

    assert not renderer.news.spans
    assert len(renderer.prices.patches) == artists - 1


def test_a_symbol_that_is_not_there_is_refused() -> None:
    env = trading()
    env.reset(seed=0)

    with (
        TradingRenderer(symbol=2, **SMALL) as renderer,
        pytest.raises(IndexError, match="a symbol from 0 to 0, got 2"),
    ):
        renderer.render(env)
    with pytest.raises(ValueError, match="margin must be an integer of at least 1"):
        TradingRenderer(margin=0)


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(st.integers(90, 99), st.integers(1, 5000)),
    st.dictionaries(st.integers(101, 110), st.integers(1, 5000)),
    st.integers(1, 4),
)
def test_more_lots_are_never_shown_fainter(
    bids: dict[int, int], asks: dict[int, int], gap: int
) -> None:
    now = replace(
        SCENE,
        bid_price=np.array(list(bids), dtype=np.int64),
        bid_size=np.array(list(bids.values()), dtype=np.int64),
        ask_price=np.array(list(asks), dtype=np.int64),
        ask_size=np.array(list(asks.values()), dtype=np.int64),
    )

    codes = depth_codes([now, replace(now, tick=now.tick + gap)], 92, 108)

    assert codes.shape == (17, gap + 1)
    assert (codes == codes[:, :1]).all()
    for book, sign in ((bids, 1), (asks, -1)):
        shown = sorted((size, sign * codes[p - 92, 0]) for p, size in book.items() if 92 <= p < 109)
        strengths = [int(strength) for _, strength in shown]
        assert strengths == sorted(strengths)
        assert all(1 <= strength <= SHADES for strength in strengths)
    empty = [price for price in range(92, 109) if price not in bids and price not in asks]
    assert not codes[np.array(empty, dtype=int) - 92].any()


@given(st.integers(1, 10**6))
def test_rounding_up_gives_the_next_power_of_two(size: int) -> None:
    rounded = next_power_of_two(size)

    assert size <= rounded < 2 * size or size == rounded == 1
    assert rounded & (rounded - 1) == 0


NONE = np.empty(0, dtype=np.int64)
SCENE = TradingScene(
    seed=0, episode=0, tick=5, tick_size=1.0, mid=100.0, fair=None, lots=0, cash=0.0, equity=0.0,
    initial_cash=0.0, bid_price=NONE, bid_size=NONE, ask_price=NONE, ask_size=NONE,
    trade_price=NONE, trade_size=NONE, trade_sign=NONE, trade_own=NONE, news=[],
)  # fmt: skip
