"""Random numbers of agents: a torch stream of their own, and draws for slices of envs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "EnvSlice",
    "RandomStream",
    "env_slice_drawn",
    "exponential",
    "first_env",
    "normal",
    "random_key",
    "uniform",
]

Draw = Callable[[tuple[int, ...]], Tensor]
"""Draws random numbers of a shape."""


@dataclass(frozen=True)
class EnvSlice:
    """Slice of the envs of an agent, from `first` to before `end`."""

    first: int
    end: int
    total: int
    """Number of all envs."""

    @property
    def count(self) -> int:
        """Number of envs in the slice."""
        return self.end - self.first

    def draw(self, draw: Draw, shape: Sequence[int]) -> Tensor:
        """Draw for all envs and return the rows of the slice; rows of several agents follow."""
        rows, *rest = shape
        if rows % self.count:
            raise ValueError(f"rows must be a multiple of {self.count} envs, got {rows}")
        agents = rows // self.count
        drawn = draw((agents * self.total, *rest)).reshape(agents, self.total, *rest)
        return drawn[:, self.first : self.end].reshape(tuple(shape))


_TINY = torch.finfo(torch.float32).tiny
_slices: list[EnvSlice | None] = [None]


@contextmanager
def env_slice_drawn(env_slice: EnvSlice | None) -> Iterator[None]:
    """Context in which random numbers of a slice are drawn for all envs; None for all envs."""
    _slices.append(env_slice)
    try:
        yield
    finally:
        _slices.pop()


def normal(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers, with rows by env."""
    return _drawn(lambda size: torch.randn(size, dtype=dtype), shape)


def uniform(shape: Sequence[int]) -> Tensor:
    """Uniform numbers in [0, 1), with rows by env."""
    return _drawn(torch.rand, shape)


def exponential(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard exponential numbers above 0, with rows by env.

    The smallest of such numbers divided by probabilities is a categorical sample.
    """
    drawn = _drawn(lambda size: torch.empty(size, dtype=dtype).exponential_(), shape)
    # Zero, rare as it is, would let a masked action win.
    return drawn.clamp_min_(_TINY)


def _drawn(draw: Draw, shape: Sequence[int]) -> Tensor:
    env_slice = _slices[-1]
    return draw(tuple(shape)) if env_slice is None else env_slice.draw(draw, shape)


def random_key() -> int:
    """Key of random streams that native code derives for each env."""
    return int(torch.randint(2**62, ()))


def first_env() -> int:
    """Index of the first env among those of the agent: not 0 in a worker with a slice of them."""
    env_slice = _slices[-1]
    return 0 if env_slice is None else env_slice.first


class RandomStream:
    """Random stream: inside the context, torch draws from it."""

    def __init__(self, seed: int) -> None:
        outer = torch.get_rng_state()
        torch.manual_seed(seed)
        self.state = torch.get_rng_state()
        torch.set_rng_state(outer)
        self._outer: list[torch.Tensor] = []

    def restore(self, state: torch.Tensor) -> None:
        """Restore a saved state; an invalid one is refused and changes nothing."""
        outer = torch.get_rng_state()
        try:
            torch.set_rng_state(state)
            self.state = torch.get_rng_state()
        finally:
            torch.set_rng_state(outer)

    def __enter__(self) -> RandomStream:
        self._outer.append(torch.get_rng_state())
        torch.set_rng_state(self.state)
        return self

    def __exit__(self, *error: object) -> None:
        self.state = torch.get_rng_state()
        torch.set_rng_state(self._outer.pop())
