"""The seed of each env of a vector: it depends on the vector's seed and the env's index alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Seeds", "env_seed", "per_env_options", "per_env_seeds", "restart_seed"]

Seeds: TypeAlias = "int | Sequence[int | None] | None"
"""One seed for the vector, one for each env, or none: every stream goes on."""

GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


def env_seed(seed: int, index: int) -> int:
    """The seed of env `index` in a vector that is reset with `seed`.

    Nearby seeds must not share streams, as `seed + index` would: seed 0's env 1 would replay
    seed 1's env 0. So the seed is spread first, and each index takes its own place after it.
    """
    return _mixed(_spread(seed) + (index + 1) * GOLDEN) >> 1


def restart_seed(seed: int | None, restarts: int) -> int | None:
    """The seed with which an env comes back for the `restarts`-th time: its own stream goes on."""
    return None if seed is None else _mixed(_spread(seed) ^ _mixed(restarts * GOLDEN)) >> 1


def per_env_seeds(seed: Seeds, ids: Sequence[int]) -> list[int | None]:
    """One seed, or None, for each of the envs `ids`."""
    if seed is None:
        return [None] * len(ids)
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        base = _spread(_checked(seed))
        return [_mixed(base + (index + 1) * GOLDEN) >> 1 for index in ids]
    if isinstance(seed, (str, bytes, bool)) or not hasattr(seed, "__len__"):
        raise ValueError(f"seed must be a whole number, one seed per env, or None; was {seed!r}")
    if len(seed) != len(ids):
        raise ValueError(f"{len(ids)} seeds were wanted, one per env, found {len(seed)}")
    return [None if one is None else _checked(one) for one in seed]


def per_env_options(
    options: dict[str, Any] | Sequence[dict[str, Any] | None] | None, count: int
) -> list[dict[str, Any] | None]:
    """The reset options of each of `count` envs: the same for all, or a list of them."""
    if options is None or isinstance(options, dict):
        return [options] * count
    if len(options) != count:
        raise ValueError(f"{count} options were wanted, one per env, found {len(options)}")
    return list(options)


def _checked(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"a seed must be a whole number of at least 0, was {seed!r}")
    return int(seed)


def _spread(seed: int) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def _mixed(word: int) -> int:
    """SplitMix64's finaliser: a one-to-one map of 64-bit words without visible pattern."""
    word &= WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)
