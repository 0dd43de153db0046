"""Account reports: accounts as a broker reports them, for envs whose orders a broker fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.market.costs import COST_FIELDS
from sekai.storage.names import unknown_name

__all__ = ["AccountReport"]

Floats = NDArray[np.float64]
Units = Mapping[str, float] | ArrayLike


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AccountReport:
    """Broker's report of an account after one row, for an env whose orders a broker fills."""

    cash: float
    """Cash after the row."""

    units: Units
    """Units held after the row: by asset, where missing assets are not held, or one number for
    each asset."""

    open_units: Units = field(default_factory=dict)
    """Unfilled units of open orders, signed; as `units`."""

    costs: Mapping[str, float] = field(default_factory=dict)
    """Costs paid in the row, in currency, by the names of `COST_FIELDS`. Interest earned on cash is
    a negative `financing` cost."""

    traded: float = 0.0
    """Value traded in the row, in currency."""

    def columns(
        self, assets: Sequence[str], free: int = 0
    ) -> tuple[float, Floats, Floats, Floats, float]:
        """Arguments of the Rust core: cash, units, open units, costs and value traded.

        Args:
            assets: names of the assets.
            free: number of slots after those that have no asset yet.
        """
        units = _units_array("units", self.units, assets, free)
        open_units = _units_array("open_units", self.open_units, assets, free)
        unknown = sorted(set(self.costs) - set(COST_FIELDS))
        if unknown:
            raise ValueError(unknown_name("cost", unknown[0], COST_FIELDS))
        costs = np.array([self.costs.get(name, 0.0) for name in COST_FIELDS], np.float64)
        return float(self.cash), units, open_units, costs, float(self.traded)


def _units_array(name: str, units: Units, assets: Sequence[str], free_slots: int) -> Floats:
    result = np.zeros(len(assets) + free_slots)
    if not isinstance(units, Mapping):
        if np.iscomplexobj(units):
            raise ValueError(f"{name} must be real numbers, got {units!r}")
        array = np.asarray(units, np.float64)
        if array.shape != (len(assets),):
            raise ValueError(f"{name} must have shape {(len(assets),)}, got {array.shape}")
        result[: len(assets)] = array
        return result
    unknown = sorted(set(units) - set(assets))
    if unknown:
        raise ValueError(f"{name}: {unknown_name('asset', unknown[0], assets)}")
    result[: len(assets)] = [units.get(asset, 0.0) for asset in assets]
    return result
