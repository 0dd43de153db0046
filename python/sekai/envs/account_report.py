"""What a broker says an account is after a row, for an env whose orders somebody else fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["PAID_KINDS", "AccountReport"]

Floats = NDArray[np.float64]
UnitsOf = Mapping[str, float] | ArrayLike

PAID_KINDS = (
    "proportional", "fixed", "half_spread", "impact", "borrow", "financing", "delisting",
)  # fmt: skip
"""What can be paid, as the fields of `sekai.market.Costs` are called; what cash has earned is a
financing cost below 0."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AccountReport:
    """An account after one row, and what the row did to it."""

    cash: float
    """Cash after the row."""

    units: UnitsOf
    """Units after the row: by name, where those that are not named are not held, or in an array of
    all assets."""

    open_units: UnitsOf = field(default_factory=dict)
    """What is still to be traded of orders that stand, signed; as `units`."""

    costs: Mapping[str, float] = field(default_factory=dict)
    """What was paid in the row, in currency, by the names of `PAID_KINDS`."""

    traded: float = 0.0
    """The value of all that was traded in the row, in currency."""

    def columns(
        self, assets: Sequence[str], free: int = 0
    ) -> tuple[float, Floats, Floats, Floats, float]:
        """What the Rust core is given: cash, units, open units, what was paid, and the turnover.

        Args:
            assets: the names of the assets.
            free: places after those that no asset has yet.
        """
        units = _by_place("units", self.units, assets, free)
        open_units = _by_place("open_units", self.open_units, assets, free)
        unknown = sorted(set(self.costs) - set(PAID_KINDS))
        if unknown:
            raise ValueError(f"costs among {', '.join(PAID_KINDS)} were wanted, found {unknown}")
        paid = np.array([self.costs.get(kind, 0.0) for kind in PAID_KINDS], np.float64)
        return float(self.cash), units, open_units, paid, float(self.traded)


def _by_place(name: str, given: UnitsOf, assets: Sequence[str], free: int) -> Floats:
    units = np.zeros(len(assets) + free)
    if not isinstance(given, Mapping):
        if np.iscomplexobj(given):
            raise ValueError(f"{name} must be real numbers, was {given!r}")
        array = np.asarray(given, np.float64)
        if array.shape != (len(assets),):
            raise ValueError(f"{name} of {len(assets)} assets were wanted, found {array.shape}")
        units[: len(assets)] = array
        return units
    unknown = sorted(set(given) - set(assets))
    if unknown:
        raise ValueError(f"{name} of {', '.join(assets)} were wanted, found {unknown}")
    for place, asset in enumerate(assets):
        units[place] = given.get(asset, 0.0)
    return units
