"""What is known of a market, and since when: a panel of times, assets and fields."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.calendar import Calendar, Frequency

if TYPE_CHECKING:
    from sekai.data.splits import WalkForward

__all__ = ["DELIST_AFTER", "PRICE_FIELDS", "MarketData", "lifetimes"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

PRICE_FIELDS = ("open", "high", "low", "close", "adj_close", "vwap", "bid", "ask")
"""Fields that are prices: where an asset is quoted they are above 0."""

DELIST_AFTER = 20
"""Rows without any value after which an asset counts as delisted, where nobody says more."""


class MarketData:
    """A panel of market data: times by assets by fields, with masks that say what a hole means.

    A row is stamped with the time at which all of it was known. Nothing is filled: a value that
    is not there is NaN, and the masks tell why.

    * `listed`: the asset exists. After the last listed row it is delisted.
    * `quoted`: it has prices in this row. An asset that is listed and not quoted is halted.
    * `tradable`: orders in it can be filled in this row.

    Panels are immutable and share memory with the panels they were cut from.
    """

    def __init__(
        self,
        times: ArrayLike,
        assets: Sequence[str],
        fields: Sequence[str],
        values: ArrayLike,
        *,
        listed: ArrayLike | None = None,
        quoted: ArrayLike | None = None,
        tradable: ArrayLike | None = None,
        market: Mapping[str, ArrayLike] | None = None,
        sectors: Mapping[str, str] | None = None,
        timezone: str | None = None,
        frequency: Frequency | None = None,
        warm_up: int = 0,
    ) -> None:
        """Take a panel that is in order; `sekai.data` has readers for what is not yet.

        Args:
            times: when each row was known, strictly ascending, in UTC.
            assets: the names of the assets.
            fields: what is known of each, such as `open`, `close`, `volume`.
            values: times by assets by fields; NaN where there is none.
            listed: times by assets; if not given, from the first value until there has been none
                for `DELIST_AFTER` rows, see `lifetimes`.
            quoted: times by assets; where all prices are there if not given.
            tradable: times by assets; where quoted if not given.
            market: series of the whole market, such as an interest rate, a value for each time.
            sectors: the sector of each asset that has one.
            timezone: where days begin and end; None for UTC.
            frequency: how often there is a row; from the stamps if not given.
            warm_up: leading rows that are history alone: no decision falls on them.
        """
        self.times = frozen(_times(times))
        self.assets = _names("assets", assets)
        self.fields = _names("fields", fields)
        self.values = frozen(np.asarray(values, np.float64))
        _check_shape("values", self.values, (len(self.times), len(self.assets), len(self.fields)))
        self.quoted = self._mask("quoted", quoted, self._priced)
        self.listed = self._mask("listed", listed, self._in_life)
        self.tradable = self._mask("tradable", tradable, lambda: self.quoted)
        self.market = MappingProxyType(
            {name: self._series(name, series) for name, series in (market or {}).items()}
        )
        self.sectors = MappingProxyType(dict(sectors or {}))
        self.timezone = timezone
        self.warm_up = warm_up
        self._frequency = frequency
        self._check()

    def __repr__(self) -> str:
        span = f"{self.times[0]} to {self.times[-1]}" if len(self.times) else "no rows"
        return (
            f"MarketData({len(self.times)} rows, {len(self.assets)} assets, "
            f"fields {', '.join(self.fields)}; {span})"
        )

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.times)

    def __eq__(self, other: object) -> bool:
        """Whether everything is the same, NaN in the same places included."""
        return self.digest == other.digest if isinstance(other, MarketData) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def calendar(self) -> Calendar:
        """When the rows are."""
        return Calendar(self.times, self.timezone)

    @property
    def frequency(self) -> Frequency:
        """How often there is a row."""
        return self._frequency or self.calendar.frequency

    @cached_property
    def digest(self) -> str:
        """A hash of the content: panels are equal if and only if it is."""
        state = hashlib.sha256()
        described = (
            self.assets, self.fields, sorted(self.market), sorted(self.sectors.items()),
            self.timezone, self.warm_up, self.frequency,
        )  # fmt: skip
        state.update(repr(described).encode())
        masks = (self.listed, self.quoted, self.tradable)
        series = (self.market[name] for name in sorted(self.market))
        for array in (self.calendar.nanoseconds, self.values, *masks, *series):
            state.update(repr(array.shape).encode())
            state.update(np.ascontiguousarray(array).data)
        return state.hexdigest()

    def field(self, name: str) -> Floats:
        """One field of all assets: times by assets, without a copy."""
        if name not in self.fields:
            raise KeyError(f"a field among {', '.join(self.fields)} was wanted, found {name!r}")
        column: Floats = self.values[:, :, self.fields.index(name)]
        return column

    def asset(self, name: str) -> int:
        """The place of an asset."""
        if name not in self.assets:
            raise KeyError(f"an asset among {', '.join(self.assets)} was wanted, found {name!r}")
        return self.assets.index(name)

    def rows(self, start: int, stop: int, *, warm_up: int = 0) -> MarketData:
        """The rows from `start` up to but not including `stop`, without a copy."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"rows from 0 to {len(self)} were wanted, found {start} to {stop}")
        cut = slice(start, stop)
        return self.replace(
            times=self.times[cut], values=self.values[cut], listed=self.listed[cut],
            quoted=self.quoted[cut], tradable=self.tradable[cut],
            market={name: series[cut] for name, series in self.market.items()},
            warm_up=warm_up,
        )  # fmt: skip

    def select(
        self, assets: Sequence[str] | None = None, fields: Sequence[str] | None = None
    ) -> MarketData:
        """Some of the assets and fields, in the order they are named."""
        names = self.assets if assets is None else tuple(assets)
        places = [self.asset(name) for name in names]
        wanted = self.fields if fields is None else tuple(fields)
        columns = [self.field(name) for name in wanted]
        return self.replace(
            assets=names, fields=wanted,
            values=np.stack([column[:, places] for column in columns], axis=2),
            listed=self.listed[:, places], quoted=self.quoted[:, places],
            tradable=self.tradable[:, places],
            sectors={name: self.sectors[name] for name in names if name in self.sectors},
        )  # fmt: skip

    def split(self, *parts: Any, **options: Any) -> tuple[MarketData, ...]:
        """The panel in parts that follow each other; see `sekai.data.splits.split`."""
        from sekai.data.splits import split

        return split(self, *parts, **options)

    def walk_forward(self, **options: Any) -> WalkForward:
        """Folds to train on and to test after; see `sekai.data.splits.WalkForward`."""
        from sekai.data.splits import WalkForward

        return WalkForward(self, **options)

    def perturb_after(self, time: Any, rng: np.random.Generator) -> MarketData:
        """A panel that is another after `time`; see `sekai.data.other_futures.perturbed`."""
        from sekai.data.other_futures import perturbed

        return perturbed(self, time, rng)

    def replace(self, **changes: Any) -> MarketData:
        """The same panel with some of what it was made of replaced."""
        made_of = self._made_of()
        unknown = sorted(changes.keys() - made_of.keys())
        if unknown:
            raise TypeError(f"some of {sorted(made_of)} were wanted, found {unknown}")
        return MarketData(**{**made_of, **changes})

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is copied and pickled: made anew, of what it was made of."""
        return _made_anew, (self._made_of(),)

    def _made_of(self) -> dict[str, Any]:
        return {
            "times": self.times, "assets": self.assets, "fields": self.fields,
            "values": self.values, "listed": self.listed, "quoted": self.quoted,
            "tradable": self.tradable, "market": dict(self.market), "sectors": dict(self.sectors),
            "timezone": self.timezone, "frequency": self.frequency, "warm_up": self.warm_up,
        }  # fmt: skip

    def _priced(self) -> Bools:
        prices = [place for place, name in enumerate(self.fields) if name in PRICE_FIELDS]
        shown = self.values[:, :, prices or slice(None)]
        there: Bools = np.isfinite(shown).all(axis=2)
        return there

    def _in_life(self) -> Bools:
        return lifetimes(np.isfinite(self.values).any(axis=2) | self.quoted)

    def _mask(self, name: str, given: ArrayLike | None, default: Any) -> Bools:
        mask = frozen(np.asarray(default() if given is None else given))
        if mask.dtype != np.bool_:
            raise ValueError(f"{name} must be true or false, was of {mask.dtype}")
        _check_shape(name, mask, self.values.shape[:2])
        return mask

    def _series(self, name: str, given: ArrayLike) -> Floats:
        series = frozen(np.asarray(given, np.float64))
        _check_shape(f"market series {name!r}", series, self.times.shape)
        return series

    def _check(self) -> None:
        if not 0 <= self.warm_up <= len(self):
            raise ValueError(f"warm_up must be from 0 to {len(self)} rows, was {self.warm_up}")
        strangers = sorted(set(self.sectors) - set(self.assets))
        if strangers:
            raise ValueError(f"sectors of the assets were wanted, found {strangers}")
        self._refuse("quoted and not listed", self.quoted & ~self.listed)
        self._refuse("tradable and not quoted", self.tradable & ~self.quoted)
        for name in self.fields:
            if name in PRICE_FIELDS:
                column = self.field(name)
                with np.errstate(invalid="ignore"):
                    wrong = self.quoted & ~((column > 0) & np.isfinite(column))
                self._refuse(f"quoted without a {name} above 0", wrong)

    def _refuse(self, what: str, where: Bools) -> None:
        if where.any():
            row, place = (int(found[0]) for found in np.nonzero(where))
            raise ValueError(f"{self.assets[place]} is {what} at {self.times[row]}")


def _made_anew(made_of: dict[str, Any]) -> MarketData:
    return MarketData(**made_of)


def lifetimes(seen: Bools, delist_after: int = DELIST_AFTER) -> Bools:
    """Where assets are listed: from the row they are first seen in, for as long as they are.

    An asset is given up after `delist_after` rows in a row without it, and not in the first of
    them: whether it comes back is not known then.
    """
    if delist_after < 1:
        raise ValueError(f"delist_after must be at least 1 row, was {delist_after}")
    rows = np.arange(len(seen))[:, None]
    last_seen = np.maximum.accumulate(np.where(seen, rows, -delist_after), axis=0)
    alive: Bools = rows - last_seen < delist_after
    return alive


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array if nobody can write into it, or else a copy that nobody can write into."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def _times(given: ArrayLike) -> NDArray[np.datetime64]:
    times = np.asarray(given)
    if times.dtype.kind != "M" or times.ndim != 1:
        raise ValueError(
            f"times must be a row of datetime64, was of {times.dtype} and shape {times.shape}"
        )
    times = times.astype("datetime64[ns]", copy=False)
    late = np.flatnonzero(~(np.diff(times.astype(np.int64)) > 0))
    if np.isnat(times).any() or late.size:
        where = f"{times[late[0]]} then {times[late[0] + 1]}" if late.size else "no time (NaT)"
        raise ValueError(f"times must be strictly ascending, found {where}")
    return times


def _names(what: str, given: Sequence[str]) -> tuple[str, ...]:
    names = tuple(given)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{what} must be one name or more, was {list(names)}")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{what} must differ from each other, found {twice} more than once")
    return names


def _check_shape(name: str, array: NDArray[Any], wanted: tuple[int, ...]) -> None:
    if array.shape != wanted:
        raise ValueError(f"{name} must be of shape {wanted}, was {array.shape}")
