"""Episodes of the built-in tasks for the renderer tests."""

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


def portfolio(**settings: Any) -> Any:
    """An env with a short window."""
    return sekai.make("Portfolio-v0", **{"lookback": 3, "episode_rows": 60, **settings})


def multi_portfolio(**settings: Any) -> Any:
    """An env of three agents with a short window."""
    return sekai.make("MultiPortfolio-v0", **{"lookback": 3, "episode_rows": 60, **settings})


def order_execution(**settings: Any) -> Any:
    """An env with made-up minutes."""
    return sekai.make("OrderExecution-v0", **settings)


def play(env: Any, ticks: int, seed: int | None = 24, look: Look | None = None) -> list[Any]:
    """Act at random from a reset on, let `look` see every moment, return all results."""
    results = [env.reset(seed=seed)]
    if look is not None:
        look(env)
    act = acting(env)
    for _ in range(ticks):
        results.append(env.step(act()))
        if look is not None:
            look(env)
    return results


def acting(env: Any) -> Callable[[], Any]:
    """Sampler of the next action of an env, or of all its agents."""
    spaces = getattr(env, "action_spaces", None) or {"": env.action_space}
    for seed, space in enumerate(spaces.values(), start=1):
        space.seed(seed)

    def act() -> Any:
        drawn: dict[str, Any] = {name: space.sample() for name, space in spaces.items()}
        return drawn.get("", drawn)

    return act


def as_bytes(results: list[Any]) -> list[bytes]:
    """All observations and rewards, bit for bit."""
    return [
        b"".join(part.tobytes() for part in _parts(result.observation))
        + np.float64(getattr(result, "reward", 0.0)).tobytes()
        for result in results
    ]


def _parts(observation: Any) -> list[Any]:
    return list(observation.values()) if isinstance(observation, dict) else [observation]


def shades(renderer: EpisodeRenderer[Any], env: Any) -> int:
    """Number of colors of a frame."""
    return len(np.unique(renderer.render(env).reshape(-1, 3), axis=0))
