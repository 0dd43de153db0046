"""What every simulated market has, whatever moves its prices: assets, a clock, disruptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.simulators.clock import Clock
from sekai.data.simulators.disruptions import Disruptions

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["World", "WorldOptions", "for_each_asset"]

Floats = NDArray[np.float64]

CLOCK_OPTIONS = ("start", "frequency", "calendar", "overnight")


class WorldOptions(TypedDict, total=False):
    """What can be said of a simulated market besides how its prices move.

    * `start`, `frequency`, `calendar`, `overnight`: see `Clock`.
    * `price`: what assets cost at first, one number or one for each; 100 if not given.
    * `volume`: what is traded of them in a row on average; 1,000,000 if not given.
    * `sectors`: sectors that assets are dealt to in turn, or the sector of each asset by its name.
    * `disruptions`: halts, late listings and delistings; none if not given.
    """

    start: str
    frequency: str
    calendar: Literal["weekdays", "always"]
    overnight: float
    price: ArrayLike
    volume: ArrayLike
    sectors: Sequence[str] | Mapping[str, str]
    disruptions: Disruptions


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A market without prices yet."""

    assets: tuple[str, ...]
    rows: int
    seed: int
    clock: Clock
    price: Floats
    volume: Floats
    sectors: Mapping[str, str]
    disruptions: Disruptions

    @classmethod
    def of(cls, assets: int | Sequence[str], rows: int, seed: int, options: WorldOptions) -> Self:
        """Check what was asked for, and fill in the rest."""
        if unknown := sorted(options.keys() - WorldOptions.__annotations__.keys()):
            raise TypeError(f"some of {sorted(WorldOptions.__annotations__)} were wanted, "
                            f"found {unknown}")  # fmt: skip
        names = _names(assets)
        if rows < 1:
            raise ValueError(f"rows must be at least 1, was {rows}")
        clock = {name: options[name] for name in CLOCK_OPTIONS if name in options}  # type: ignore[literal-required]
        return cls(
            assets=names, rows=rows, seed=seed, clock=Clock(**clock),
            price=_above_zero("price", options.get("price", 100.0), names),
            volume=_above_zero("volume", options.get("volume", 1_000_000.0), names),
            sectors=_sectors(options.get("sectors", ()), names),
            disruptions=options.get("disruptions", Disruptions()),
        )  # fmt: skip


def for_each_asset(name: str, given: ArrayLike, assets: Sequence[str]) -> Floats:
    """One number for each asset, from one for all of them or one for each."""
    numbers = np.asarray(given, np.float64)
    if numbers.shape not in ((), (len(assets),)) or not np.isfinite(numbers).all():
        raise ValueError(
            f"{name} must be one finite number, or one for each of {len(assets)} assets, "
            f"was {given!r}"
        )
    return np.broadcast_to(numbers, len(assets))


def _names(assets: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(assets, int):
        if assets < 1:
            raise ValueError(f"assets must be at least 1, was {assets}")
        return tuple(f"A{place:03d}" for place in range(assets))
    if isinstance(assets, str) or len(set(assets)) != len(assets) or not assets:
        raise ValueError(f"assets must be a number, or names that differ, was {assets!r}")
    return tuple(assets)


def _above_zero(name: str, given: ArrayLike, assets: Sequence[str]) -> Floats:
    numbers = for_each_asset(name, given, assets)
    if not (numbers > 0).all():
        raise ValueError(f"{name} must be above 0, was {given!r}")
    return numbers


def _sectors(given: Sequence[str] | Mapping[str, str], assets: Sequence[str]) -> dict[str, str]:
    if isinstance(given, str):
        raise ValueError(f"sectors must be a list of names or a mapping, was {given!r}")
    if isinstance(given, Mapping):
        return dict(given)
    if not given:
        return {}
    return {name: given[place % len(given)] for place, name in enumerate(assets)}
