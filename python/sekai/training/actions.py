"""From what a policy chooses to what an env is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sekai.error import SpaceError
from sekai.spaces import Box, Discrete, MultiDiscrete, Simplex, Space

__all__ = ["ActionMap"]

REACH = 5.0
"""How far logits of weights reach from zero: one asset of twenty can have all but a thousandth."""


class ActionMap:
    """How the actions of a space are chosen: by picking one of several, or by numbers near [-1, 1].

    Numbers are cut to [-1, 1] and stretched to the bounds of a `Box`; where it has no bounds they
    are taken as they are. Weights of a `Simplex` are the softmax of `REACH` times the numbers: they
    always sum to one, and what a mandate asks beyond that is the env's own projection.
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
                f"a policy acts in Discrete, MultiDiscrete, Box or Simplex, found {space!r}: "
                "wrap the env in TransformAction"
            )
        self._all_bounded = True
        if isinstance(space, Box):
            self._stretch(space)

    @property
    def is_choice(self) -> bool:
        """Whether an action is picked from several."""
        return bool(self.choices)

    @property
    def is_bounded(self) -> bool:
        """Whether numbers of [-1, 1] reach every action."""
        return self._all_bounded

    @property
    def width(self) -> int:
        """How many numbers an action is before it is given to the env."""
        return len(self.choices) if self.is_choice else self.size

    @property
    def spread_share(self) -> float:
        """How widely numbers are tried at first, beside those that are stretched to a `Box`.

        Weights are the softmax of numbers times `REACH`: tried as widely as the others, they would
        nearly always be all in one asset.
        """
        return 2.0 / REACH if isinstance(self.space, Simplex) else 1.0

    def to_env(self, chosen: torch.Tensor, used: torch.Tensor | None = None) -> NDArray[Any]:
        """A batch of actions for the env.

        Args:
            chosen: what a policy chose: batch by width.
            used: which numbers count, of the same shape: weights of the others are exactly zero,
                other numbers as near to it as the space allows. None for all.
        """
        space, count, chosen = self.space, chosen.shape[0], chosen.detach()
        if isinstance(space, Discrete):
            picks: NDArray[Any] = chosen[:, 0].numpy()
            return picks + int(space.start)
        if isinstance(space, MultiDiscrete):
            positions = chosen.numpy().astype(space.dtype).reshape(count, *space.shape)
            return positions + space.start
        if isinstance(space, Simplex):
            logits = REACH * chosen.double().clamp(-1.0, 1.0)
            if used is not None:
                # Weights have to be of something: where nothing counts, everything does.
                logits = logits.masked_fill(~used & used.any(-1, keepdim=True), -torch.inf)
            return torch.softmax(logits, dim=-1).numpy().astype(space.dtype, copy=False)
        cut = self._stretched(chosen.numpy())
        if used is not None:
            cut = _cut(np.where(used.numpy(), cut, 0.0), self._low, self._high)
        if np.dtype(space.dtype).kind in "iu":
            cut = np.rint(cut)
        return cut.astype(space.dtype, copy=False).reshape(count, *(space.shape or ()))

    def from_env(self, actions: NDArray[Any]) -> torch.Tensor:
        """What a policy would have had to choose; the other way round, as far as there is one."""
        rows = torch.from_numpy(np.asarray(actions))
        if isinstance(self.space, Discrete):
            return (rows - int(self.space.start)).reshape(-1, 1)
        if isinstance(self.space, MultiDiscrete):
            positions = np.asarray(actions) - self.space.start
            return torch.from_numpy(positions).reshape(len(rows), -1)
        numbers = rows.double().reshape(len(rows), -1)
        if isinstance(self.space, Simplex):
            logits = torch.log(numbers.clamp_min(torch.finfo(torch.float64).tiny))
            middle = (logits.amax(-1, keepdim=True) + logits.amin(-1, keepdim=True)) / 2
            return ((logits - middle) / REACH).clamp(-1.0, 1.0).float()
        return torch.from_numpy((numbers.numpy() - self._middle) / self._half).float()

    def _stretched(self, chosen: NDArray[Any]) -> NDArray[np.float64]:
        """Numbers of [-1, 1] between the bounds; others as they are, but not beyond a bound."""
        numbers = chosen.astype(np.float64)
        within = _cut(numbers, -1.0, 1.0)
        if not self._all_bounded:
            within = np.where(self._is_bounded, within, numbers)
        return _cut(self._middle + self._half * within, self._low, self._high)

    def _stretch(self, space: Box) -> None:
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
