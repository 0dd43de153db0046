"""Cost model of a portfolio: commission, spread, impact, borrow, financing, delisting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from quant_gym_rs._core import cost_kinds
from sekai.config.checked import CheckedConfig
from sekai.storage.names import did_you_mean

AssetRate = float | Mapping[str, float]
"""Number for all assets, or by asset: every asset by name, or some and `default` for the rest."""

DEFAULT = "default"
"""Key of a rate by asset for all assets without a key of their own."""

COST_KINDS: tuple[str, ...] = tuple(kind for kind, _, _ in cost_kinds())
"""Kinds of cost in infos and logs, in the order of the Rust core. Interest earned on cash is a
negative `financing` cost."""

COST_FIELDS: tuple[str, ...] = tuple(field for _, field, _ in cost_kinds())
"""Field of `Costs` that sets each of `COST_KINDS`, in the same order."""

TRADING_COSTS = frozenset(
    name for *names, is_trading in cost_kinds() if is_trading for name in names
)
"""Names of kinds and fields of costs that are paid for trades; the others are costs of holding."""

NOT_SCALED = ("impact_half_life", "interest", "delisting")
"""Fields that `Costs.times` leaves: they are not prices of trading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs(CheckedConfig):
    """Cost rates: shares of the value traded, and yearly rates of the value held.

    The defaults are those of a small fund in liquid stocks. Rates that depend on the asset are one
    number for all, or a mapping by asset: `{"AAPL": 0.001, "default": 0.0005}`.
    """

    proportional: AssetRate = 0.0005
    """Commission, as a share of the value traded."""

    fixed: float = 0.0
    """Commission for each order that fills at all, in currency."""

    per_share: AssetRate = 0.0
    """Commission for each unit traded, in currency."""

    half_spread: AssetRate = 0.0005
    """Half of the bid-ask spread, as a share of the price."""

    impact: AssetRate | None = None
    """Coefficient of square-root market impact: multiplies the volatility of the last 20 rows
    times the root of (units traded / mean volume of those rows), at most half of the value.
    None is 1 where the data has volumes, and 0 where it has none."""

    permanent_impact: AssetRate = 0.0
    """Permanent impact of own trading (Almgren and Chriss): the move of own later fill prices as a
    share of the price, per currency traded. 1e-9 moves them by 0.1 % for a million. Positions are
    marked at prices of the data; the displacement is paid, or received, when trading."""

    transient_impact: AssetRate = 0.0
    """Transient impact (Obizhaeva and Wang): as `permanent_impact`, with exponential decay."""

    impact_half_life: float = 1.0
    """Half-life of transient impact, in rows."""

    borrow: AssetRate = 0.01
    """Yearly borrow rate of assets sold short, by calendar days."""

    financing: float = 0.05
    """Yearly interest rate on cash owed, by calendar days."""

    interest: float = 0.0
    """Yearly interest rate on cash held, by calendar days."""

    delisting: float = 0.3
    """Share of a position that is lost when its asset is delisted: about what Shumway (1997) found
    for stocks that were delisted for poor performance."""

    def times(self, multiple: float, has_volume: bool) -> Costs:
        """Costs of trading and borrowing multiplied, for a cost sensitivity analysis.

        Interest on cash held and the loss at a delisting stay as they are.
        """
        rates = self._rates(has_volume).items()
        scaled: dict[str, Any] = {
            name: _times(rate, multiple) for name, rate in rates if name not in NOT_SCALED
        }
        return replace(self, **scaled)

    def settings(self, has_volume: bool, assets: Sequence[str]) -> dict[str, Any]:
        """Settings for the Rust core with these assets."""
        rates = self._rates(has_volume).items()
        return {name: rate_by_asset(name, rate, assets) for name, rate in rates}

    def _rates(self, has_volume: bool) -> dict[str, Any]:
        rates = {field.name: getattr(self, field.name) for field in fields(self)}
        default_impact = 1.0 if has_volume else 0.0
        return {**rates, "impact": default_impact if self.impact is None else self.impact}


def rate_by_asset(name: str, rate: AssetRate, assets: Sequence[str]) -> float | list[float]:
    """Rate for the Rust core: the number of all assets, or a list with one for each.

    Args:
        name: name of the setting, for errors.
        rate: the rate.
        assets: names of the assets, free slots included.

    Raises:
        ValueError: an asset is unknown, or has no number.
    """
    if not isinstance(rate, Mapping):
        return rate
    known = {*assets, DEFAULT}
    unknown = sorted(map(str, rate.keys() - known))
    if unknown:
        raise ValueError(
            f"unknown asset {unknown[0]!r} in {name}{did_you_mean(unknown[0], known)}; "
            f"{DEFAULT!r} stands for the rest"
        )
    missing = [asset for asset in assets if asset not in rate]
    if missing and DEFAULT not in rate:
        raise ValueError(
            f"{name} has no number for the assets {missing}; add them, or {DEFAULT!r} for the rest"
        )
    return [rate.get(asset, rate.get(DEFAULT, 0.0)) for asset in assets]


def _times(rate: AssetRate, multiple: float) -> AssetRate:
    if isinstance(rate, Mapping):
        return {asset: number * multiple for asset, number in rate.items()}
    return rate * multiple
