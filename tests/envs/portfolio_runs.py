"""Short episodes of portfolios, and all that is seen in them."""

from __future__ import annotations

from typing import Any

import numpy as np

import sekai
from sekai.core.result import equal_values
from sekai.data import simulate_gbm
from sekai.market import MarginAccount
from sekai.vector import VecEnv

DATA = simulate_gbm(3, 80, seed=1, volatility=0.8)

SHORT: dict[str, Any] = {
    "data": DATA,
    "features": ["log_return", "volatility(5)"],
    "lookback": 4,
    "episode_rows": 7,
    "account": MarginAccount(),
    "ruin": 0.9,
}
"""Episodes that end soon, some of them in ruin."""


def vector(num_envs: int, mode: Any = "native", **options: Any) -> Any:
    """Many short episodes."""
    return sekai.make_vec("Portfolio-v0", num_envs, mode, **{**SHORT, **options})


def single(**options: Any) -> Any:
    """One env of short episodes."""
    return sekai.make("Portfolio-v0", **{**SHORT, **options})


def plans(num_envs: int, steps: int) -> Any:
    """Weights for each step; those of an env do not depend on how many envs there are."""
    rows = [np.random.default_rng(env).normal(0.5, 1.0, (steps, 4)) for env in range(num_envs)]
    return np.stack(rows, axis=1)


def record(vec: VecEnv, steps: int = 30, seed: Any = 3) -> list[Any]:
    """All that an agent sees in some steps, with resets of some envs among them."""
    seen = [_parts(vec.reset(seed=seed))]
    for number, actions in enumerate(plans(vec.num_envs, steps)):
        result = vec.step(actions)
        seen.append(_parts(result))
        if vec.autoreset == "disabled" and result.dones.any():
            seen.append(_parts(vec.reset(ids=result.dones)))
        if number == steps // 2:
            seen.append(_parts(vec.reset(seed=[5], ids=[vec.num_envs - 1])))
    return seen


def same(one: Any, other: Any) -> bool:
    """Return True if two records are equal bit for bit."""
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return equal_values(one, other)


def _parts(result: Any) -> tuple[Any, ...]:
    *values, infos = (getattr(result, name) for name in result.__dataclass_fields__)
    return (*map(_copied, values), [dict(info) for info in infos])


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value.copy()
