"""Random numbers of an agent: its own stream, whatever else runs in the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

import torch
from torch import Tensor

__all__ = ["Portion", "Randomness", "normal", "portion_drawn", "uniform", "waits"]

Draw = Callable[[tuple[int, ...]], Tensor]
"""Random numbers of a shape."""


@dataclass(frozen=True)
class Portion:
    """Some of the envs that act together: those from `first` to before `end`."""

    first: int
    end: int
    whole: int
    """How many envs there are."""

    @property
    def count(self) -> int:
        """How many of them are meant."""
        return self.end - self.first

    def draw(self, draw: Draw, shape: Sequence[int]) -> Tensor:
        """What these envs would get if it was drawn for all; several agents come one by one."""
        rows, *rest = shape
        if rows % self.count:
            raise ValueError(f"rows of {self.count} envs were wanted, found {rows} of them")
        agents = rows // self.count
        found = draw((agents * self.whole, *rest)).reshape(agents, self.whole, *rest)
        return found[:, self.first : self.end].reshape(tuple(shape))


_TINY = torch.finfo(torch.float32).tiny
_portions: list[Portion | None] = [None]


@contextmanager
def portion_drawn(portion: Portion | None) -> Iterator[None]:
    """While it is entered, who draws for these envs draws for all; None for who has them all."""
    _portions.append(portion)
    try:
        yield
    finally:
        _portions.pop()


def normal(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers, with rows for each env."""
    return _drawn(lambda size: torch.randn(size, dtype=dtype), shape)


def uniform(shape: Sequence[int]) -> Tensor:
    """Numbers from 0 to 1, with rows for each env."""
    return _drawn(torch.rand, shape)


def waits(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard exponential numbers above 0, with rows for each env.

    A pick that comes after such a time, divided by how likely it is, comes first so often.
    """
    found = _drawn(lambda size: torch.empty(size, dtype=dtype).exponential_(), shape)
    # A waiting time of zero, rare as it is, would let a forbidden pick win.
    return found.clamp_min_(_TINY)


def _drawn(draw: Draw, shape: Sequence[int]) -> Tensor:
    portion = _portions[-1]
    return draw(tuple(shape)) if portion is None else portion.draw(draw, shape)


class Randomness:
    """While it is entered, torch draws from this stream; outside, from the one it had."""

    def __init__(self, seed: int) -> None:
        outer = torch.get_rng_state()
        torch.manual_seed(seed)
        self.state = torch.get_rng_state()
        torch.set_rng_state(outer)
        self._outer: list[torch.Tensor] = []

    def restore(self, state: torch.Tensor) -> None:
        """Go on from a state that was kept; one that is none is refused, and changes nothing."""
        outer = torch.get_rng_state()
        try:
            torch.set_rng_state(state)
            self.state = torch.get_rng_state()
        finally:
            torch.set_rng_state(outer)

    def __enter__(self) -> Randomness:
        self._outer.append(torch.get_rng_state())
        torch.set_rng_state(self.state)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.state = torch.get_rng_state()
        torch.set_rng_state(self._outer.pop())
