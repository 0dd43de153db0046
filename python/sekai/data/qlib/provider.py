"""Reader of Qlib provider directories, without Qlib."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import local_time
from sekai.data.intraday import FileVersion, file_version, is_settled
from sekai.data.qlib.expression import Expression, column_of
from sekai.data.qlib.files import (
    FeatureFile,
    Instruments,
    Ranges,
    calendar_path,
    canonical_frequency,
    feature_folder,
    feature_path,
    frequencies_in,
    instruments_path,
    listed_slots,
    read_calendar,
    read_instruments,
)
from sekai.error import DataError
from sekai.storage.names import did_you_mean

Content = TypeVar("Content")
Floats32 = NDArray[np.float32]
Root = str | os.PathLike[str]


class QlibProvider:
    """Qlib provider directory: calendars, instruments, and a file per field of a symbol.

    It is read only, and nothing in it is executed. Calendars and instruments are cached until
    their files change; of features only the requested slots are read, each time anew.

    Args:
        root: folder, or folders by frequency such as `{"1min": ..., "day": ...}`.

    Raises:
        DataError: if a folder is missing, or is not a provider directory.
    """

    def __init__(self, root: Root | Mapping[str, Root]) -> None:
        if isinstance(root, Mapping):
            roots = {canonical_frequency(freq): _folder(path) for freq, path in root.items()}
            for freq, folder in roots.items():
                _check_frequency(freq, _frequencies(folder), folder)
        else:
            folder = _folder(root)
            roots = dict.fromkeys(_frequencies(folder), folder)
        if not roots:
            raise DataError("root must have a folder of at least one frequency, got {}")
        self.roots = MappingProxyType(roots)
        self._contents: dict[Hashable, tuple[FileVersion, Any]] = {}

    def __repr__(self) -> str:
        roots = ", ".join(f"{freq}: {root!r}" for freq, root in self.roots.items())
        return f"QlibProvider({{{roots}}})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self.roots),)

    @property
    def frequencies(self) -> tuple[str, ...]:
        """Available frequencies."""
        return tuple(self.roots)

    def calendar(self, freq: str = "day", *, future: bool = False) -> NDArray[np.datetime64]:
        """Timestamps of all slots in local time, in nanoseconds.

        Args:
            freq: `day`, `1min`, `5min` and so on.
            future: read the calendar that extends into the future, if there is one.
        """
        root, freq = self._root(freq)
        path = calendar_path(root, freq, future)
        try:
            return self._content(path, read_calendar)
        except FileNotFoundError:
            raise DataError(f"missing calendar {path!r}") from None

    def markets(self, freq: str = "day") -> tuple[str, ...]:
        """Names of the instruments files."""
        folder = Path(self._root(freq)[0], "instruments")
        return tuple(sorted(file.stem for file in folder.glob("*.txt")))

    def instruments(self, market: str = "all", freq: str = "day") -> Instruments:
        """Symbols of a market with their listing ranges, both ends inclusive."""
        root, freq = self._root(freq)
        try:
            return self._content(instruments_path(root, market), _instruments)
        except FileNotFoundError:
            known = did_you_mean(market, self.markets(freq))
            raise DataError(f"unknown market {market!r} in {root}{known}") from None

    def fields(self, symbol: str, freq: str = "day") -> tuple[str, ...]:
        """Fields of a symbol such as `$close`, sorted."""
        root, freq = self._root(freq)
        folder = Path(feature_folder(root, self.symbol(symbol, freq)))
        if not folder.is_dir():
            raise DataError(f"instrument {symbol} has no folder {str(folder)!r}")
        end = f".{freq}.bin"
        names = (file.name for file in folder.glob(f"*{end}"))
        return tuple(sorted(f"${name.removesuffix(end)}" for name in names if name[0] != "."))

    def has_folder(self, symbol: str, freq: str = "day") -> bool:
        """Return True if an instrument has a folder of features."""
        return os.path.isdir(feature_folder(self._root(freq)[0], symbol))

    def has_field(self, symbol: str, field: str, freq: str = "day") -> bool:
        """Return True if a symbol has a field."""
        root, freq = self._root(freq)
        return os.path.isfile(feature_path(root, symbol, field, freq))

    def symbol(self, name: str, freq: str = "day", market: str = "all") -> str:
        """Resolve a symbol to the spelling of the market file, ignoring case."""
        known = self.instruments(market, freq)
        if name in known:
            return name
        matches = [symbol for symbol in known if symbol.lower() == str(name).lower()]
        if not matches:
            raise DataError(
                f"unknown instrument {name!r} in market {market!r}{did_you_mean(str(name), known)}"
            )
        return matches[0]

    def slots(self, start: Any = None, end: Any = None, freq: str = "day") -> tuple[int, int]:
        """First slot and slot after the last between two times, both inclusive.

        A date stands for its start, as in Qlib: for all minutes of a last day, pass its last
        minute or the next day.
        """
        calendar = self.calendar(freq)
        first = 0 if start is None else int(np.searchsorted(calendar, local_time(start), "left"))
        stop = len(calendar)
        if end is not None:
            stop = int(np.searchsorted(calendar, local_time(end), "right"))
        return first, max(first, stop)

    def listed(
        self, symbol: str, first: int, stop: int, freq: str = "day", market: str = "all"
    ) -> NDArray[np.bool_]:
        """Mask of the slots from `first` up to but not including `stop` in which it is listed."""
        ranges: Ranges = self.instruments(market, freq)[self.symbol(symbol, freq, market)]
        return listed_slots(self.calendar(freq), ranges, first, stop)

    def extent(self, symbol: str, field: str, freq: str = "day") -> tuple[int, int]:
        """Slots covered by the file of a field: the first, and the one after the last."""
        root, freq = self._root(freq)
        path, slots = feature_path(root, symbol, field, freq), len(self.calendar(freq))
        read = partial(FeatureFile.opened, slots=slots)
        with self._file_errors(symbol, [path]):
            head: FeatureFile = self._content(path, read, (path, slots))
        return head.start, head.start + head.count

    def values(self, symbol: str, field: str, first: int, stop: int, freq: str = "day") -> Floats32:
        """Stored values of a field for some slots, NaN where the file has none."""
        root, freq = self._root(freq)
        path = feature_path(root, symbol, field, freq)
        with self._file_errors(symbol, [path]):
            return FeatureFile.read(path, len(self.calendar(freq)), first, stop)

    def features(
        self,
        symbols: Sequence[str] | None,
        fields: Sequence[str],
        start: Any = None,
        end: Any = None,
        freq: str = "day",
        *,
        market: str = "all",
    ) -> NDArray[np.void]:
        """Table of fields and expressions: `instrument`, `datetime`, and a column for each.

        It has a row for each slot in which a symbol is listed and that one of the files covers.
        Values are float32 as stored.

        Args:
            symbols: symbols; None for all of the market.
            fields: fields such as `$close`, or expressions such as `$close / Ref($close, 1)`.
            start: first time; by default the beginning.
            end: last time, inclusive; by default the end.
            freq: frequency.
            market: market whose ranges say when a symbol is listed.
        """
        if isinstance(fields, str) or isinstance(symbols, str):
            raise TypeError("symbols and fields must be lists, got a string")
        expressions = [Expression.parse(field) for field in fields]
        if not expressions or len(set(fields)) != len(fields):
            raise DataError(f"fields must be one or more without duplicates, got {list(fields)}")
        names = self.instruments(market, freq) if symbols is None else symbols
        names = [self.symbol(name, freq, market) for name in names]
        limits = self.slots(start, end, freq)
        parts = [_rows(self, name, expressions, limits, freq, market) for name in names]
        width = max((len(name) for name in names), default=1)
        kind = [("instrument", f"<U{width}"), ("datetime", "datetime64[ns]")]
        count = sum(len(times) for times, _ in parts)
        table = np.empty(count, [*kind, *((name, "<f4") for name in fields)])
        begin = 0
        for name, (times, columns) in zip(names, parts, strict=True):
            rows = table[begin : begin + len(times)]
            begin += len(times)
            rows["instrument"], rows["datetime"] = name, times
            for field, column in zip(fields, columns, strict=True):
                rows[field] = column
        return table

    def file_versions(
        self, symbol: str, fields: Sequence[str], freq: str = "day"
    ) -> tuple[FileVersion, ...]:
        """Versions of all files that these fields of a symbol are read from."""
        root, freq = self._root(freq)
        paths = [calendar_path(root, freq), instruments_path(root, "all")]
        paths += [feature_path(root, symbol, field, freq) for field in fields]
        with self._file_errors(symbol, paths):
            return tuple([file_version(path) for path in paths])

    def _root(self, freq: str) -> tuple[str, str]:
        root = self.roots.get(freq)
        if root is not None:
            return root, freq
        name = canonical_frequency(freq)
        if name not in self.roots:
            known = " or ".join(f"freq={other!r}" for other in sorted(self.roots))
            raise DataError(f"no data of frequency {freq!r}; expected {known}")
        return self.roots[name], name

    def _content(self, path: str, read: Callable[[str], Content], key: Hashable = None) -> Content:
        """Content of a file, read again when the file has changed."""
        version = file_version(path)
        cached = self._contents.get(key or path)
        if cached is not None and cached[0] == version:
            content: Content = cached[1]
            return content
        content = read(path)
        if is_settled([version]) and file_version(path) == version:
            self._contents[key or path] = (version, content)
        return content

    @contextmanager
    def _file_errors(self, symbol: str, paths: Sequence[str]) -> Iterator[None]:
        """Convert file errors to a `DataError` that names the field."""
        try:
            yield
        except FileNotFoundError:
            path = next((path for path in paths if not os.path.exists(path)), paths[-1])
            field, _, kind = os.path.basename(path).rpartition(".")
            if kind != "bin":
                raise DataError(f"not a provider directory: missing {path!r}") from None
            field, _, freq = field.rpartition(".")
            known = did_you_mean(f"${field}", self.fields(symbol, freq))
            raise DataError(f"{symbol} has no field '${field}'{known}") from None
        except OSError as error:
            raise DataError(f"{paths[-1]!r} cannot be read: {error}") from error


def _instruments(path: str) -> Instruments:
    return MappingProxyType(read_instruments(path))


def _folder(root: Root) -> str:
    folder = Path(root).absolute()
    if not folder.is_dir():
        raise DataError(f"missing Qlib provider directory {str(root)!r}")
    return str(folder)


def _frequencies(root: str) -> list[str]:
    for name in ("calendars", "instruments", "features"):
        if not Path(root, name).is_dir():
            raise DataError(
                f"{root!r} is not a Qlib provider directory: it has no folder {name}; expected "
                f"calendars, instruments and features"
            )
    frequencies = frequencies_in(root)
    if not frequencies:
        raise DataError(f"no calendar such as day.txt in {root}/calendars")
    return frequencies


def _check_frequency(freq: str, known: Sequence[str], root: str) -> None:
    if freq not in known:
        raise DataError(f"no calendar of {freq!r} in {root}{did_you_mean(freq, known)}")


def _rows(
    provider: QlibProvider,
    symbol: str,
    expressions: Sequence[Expression],
    limits: tuple[int, int],
    freq: str,
    market: str,
) -> tuple[NDArray[np.datetime64], list[NDArray[np.float32]]]:
    used = sorted({column for expression in expressions for column in expression.columns})
    extents = [provider.extent(symbol, column, freq) for column in used]
    first = max(limits[0], min(begin for begin, _ in extents))
    stop = max(first, min(limits[1], max(end for _, end in extents)))
    listed = provider.listed(symbol, first, stop, freq, market)
    columns = [
        column_of(provider, symbol, expression, first, stop, freq) for expression in expressions
    ]
    times = provider.calendar(freq)[first:stop]
    if listed.all():
        return times, columns
    return times[listed], [column[listed] for column in columns]
