"""Where the seeds of episodes come from, and how many have been taken."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sekai.compose.attached import Attached, WrapperLink
from sekai.error import SekaiError, StateError

__all__ = ["ExhaustedError", "SeedSource", "remaining_seeds", "seed_source"]


class ExhaustedError(SekaiError, RuntimeError):
    """An env whose seeds are used up was asked for more."""


class SeedSource(Protocol):
    """Gives one seed after the other, and can say where it stands."""

    def take(self, link: WrapperLink) -> tuple[Any, ...]:
        """What `simulator_fn` is called with next; StopIteration when the seeds are used up."""

    def state_dict(self) -> dict[str, Any]:
        """Where the source stands."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from there; a refused state changes nothing."""


def seed_source(seeds: Iterable[Any] | None) -> SeedSource:
    """The source of what a user gave: nothing, a sequence, or anything that can be iterated."""
    if seeds is None:
        return _NoSeeds()
    if isinstance(seeds, (Sequence, np.ndarray)):
        return _SequenceSeeds(seeds)
    return _IteratorSeeds(iter(seeds))


def remaining_seeds(source: SeedSource) -> dict[str, Any] | None:
    """State from which the same seeds go on in an env built anew; None if they do by themselves.

    Raises:
        StateError: an iterator may be shared with other envs, and has no position to tell.
    """
    if not isinstance(source, _IteratorSeeds):
        return source.state_dict()
    return source.remaining()


class _NoSeeds:
    """Episodes without seeds, and without end."""

    def take(self, link: WrapperLink) -> tuple[Any, ...]:
        return ()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        _require_keys(state_dict, set())


class _SequenceSeeds:
    """Seeds in a sequence, of which only the position is state."""

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
        wanted = len(self._seeds)
        if length != wanted or not 0 <= position <= length:
            raise StateError(f"a position among {wanted} seeds, found {position} of {length}")
        self._position = int(position)


class _IteratorSeeds:
    """Seeds from an iterator, which is saved by its own `state_dict` or by copying it."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator

    def take(self, link: WrapperLink) -> tuple[Any, ...]:
        if isinstance(self._iterator, Attached):
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
                f"the seeds come from a {type(iterator).__name__}, which cannot be copied into a "
                f"state: pass a list or another sequence, of which the position is kept, or an "
                f"iterator that has state_dict() and load_state_dict()"
            ) from error

    def remaining(self) -> dict[str, Any] | None:
        if getattr(self._iterator, "is_shared", False):
            return None
        if _has_own_state(self._iterator):
            return self.state_dict()
        raise StateError(
            f"the seeds come from a {type(self._iterator).__name__}, which does not tell where it "
            f"stands: pass a DataQueue or a list"
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


def _require_keys(state_dict: Mapping[str, Any], wanted: set[str]) -> None:
    if state_dict.keys() != wanted:
        raise StateError(
            f"a state of these seeds has the keys {sorted(wanted)}, found {sorted(state_dict)}: "
            f"it is of seeds of another kind"
        )
