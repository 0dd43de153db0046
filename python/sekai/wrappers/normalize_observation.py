"""Observation normalization by running mean and variance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from quant_gym_rs._core import RunningMoments
from sekai.core.env import ActType, Env
from sekai.core.wrapper import ObservationWrapper
from sekai.error import StateError
from sekai.spaces import Box, Dict, Space, Tuple


class NormalizeObservation(ObservationWrapper[Any, ActType, Any]):
    """Wrapper that normalizes observations by their running mean and variance (Welford).

    Every Box in a nested space is normalized element by element; other spaces pass unchanged. Set
    `learning` to False to freeze the statistics, for evaluation say. A non-finite observation
    raises, because it would corrupt the statistics.
    """

    def __init__(
        self, env: Env[Any, ActType], epsilon: float = 1e-8, clip: float = math.inf
    ) -> None:
        super().__init__(env)
        self.learning = True
        self.moments = NestedMoments(env.observation_space, epsilon, clip)
        self.observation_space = self.moments.normalised_space

    def observation(self, obs: Any) -> Any:
        """Update the statistics with an observation and normalize it."""
        return self.moments.normalise(obs, self.learning)


LARGE = 4096
"""Number of values from which allocation without zeros is faster."""


class NestedMoments:
    """Running moments of every Box in a space; normalizes samples and batches of them."""

    def __init__(self, space: Space[Any], epsilon: float = 1e-8, clip: float = math.inf) -> None:
        if not epsilon > 0:
            raise ValueError(f"epsilon must be above 0, got {epsilon}")
        if not clip > 0:
            raise ValueError(f"clip must be above 0, got {clip}")
        self._root = _node(space, epsilon, clip)
        self.normalised_space = self._root.space
        self.normalise = self._root.normalise

    def state_dict(self) -> dict[str, Any]:
        """Return the moments of every Box, by its path in the space."""
        return {path: leaf.moments.state_dict() for path, leaf in self._root.leaves("")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore saved moments; raise `StateError` and change nothing if they do not fit."""
        leaves = dict(self._root.leaves(""))
        if leaves.keys() != state.keys():
            raise StateError(f"expected statistics of {sorted(leaves)}, got {sorted(state)}")
        before = self.state_dict()
        try:
            for path, leaf in leaves.items():
                leaf.moments.load_state_dict(state[path])
        except (KeyError, TypeError, ValueError) as error:
            for path, leaf in leaves.items():
                leaf.moments.load_state_dict(before[path])
            raise StateError(f"saved statistics do not fit the space: {error}") from error


class _Unchanged:
    """Part of the space without moments."""

    def __init__(self, space: Space[Any]) -> None:
        self.space = space

    def normalise(self, value: Any, learn: bool) -> Any:
        return value

    def leaves(self, path: str) -> Iterator[tuple[str, _Leaf]]:
        return iter(())


class _Leaf:
    def __init__(self, box: Box, epsilon: float, clip: float) -> None:
        # float32 if it represents every value of the box exactly.
        self.dtype: np.dtype[Any] = np.promote_types(box.dtype, np.float32)
        self.space = Box(-clip, clip, shape=box.shape, dtype=self.dtype)
        self.moments = RunningMoments(math.prod(box.shape))
        self._epsilon = epsilon
        self._clip = clip

    def normalise(self, value: Any, learn: bool) -> Any:
        if getattr(value, "dtype", None) != self.dtype:
            value = np.asarray(value, dtype=self.dtype)
        # np.empty for large arrays: writing zeros first would cost as much as a copy.
        out = np.empty(value.shape, self.dtype) if value.size > LARGE else None
        return self.moments.normalise(value, self._epsilon, self._clip, learn, out)

    def leaves(self, path: str) -> Iterator[tuple[str, _Leaf]]:
        yield path, self


class _Branch:
    def __init__(self, parts: dict[Any, Any], space: Dict | Tuple) -> None:
        self._parts = parts
        self._is_dict = isinstance(space, Dict)
        shown = {key: part.space for key, part in parts.items()}
        self.space: Space[Any] = Dict(shown) if self._is_dict else Tuple(list(shown.values()))

    def normalise(self, value: Any, learn: bool) -> Any:
        shown = {key: part.normalise(value[key], learn) for key, part in self._parts.items()}
        return shown if self._is_dict else tuple(shown.values())

    def leaves(self, path: str) -> Iterator[tuple[str, _Leaf]]:
        for key, part in self._parts.items():
            yield from part.leaves(f"{path}/{key}")


def _node(space: Space[Any], epsilon: float, clip: float) -> _Leaf | _Branch | _Unchanged:
    if isinstance(space, Box) and space.dtype != bool:
        return _Leaf(space, epsilon, clip)
    if isinstance(space, Dict):
        items = space.spaces.items()
        return _Branch({key: _node(part, epsilon, clip) for key, part in items}, space)
    if isinstance(space, Tuple):
        parts = enumerate(space.spaces)
        return _Branch({index: _node(part, epsilon, clip) for index, part in parts}, space)
    return _Unchanged(space)
