"""Portfolio constraints, and the projection of target weights onto them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs import _core
from sekai.config.checked import CheckedConfig
from sekai.market.accounts import CashAccount, MarginAccount

__all__ = ["Compromise", "Constraints", "ProjectedWeights", "project_weights"]

FREE = 1e6
"""Weight of bounds that do not bind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints(CheckedConfig):
    """Mandate of a portfolio: target weights are projected onto these constraints.

    Weights of all assets and cash sum to one. See `sekai.market.project_weights` for the
    compromises if positions that cannot be traded violate the constraints.
    """

    long_short: bool = False
    """Allow negative weights; needs a `MarginAccount`."""

    max_weight: float | Mapping[str, float] = 1.0
    """Largest weight of an asset, long or short: one for all, or by name."""

    max_cash: float | None = None
    """Largest weight of cash; None for no limit."""

    leverage: float | None = None
    """Largest sum of absolute weights; None for the limit of the account."""

    sector_caps: float | Mapping[str, float] | None = None
    """Largest sum of absolute weights in a sector: one for all sectors, or by name."""

    turnover: float | None = None
    """Largest sum of absolute changes of weights in one decision."""

    def settings(
        self,
        assets: Sequence[str],
        sectors: Mapping[str, str],
        account: CashAccount | MarginAccount,
    ) -> dict[str, Any]:
        """Settings for the Rust core with these assets."""
        is_cash = isinstance(account, CashAccount)
        if is_cash and self.long_short:
            raise ValueError("long_short needs a MarginAccount, got a CashAccount")
        caps = self._weight_caps(assets)
        limits = [limit for limit in (self.leverage, account.leverage) if limit is not None]
        sector_index, sector_caps = self._sector_caps(sectors)
        return {
            "lower": [-weight if self.long_short else 0.0 for weight in caps],
            "upper": caps,
            "cash_lower": 0.0 if is_cash else -FREE,
            "cash_upper": FREE if self.max_cash is None else self.max_cash,
            # Without debt and short positions the weights sum to at most one.
            "leverage": None if is_cash and self.leverage is None else min(limits),
            "sectors": (
                [sector_index.get(sectors.get(asset)) for asset in assets] if sector_caps else []
            ),
            "sector_caps": sector_caps,
            "turnover": self.turnover,
        }

    def _weight_caps(self, assets: Sequence[str]) -> list[float]:
        if not isinstance(self.max_weight, Mapping):
            return [self.max_weight] * len(assets)
        unknown = sorted(set(self.max_weight) - set(assets))
        if unknown:
            raise ValueError(
                f"unknown assets {unknown} in max_weight; expected some of {list(assets)}"
            )
        return [self.max_weight.get(asset, 1.0) for asset in assets]

    def _sector_caps(
        self, sectors: Mapping[str, str]
    ) -> tuple[dict[str | None, int], list[float | None]]:
        """Index of each sector, and its cap."""
        if self.sector_caps is None:
            return {}, []
        names = sorted(set(sectors.values()))
        if not names:
            raise ValueError("sector_caps needs data with sectors, got data without any")
        indices: dict[str | None, int] = {name: index for index, name in enumerate(names)}
        if not isinstance(self.sector_caps, Mapping):
            return indices, [self.sector_caps] * len(names)
        unknown = sorted(set(self.sector_caps) - set(names))
        if unknown:
            raise ValueError(f"unknown sectors {unknown} in sector_caps; expected some of {names}")
        return indices, [self.sector_caps.get(name) for name in names]


class Compromise(IntFlag):
    """Constraints relaxed because no weights meet all of them; 0 if all are met."""

    BOUNDS = 1
    """Untradable assets are outside their bounds."""
    SECTORS = 2
    """Untradable assets exceed the cap of a sector."""
    LEVERAGE = 4
    """Untradable assets exceed the leverage cap."""
    CASH = 8
    """Cash is outside its bounds."""
    CUT_SHORT = 16
    """The turnover cap stopped the move to weights that meet the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedWeights:
    """Projected weights, and the constraints that were relaxed."""

    weights: NDArray[np.float64]
    """Weights of the assets, then of cash; in the shape of the target weights."""
    compromise: NDArray[np.uint8]
    """Bits of `Compromise` for each row; 0 where all constraints are met."""

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Mask of the rows that meet every constraint and are the nearest that do."""
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
    """Project target weights onto the constraints: the allowed weights nearest to `wanted`.

    Weights are shares of equity, one for each asset and that of cash last; they sum to one. The
    distance is Euclidean; allowed weights are returned unchanged, bit for bit. Leading axes of
    `wanted` are a batch, to which `held` and `movable` are broadcast.

    If no weights meet every constraint: assets that are not movable keep their weights, use the
    caps first and may exceed them, leaving nothing for the others; bounds of cash are relaxed as
    far as needed; and if the rest needs more turnover than its cap, the weights move from those
    held towards the projection without that cap as far as the cap allows. `compromise` reports
    which of these happened.

    Args:
        wanted: Target weights, finite; they need not sum to one.
        held: Current weights; all cash by default.
        movable: Mask of the assets that can be traded; all by default.
        lower: Smallest weight of each asset, at most 0: `-cap` where it may be sold short.
        upper: Largest weight of each asset, at least 0.
        cash_lower: Smallest weight of cash; below 0 where borrowing is allowed.
        cash_upper: Largest weight of cash.
        leverage: Largest sum of absolute weights of assets.
        sectors: Sector of each asset, an index into `sector_caps`, or None.
        sector_caps: Largest sum of absolute weights in each sector, or None for no cap.
        turnover: Largest sum of absolute changes of the weights of assets.

    Raises:
        ValueError: arguments are inconsistent, or the constraints are infeasible.

    Example:
        >>> project_weights([0.7, 0.5, 0.1], upper=0.4).weights.round(3).tolist()
        [0.4, 0.4, 0.2]
    """
    target = np.asarray(wanted, np.float64)
    if target.ndim == 0 or target.shape[-1] < 2:
        raise ValueError(f"wanted must have at least one asset and cash, got shape {target.shape}")
    assets = target.shape[-1] - 1
    now = np.eye(1, assets + 1, assets)[0] if held is None else np.asarray(held, np.float64)
    can_move = np.asarray(True if movable is None else movable, np.bool_)
    weights, compromise = _core.project_weights(
        _rows("wanted", target, target.shape),
        _rows("held", now, target.shape),
        _rows("movable", can_move, (*target.shape[:-1], assets)),
        lower=_rows("lower", np.asarray(lower, np.float64), (assets,))[0].tolist(),
        upper=_rows("upper", np.asarray(upper, np.float64), (assets,))[0].tolist(),
        cash_lower=cash_lower,
        cash_upper=cash_upper,
        leverage=leverage,
        sectors=sectors,
        sector_caps=sector_caps,
        turnover=turnover,
    )
    return ProjectedWeights(weights.reshape(target.shape), compromise.reshape(target.shape[:-1]))


def _rows(name: str, values: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
    """Values broadcast to a shape, as rows of a contiguous matrix."""
    try:
        broadcast = np.broadcast_to(values, shape)
    except ValueError as error:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}") from error
    return np.ascontiguousarray(broadcast).reshape(-1, shape[-1])
