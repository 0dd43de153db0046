"""What is known of a market, and since when: a panel of times, assets and fields."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import panel_flaw, seen_places
from sekai.data.calendar import Calendar, Frequency
from sekai.data.delisting import checked_delist_after, inferred_delistings, lifetimes
from sekai.data.panel_checks import (
    PRICE_FIELDS,
    check_shape,
    checked_names,
    checked_times,
    hashable,
    price_places,
    priced,
)
from sekai.data.problems import Problem, Problems

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sekai.data.qlib.options import QlibReadOptions, QlibWriteOptions
    from sekai.data.reading.options import ReadOptions
    from sekai.data.splits import WalkForward

__all__ = ["PRICE_FIELDS", "MarketData"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]
Path = str | os.PathLike[str]

NO_SERIES: Mapping[str, Floats] = MappingProxyType({})


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
        delist_after: int | None = None,
        repairs: Sequence[Problem] = (),
    ) -> None:
        """Take a panel that is in order; `sekai.data` has readers for what is not yet.

        Args:
            times: when each row was known, strictly ascending, in UTC.
            assets: the names of the assets.
            fields: what is known of each, such as `open`, `close`, `volume`.
            values: times by assets by fields; NaN where there is none.
            listed: times by assets; if not given, from the first value on, for as long as
                `delist_after` says.
            quoted: times by assets; where all prices are there if not given.
            tradable: times by assets; where quoted if not given.
            market: series of the whole market, such as an interest rate, a value for each time.
            sectors: the sector of each asset that has one.
            timezone: where days begin and end; None for UTC.
            frequency: how often there is a row; from the stamps if not given.
            warm_up: leading rows that are history alone: no decision falls on them.
            delist_after: trading days (days with a row) without a value of an asset after which
                it counts as delisted, where `listed` does not say so; each is reported in
                `repairs`. Rows that arrive later follow the same rule. None infers no delisting.
            repairs: what was wrong with the source and how it was mended; no part of the content.
        """
        self.times = frozen(checked_times(times))
        self.assets = checked_names("assets", assets)
        self.fields = checked_names("fields", fields)
        self.values = frozen(np.asarray(values, np.float64))
        check_shape("values", self.values, (len(self.times), len(self.assets), len(self.fields)))
        self.timezone = timezone
        self.delist_after = checked_delist_after(delist_after)
        self.repairs = repairs
        self.quoted = self._mask("quoted", quoted, self._priced)
        self.listed = self._mask("listed", listed, self._in_life)
        self.tradable = self._mask("tradable", tradable, lambda: self.quoted)
        self.market: Mapping[str, Floats] = MappingProxyType(
            {name: self._series(name, series) for name, series in (market or {}).items()}
        )
        self.sectors = MappingProxyType(dict(sectors or {}))
        self.warm_up = warm_up
        self._frequency = frequency
        self._check()

    @classmethod
    def from_parquet(cls, path: Path, **options: Unpack[ReadOptions]) -> MarketData:
        """Read a Parquet file, a folder of them, or folders such as `symbol=AAPL/year=2020`.

        Args:
            path: the file or folder. One that `to_parquet` wrote gives the same panel again.
            **options: what the columns are, what to take, and what to do about problems, see
                `sekai.data.Options` and `sekai.data.Policies`.

        Raises:
            DataError: with every problem that no policy deals with.
        """
        from sekai.data.reading.read import read_parquet_files

        return read_parquet_files(path, options)

    @classmethod
    def from_csv(cls, path: Path, **options: Unpack[ReadOptions]) -> MarketData:
        """Read a CSV file or a folder of them, packed by gzip or not; as `from_parquet`."""
        from sekai.data.reading.read import read_csv_files

        return read_csv_files(path, options)

    @classmethod
    def from_frame(cls, frame: Any, **options: Unpack[ReadOptions]) -> MarketData:
        """Read a frame of pandas, polars or pyarrow, long or wide; as `from_parquet`."""
        from sekai.data.reading.read import read_frame

        return read_frame(frame, options)

    @classmethod
    def from_qlib(
        cls, root: Path | Mapping[str, Path], **options: Unpack[QlibReadOptions]
    ) -> MarketData:
        """Read a provider directory of Qlib, without Qlib.

        A slot of the calendar in which an asset is listed and has no value is a halt; further
        kinds of holes are dealt with by policies, as in the other readers. Fields `$quoted` and
        `$tradable`, if there are any, are taken as masks.

        Args:
            root: the folder, or folders by frequency.
            **options: what to take, and what to do about problems, see `QlibReadOptions`.

        Raises:
            DataError: with every problem that no policy deals with, or the first broken file.
        """
        from sekai.data.qlib.panel import read_panel

        return read_panel(root, options)

    def to_qlib(self, root: Path, **options: Unpack[QlibWriteOptions]) -> None:
        """Write the panel as a provider directory of Qlib; see `sekai.data.qlib.write_qlib`."""
        from sekai.data.qlib.writing import write_qlib

        write_qlib(self, root, **options)

    def to_parquet(self, path: Path, *, by_asset: bool = False) -> None:
        """Write all of the panel to a file, or to a folder with a file for each asset.

        The file or folder is there as a whole or not at all. A file that was there is replaced,
        a folder must be new.
        """
        from sekai.data.writing import write_parquet

        write_parquet(self, path, by_asset)

    def to_frame(self, kind: str = "pandas", *, wide: bool = False) -> Any:
        """The panel as a frame.

        Args:
            kind: `pandas`, `polars` or `arrow`.
            wide: a row a time and a column for each asset and field, instead of a row for each
                time and asset at which there is a value.
        """
        from sekai.data.writing import to_frame

        return to_frame(self, kind, wide)

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

    def __reduce__(self) -> tuple[Any, ...]:
        made_of = self._made_of()
        plain = {name: dict(made_of[name]) for name in ("market", "sectors")}
        return _rebuilt, ({**made_of, **plain},)

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
            *(() if self.delist_after is None else ("delist_after", self.delist_after)),
        )  # fmt: skip
        state.update(repr(described).encode())
        masks = (self.listed, self.quoted, self.tradable)
        series = (self.market[name] for name in sorted(self.market))
        for array in (self.calendar.nanoseconds, self.values, *masks, *series):
            state.update(repr(array.shape).encode())
            for part in hashable(array):
                state.update(part)
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
        """A panel that is another after `time`: what `check_causal` and `check_features` need."""
        from sekai.data.features.other_futures import perturbed

        return perturbed(self, time, rng)

    def replace(self, **changes: Any) -> MarketData:
        """The same panel with some of what it was made of replaced."""
        made_of = self._made_of()
        unknown = sorted(changes.keys() - made_of.keys())
        if unknown:
            raise TypeError(f"some of {sorted(made_of)} were wanted, found {unknown}")
        return MarketData(**{**made_of, **changes})

    def with_checked_rows(
        self, times: Times, values: Floats, market: Mapping[str, Floats], masks: Mapping[str, Bools]
    ) -> MarketData:
        """The same assets with rows that were checked before and that nobody writes into.

        For whoever keeps such rows: checks are most of what a panel of few rows costs.
        """
        made = object.__new__(MarketData)
        made.times, made.values = times, values
        made.assets, made.fields = self.assets, self.fields
        made.listed, made.quoted = masks["listed"], masks["quoted"]
        made.tradable = masks["tradable"]
        made.market = MappingProxyType(dict(market)) if market else NO_SERIES
        made.sectors = self.sectors
        made.timezone, made.repairs = self.timezone, self.repairs
        made.delist_after = self.delist_after
        made.warm_up, made._frequency = 0, self.frequency
        return made

    def _made_of(self) -> dict[str, Any]:
        return {
            "times": self.times, "assets": self.assets, "fields": self.fields,
            "values": self.values, "listed": self.listed, "quoted": self.quoted,
            "tradable": self.tradable, "market": self.market, "sectors": self.sectors,
            "timezone": self.timezone, "frequency": self.frequency, "warm_up": self.warm_up,
            "delist_after": self.delist_after, "repairs": self.repairs,
        }  # fmt: skip

    def _priced(self) -> Bools:
        return priced(self.fields, self.values)

    def _in_life(self) -> Bools:
        seen, rule = seen_places(self.values, self.quoted), self.delist_after
        if rule is None:
            return lifetimes(seen)
        listed = lifetimes(seen, rule, self.calendar.day_numbers)
        found = inferred_delistings(seen, listed, self.times, self.assets, rule)
        self.repairs = Problems([*self.repairs, *found])
        return listed

    def _mask(self, name: str, given: ArrayLike | None, default: Any) -> Bools:
        mask = frozen(np.asarray(default() if given is None else given))
        if mask.dtype != np.bool_:
            raise ValueError(f"{name} must be true or false, was of {mask.dtype}")
        check_shape(name, mask, self.values.shape[:2])
        return mask

    def _series(self, name: str, given: ArrayLike) -> Floats:
        series = frozen(np.asarray(given, np.float64))
        check_shape(f"market series {name!r}", series, self.times.shape)
        return series

    def _check(self) -> None:
        if not 0 <= self.warm_up <= len(self):
            raise ValueError(f"warm_up must be from 0 to {len(self)} rows, was {self.warm_up}")
        strangers = sorted(set(self.sectors) - set(self.assets))
        if strangers:
            raise ValueError(f"sectors of the assets were wanted, found {strangers}")
        self.check_rows()

    def check_rows(self) -> None:
        """Raise `ValueError` for what no panel can hold: for whoever made rows unchecked."""
        prices = price_places(self.fields)
        flaw = panel_flaw(self.values, self.listed, self.quoted, self.tradable, prices)
        if flaw is not None:
            kind, row, place, field = flaw
            what = {
                "not_listed": "quoted and not listed",
                "not_quoted": "tradable and not quoted",
                "no_price": f"quoted without a {self.fields[field]} above 0",
            }[kind]
            raise ValueError(f"{self.assets[place]} is {what} at {self.times[row]}")


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array if nobody can write into it, or else a copy that nobody can write into."""
    owner: Any = array
    # A view that cannot be written to may look at an array that can.
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    if isinstance(owner, np.ndarray):
        array = array.copy()
        array.flags.writeable = False
    return array


def _rebuilt(made_of: dict[str, Any]) -> MarketData:
    for name in ("times", "values", "listed", "quoted", "tradable"):
        made_of[name].flags.writeable = False
    return MarketData(**made_of)
