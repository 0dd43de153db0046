"""MarketMakingRenderer: the chart equals the episode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.rendering import MarketMakingRenderer
from sekai.rendering.market_making_renderer import quote_fills
from tests.rendering.episodes import SMALL, market_making


def quoting(bid: float, ask: float, steps: int = 30) -> tuple[MarketMakingRenderer, list[Any]]:
    """A renderer that has watched and drawn an episode, and the infos of its steps."""
    env, renderer = market_making(), MarketMakingRenderer(**SMALL)
    infos = [env.reset(seed=3).info]
    renderer.watch(env)
    for _ in range(steps):
        infos.append(env.step(np.array([bid, ask])).info)
        renderer.watch(env)
    renderer.render(env)
    return renderer, infos


def test_quotes_stand_at_their_distance_from_the_mid() -> None:
    renderer, infos = quoting(0.25, 0.5)
    mids = np.array([info["mid"] for info in infos])

    assert np.array_equal(renderer.price.get_ydata(), mids)
    bids, asks = np.asarray(renderer.bid.get_ydata()), np.asarray(renderer.ask.get_ydata())
    assert np.isnan([bids[0], asks[0]]).all()
    assert np.array_equal(bids[1:], mids[1:] - 0.25)
    assert np.array_equal(asks[1:], mids[1:] + 0.5)
    spread = renderer.spread.get_data()
    assert np.array_equal(spread.values[1:], asks[1:])
    assert np.array_equal(spread.baseline[1:], bids[1:])


def test_fills_are_marked_on_the_side_that_was_hit() -> None:
    renderer, infos = quoting(0.2, 5.0)
    bought, sold = quote_fills(renderer.history)

    assert not sold.any()
    assert np.array_equal(np.cumsum(bought), [info["inventory"] for info in infos])
    marks = np.asarray(renderer.fills.bought.get_offsets())
    assert np.array_equal(marks[:, 0], np.flatnonzero(bought))
    assert np.array_equal(renderer.fills.bought.get_sizes(), 36 * bought[bought > 0])
    assert len(np.asarray(renderer.fills.sold.get_offsets())) == 0


def test_fills_on_both_sides_add_up() -> None:
    renderer, infos = quoting(0.0, 0.0)
    bought, sold = quote_fills(renderer.history)

    assert bought.sum() + sold.sum() == infos[-1]["fills"]
    assert bought.sum() - sold.sum() == infos[-1]["inventory"]
    assert min(bought.min(), sold.min()) == 0


def test_a_restored_env_tells_the_same_scene() -> None:
    env, other = market_making(), market_making()
    env.reset(seed=2)
    env.step(np.array([0.3, 0.4]))

    other.load_state_dict(env.state_dict())

    scene = other.unwrapped.batch.scene()
    assert scene == env.unwrapped.batch.scene()
    assert (scene["bid_distance"], scene["ask_distance"]) == pytest.approx((0.3, 0.4))
