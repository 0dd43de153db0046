"""Readers and writers of panels: Parquet, CSV, frames and Qlib, with every option documented."""

from __future__ import annotations

import inspect as introspection
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sekai.data.calendar import Duration, as_timedelta
from sekai.data.problems import Policies, Problems

if TYPE_CHECKING:
    from sekai.data.market_data import MarketData

Path = str | os.PathLike[str]
Reader = TypeVar("Reader", bound=Callable[..., Any])

OPTIONS = """
    time: column of timestamps; by default one named time, date, datetime or timestamp.
    asset: column of assets; by default one named symbol, ticker, asset, tic, code or instrument.
        If there is none, each file is one asset, named as the file.
    fields: columns to read as fields, by their names after `rename`; by default all others.
    rename: new names of columns, by their old names.
    field: field of a wide table, in which each column but the time is an asset. A missing value in
        such a table is a missing row.
    start: first timestamp to read: a date or a time, in `timezone` if it has none.
    stop: timestamp before which rows are read.
    assets: assets to read, in this order; by default all, sorted by name.
    market: market-wide series: columns that are equal for all assets, or another frame or file
        with a time column and one column per series.
    sectors: sector by asset: a mapping whose names must be assets, or a frame or file with a
        column for each, which may list more.
    listing: first and last time at which an asset is listed, by asset; None for an open end.
    timezone: time zone of timestamps without one, and of days.
    time_unit: unit of integer timestamps since 1970 in UTC: s, ms, us or ns.
    time_format: format of timestamps other than 2020-01-31 or 2020-01-31 16:00:00, such as
        %Y%m%d.
    known_after: delay from the timestamp of a row until it is known: `1min` for minute bars with
        the timestamp of their start, `16h` for days that are dated and known at the close.
    policies: handling of problems, see `sekai.data.Policies`; by default each raises.
    batch_rows: rows of a Parquet file in memory at a time.

Raises:
    DataError: with every problem that no policy handles.
"""
"""Documentation of the options that all readers share, the fields of `sekai.data.Options`."""


def reader(**source: str) -> Callable[[Reader], Reader]:
    """Add the `Args` of a reader to its docstring: its source, and the shared options."""

    def add(function: Reader) -> Reader:
        if function.__doc__ is not None:  # python -OO has none
            ((name, text),) = source.items()
            first = f"{introspection.cleandoc(function.__doc__)}\n\nArgs:\n    {name}: {text}"
            function.__doc__ = first + OPTIONS
        return function

    return add


class PanelIO:
    """Readers and writers of `MarketData`."""

    @classmethod
    @reader(path="file or folder; one written by `to_parquet` gives an equal panel.")
    def from_parquet(
        cls,
        path: Path,
        *,
        time: str | None = None,
        asset: str | None = None,
        fields: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        field: str | None = None,
        start: Any = None,
        stop: Any = None,
        assets: Sequence[str] | None = None,
        market: Any = (),
        sectors: Any = None,
        listing: Mapping[str, tuple[Any, Any]] | None = None,
        timezone: str | None = None,
        time_unit: str | None = None,
        time_format: str | None = None,
        known_after: Duration = timedelta(0),
        policies: Policies | None = None,
        batch_rows: int = 1 << 17,
    ) -> MarketData:
        """Read a Parquet file, a folder of them, or folders such as `symbol=AAPL/year=2020`."""
        options = _options(locals())
        from sekai.data.reading.read import read_parquet_files

        return read_parquet_files(path, options)

    @classmethod
    @reader(path="file or folder.")
    def from_csv(
        cls,
        path: Path,
        *,
        time: str | None = None,
        asset: str | None = None,
        fields: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        field: str | None = None,
        start: Any = None,
        stop: Any = None,
        assets: Sequence[str] | None = None,
        market: Any = (),
        sectors: Any = None,
        listing: Mapping[str, tuple[Any, Any]] | None = None,
        timezone: str | None = None,
        time_unit: str | None = None,
        time_format: str | None = None,
        known_after: Duration = timedelta(0),
        policies: Policies | None = None,
        batch_rows: int = 1 << 17,
    ) -> MarketData:
        """Read a CSV file or a folder of them, gzipped or not."""
        options = _options(locals())
        from sekai.data.reading.read import read_csv_files

        return read_csv_files(path, options)

    @classmethod
    @reader(frame="frame; a lazy one is collected.")
    def from_frame(
        cls,
        frame: Any,
        *,
        time: str | None = None,
        asset: str | None = None,
        fields: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        field: str | None = None,
        start: Any = None,
        stop: Any = None,
        assets: Sequence[str] | None = None,
        market: Any = (),
        sectors: Any = None,
        listing: Mapping[str, tuple[Any, Any]] | None = None,
        timezone: str | None = None,
        time_unit: str | None = None,
        time_format: str | None = None,
        known_after: Duration = timedelta(0),
        policies: Policies | None = None,
        batch_rows: int = 1 << 17,
    ) -> MarketData:
        """Read a pandas, polars or pyarrow frame, long or wide."""
        options = _options(locals())
        from sekai.data.reading.read import read_frame

        return read_frame(frame, options)

    @classmethod
    def from_qlib(
        cls,
        root: Path | Mapping[str, Path],
        *,
        freq: str = "day",
        market: str = "all",
        symbols: Sequence[str] | None = None,
        fields: Sequence[str] | Mapping[str, str] | None = None,
        start: Any = None,
        end: Any = None,
        sectors: Any = None,
        timezone: str | None = None,
        known_after: Duration = timedelta(0),
        policies: Policies | None = None,
    ) -> MarketData:
        """Read a Qlib provider directory; Qlib itself is not needed.

        A calendar slot in which a listed asset has no value is a halt; other missing values are
        handled by policies, as in the other readers. Fields `$quoted` and `$tradable` are read
        as masks.

        Args:
            root: folder, or folders by frequency.
            freq: frequency.
            market: instruments file, whose ranges say when each symbol is listed.
            symbols: assets to read, in this order; by default all of the market, in the order of
                its file.
            fields: fields such as `close` or `$close`, or expressions by name, such as
                `{"growth": "$close / Ref($close, 1)"}`; by default all fields, well-known ones
                first.
            start: first timestamp to read.
            end: last timestamp to read, inclusive; a date stands for its start, as in Qlib.
            sectors: sector by asset: a mapping whose names must be assets, or a frame or file with
                a column for each, which may list more.
            timezone: time zone of the timestamps and of days.
            known_after: delay from the timestamp of a row until it is known: a minute for minute
                bars with the timestamp of their start.
            policies: handling of problems; by default each raises.

        Raises:
            DataError: with every problem that no policy handles, or for the first damaged file.
        """
        options = _options(locals())
        from sekai.data.qlib.panel import read_panel

        return read_panel(root, options)

    def to_qlib(
        self,
        root: Path,
        *,
        freq: str | None = None,
        market: str = "all",
        known_after: Duration = timedelta(0),
        overwrite: bool = False,
    ) -> None:
        """Write the panel as a Qlib provider directory; see `sekai.data.qlib.write_qlib`.

        Args:
            root: new or empty folder.
            freq: `day`, `1min` and so on; by default that of the panel.
            market: name of the instruments file.
            known_after: delay from the timestamp in the files until a row is known.
            overwrite: replace the data of this market.
        """
        options = _options(locals())
        from sekai.data.qlib.writing import write_qlib

        write_qlib(cast("MarketData", self), root, **options)

    def to_parquet(self, path: Path, *, by_asset: bool = False) -> None:
        """Write the panel to a Parquet file, or to a folder with a file per asset.

        The write is atomic. An existing file is replaced; an existing folder raises an error.

        Args:
            path: file, or new folder.
            by_asset: write a folder with a file per asset.
        """
        from sekai.data.writing import write_parquet

        write_parquet(cast("MarketData", self), path, by_asset)

    def to_frame(self, backend: str = "pandas", *, wide: bool = False) -> Any:
        """Convert the panel to a frame.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
            wide: one row per time and one column per asset and field, instead of one row per time
                and asset with a value.
        """
        from sekai.data.writing import to_frame

        return to_frame(cast("MarketData", self), backend, wide)


@reader(source="argument of `MarketData.from_frame`, `from_parquet` or `from_csv`.")
def inspect(
    source: Any,
    *,
    time: str | None = None,
    asset: str | None = None,
    fields: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    field: str | None = None,
    start: Any = None,
    stop: Any = None,
    assets: Sequence[str] | None = None,
    market: Any = (),
    sectors: Any = None,
    listing: Mapping[str, tuple[Any, Any]] | None = None,
    timezone: str | None = None,
    time_unit: str | None = None,
    time_format: str | None = None,
    known_after: Duration = timedelta(0),
    policies: Policies | None = None,
    batch_rows: int = 1 << 17,
) -> Problems:
    """Report all problems of a frame, a file or a folder without raising.

    Problems that `policies` handle are reported too.
    """
    options = _options(locals())
    from sekai.data.reading.read import all_problems

    return all_problems(source, options)


def _options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Options among the local variables of a reader or writer; None stands for the default."""
    others = ("cls", "self", "path", "frame", "root", "source")
    options = {
        name: value for name, value in arguments.items() if name not in others and value is not None
    }
    policies = options.get("policies")
    if not isinstance(policies, Policies | None):
        raise TypeError(
            "policies must be an object; expected a Policies such as Policies(missing='halt'), "
            f"got {policies!r}"
        )
    try:
        return options | {"known_after": as_timedelta(options["known_after"])}
    except (ValueError, TypeError) as error:
        raise type(error)(f"known_after: {error}") from error
