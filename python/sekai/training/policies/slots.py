"""Where the assets of an observation are: which leaf has their features, masks and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from sekai.training.observations import Leaf
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["Slots", "slots_of"]

FEATURES = {"windows": 1, "values": 0}
"""Leaves that hold assets wherever a mask is beside them, and the axis of their assets."""

MASK, WEIGHTS = "mask", "weights"


@dataclass(frozen=True, slots=True)
class Slots:
    """The places for assets in an observation."""

    features: str
    """The leaf with the features of the assets."""

    count: int
    """How many places there are."""

    axis: int
    """Which axis of one observation's features they lie along."""

    times: int
    """Rows of a window; one where there is no window."""

    channels: int
    """Numbers of each asset in a row."""

    mask: str | None = None
    """The leaf that says which places are in use; without it, all are."""

    weights: str | None = None
    """The leaf with what the account holds of each, and perhaps of cash behind them."""

    has_cash: bool = False
    """Whether there is."""

    def by_slot(self, features: Tensor) -> Tensor:
        """Features of a batch as batch by slots by times by channels."""
        if self.axis == 1:
            return features.transpose(1, 2)
        return features.reshape(len(features), self.count, 1, self.channels)

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Which places are in use: batch by slots; None for all."""
        return None if self.mask is None else observations[self.mask] != 0


def slots_of(leaves: Mapping[str, Leaf], settings: PolicySettings) -> Slots | None:
    """Where the assets are, as settings say or as names tell; None where there are none."""
    if settings.slots_leaf is None:
        return next((found for name in leaves if (found := _by_name(name, leaves))), None)
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
    found = _around(name, axis, leaves, PolicySettings())
    return found if found.mask is not None else None


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
    what: str, name: str, named: str | None, leaves: Mapping[str, Leaf], counts: tuple[int, ...]
) -> str | None:
    """The leaf of masks or weights: the one that is named, or one that fits beside the features."""
    shapes = [(count,) for count in counts]
    if named is not None:
        if _shape(leaves, named) not in shapes:
            raise ValueError(
                f"{what}_leaf must have shape {' or '.join(map(str, shapes))}, and {named!r} has "
                f"{leaves[named].shape}"
            )
        return named
    folder = name.rpartition("/")[0]
    beside = f"{folder}/{what}" if folder else what
    return beside if beside in leaves and leaves[beside].shape in shapes else None


def _shape(leaves: Mapping[str, Leaf], name: str) -> tuple[int, ...]:
    if name not in leaves:
        raise ValueError(f"the observation has no {name!r}, but {', '.join(leaves)}")
    return leaves[name].shape
