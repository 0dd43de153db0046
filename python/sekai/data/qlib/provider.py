"""Reads provider directories of Qlib, without Qlib."""

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

from sekai.data.file_stamp import Stamp, is_settled, stamp_of
from sekai.data.near_names import near
from sekai.data.qlib.calendar_file import read_calendar
from sekai.data.qlib.feature_file import FeatureFile
from sekai.data.qlib.instruments_file import Instruments, Ranges, listed_slots, read_instruments
from sekai.data.qlib.layout import (
    calendar_path,
    canonical_frequency,
    feature_folder,
    feature_path,
    frequencies_in,
    instruments_path,
)
from sekai.error import DataError

__all__ = ["QlibProvider"]

Content = TypeVar("Content")
Floats32 = NDArray[np.float32]
Root = str | os.PathLike[str]


class QlibProvider:
    """A provider directory: calendars, instruments, and a file for each field of a symbol.

    Nothing is written and nothing is run. Calendars and files of instruments are kept until they
    change; of features only the slots that are asked for are read, each time anew.
    """

    def __init__(self, root: Root | Mapping[str, Root]) -> None:
        """Take a folder, or a folder for each frequency.

        Args:
            root: the folder, or folders by frequency such as `{"1min": ..., "day": ...}`.

        Raises:
            DataError: when a folder is not there, or is no provider directory.
        """
        given = root if isinstance(root, Mapping) else None
        if given is None:
            place = _folder(root)  # type: ignore[arg-type]
            self.roots = MappingProxyType(dict.fromkeys(_frequencies(place), place))
        else:
            roots = {canonical_frequency(freq): _folder(place) for freq, place in given.items()}
            for freq, place in roots.items():
                _check_frequency(freq, _frequencies(place), place)
            self.roots = MappingProxyType(roots)
        if not self.roots:
            raise DataError("a folder of at least one frequency was wanted, found {}")
        self._kept: dict[Hashable, tuple[Stamp, Any]] = {}

    def __repr__(self) -> str:
        told = ", ".join(f"{freq}: {root!r}" for freq, root in self.roots.items())
        return f"QlibProvider({{{told}}})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self.roots),)

    @property
    def frequencies(self) -> tuple[str, ...]:
        """The frequencies that there are."""
        return tuple(self.roots)

    def calendar(self, freq: str = "day", *, future: bool = False) -> NDArray[np.datetime64]:
        """The stamps of all slots, in nanoseconds and as the clocks of the market show them.

        Args:
            freq: `day`, `1min`, `5min` and so on.
            future: the stamps of the file that goes on into the future, if there is one.
        """
        root, freq = self._root(freq)
        path = calendar_path(root, freq, future)
        try:
            return self._content(path, read_calendar)
        except FileNotFoundError:
            raise DataError(f"a calendar was wanted, there is no file {path!r}") from None

    def markets(self, freq: str = "day") -> tuple[str, ...]:
        """The names of the files of instruments."""
        folder = Path(self._root(freq)[0], "instruments")
        return tuple(sorted(file.stem for file in folder.glob("*.txt")))

    def instruments(self, market: str = "all", freq: str = "day") -> Instruments:
        """The symbols of a market and the ranges in which each is listed, both ends included."""
        root, freq = self._root(freq)
        try:
            return self._content(instruments_path(root, market), _instruments)
        except FileNotFoundError:
            there = self.markets(freq)
            raise DataError(f"no market {market!r} in {root}{near(market, there)}") from None

    def fields(self, symbol: str, freq: str = "day") -> tuple[str, ...]:
        """The fields of a symbol, as `$close`, in the order of their names."""
        root, freq = self._root(freq)
        folder = Path(feature_folder(root, self.symbol(symbol, freq)))
        if not folder.is_dir():
            raise DataError(f"{symbol} is an instrument, but there is no folder {str(folder)!r}")
        end = f".{freq}.bin"
        names = (file.name for file in folder.glob(f"*{end}"))
        return tuple(sorted(f"${name.removesuffix(end)}" for name in names if name[0] != "."))

    def has_folder(self, symbol: str, freq: str = "day") -> bool:
        """Whether an instrument has a folder of features at all."""
        return os.path.isdir(feature_folder(self._root(freq)[0], symbol))

    def has_field(self, symbol: str, field: str, freq: str = "day") -> bool:
        """Whether a symbol has a field."""
        root, freq = self._root(freq)
        return os.path.isfile(feature_path(root, symbol, field, freq))

    def symbol(self, name: str, freq: str = "day", market: str = "all") -> str:
        """A symbol as the market's file spells it; case does not count."""
        known = self.instruments(market, freq)
        if name in known:
            return name
        alike = [symbol for symbol in known if symbol.lower() == str(name).lower()]
        if not alike:
            raise DataError(
                f"no instrument {name!r} in the market {market!r}{near(str(name), known)}"
            )
        return alike[0]

    def slots(self, start: Any = None, end: Any = None, freq: str = "day") -> tuple[int, int]:
        """The first slot and the one after the last between two moments, both included.

        A date stands for its beginning, as in Qlib: to have all minutes of a last day, name its
        last minute or the day after.
        """
        calendar = self.calendar(freq)
        first = 0 if start is None else int(np.searchsorted(calendar, _moment(start), "left"))
        stop = (
            len(calendar) if end is None else int(np.searchsorted(calendar, _moment(end), "right"))
        )
        return first, max(first, stop)

    def listed(
        self, symbol: str, first: int, stop: int, freq: str = "day", market: str = "all"
    ) -> NDArray[np.bool_]:
        """In which slots from `first` up to but not including `stop` a symbol is listed."""
        ranges: Ranges = self.instruments(market, freq)[self.symbol(symbol, freq, market)]
        return listed_slots(self.calendar(freq), ranges, first, stop)

    def extent(self, symbol: str, field: str, freq: str = "day") -> tuple[int, int]:
        """The slots of which a field's file has values: the first, and the one after the last."""
        root, freq = self._root(freq)
        path, slots = feature_path(root, symbol, field, freq), len(self.calendar(freq))
        look = partial(FeatureFile.opened, slots=slots)
        with self._told(symbol, [path]):
            head: FeatureFile = self._content(path, look, (path, slots))
        return head.start, head.start + head.count

    def values(self, symbol: str, field: str, first: int, stop: int, freq: str = "day") -> Floats32:
        """What the file of a field has for some slots, NaN for those that it does not have."""
        root, freq = self._root(freq)
        path = feature_path(root, symbol, field, freq)
        with self._told(symbol, [path]):
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
        """A table of fields and expressions: `instrument`, `datetime`, and a column for each.

        There is a row for each slot in which a symbol is listed and for which one of the files
        has a place. Values are those that are stored, of 32 bits.

        Args:
            symbols: which; None for all of the market.
            fields: such as `$close`, or expressions such as `$close / Ref($close, 1)`.
            start: the first moment; the beginning if not given.
            end: the last moment, included; the end if not given.
            freq: of which frequency.
            market: whose ranges say when a symbol is listed.
        """
        from sekai.data.qlib.table import features

        return features(self, symbols, fields, (start, end), freq, market)

    def stamps(self, symbol: str, fields: Sequence[str], freq: str = "day") -> tuple[Stamp, ...]:
        """What changes when anything is rewritten that these fields of a symbol come from."""
        root, freq = self._root(freq)
        paths = [calendar_path(root, freq), instruments_path(root, "all")]
        paths += [feature_path(root, symbol, field, freq) for field in fields]
        with self._told(symbol, paths):
            return tuple([stamp_of(path) for path in paths])

    def _root(self, freq: str) -> tuple[str, str]:
        found = self.roots.get(freq)
        if found is not None:
            return found, freq
        name = canonical_frequency(freq)
        if name not in self.roots:
            raise DataError(f"no data of the frequency {freq!r}{near(name, self.roots)}")
        return self.roots[name], name

    def _content(self, path: str, read: Callable[[str], Content], key: Hashable = None) -> Content:
        """What a file says, read again when it has changed."""
        stamp = stamp_of(path)
        kept = self._kept.get(key or path)
        if kept is not None and kept[0] == stamp:
            content: Content = kept[1]
            return content
        content = read(path)
        if is_settled([stamp]) and stamp_of(path) == stamp:
            self._kept[key or path] = (stamp, content)
        return content

    @contextmanager
    def _told(self, symbol: str, paths: Sequence[str]) -> Iterator[None]:
        """Turn what the system says of files into an error that says what was wanted."""
        try:
            yield
        except FileNotFoundError:
            path = next((path for path in paths if not os.path.exists(path)), paths[-1])
            field, _, kind = os.path.basename(path).rpartition(".")
            if kind != "bin":
                raise DataError(f"a provider directory was wanted, there is no {path!r}") from None
            field, _, freq = field.rpartition(".")
            there = self.fields(symbol, freq)
            raise DataError(f"{symbol} has no field '${field}'{near(f'${field}', there)}") from None
        except OSError as error:
            raise DataError(f"{paths[-1]!r} cannot be read: {error}") from error


def _instruments(path: str) -> Instruments:
    return MappingProxyType(read_instruments(path))


def _folder(root: Root) -> str:
    place = Path(root).absolute()
    if not place.is_dir():
        raise DataError(
            f"a provider directory of Qlib was wanted, there is no folder {str(root)!r}"
        )
    return str(place)


def _frequencies(root: str) -> list[str]:
    for name in ("calendars", "instruments", "features"):
        if not Path(root, name).is_dir():
            raise DataError(
                f"a provider directory of Qlib was wanted, with the folders calendars, instruments "
                f"and features; {root!r} has no {name}"
            )
    found = frequencies_in(root)
    if not found:
        raise DataError(f"a calendar such as day.txt was wanted, there is none in {root}/calendars")
    return found


def _check_frequency(freq: str, found: Sequence[str], root: str) -> None:
    if freq not in found:
        raise DataError(f"no calendar of {freq!r} in {root}{near(freq, found)}")


def _moment(given: Any) -> np.datetime64:
    if getattr(given, "tzinfo", None) is not None:
        raise ValueError(
            f"a moment of the market's own clock, without a zone, was wanted, found {given}"
        )
    try:
        moment: np.datetime64 = np.datetime64(given, "ns")
    except (ValueError, TypeError) as error:
        raise ValueError(f"a date or a time was wanted, found {given!r}") from error
    if np.isnat(moment):
        raise ValueError(f"a date or a time was wanted, found {given!r}")
    return moment
