"""Exposures of a portfolio at decisions and after drift, compared with their caps.

Caps hold for the weights that are ordered. Prices then move the weights that are held, which may be
above a cap until the next decision: `Constraints.tolerance` states the excess that is accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.market import CashAccount, Constraints, MarginAccount

if TYPE_CHECKING:
    from sekai.envs.portfolio.log import EpisodeLog

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""Excess that counts as none."""

EXPOSURE_KINDS = ("weight", "sector", "gross")


@dataclass(frozen=True, slots=True)
class ExposureLimits:
    """Caps of one agent, and the tolerance of drift above them."""

    max_weight: tuple[float, ...]
    """Largest absolute weight of each asset."""

    sector_caps: tuple[float, ...]
    """Largest gross exposure to each sector, by name in order; infinite for no cap."""

    leverage: float
    """Largest gross exposure."""

    tolerance: float
    """Accepted excess after drift."""

    @classmethod
    def of(
        cls, constraints: Constraints, account: CashAccount | MarginAccount, data: MarketData
    ) -> ExposureLimits:
        """Caps of constraints with an account on these data."""
        settings = constraints.settings(data.assets, data.sectors, account)
        sectors: list[float | None] = settings["sector_caps"] or [None] * len(_names(data.sectors))
        leverage = settings["leverage"]
        return cls(
            max_weight=tuple(settings["upper"]),
            sector_caps=tuple(np.inf if cap is None else cap for cap in sectors),
            leverage=account.leverage if leverage is None else leverage,
            tolerance=constraints.tolerance,
        )

    def to_list(self) -> list[float | None]:
        """Numbers for a file: those of assets, of sectors, leverage, tolerance; None for no cap."""
        numbers = (*self.max_weight, *self.sector_caps, self.leverage, self.tolerance)
        return [None if np.isinf(number) else number for number in numbers]

    @classmethod
    def from_list(
        cls, numbers: Sequence[float | None], assets: Sequence[str], sectors: Collection[str]
    ) -> tuple[ExposureLimits, ...]:
        """Caps of all agents from the lists of `to_list`, one after the other."""
        width = len(assets) + len(sectors) + 2
        values = [np.inf if number is None else float(number) for number in numbers]
        rows = [values[start : start + width] for start in range(0, len(values), width)]
        count = len(assets)
        return tuple(
            cls(tuple(row[:count]), tuple(row[count:-2]), row[-2], row[-1]) for row in rows
        )


@dataclass(frozen=True, slots=True, eq=False)
class ExposureRows:
    """Largest exposures in each row, and their excess over the caps."""

    weight: Floats
    """Largest absolute weight of an asset."""

    sector: Floats
    """Largest gross exposure to a sector; 0 without sectors."""

    gross: Floats
    """Gross exposure: sum of the absolute weights of assets."""

    weight_excess: Floats
    """Largest excess of an asset over its cap; negative below it. NaN if caps are not known."""

    sector_excess: Floats
    gross_excess: Floats
    tolerance: Floats
    """Accepted excess."""

    @property
    def rows_above_cap(self) -> dict[str, int]:
        """Number of rows above the cap: of `weight`, `sector` and `gross`."""
        return self._rows_above(0.0)

    @property
    def rows_above_tolerance(self) -> dict[str, int]:
        """Number of rows above the cap plus the tolerance: of `weight`, `sector` and `gross`."""
        return self._rows_above(self.tolerance)

    def _rows_above(self, allowed: float | Floats) -> dict[str, int]:
        return {
            kind: int((getattr(self, f"{kind}_excess") > allowed + ROUNDING).sum())
            for kind in EXPOSURE_KINDS
        }


@dataclass(frozen=True, slots=True, eq=False)
class Exposures:
    """Exposures at decisions and after drift, one row for each step of a log."""

    at_decision: ExposureRows
    """Of the weights ordered; NaN for orders in units."""

    after_drift: ExposureRows
    """Of the weights held after the step, at the prices of its last row."""

    @classmethod
    def of(cls, log: EpisodeLog) -> Exposures:
        """Exposures of a log."""
        return cls(
            at_decision=_exposure_rows(log, log.steps.ordered_weights[:, :-1]),
            after_drift=_exposure_rows(log, log.steps.weights[:, :-1]),
        )


def _exposure_rows(log: EpisodeLog, weights: Floats) -> ExposureRows:
    sizes, names = np.abs(weights), _names(log.sectors)
    owners = np.array([log.sectors.get(asset, "") for asset in log.assets])
    # A column of zeros stands for no sector, so that there is a largest one.
    by_sector = np.stack(
        [*(sizes[:, owners == name].sum(axis=1) for name in names), 0.0 * sizes.sum(axis=1)], axis=1
    )
    gross = sizes.sum(axis=1)
    known = log.limits or (_unknown_limits(len(log.assets), len(names)),)
    owner = log.steps.agent if log.limits else np.zeros_like(log.steps.agent)
    assets = np.array([limits.max_weight for limits in known])[owner]
    sectors = np.array([(*limits.sector_caps, np.inf) for limits in known])[owner]
    leverage = np.array([limits.leverage for limits in known])[owner]
    return ExposureRows(
        weight=sizes.max(axis=1),
        sector=by_sector.max(axis=1),
        gross=gross,
        weight_excess=(sizes - assets).max(axis=1),
        sector_excess=(by_sector - sectors).max(axis=1),
        gross_excess=gross - leverage,
        tolerance=np.array([limits.tolerance for limits in known])[owner],
    )


def _unknown_limits(assets: int, sectors: int) -> ExposureLimits:
    return ExposureLimits((np.nan,) * assets, (np.nan,) * sectors, np.nan, np.nan)


def _names(sectors: Mapping[str, str]) -> list[str]:
    """Names of sectors in the order of their caps."""
    return sorted(set(sectors.values()))
