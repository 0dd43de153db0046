"""Seed sources of episodes, and their saved positions."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sekai.compose.component import EnvAware, WrapperLink
from sekai.error import SekaiError, StateError

__all__ = ["ExhaustedError", "SeedSource", "remaining_seeds", "seed_source"]


class ExhaustedError(SekaiError, RuntimeError):
    """Call on an env whose seeds are used up."""


class SeedSource(Protocol):
    """Source of seeds with a saved position."""

    def take(self, link: WrapperLink) -> tuple[Any, ...]:
        """Next arguments of `simulator_fn`; StopIteration when the seeds are used up."""

    def state_dict(self) -> dict[str, Any]:
        """Position of the source."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a saved position; a rejected state changes nothing."""


def seed_source(seeds: Iterable[Any] | None) -> SeedSource:
    """Seed source of nothing, a sequence, or any iterable."""
    if seeds is None:
        return _NoSeeds()
    if isinstance(seeds, (Sequence, np.ndarray)):
        return _SequenceSeeds(seeds)
    return _IteratorSeeds(iter(seeds))


def remaining_seeds(source: SeedSource) -> dict[str, Any] | None:
    """State from which a rebuilt env continues the seeds; None for a shared queue.

    Raises:
        StateError: the seeds come from an iterator without a position.
    """
    if not isinstance(source, _IteratorSeeds):
        return source.state_dict()
    return source.remaining()


class _NoSeeds:
    def take(self, link: WrapperLink) -> tuple[Any, ...]:
        return ()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        _require_keys(state_dict, set())


class _SequenceSeeds:
    def __init__(self, seeds: Sequence[Any] | np.ndarray[Any, Any]) -> None:
        self._seeds = seeds
        self._position = 0

    def take(self, link: WrapperLink) -> tuple[Any, ...]:
        if self._position >= len(self._seeds):
            raise StopIteration
        self._position += 1
        return (self._seeds[self._position - 1],)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self._position, "length": len(self._seeds)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        _require_keys(state_dict, {"position", "length"})
        length, position = state_dict["length"], state_dict["position"]
        expected = len(self._seeds)
        if length != expected or not 0 <= position <= length:
            raise StateError(
                f"state must have a position among {expected} seeds, got {position} of {length}"
            )
        self._position = int(position)


class _IteratorSeeds:
    """Seeds of an iterator, which is saved by its own `state_dict` or as a copy."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator

    def take(self, link: WrapperLink) -> tuple[Any, ...]:
        if isinstance(self._iterator, EnvAware):
            self._iterator._attach(link)
        return (next(self._iterator),)

    def state_dict(self) -> dict[str, Any]:
        iterator: Any = self._iterator
        if _has_own_state(iterator):
            return {"iterator": iterator.state_dict()}
        try:
            return {"iterator": copy.deepcopy(iterator)}
        except Exception as error:
            raise StateError(
                f"seeds of a {type(iterator).__name__} cannot be saved; pass a list or another "
                "sequence, or an iterator that has state_dict() and load_state_dict()"
            ) from error

    def remaining(self) -> dict[str, Any] | None:
        if getattr(self._iterator, "is_shared", False):
            return None
        if _has_own_state(self._iterator):
            return self.state_dict()
        raise StateError(
            f"seeds of a {type(self._iterator).__name__} have no position to resume from; pass a "
            "DataQueue or a list"
        )

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        _require_keys(state_dict, {"iterator"})
        iterator: Any = self._iterator
        if _has_own_state(iterator):
            iterator.load_state_dict(state_dict["iterator"])
        else:
            self._iterator = copy.deepcopy(state_dict["iterator"])


def _has_own_state(iterator: object) -> bool:
    return hasattr(iterator, "state_dict") and hasattr(iterator, "load_state_dict")


def _require_keys(state_dict: Mapping[str, Any], expected: set[str]) -> None:
    if state_dict.keys() != expected:
        raise StateError(
            f"state of seeds must have the keys {sorted(expected)}, got {sorted(state_dict)}; "
            "it is of another kind of seeds"
        )
