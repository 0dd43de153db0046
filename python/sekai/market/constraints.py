"""Portfolio constraints, and the projection of target weights onto them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs import _core
from sekai.config.checked import CheckedConfig
from sekai.market.accounts import CashAccount, MarginAccount
from sekai.storage.display import brief_repr
from sekai.storage.names import unknown_name

Bounds = float | tuple[float, float]
"""Lower and upper bound, or one number for the bound of the absolute value."""

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

    max_weight: float | Mapping[str, float] | None = None
    """Largest weight of an asset, long or short: one for all, or by name. None, and assets without
    an entry, have no cap beyond the leverage of the account, which is 1 for a `CashAccount`."""

    max_cash: float | None = None
    """Largest weight of cash; None for no limit."""

    leverage: float | None = None
    """Largest sum of absolute weights; None for the limit of the account."""

    sector_caps: float | Mapping[str, float] | None = None
    """Largest sum of absolute weights in a sector: one for all sectors, or by name."""

    turnover: float | None = None
    """Largest sum of absolute changes of weights in one decision."""

    min_cash: float | None = None
    """Smallest weight of cash; below 0 it limits borrowing. None for the limit of the account: 0
    for a `CashAccount`."""

    net_exposure: Bounds | None = None
    """Bounds of the sum of the weights of assets: lower and upper, or one number for both sides; 0
    is dollar-neutral."""

    betas: Mapping[str, float] | None = None
    """Beta of each asset by name, for `beta_exposure`; assets without an entry have a beta of 1."""

    beta_exposure: Bounds | None = None
    """Bounds of the sum of weights times betas: lower and upper, or one number for both sides; 0 is
    beta-neutral."""

    untradable: Literal["cash", "assets"] = "cash"
    """Use of the weight wanted in assets that cannot be traded, which keep the weight that is held:
    cash takes the difference, or all other assets and cash share it alike."""

    min_weight: float = 0.0
    """Smallest absolute weight of a position: a position is zero or at least this large. Not
    convex; see `sekai.market.project_weights` for the heuristic."""

    max_names: int | None = None
    """Largest number of positions. Not convex; see `sekai.market.project_weights`."""

    tolerance: float = 0.0
    """Excess over the caps of assets, sectors and leverage that need not be traded back once drift
    has caused it: the cap is the smaller of what is held and the cap plus the tolerance, never less
    than the cap."""

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
        caps = self._weight_caps(assets, account.leverage)
        limits = [limit for limit in (self.leverage, account.leverage) if limit is not None]
        sector_index, sector_caps = self._sector_caps(sectors)
        return {
            "lower": [-weight if self.long_short else 0.0 for weight in caps],
            "upper": caps,
            "cash_lower": self._least_cash(is_cash),
            "cash_upper": FREE if self.max_cash is None else self.max_cash,
            # Without debt and short positions the weights sum to at most one.
            "leverage": None if is_cash and self.leverage is None else min(limits),
            "sectors": (
                [sector_index.get(sectors.get(asset)) for asset in assets] if sector_caps else []
            ),
            "sector_caps": sector_caps,
            "turnover": self.turnover,
            "net_exposure": _bounds("net_exposure", self.net_exposure),
            "betas": self._betas(assets),
            "beta_exposure": _bounds("beta_exposure", self.beta_exposure),
            "untradable": self.untradable,
            "min_weight": self.min_weight,
            "max_names": self.max_names,
            "tolerance": self.tolerance,
        }

    def _least_cash(self, is_cash: bool) -> float:
        if self.min_cash is None:
            return 0.0 if is_cash else -FREE
        if is_cash and self.min_cash < 0:
            raise ValueError(
                f"min_cash must be at least 0 with a CashAccount, got {self.min_cash}; use a "
                "MarginAccount to borrow"
            )
        return self.min_cash

    def _betas(self, assets: Sequence[str]) -> list[float]:
        if (self.betas is None) != (self.beta_exposure is None):
            present, missing = "betas", "beta_exposure"
            if self.betas is None:
                present, missing = missing, present
            raise ValueError(f"{present} needs {missing}, got None; set both or neither")
        return [] if self.betas is None else _by_asset("betas", self.betas, assets, 1.0)

    def _weight_caps(self, assets: Sequence[str], leverage: float) -> list[float]:
        if not isinstance(self.max_weight, Mapping):
            return [leverage if self.max_weight is None else self.max_weight] * len(assets)
        return _by_asset("max_weight", self.max_weight, assets, leverage)

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
            raise ValueError(f"sector_caps: {unknown_name('sector', unknown[0], names)}")
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
    NET = 32
    """Net exposure is outside its bounds."""
    BETA = 64
    """Beta exposure is outside its bounds."""
    POSITIONS = 128
    """Positions are smaller than `min_weight` or more than `max_names`."""


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedWeights:
    """Projected weights, and the constraints that were relaxed."""

    weights: NDArray[np.float64]
    """Weights of the assets, then of cash; in the shape of the target weights."""
    compromise: NDArray[np.uint8]
    """Bits of `Compromise` for each row; 0 where all constraints are met."""

    __repr__ = brief_repr

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Mask of the rows that meet every constraint.

        They are the nearest that do, unless the heuristic of `min_weight` and `max_names` was used.
        """
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
    net_exposure: Bounds | None = None,
    betas: ArrayLike | None = None,
    beta_exposure: Bounds | None = None,
    untradable: Literal["cash", "assets"] = "cash",
    min_weight: float = 0.0,
    max_names: int | None = None,
    tolerance: float = 0.0,
) -> ProjectedWeights:
    """Project target weights onto the constraints: the allowed weights nearest to `wanted`.

    Weights are shares of equity, one for each asset and that of cash last; they sum to one. The
    distance is Euclidean; allowed weights are returned unchanged, bit for bit. Leading axes of
    `wanted` are a batch, to which `held` and `movable` are broadcast.

    If no weights meet every constraint: assets that are not movable keep their weights, use the
    caps first and may exceed them, leaving nothing for the others; bounds of cash and net exposure,
    then those of beta exposure are relaxed as far as needed; and if the rest needs more turnover
    than its cap, the weights move from those held towards the projection without that cap as far as
    the cap allows. `compromise` reports which of these happened.

    Sets with `min_weight` and `max_names` are not convex, and a heuristic is used: unless the
    projection meets both, the names of its largest absolute weights are kept, at most `max_names`
    of them, and the target is projected onto the rest; then the smallest position below
    `min_weight` is dropped, or the largest of them raised to it if none is below half of it, and
    the target is projected again, until no such position is left. The result meets all constraints,
    and is unchanged by a second projection; it need not be the nearest. If no such weights are
    found, the bit `POSITIONS` is set.

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
        net_exposure: Bounds of the sum of the weights of assets: both, or one for both sides.
        betas: Beta of each asset, for `beta_exposure`.
        beta_exposure: Bounds of the sum of weights times betas: both, or one for both sides.
        untradable: Use of the weight wanted in assets that are not movable: `"cash"` takes the
            difference to the weight held, or all other `"assets"` and cash share it alike.
        min_weight: Smallest absolute weight of a position that is not zero.
        max_names: Largest number of positions.
        tolerance: Excess over `lower`, `upper`, `leverage` and `sector_caps` that need not be
            traded back where `held` exceeds them.

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
        net_exposure=_bounds("net_exposure", net_exposure),
        betas=None if betas is None else np.asarray(betas, np.float64).tolist(),
        beta_exposure=_bounds("beta_exposure", beta_exposure),
        untradable=untradable,
        min_weight=min_weight,
        max_names=max_names,
        tolerance=tolerance,
    )
    return ProjectedWeights(weights.reshape(target.shape), compromise.reshape(target.shape[:-1]))


def _bounds(name: str, bounds: Bounds | None) -> tuple[float, float] | None:
    """Lower and upper bound."""
    if bounds is None:
        return None
    if isinstance(bounds, int | float | np.number):
        return -abs(float(bounds)), abs(float(bounds))
    if len(bounds) != 2:
        raise ValueError(f"{name} must be a number, or a lower and an upper bound, got {bounds!r}")
    return float(bounds[0]), float(bounds[1])


def _by_asset(
    name: str, values: Mapping[str, float], assets: Sequence[str], default: float
) -> list[float]:
    """Value of each asset; the default where there is none."""
    unknown = sorted(set(values) - set(assets))
    if unknown:
        raise ValueError(f"{name}: {unknown_name('asset', unknown[0], assets)}")
    return [values.get(asset, default) for asset in assets]


def _rows(name: str, values: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
    """Values broadcast to a shape, as rows of a contiguous matrix."""
    try:
        broadcast = np.broadcast_to(values, shape)
    except ValueError as error:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}") from error
    return np.ascontiguousarray(broadcast).reshape(-1, shape[-1])
