"""Episodes of trading, kept as columns for the tests to count over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs import Trading

Floats = NDArray[np.float64]
LIMIT = 900
"""Lots that an account may hold or owe unless it is set otherwise."""


@dataclass(frozen=True)
class Path:
    """Recorded episode. Row 0 is the reset; `rewards[t]` led from row t to row t + 1."""

    observations: Floats
    rewards: Floats
    infos: dict[str, Floats]
    names: list[str]
    terminated: bool
    truncated: bool

    def feature(self, name: str) -> Floats:
        return self.observations[:, self.names.index(name)]

    def each(self, name: str) -> Floats:
        """A feature of all symbols, one column each."""
        places = [place for place, one in enumerate(self.names) if one.split("@")[0] == name]
        return self.observations[:, places]

    @property
    def mids(self) -> Floats:
        return self.each("f_mid_price")

    @property
    def lots(self) -> Floats:
        """Lots of each symbol; needs `agent=True` and the usual limits."""
        lots = LIMIT * self.each("a_position")
        assert np.abs(lots - np.rint(lots)).max() < 1e-9
        return np.rint(lots)


def follow(actions: Sequence[Any] | Callable[[Any], Any], seed: int = 0, **settings: Any) -> Path:
    """Play an episode, until it ends or there are no more actions."""
    env = Trading(**settings)
    start = env.reset(seed=seed)
    seen, infos, rewards, result = [start.observation], [start.info], [], None
    for action in actions if isinstance(actions, Sequence) else iter(lambda: actions(env), None):
        result = env.step(action)
        seen.append(result.observation)
        infos.append(result.info)
        rewards.append(result.reward)
        if result.done:
            break
    assert result is not None
    columns = {name: np.array([info[name] for info in infos]) for name in start.info}
    return Path(
        np.array(seen),
        np.array(rewards),
        columns,
        env.feature_names(),
        result.terminated,
        result.truncated,
    )


def choices(seed: int, steps: int, symbols: int = 1) -> list[Any]:
    """Random choices to sell, hold or buy."""
    drawn = np.random.default_rng(seed).integers(0, 3, (steps, symbols))
    return [int(row[0]) if symbols == 1 else row for row in drawn]


def weights(seed: int, steps: int, symbols: int = 1, most: float = 1.0) -> list[Any]:
    """Random shares of equity."""
    drawn = np.random.default_rng(seed).uniform(-most, most, (steps, symbols))
    return list(drawn)
