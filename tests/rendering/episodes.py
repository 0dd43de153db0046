"""Episodes of the built-in tasks, as the tests of their renderers play them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sekai
from sekai.rendering import EpisodeRenderer

SMALL: dict[str, Any] = {"width": 320, "height": 400, "dpi": 60}
"""Pictures that are drawn quickly."""

Look = Callable[[Any], object]


def trading(**settings: Any) -> Any:
    """An env that shows the fair value."""
    return sekai.make("Trading-v0", **{"privileged": True, "max_ticks": 200, **settings})


def market_making(**settings: Any) -> Any:
    """An env with a short episode."""
    return sekai.make("MarketMaking-v0", **{"episode_steps": 40, **settings})


def optimal_execution(**settings: Any) -> Any:
    """An env whose order lasts, even if it is worked at random."""
    return sekai.make("OptimalExecution-v0", **{"episode_steps": 60, **settings})


def play(env: Any, ticks: int, seed: int | None = 24, look: Look | None = None) -> list[Any]:
    """Act at random from a reset on, let `look` see every moment, return all results."""
    results = [env.reset(seed=seed)]
    if look is not None:
        look(env)
    env.action_space.seed(1)
    for _ in range(ticks):
        results.append(env.step(env.action_space.sample()))
        if look is not None:
            look(env)
    return results


def as_bytes(results: list[Any]) -> list[bytes]:
    """All observations and rewards, bit for bit."""
    return [
        result.observation.tobytes() + np.float64(getattr(result, "reward", 0.0)).tobytes()
        for result in results
    ]


def shades(renderer: EpisodeRenderer[Any], env: Any) -> int:
    """How many colours a picture has."""
    return len(np.unique(renderer.render(env).reshape(-1, 3), axis=0))
