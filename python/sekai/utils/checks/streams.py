"""Finds the random streams that an env draws from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from sekai.spaces import Space
from sekai.utils.checks.difference import first_difference

__all__ = ["StreamWatch", "global_states"]


class StreamWatch:
    """Notices whether any generator that the env holds has been drawn from."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._first: dict[str, Any] = {}
        self._moved = False
        self.look()

    @property
    def has_drawn(self) -> bool:
        """Whether a draw has been noticed so far."""
        return self._moved

    def look(self) -> None:
        """Compare the streams with how they were found at first."""
        for name, stream in _streams(self._env):
            if isinstance(stream, np.random.Generator):
                self._moved = self._moved or _is_past_its_seed(stream)
                continue
            state = _state(stream)
            before = self._first.setdefault(name, state)
            self._moved = self._moved or first_difference(before, state) is not None


def global_states() -> dict[str, Any]:
    """Where the generators stand that the whole process shares."""
    return {"numpy.random": _state(np.random.mtrand._rand), "random": random.getstate()}


def _streams(env: Any) -> Iterator[tuple[str, Any]]:
    for depth, layer in enumerate(env):
        for name, value in list(vars(layer).items()):
            for key, stream in _streams_in(value):
                yield f"{depth}.{name}{key}", stream


def _streams_in(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
        yield "", value
    elif isinstance(value, Space):
        if value._rng is not None:
            yield ".rng", value._rng
        for key, child in value.children().items():
            yield from ((f".{key}{inner}", stream) for inner, stream in _streams_in(child))
    elif isinstance(value, (dict, list, tuple)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            if isinstance(part, (np.random.Generator, np.random.RandomState, Space)):
                yield from ((f".{key}{inner}", stream) for inner, stream in _streams_in(part))


def _is_past_its_seed(generator: np.random.Generator) -> bool:
    bits = generator.bit_generator
    seed_sequence = getattr(bits, "seed_seq", None)
    if seed_sequence is None:
        return True
    fresh = type(bits)(seed_sequence)
    return first_difference(fresh.state, bits.state) is not None


def _state(stream: Any) -> Any:
    if isinstance(stream, random.Random):
        return stream.getstate()
    return stream.get_state(legacy=False)
