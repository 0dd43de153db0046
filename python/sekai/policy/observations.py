"""Observation leaves: named arrays of nested observations, and asset slots among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import SpaceError
from sekai.policy.settings import PolicySettings
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Simplex, Space
from sekai.spaces import Tuple as TupleSpace

__all__ = [
    "ACTION_MASK",
    "Leaf",
    "Leaves",
    "Slots",
    "arrays_of",
    "is_action_mask",
    "leaves_of",
    "normalized_leaves",
    "slots_of",
]

ROOT = "observation"
"""Name of the leaf of an observation that is one array."""

ACTION_MASK = "action_mask"
"""Leaf with the mask of allowed actions."""

Leaves = Mapping[str, "Leaf"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of an observation."""

    shape: tuple[int, ...]
    choices: tuple[int, ...] = ()
    """Number of categories of each integer; empty for measured values."""

    starts: tuple[int, ...] = ()
    """First value of each integer, if not zero."""

    is_image: bool = False
    """True for pixels from 0 to 255, of shape (height, width, channels) or channels first."""

    @property
    def is_measured(self) -> bool:
        """True for measured values, False for categories."""
        return not self.choices

    @property
    def width(self) -> int:
        """Number of network inputs."""
        return int(np.prod(self.shape)) if self.is_measured else sum(self.choices)


def leaves_of(space: Space[Any], name: str = ROOT) -> dict[str, Leaf]:
    """Leaves of an observation space, in the order of batches."""
    leaves: dict[str, Leaf] = {}
    for path, part in _parts(space, ""):
        leaves[path or name] = _leaf(path or name, part)
    return leaves


def arrays_of(batch: Any, name: str = ROOT) -> dict[str, NDArray[Any]]:
    """Arrays of a batch of observations by leaf name, as in `leaves_of`."""
    if isinstance(batch, np.ndarray):
        return {name: batch}
    arrays: dict[str, NDArray[Any]] = {}
    for path, array in _arrays(batch, ""):
        arrays[path or name] = array
    return arrays


def is_action_mask(name: str) -> bool:
    """Return True if a leaf is an action mask, or a part of one."""
    return name.partition("/")[0] == ACTION_MASK


def _parts(space: Space[Any], path: str) -> Iterator[tuple[str, Space[Any]]]:
    if isinstance(space, Dict):
        for key, part in space.spaces.items():
            yield from _parts(part, _joined(path, key))
    elif isinstance(space, TupleSpace):
        for index, part in enumerate(space.spaces):
            yield from _parts(part, _joined(path, str(index)))
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
        for index, part in enumerate(batch):
            yield from _arrays(part, _joined(path, str(index)))
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
        is_image = len(space.shape) == 3 and space.dtype == np.uint8
        return Leaf(tuple(space.shape), is_image=is_image)
    raise SpaceError(
        f"a policy reads Box, Simplex, Discrete, MultiDiscrete, MultiBinary, MaskedBox and what "
        f"holds them; {name!r} is {space!r}: wrap the env, for example in FlattenObservation"
    )


def _starts(start: Any) -> tuple[int, ...]:
    first = tuple(int(value) for value in np.ravel(start))
    return first if any(first) else ()


FEATURES = {"windows": 1, "values": 0}
"""Leaf names of assets beside a mask, and the axis of the assets."""

MASK, WEIGHTS = "mask", "weights"


@dataclass(frozen=True, slots=True)
class Slots:
    """Layout of the asset slots in an observation."""

    features: str
    """Leaf with the features of the assets."""

    count: int
    """Number of slots."""

    axis: int
    """Axis of the slots in the features of one observation."""

    times: int
    """Rows of a window; 1 without windows."""

    channels: int
    """Features of each asset in a row."""

    mask: str | None = None
    """Leaf with the mask of slots in use; None if all are."""

    weights: str | None = None
    """Leaf with the weight held of each slot, and perhaps of cash after them."""

    has_cash: bool = False
    """True if the weights include cash."""


def slots_of(leaves: Mapping[str, Leaf], settings: PolicySettings) -> Slots | None:
    """Find the asset slots by settings or by leaf names; None without assets."""
    if settings.slots_leaf is None:
        return next((slots for name in leaves if (slots := _by_name(name, leaves))), None)
    shape = _shape(leaves, settings.slots_leaf)
    if len(shape) not in (2, 3):
        raise ValueError(
            f"slots_leaf must be of slots by features, or of times by slots by features, and "
            f"{settings.slots_leaf!r} has shape {shape}"
        )
    return _around(settings.slots_leaf, len(shape) - 2, leaves, settings)


def _by_name(name: str, leaves: Mapping[str, Leaf]) -> Slots | None:
    axis = FEATURES.get(name.rpartition("/")[2])
    shape = leaves[name].shape
    if axis is None or (len(shape) != 3 and axis == 1) or not shape:
        return None
    slots = _around(name, axis, leaves, PolicySettings())
    return slots if slots.mask is not None else None


def _around(name: str, axis: int, leaves: Mapping[str, Leaf], settings: PolicySettings) -> Slots:
    shape = leaves[name].shape
    count = shape[axis]
    weights = _beside(WEIGHTS, name, settings.weights_leaf, leaves, (count, count + 1))
    return Slots(
        features=name,
        count=count,
        axis=axis,
        times=shape[0] if axis == 1 else 1,
        channels=leaves[name].width // (count * (shape[0] if axis == 1 else 1)),
        mask=_beside(MASK, name, settings.mask_leaf, leaves, (count,)),
        weights=weights,
        has_cash=weights is not None and leaves[weights].shape == (count + 1,),
    )


def _beside(
    kind: str, name: str, named: str | None, leaves: Mapping[str, Leaf], counts: tuple[int, ...]
) -> str | None:
    """Leaf of masks or weights: the named one, or a fitting one beside the features."""
    shapes = [(count,) for count in counts]
    if named is not None:
        if _shape(leaves, named) not in shapes:
            raise ValueError(
                f"{kind}_leaf must have shape {' or '.join(map(str, shapes))}, and {named!r} has "
                f"{leaves[named].shape}"
            )
        return named
    folder = name.rpartition("/")[0]
    beside = f"{folder}/{kind}" if folder else kind
    return beside if beside in leaves and leaves[beside].shape in shapes else None


def _shape(leaves: Mapping[str, Leaf], name: str) -> tuple[int, ...]:
    if name not in leaves:
        raise ValueError(f"the observation has no {name!r}, but {', '.join(leaves)}")
    return leaves[name].shape


def normalized_leaves(leaves: Leaves, slots: Slots | None) -> dict[str, int]:
    """Leaves that are normalized, with the number of moments that their values share."""
    return {
        name: _moments(name, leaf, slots)
        for name, leaf in leaves.items()
        if _is_scaled(name, leaf, slots)
    }


def _moments(name: str, leaf: Leaf, slots: Slots | None) -> int:
    if slots is not None and name == slots.features:
        return slots.channels
    return leaf.shape[-1] if len(leaf.shape) > 1 else max(1, leaf.width)


def _is_scaled(name: str, leaf: Leaf, slots: Slots | None) -> bool:
    if slots is not None and name in (slots.mask, slots.weights):
        return False
    # Masks and row indices are not amounts.
    no_amount = is_action_mask(name) or name.rpartition("/")[2] in ("mask", "index")
    return leaf.is_measured and not leaf.is_image and not no_amount
