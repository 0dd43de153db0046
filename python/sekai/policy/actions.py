"""Conversion of policy outputs to actions of a space, and action masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import SpaceError
from sekai.spaces import Box, Discrete, MultiDiscrete, Simplex, Space

__all__ = ["REACH", "ActionLayout", "counts_of", "flat_mask"]

REACH = 5.0
"""Bound of portfolio logits: one asset of twenty can have all but a thousandth."""


class ActionLayout:
    """Layout of policy outputs for the actions of a space.

    Policies choose integers, or numbers near [-1, 1]. Numbers are clipped to [-1, 1] and rescaled
    to the bounds of a `Box`; unbounded dimensions are passed through. Weights of a `Simplex` are
    the softmax of `REACH` times the numbers; further constraints are projected by the env.
    """

    def __init__(self, space: Space[Any]) -> None:
        self.space = space
        self.choices: tuple[int, ...] = ()
        self.size = 0
        if isinstance(space, Discrete):
            self.choices = (int(space.n),)
        elif isinstance(space, MultiDiscrete):
            self.choices = tuple(int(count) for count in np.ravel(space.nvec))
        elif isinstance(space, (Box, Simplex)):
            self.size = int(np.prod(space.shape))
        else:
            raise SpaceError(
                f"a policy acts in Discrete, MultiDiscrete, Box or Simplex, got {space!r}: "
                "wrap the env in an ActionWrapper"
            )
        self._all_bounded = True
        if isinstance(space, Box):
            self._set_bounds(space)

    @property
    def is_choice(self) -> bool:
        """True for discrete actions."""
        return bool(self.choices)

    @property
    def is_bounded(self) -> bool:
        """True if numbers in [-1, 1] reach every action."""
        return self._all_bounded

    @property
    def width(self) -> int:
        """Size of the policy output for one action."""
        return len(self.choices) if self.is_choice else self.size

    @property
    def std_scale(self) -> float:
        """Scale of the initial standard deviation.

        Weights are the softmax of numbers times `REACH`: with the usual standard deviation nearly
        everything would be in one asset.
        """
        return 2.0 / REACH if isinstance(self.space, Simplex) else 1.0

    def actions(self, chosen: NDArray[Any], used: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Convert policy outputs to actions of the env.

        Args:
            chosen: policy outputs: batch by width.
            used: mask of the components in use, of the same shape: unused weights are exactly
                zero, other unused numbers as near to it as the space allows. None for all.
        """
        space, count = self.space, len(chosen)
        if isinstance(space, Discrete):
            picks: NDArray[Any] = chosen[:, 0] + int(space.start)
            return picks
        if isinstance(space, MultiDiscrete):
            positions = chosen.astype(space.dtype).reshape(count, *space.shape)
            return positions + space.start
        if isinstance(space, Simplex):
            return self._weights(chosen, used).astype(space.dtype, copy=False)
        cut = self._rescaled(chosen)
        if used is not None:
            cut = _cut(np.where(used, cut, 0.0), self._low, self._high)
        if np.dtype(space.dtype).kind in "iu":
            cut = np.rint(cut)
        return cut.astype(space.dtype, copy=False).reshape(count, *(space.shape or ()))

    def bounds(self) -> NDArray[np.float64]:
        """Rescaling of a `Box`: if it is bounded, middle, half, low and high of each number."""
        columns = (self._is_bounded, self._middle, self._half, self._low, self._high)
        return np.ascontiguousarray(np.stack(columns, axis=-1), np.float64)

    def _weights(self, chosen: NDArray[Any], used: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """Weights of a `Simplex`: softmax of the numbers."""
        logits = np.multiply(_cut(chosen, -1.0, 1.0), REACH, dtype=np.float64)
        # Logits are within `REACH`: their exponentials neither overflow nor vanish.
        shares: NDArray[np.float64] = np.exp(logits)
        if used is not None:
            # Weights sum to one: without any component in use, all are.
            none_used = ~np.logical_or.reduce(used, -1, keepdims=True)
            shares *= used | none_used
        shares /= np.add.reduce(shares, -1, keepdims=True)
        return shares

    def _rescaled(self, chosen: NDArray[Any]) -> NDArray[np.float64]:
        """Rescale bounded dimensions, and clip all to the bounds."""
        numbers = chosen.astype(np.float64)
        within = _cut(numbers, -1.0, 1.0)
        if not self._all_bounded:
            within = np.where(self._is_bounded, within, numbers)
        return _cut(self._middle + self._half * within, self._low, self._high)

    def _set_bounds(self, space: Box) -> None:
        low = np.ravel(space.low).astype(np.float64)
        high = np.ravel(space.high).astype(np.float64)
        bounded = np.isfinite(low) & np.isfinite(high)
        self._low, self._high = low, high
        self._is_bounded, self._all_bounded = bounded, bool(bounded.all())
        with np.errstate(invalid="ignore"):
            self._middle = np.where(bounded, (low + high) / 2, 0.0)
            self._half = np.where(bounded, (high - low) / 2, 1.0)


def _cut(numbers: NDArray[Any], low: Any, high: Any) -> NDArray[Any]:
    # `np.clip` costs several times as much for batches as small as those of a step.
    cut: NDArray[Any] = np.minimum(np.maximum(numbers, low), high)
    return cut


def flat_mask(space: Space[Any], mask: Any, context: str = "") -> NDArray[np.bool_]:
    """Flatten an action mask in the form of `space.sample(mask=...)`.

    Args:
        space: action space.
        mask: None allows everything.
        context: origin of the mask, for the error.

    Raises:
        SpaceError: the mask does not fit the space, or allows nothing.
    """
    counts = counts_of(space)
    if mask is None:
        return np.ones(sum(counts), np.bool_)
    flat: NDArray[np.bool_] = np.concatenate([np.ravel(part) for part in _parts(mask)]) != 0
    if flat.size != sum(counts):
        raise SpaceError(
            f"action_mask{context} needs {sum(counts)} numbers, one for each of the picks "
            f"{counts}, got {flat.size}"
        )
    for index, part in enumerate(np.split(flat, np.cumsum(counts)[:-1])):
        if not part.any():
            pick = f" for pick {index}" if len(counts) > 1 else ""
            raise SpaceError(
                f"action_mask{context} allows nothing{pick}: end the episode, or allow an action"
            )
    return flat


def counts_of(space: Space[Any]) -> tuple[int, ...]:
    """Number of options of each choice of an action."""
    if isinstance(space, Discrete):
        return (int(space.n),)
    if isinstance(space, MultiDiscrete):
        return tuple(int(count) for count in np.ravel(space.nvec))
    raise SpaceError(f"masks are for Discrete and MultiDiscrete actions, got {space!r}")


def _parts(mask: Any) -> list[Any]:
    """Masks of single choices, from masks nested as the space."""
    if isinstance(mask, (tuple, list)):
        return [part for nested in mask for part in _parts(nested)]
    return [mask]
