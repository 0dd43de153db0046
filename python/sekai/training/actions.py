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
        if isinstance(space, Box):
            self._stretch(space)

    @property
    def is_choice(self) -> bool:
        """Whether an action is picked from several."""
        return bool(self.choices)

    @property
    def is_bounded(self) -> bool:
        """Whether numbers of [-1, 1] reach every action."""
        return not isinstance(self.space, Box) or bool(self._is_bounded.all())

    @property
    def width(self) -> int:
        """How many numbers an action is before it is given to the env."""
        return len(self.choices) if self.is_choice else self.size

    def to_env(self, chosen: torch.Tensor) -> NDArray[Any]:
        """A batch of actions for the env."""
        space, count = self.space, chosen.shape[0]
        if isinstance(space, Discrete):
            picks: NDArray[Any] = chosen[:, 0].numpy()
            return picks + int(space.start)
        if isinstance(space, MultiDiscrete):
            return chosen.numpy().astype(space.dtype).reshape(count, *space.shape)
        if isinstance(space, Simplex):
            weights = torch.softmax(REACH * chosen.double().clamp(-1.0, 1.0), dim=-1)
            return weights.numpy().astype(space.dtype, copy=False)
        numbers = torch.where(self._is_bounded, chosen.clamp(-1.0, 1.0), chosen).double()
        stretched = (self._middle + self._half * numbers).numpy()
        cut: NDArray[Any] = np.clip(stretched, self._low, self._high)
        return cut.astype(space.dtype, copy=False).reshape(count, *(space.shape or ()))

    def from_env(self, actions: NDArray[Any]) -> torch.Tensor:
        """What a policy would have had to choose; the other way round, as far as there is one."""
        rows = torch.from_numpy(np.asarray(actions))
        if isinstance(self.space, Discrete):
            return (rows - int(self.space.start)).reshape(-1, 1)
        if self.is_choice:
            return rows.reshape(len(rows), -1)
        numbers = rows.double().reshape(len(rows), -1)
        if isinstance(self.space, Simplex):
            logits = torch.log(numbers.clamp_min(torch.finfo(torch.float64).tiny))
            middle = (logits.amax(-1, keepdim=True) + logits.amin(-1, keepdim=True)) / 2
            return ((logits - middle) / REACH).clamp(-1.0, 1.0).float()
        return ((numbers - self._middle) / self._half).float()

    def _stretch(self, space: Box) -> None:
        low = np.ravel(space.low).astype(np.float64)
        high = np.ravel(space.high).astype(np.float64)
        bounded = np.isfinite(low) & np.isfinite(high)
        self._low, self._high = low, high
        self._is_bounded = torch.from_numpy(bounded)
        with np.errstate(invalid="ignore"):
            self._middle = torch.from_numpy(np.where(bounded, (low + high) / 2, 0.0))
            self._half = torch.from_numpy(np.where(bounded, (high - low) / 2, 1.0))
