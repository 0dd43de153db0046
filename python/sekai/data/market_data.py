"""Market data panel: values by time, asset and field, with point-in-time masks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import panel_flaw, priced_places, seen_places
from sekai.data.calendar import Calendar, Duration, Frequency, Moment
from sekai.data.corporate_actions import check_actions
from sekai.data.delisting import inferred_delistings, lifetimes
from sekai.data.panel_io import PanelIO
from sekai.data.problems import Problem, Problems, checked_delist_after
from sekai.storage.names import unknown_name

if TYPE_CHECKING:
    from sekai.data.splits import WalkForward

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]

NO_SERIES: Mapping[str, Floats] = MappingProxyType({})
PRICE_FIELDS = ("open", "high", "low", "close", "adj_close", "vwap", "bid", "ask")
"""Fields that hold prices: above 0 where an asset is quoted."""
HASHED_CELLS = 1 << 20
"""Cells hashed at once, which bounds memory."""


class MarketData(PanelIO):
    """Panel of market data: times by assets by fields, with masks.

    The timestamp of a row is the time at which all of it was known. Nothing is filled: a missing
    value is NaN, and the masks say why.

    * `listed`: the asset exists. After the last listed row it is delisted.
    * `quoted`: it has prices in this row. An asset that is listed and not quoted is halted.
    * `tradable`: orders in it can be filled in this row.

    Panels are immutable and share memory with their slices.

    Args:
        times: timestamp of each row in UTC, strictly ascending.
        assets: asset names.
        fields: field names such as `open`, `close`, `volume`; `dividend` and `split` are corporate
            actions, see `sekai.data.corporate_actions`.
        values: times by assets by fields; NaN where missing.
        listed: times by assets; by default from the first value on, subject to `delist_after`.
        quoted: times by assets; by default where all prices are present.
        tradable: times by assets; by default where quoted.
        market: market-wide series such as an interest rate, one value per time.
        sectors: sector by asset.
        timezone: time zone in which days begin and end; None for UTC.
        frequency: interval between rows; by default inferred from the timestamps.
        warm_up: leading rows that are history only: no decision falls on them.
        delist_after: trading days (days with a row) without a value of an asset after which it
            counts as delisted, where `listed` is not passed; each is reported in `repairs`. Rows
            that arrive later follow the same rule. None infers no delisting.
        repairs: problems of the source and how they were handled; not part of the content.
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
        self.times = frozen(_checked_times(times))
        self.assets = checked_names("assets", assets)
        self.fields = checked_names("fields", fields)
        self.values = frozen(np.asarray(values, np.float64))
        _check_shape("values", self.values, (len(self.times), len(self.assets), len(self.fields)))
        self.timezone = timezone
        self.delist_after = checked_delist_after(delist_after)
        self.repairs = repairs
        self.quoted = self._mask("quoted", quoted, lambda: priced(self.fields, self.values))
        self.listed = self._mask("listed", listed, self._infer_listed)
        self.tradable = self._mask("tradable", tradable, lambda: self.quoted)
        self.market: Mapping[str, Floats] = MappingProxyType(
            {name: self._series(name, series) for name, series in (market or {}).items()}
        )
        self.sectors = MappingProxyType(dict(sectors or {}))
        self.warm_up = warm_up
        self._frequency = frequency
        self._check()

    def __repr__(self) -> str:
        from sekai.data.summary import panel_text

        return panel_text(self)

    def _repr_html_(self) -> str:
        from sekai.data.summary import panel_html

        return panel_html(self)

    def __len__(self) -> int:
        return len(self.times)

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, MarketData) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = self._arguments()
        plain = {name: dict(arguments[name]) for name in ("market", "sectors")}
        return _rebuilt, ({**arguments, **plain},)

    @cached_property
    def calendar(self) -> Calendar:
        """Calendar of the rows."""
        return Calendar(self.times, self.timezone)

    @property
    def frequency(self) -> Frequency:
        """Interval between rows."""
        return self._frequency or self.calendar.frequency

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content: equal for equal panels only."""
        state = hashlib.sha256()
        description = (
            self.assets,
            self.fields,
            sorted(self.market),
            sorted(self.sectors.items()),
            self.timezone,
            self.warm_up,
            self.frequency,
            *(() if self.delist_after is None else ("delist_after", self.delist_after)),
        )
        state.update(repr(description).encode())
        masks = (self.listed, self.quoted, self.tradable)
        series = (self.market[name] for name in sorted(self.market))
        for array in (self.calendar.nanoseconds, self.values, *masks, *series):
            state.update(repr(array.shape).encode())
            for part in _canonical_bytes(array):
                state.update(part)
        return state.hexdigest()

    def field(self, name: str) -> Floats:
        """Values of one field: times by assets, without a copy."""
        if name not in self.fields:
            raise KeyError(unknown_name("field", name, self.fields))
        column: Floats = self.values[:, :, self.fields.index(name)]
        return column

    def asset(self, name: str) -> int:
        """Column index of an asset."""
        if name not in self.assets:
            raise KeyError(unknown_name("asset", name, self.assets))
        return self.assets.index(name)

    def rows(self, start: int, stop: int, *, warm_up: int = 0) -> MarketData:
        """Slice of rows from `start` up to but not including `stop`, without a copy."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"rows must be within 0 and {len(self)}, got {start} to {stop}")
        cut = slice(start, stop)
        return self.replace(
            times=self.times[cut],
            values=self.values[cut],
            listed=self.listed[cut],
            quoted=self.quoted[cut],
            tradable=self.tradable[cut],
            market={name: series[cut] for name, series in self.market.items()},
            warm_up=warm_up,
        )

    def select(
        self, assets: Sequence[str] | None = None, fields: Sequence[str] | None = None
    ) -> MarketData:
        """Panel of some assets and fields, in the given order."""
        names = self.assets if assets is None else tuple(assets)
        columns = [self.asset(name) for name in names]
        fields = self.fields if fields is None else tuple(fields)
        values = [self.field(name)[:, columns] for name in fields]
        return self.replace(
            assets=names,
            fields=fields,
            values=np.stack(values, axis=2),
            listed=self.listed[:, columns],
            quoted=self.quoted[:, columns],
            tradable=self.tradable[:, columns],
            sectors={name: self.sectors[name] for name in names if name in self.sectors},
        )

    def head(self, n: int = 5) -> MarketData:
        """Panel of the first `n` rows, or of all if there are fewer."""
        return self.rows(0, min(n, len(self)), warm_up=min(self.warm_up, n))

    def between(self, start: Moment | None = None, end: Moment | None = None) -> MarketData:
        """Panel of the rows from `start` to `end`, both included, without a copy.

        Args:
            start: first time; a time without a zone is in the time zone of the panel, and a date
                stands for its beginning. None begins with the first row.
            end: last time; a date stands for the whole day. None ends with the last row.
        """
        from sekai.data.splits import row_range

        begin, stop = row_range(self, start, end)
        return self.rows(begin, stop, warm_up=min(max(0, self.warm_up - begin), stop - begin))

    def resample(self, rule: str, *, keep_incomplete: bool = False) -> MarketData:
        """Panel of longer bars: first open, highest high, lowest low, last close, summed volume.

        The timestamp of a bar is its end, when all of it is known: 10:05 for the rows after 10:00
        up to 10:05, and the last row of a day, week, month, quarter or year. Days begin and end
        in the time zone of the panel. `trades` and `turnover` are summed too, `vwap` is weighted by
        volume, other fields and market-wide series show their last value. An asset is listed,
        quoted or tradable in a bar if it is so in any row of it.

        Args:
            rule: length of the bars: a part of a day such as `5min` or `1h`, or `1d`, `1w`
                (from Monday), `1mo`, `1q`, `1y`.
            keep_incomplete: keep a last bar that later rows may change. By default it is left
                out: a session is complete with the first row of the next one.
        """
        from sekai.data.resample import resample

        return resample(self, rule, keep_incomplete=keep_incomplete)

    def describe(self, backend: str = "pandas") -> Any:
        """Summary of each asset as a frame.

        Columns are the asset, its sector, its listed rows with the first and last of them, halted
        rows, quoted rows with a missing value, the first, last, lowest and highest close, the
        return from the first to the last, the annualized volatility of log returns between quotes
        and the mean volume.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
        """
        from sekai.data.summary import describe

        return describe(self, backend)

    def plot(
        self,
        field: str = "close",
        *,
        assets: Sequence[str] | None = None,
        relative: bool = False,
        ax: Any = None,
    ) -> Any:
        """Plot a field over time, a line for each asset; return the matplotlib axes.

        Args:
            field: field to plot.
            assets: assets to plot; by default all.
            relative: divide the values of each asset by its first one.
            ax: axes to plot on; by default those of a new figure.
        """
        from sekai.data.summary import plot

        return plot(self, field, assets, relative, ax)

    def split(
        self,
        *parts: float | Moment,
        embargo: int | Duration = 0,
        warm_up: int | Duration = 0,
    ) -> tuple[MarketData, ...]:
        """Split into consecutive parts.

        Warm-up rows of the panel itself stay with the first part, whose size does not include
        them.

        Args:
            *parts: fractions of all parts, such as `0.6, 0.2, 0.2`, or of all but the last; or
                the first dates of the parts after the first.
            embargo: rows, or duration, left out at the end of each part but the last.
            warm_up: rows, or duration, of history before each part but the first. They may be
                rows of the embargo and of the part before, and are fewer at the start of the panel.
        """
        from sekai.data.splits import split

        return split(self, *parts, embargo=embargo, warm_up=warm_up)

    def walk_forward(
        self,
        *,
        train_rows: int | Duration,
        test_rows: int | Duration,
        step: int | Duration | None = None,
        embargo: int | Duration = 0,
        warm_up: int | Duration = 0,
        expanding: bool = False,
    ) -> WalkForward:
        """Walk-forward folds for training and testing.

        Args:
            train_rows: rows, or duration, of each training part; of the first if `expanding`.
            test_rows: rows, or duration, of each test part.
            step: distance between folds; `test_rows` by default, so that test parts are
                consecutive.
            embargo: rows, or duration, left out between training and test.
            warm_up: rows, or duration, of history before a test part.
            expanding: train on all rows from the beginning, instead of the last `train_rows`.
        """
        from sekai.data.splits import WalkForward

        return WalkForward(
            self,
            train_rows=train_rows,
            test_rows=test_rows,
            step=step,
            embargo=embargo,
            warm_up=warm_up,
            expanding=expanding,
        )

    def perturb_after(self, time: Any, rng: np.random.Generator) -> MarketData:
        """Panel with different values after `time`, for `check_causal` and `check_features`."""
        from sekai.data.features.perturb import perturb_panel

        return perturb_panel(self, time, rng)

    def replace(self, **changes: Any) -> MarketData:
        """Panel with some constructor arguments replaced."""
        arguments = self._arguments()
        if unknown := sorted(changes.keys() - arguments.keys()):
            raise TypeError(f"unknown arguments {unknown}; expected some of {sorted(arguments)}")
        return MarketData(**{**arguments, **changes})

    def with_checked_rows(
        self, times: Times, values: Floats, market: Mapping[str, Floats], masks: Mapping[str, Bools]
    ) -> MarketData:
        """Panel of the same assets with validated, read-only rows, created without checks.

        Validation dominates the cost of panels with few rows.
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

    def _arguments(self) -> dict[str, Any]:
        return {
            "times": self.times,
            "assets": self.assets,
            "fields": self.fields,
            "values": self.values,
            "listed": self.listed,
            "quoted": self.quoted,
            "tradable": self.tradable,
            "market": self.market,
            "sectors": self.sectors,
            "timezone": self.timezone,
            "frequency": self.frequency,
            "warm_up": self.warm_up,
            "delist_after": self.delist_after,
            "repairs": self.repairs,
        }

    def _infer_listed(self) -> Bools:
        seen, rule = seen_places(self.values, self.quoted), self.delist_after
        if rule is None:
            return lifetimes(seen)
        listed = lifetimes(seen, rule, self.calendar.day_numbers)
        delistings = inferred_delistings(seen, listed, self.times, self.assets, rule)
        self.repairs = Problems([*self.repairs, *delistings])
        return listed

    def _mask(self, name: str, values: ArrayLike | None, default: Any) -> Bools:
        mask = frozen(np.asarray(default() if values is None else values))
        if mask.dtype != np.bool_:
            raise ValueError(f"{name} must have dtype bool, got {mask.dtype}")
        _check_shape(name, mask, self.values.shape[:2])
        return mask

    def _series(self, name: str, values: ArrayLike) -> Floats:
        series = frozen(np.asarray(values, np.float64))
        _check_shape(f"market series {name!r}", series, self.times.shape)
        return series

    def _check(self) -> None:
        if not 0 <= self.warm_up <= len(self):
            raise ValueError(f"warm_up must be from 0 to {len(self)} rows, got {self.warm_up}")
        if unknown := sorted(set(self.sectors) - set(self.assets)):
            raise ValueError(f"sectors: {unknown_name('asset', unknown[0], self.assets)}")
        self.check_rows()

    def check_rows(self) -> None:
        """Raise `ValueError` if masks and prices are inconsistent."""
        prices = price_indices(self.fields)
        flaw = panel_flaw(self.values, self.listed, self.quoted, self.tradable, prices)
        if flaw is not None:
            kind, row, column, field = flaw
            problem = {
                "not_listed": "quoted but not listed",
                "not_quoted": "tradable but not quoted",
                "no_price": f"quoted without a {self.fields[field]} above 0",
            }[kind]
            raise ValueError(f"{self.assets[column]} is {problem} at {self.times[row]}")
        check_actions(self)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array if it is read-only, or else a read-only copy."""
    owner: Any = array
    # A read-only view may show an array that is writable.
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    if isinstance(owner, np.ndarray):
        array = array.copy()
        array.flags.writeable = False
    return array


def price_indices(fields: Sequence[str]) -> list[int]:
    """Indices of the fields that are prices."""
    return [index for index, name in enumerate(fields) if name in PRICE_FIELDS]


def priced(fields: Sequence[str], values: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of cells in which all prices are present, or all values if no field is a price."""
    return priced_places(values, price_indices(fields))


def checked_names(what: str, names: Sequence[str]) -> tuple[str, ...]:
    """Validate names: at least one, not empty, without duplicates."""
    names = tuple(names)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{what} must be one or more names, got {list(names)}")
    if len(set(names)) != len(names):
        duplicates = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{what} must be unique, got duplicates {duplicates}")
    return names


def _rebuilt(arguments: dict[str, Any]) -> MarketData:
    for name in ("times", "values", "listed", "quoted", "tradable"):
        arguments[name].flags.writeable = False
    return MarketData(**arguments)


def _canonical_bytes(array: NDArray[Any]) -> Iterator[memoryview]:
    """Bytes of an array, some rows at a time, with all NaN bit patterns made equal."""
    step = max(1, HASHED_CELLS * len(array) // max(1, array.size))
    for start in range(0, len(array), step):
        part = np.ascontiguousarray(array[start : start + step])
        if part.dtype == np.float64 and np.isnan(part).any():
            part = np.where(np.isnan(part), np.nan, part)
        yield part.data


def _checked_times(values: ArrayLike) -> NDArray[np.datetime64]:
    times = np.asarray(values)
    if times.dtype.kind != "M" or times.ndim != 1:
        raise ValueError(
            f"times must be a 1-d array of datetime64, got {times.dtype} of shape {times.shape}"
        )
    times = times.astype("datetime64[ns]", copy=False)
    late = np.flatnonzero(~(np.diff(times.astype(np.int64)) > 0))
    if np.isnat(times).any() or late.size:
        where = f"{times[late[0]]} then {times[late[0] + 1]}" if late.size else "NaT"
        raise ValueError(f"times must be strictly ascending, got {where}")
    return times


def _check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
