"""Seeds of episodes without end, shuffled the same way each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sekai.error import SekaiError, StateError

__all__ = ["EndlessSeeds", "SeedSetError", "some_of"]


class SeedSetError(SekaiError, LookupError):
    """A vessel was asked for seeds that it was not given."""


class EndlessSeeds(Iterator[Any]):
    """One env's share of an endless order: all seeds once, shuffled, then all again, and so on.

    Of `stride` envs, env `first` takes every `stride`-th place, beginning with its own number. So
    nobody takes a seed from another, whoever is faster, and all together take each equally often.
    """

    def __init__(self, seeds: Sequence[Any], first: int, stride: int, seed: int) -> None:
        self._seeds, self._stride, self._seed = seeds, stride, seed
        self._place = first

    def __next__(self) -> Any:
        round_, at = divmod(self._place, len(self._seeds))
        # Drawn anew instead of kept, so that the place is all there is to save.
        order = np.random.default_rng((self._seed, round_)).permutation(len(self._seeds))
        self._place += self._stride
        return self._seeds[int(order[at])]

    def state_dict(self) -> dict[str, Any]:
        """How far it is, and in what."""
        return {"place": self._place, "count": len(self._seeds), "seed": self._seed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there; a state of other seeds is refused."""
        wanted = {**self.state_dict(), "place": state.get("place")}
        if dict(state) != wanted or not isinstance(wanted["place"], int):
            raise StateError(f"a place among these seeds was wanted, like {wanted}; found {state}")
        self._place = wanted["place"]


def some_of(seeds: Sequence[Any], count: int | None, seed: int) -> Sequence[Any]:
    """So many seeds, drawn without putting back; all of them where that is not more."""
    if count is None or count >= len(seeds):
        return seeds
    places = np.random.default_rng(seed).permutation(len(seeds))[:count]
    return [seeds[int(place)] for place in sorted(places.tolist())]
