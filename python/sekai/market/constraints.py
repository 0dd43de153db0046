"""What the weights of a portfolio may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sekai.market.accounts import CashAccount, MarginAccount

__all__ = ["Constraints"]

FREE = 1e6
"""A weight that nobody reaches, for bounds that do not bind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """A mandate. Wanted weights are replaced by the nearest ones that it allows.

    Weights of all assets and cash sum to one. See `sekai.market.project_weights` for what happens
    when nothing is allowed, because positions that cannot be traded are in the way.
    """

    long_short: bool = False
    """Whether weights may be negative; needs a `MarginAccount`."""

    max_weight: float | Mapping[str, float] = 1.0
    """The largest weight of an asset, long or short: one for all, or by name."""

    max_cash: float | None = None
    """The largest weight of cash; None is no limit."""

    leverage: float | None = None
    """The largest sum of absolute weights; None leaves it to the account."""

    sector_caps: float | Mapping[str, float] | None = None
    """The largest sum of absolute weights in a sector: one for all sectors, or by name."""

    turnover: float | None = None
    """The largest sum of absolute changes of weights in one decision."""

    def settings(
        self,
        assets: Sequence[str],
        sectors: Mapping[str, str],
        account: CashAccount | MarginAccount,
    ) -> dict[str, Any]:
        """What the Rust core is given for these assets."""
        is_cash = isinstance(account, CashAccount)
        if is_cash and self.long_short:
            raise ValueError("long_short needs a MarginAccount, found a CashAccount")
        most = self._most(assets)
        limits = [limit for limit in (self.leverage, account.leverage) if limit is not None]
        names, caps = self._caps(sectors)
        return {
            "lower": [-weight if self.long_short else 0.0 for weight in most],
            "upper": most,
            "cash_lower": 0.0 if is_cash else -FREE,
            "cash_upper": FREE if self.max_cash is None else self.max_cash,
            # Without debts and short sales, weights that sum to one are no more than that.
            "leverage": None if is_cash and self.leverage is None else min(limits),
            "sectors": [names.get(sectors.get(asset)) for asset in assets] if caps else [],
            "sector_caps": caps,
            "turnover": self.turnover,
        }

    def _most(self, assets: Sequence[str]) -> list[float]:
        if not isinstance(self.max_weight, Mapping):
            return [self.max_weight] * len(assets)
        unknown = sorted(set(self.max_weight) - set(assets))
        if unknown:
            raise ValueError(f"max_weight of the assets was wanted, found {unknown}")
        return [self.max_weight.get(asset, 1.0) for asset in assets]

    def _caps(self, sectors: Mapping[str, str]) -> tuple[dict[str | None, int], list[float | None]]:
        """The place of each sector, and its cap."""
        if self.sector_caps is None:
            return {}, []
        found = sorted(set(sectors.values()))
        if not found:
            raise ValueError("sector_caps needs data with sectors, found none")
        places: dict[str | None, int] = {name: place for place, name in enumerate(found)}
        if not isinstance(self.sector_caps, Mapping):
            return places, [self.sector_caps] * len(found)
        unknown = sorted(set(self.sector_caps) - set(found))
        if unknown:
            raise ValueError(f"sector_caps among {found} were wanted, found {unknown}")
        return places, [self.sector_caps.get(name) for name in found]
