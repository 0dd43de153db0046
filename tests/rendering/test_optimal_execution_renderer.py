"""OptimalExecutionRenderer: the chart equals the episode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.rendering import OptimalExecutionRenderer
from tests.rendering.episodes import SMALL, optimal_execution


def worked(plan: list[float], **settings: Any) -> tuple[Any, Any, list[Any]]:
    """A renderer that has watched and drawn an episode, its env, and the infos of its steps."""
    env, renderer = optimal_execution(**settings), OptimalExecutionRenderer(**SMALL)
    infos = [env.reset(seed=3).info]
    renderer.watch(env)
    for share in plan:
        infos.append(env.step(np.array([share])).info)
        renderer.watch(env)
    renderer.render(env)
    return renderer, env, infos


@pytest.mark.parametrize("side", ["sell", "buy"])
def test_fills_are_marked_where_they_were_and_on_their_side(side: str) -> None:
    renderer, _, infos = worked([0.5, 0.0, 0.25], side=side)
    own, other = (
        (renderer.fills.sold, renderer.fills.bought)
        if side == "sell"
        else (renderer.fills.bought, renderer.fills.sold)
    )
    sign = 1.0 if side == "sell" else -1.0
    rate = 2.5e-6 / (5.0 / 60)
    first = 50.0 - sign * (0.0625 + rate * 5e5)
    third = infos[2]["price"] - sign * (0.0625 + rate * 1.25e5)

    assert np.asarray(own.get_offsets()) == pytest.approx(np.array([[1, first], [3, third]]))
    assert own.get_sizes() == pytest.approx([300.0, 75.0])
    assert len(np.asarray(other.get_offsets())) == 0
    assert renderer.price.get_ydata().tolist() == [info["price"] for info in infos]


@pytest.mark.parametrize("side", ["sell", "buy"])
def test_what_is_left_is_drawn_beside_the_optimum(side: str) -> None:
    renderer, env, infos = worked([0.2, 0.1, 0.4], side=side)
    sign = 1.0 if side == "sell" else -1.0
    optimum = sign * env.unwrapped.config.model.trajectory()[:4]

    assert renderer.optimum.get_ydata() == pytest.approx(optimum, rel=1e-12)
    left = [sign * info["inventory"] for info in infos]
    assert renderer.account.position.get_ydata().tolist() == left


def test_marks_of_another_side_do_not_stay() -> None:
    renderer, _, _ = worked([0.5, 0.25], side="sell")
    other = optimal_execution(side="buy")
    other.reset(seed=4)
    renderer.render(other)

    assert len(np.asarray(renderer.fills.sold.get_offsets())) == 0


def test_the_picture_is_as_wide_as_the_order_lasts() -> None:
    renderer, _, _ = worked([0.2, 0.1])

    assert renderer.prices.get_xlim() == (-0.5, 60.5)


def test_a_restored_env_tells_the_same_scene() -> None:
    _, env, _ = worked([0.2, 0.1])
    other = optimal_execution()

    other.load_state_dict(env.state_dict())

    assert other.unwrapped.batch.scene() == env.unwrapped.batch.scene()
