"""What networks read: the arrays of an observation, each by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sekai.error import SpaceError
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Simplex, Space
from sekai.spaces import Tuple as TupleSpace

__all__ = [
    "ACTION_MASK",
    "Leaf",
    "Leaves",
    "arrays_of",
    "is_action_mask",
    "leaves_of",
    "observed_mask",
    "tensors_of",
]

ROOT = "observation"
"""What the only array of an observation is called where it is nothing but that."""

ACTION_MASK = "action_mask"
"""The part of an observation that says which picks are allowed."""

Leaves = Mapping[str, "Leaf"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of an observation."""

    shape: tuple[int, ...]
    choices: tuple[int, ...] = ()
    """For whole numbers that name something, how many there are of each; numbers are measured."""

    starts: tuple[int, ...] = ()
    """The first value of each of them, where that is not zero."""

    @property
    def is_measured(self) -> bool:
        """Whether its numbers are amounts, which can be centred and scaled."""
        return not self.choices

    @property
    def width(self) -> int:
        """How many numbers a network reads of it."""
        return int(np.prod(self.shape)) if self.is_measured else sum(self.choices)


def leaves_of(space: Space[Any], name: str = ROOT) -> dict[str, Leaf]:
    """Every array of a space, in the order in which batches hold them."""
    leaves: dict[str, Leaf] = {}
    for path, part in _parts(space, ""):
        leaves[path or name] = _leaf(path or name, part)
    return leaves


def arrays_of(batch: Any, name: str = ROOT) -> dict[str, NDArray[Any]]:
    """The arrays of a batch of observations, under the names that `leaves_of` gives them."""
    arrays: dict[str, NDArray[Any]] = {}
    for path, array in _arrays(batch, ""):
        arrays[path or name] = array
    return arrays


def tensors_of(batch: Any) -> dict[str, torch.Tensor]:
    """The same as tensors that share the arrays' memory."""
    return {name: torch.from_numpy(array) for name, array in arrays_of(batch).items()}


def is_action_mask(name: str) -> bool:
    """Whether a leaf is the mask of allowed picks, or that of one of several picks."""
    return name.partition("/")[0] == ACTION_MASK


def observed_mask(seen: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """The mask among some leaves: batch by picks, one after another; None where there is none."""
    found = [rows for name, rows in seen.items() if is_action_mask(name)]
    masks = [rows.reshape(len(rows), -1) != 0 for rows in found]
    return torch.cat(masks, dim=-1) if masks else None


def _parts(space: Space[Any], path: str) -> Iterator[tuple[str, Space[Any]]]:
    if isinstance(space, Dict):
        for key, part in space.spaces.items():
            yield from _parts(part, _joined(path, key))
    elif isinstance(space, TupleSpace):
        for place, part in enumerate(space.spaces):
            yield from _parts(part, _joined(path, str(place)))
    elif isinstance(space, MaskedBox):
        yield _joined(path, "values"), space.box
        yield _joined(path, "mask"), MultiBinary(space.slots)
    else:
        yield path, space


def _arrays(batch: Any, path: str) -> Iterator[tuple[str, NDArray[Any]]]:
    if isinstance(batch, Mapping):
        for key, part in batch.items():
            yield from _arrays(part, _joined(path, key))
    elif isinstance(batch, tuple):
        for place, part in enumerate(batch):
            yield from _arrays(part, _joined(path, str(place)))
    else:
        yield path, batch


def _joined(path: str, key: str) -> str:
    return f"{path}/{key}" if path else key


def _leaf(name: str, space: Space[Any]) -> Leaf:
    if isinstance(space, Discrete):
        return Leaf((), (int(space.n),), _starts(space.start))
    if isinstance(space, MultiDiscrete):
        counts = tuple(int(count) for count in np.ravel(space.nvec))
        return Leaf(space.shape, counts, _starts(space.start))
    if isinstance(space, (Box, Simplex, MultiBinary)):
        return Leaf(tuple(space.shape))
    raise SpaceError(
        f"a policy reads Box, Simplex, Discrete, MultiDiscrete, MultiBinary, MaskedBox and what "
        f"holds them; {name!r} is {space!r}: wrap the env, for example in FlattenObservation"
    )


def _starts(start: Any) -> tuple[int, ...]:
    first = tuple(int(value) for value in np.ravel(start))
    return first if any(first) else ()
