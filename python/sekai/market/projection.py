"""The allowed portfolio weights that lie nearest to those that were wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs import _core

__all__ = ["Compromise", "ProjectedWeights", "project_weights"]


class Compromise(IntFlag):
    """What gave, because no weights meet every constraint; 0 when all are met."""

    BOUNDS = 1
    """Assets that cannot be traded are outside their bounds."""
    SECTORS = 2
    """Assets that cannot be traded exceed the cap of a sector."""
    LEVERAGE = 4
    """Assets that cannot be traded exceed the leverage cap."""
    CASH = 8
    """Cash is outside its bounds: the assets cannot bring it there."""
    CUT_SHORT = 16
    """The turnover cap was reached on the way to what meets the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedWeights:
    """Weights that a mandate allows, and whether they meet all of it."""

    weights: NDArray[np.float64]
    """One for each asset, and cash last; the shape of what was wanted."""
    compromise: NDArray[np.uint8]
    """Bits of `Compromise` for each row, and 0 where nothing had to give."""

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Whether each row meets every constraint, and is the nearest that does."""
        return np.equal(self.compromise, 0)


def project_weights(
    wanted: ArrayLike,
    held: ArrayLike | None = None,
    movable: ArrayLike | None = None,
    *,
    lower: ArrayLike = 0.0,
    upper: ArrayLike = 1.0,
    cash_lower: float = 0.0,
    cash_upper: float = 1.0,
    leverage: float | None = None,
    sectors: Sequence[int | None] | None = None,
    sector_caps: Sequence[float | None] | None = None,
    turnover: float | None = None,
) -> ProjectedWeights:
    """The allowed weights nearest to `wanted`, in the sense of Euclid.

    Weights are parts of equity, one for each asset and that of cash last; they sum to one. What is
    allowed already is returned unchanged, bit for bit. Leading axes of `wanted` are those of a
    batch, and `held` and `movable` are broadcast to it.

    Where no weights meet every constraint: assets that are not movable keep what is held, use up
    the caps first, and may exceed them, leaving nothing for the others; bounds of cash give by what
    the assets cannot reach; and where the rest needs more turnover than its cap, the way from what
    is held to the nearest weights without that cap is gone as far as the cap allows. `compromise`
    says which of these happened.

    Args:
        wanted: Weights that are wanted, finite; they need not sum to one.
        held: Weights now; all cash by default.
        movable: Whether each asset can be traded now; all can by default.
        lower: The least weight of each asset, at most 0: `-cap` where it may be sold short.
        upper: The largest weight of each asset, at least 0.
        cash_lower: The least weight of cash; below 0 where money may be borrowed.
        cash_upper: The largest weight of cash.
        leverage: The largest sum of absolute weights of assets.
        sectors: The sector of each asset, an index into `sector_caps`, or None.
        sector_caps: The largest sum of absolute weights in each sector, or None for no cap.
        turnover: The largest sum of absolute changes of the weights of assets.

    Raises:
        ValueError: When arguments do not fit together, or no weights could ever meet the
            constraints.

    Example:
        >>> project_weights([0.7, 0.5, 0.1], upper=0.4).weights.round(3).tolist()
        [0.4, 0.4, 0.2]
    """
    wishes = np.asarray(wanted, np.float64)
    if wishes.ndim == 0 or wishes.shape[-1] < 2:
        raise ValueError(f"wanted needs an asset and cash at least, found shape {wishes.shape}")
    assets = wishes.shape[-1] - 1
    now = np.eye(1, assets + 1, assets)[0] if held is None else np.asarray(held, np.float64)
    can_move = np.asarray(True if movable is None else movable, np.bool_)
    weights, compromise = _core.project_weights(
        _rows("wanted", wishes, wishes.shape),
        _rows("held", now, wishes.shape),
        _rows("movable", can_move, (*wishes.shape[:-1], assets)),
        lower=_rows("lower", np.asarray(lower, np.float64), (assets,))[0].tolist(),
        upper=_rows("upper", np.asarray(upper, np.float64), (assets,))[0].tolist(),
        cash_lower=cash_lower,
        cash_upper=cash_upper,
        leverage=leverage,
        sectors=sectors,
        sector_caps=sector_caps,
        turnover=turnover,
    )
    return ProjectedWeights(weights.reshape(wishes.shape), compromise.reshape(wishes.shape[:-1]))


def _rows(name: str, values: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
    """The values as rows of a contiguous matrix, once they are stretched to a shape."""
    try:
        stretched = np.broadcast_to(values, shape)
    except ValueError as error:
        raise ValueError(f"{name} needs shape {shape}, found {values.shape}") from error
    return np.ascontiguousarray(stretched).reshape(-1, shape[-1])
