"""Which column of a source is what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from sekai.data.market_data import PRICE_FIELDS
from sekai.data.problems import Problem, Problems
from sekai.data.reading.options import Options
from sekai.error import DataError

__all__ = ["MASKS", "VOLUME_FIELDS", "Columns", "field_name", "find_columns", "refuse"]

TIME_NAMES = ("time", "date", "datetime", "timestamp")
ASSET_NAMES = ("symbol", "ticker", "asset", "tic", "code", "instrument")
VOLUME_FIELDS = ("volume", "trades", "turnover", "bid_volume", "ask_volume")
"""Fields that are amounts: they are never below 0."""
MASKS = ("listed", "quoted", "tradable")


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of columns in the source, by what they are."""

    time: str
    asset: str | None
    """None if each file is an asset, or each column is."""
    fields: Mapping[str, str]
    """The column of each field."""
    masks: Mapping[str, str]
    market: Mapping[str, str]
    wide: Mapping[str, str]
    """The column of each asset, if each is one."""

    @property
    def keys(self) -> list[str]:
        """The columns that say which row is which."""
        return [self.time] if self.asset is None else [self.time, self.asset]

    @property
    def all(self) -> list[str]:
        """Every column that is read."""
        others = (self.fields, self.masks, self.market, self.wide)
        return [*self.keys, *(column for part in others for column in part.values())]


def find_columns(names: Sequence[str], options: Options, offered: Collection[str] = ()) -> Columns:
    """What each column is, or a `DataError` that lists what was found.

    Args:
        names: the columns of the source.
        options: what the user said.
        offered: further columns that can be the time or the asset but no field, such as the
            folders of a partitioned source.
    """
    _refuse_twice("columns", names)
    strangers = sorted(set(options.rename) - {*names, *offered})
    if strangers:
        refuse("column", f"rename= names {strangers}, the columns are {_listed(names)}")
    called = {options.rename.get(name, name): name for name in names}
    _refuse_twice("columns after rename=", [options.rename.get(name, name) for name in names])
    folders = {options.rename.get(name, name): name for name in offered if name not in names}
    time = _one("time", options.time, TIME_NAMES, called, folders)
    if time is None:
        refuse("column", f"no time: one of {TIME_NAMES} or time= among {_listed(called)}")
    if options.field is not None:
        wide = {name: column for name, column in called.items() if column != time}
        return Columns(time, None, {}, {}, {}, {name: wide[name] for name in sorted(wide)})
    asset = _one("asset", options.asset, ASSET_NAMES, called, folders)
    rest = {name: column for name, column in called.items() if column not in (time, asset)}
    masks = {name.lower(): rest.pop(name) for name in list(rest) if name.lower() in MASKS}
    market = {name: _named(name, rest, "market") for name in options.market_columns}
    rest = {name: column for name, column in rest.items() if name not in market}
    return Columns(time, asset, _fields(rest, options), masks, market, {})


def field_name(name: str) -> str:
    """`Adj Close` and `adj_close` are one: names of well-known fields are written one way."""
    plain = name.strip().lower().replace(" ", "_")
    return plain if plain in (*PRICE_FIELDS, *VOLUME_FIELDS) else name


def refuse(kind: str, found: str, file: str | None = None) -> NoReturn:
    """Raise one problem that leaves nothing to be read."""
    problems = Problems([Problem(kind, found, file=file)])
    raise DataError(str(problems), problems)


def _fields(rest: Mapping[str, str], options: Options) -> dict[str, str]:
    _refuse_twice("fields", [field_name(name) for name in rest])
    named = {field_name(name): column for name, column in rest.items()}
    if options.fields is not None:
        # A well-known field can be asked for by either of its names.
        named = {field_name(name): _named(name, {**named, **rest}, "fields")
                 for name in options.fields}  # fmt: skip
    if not named:
        refuse("column", f"no fields: at least one column of numbers among {_listed(rest)}")
    return named


def _one(
    what: str, given: str | None, usual: Sequence[str], *places: Mapping[str, str]
) -> str | None:
    """The column of the time or the asset: the one that was named, or the only usual one."""
    if given is not None:
        every = {name: column for place in reversed(places) for name, column in place.items()}
        return _named(given, {**{column: column for column in every.values()}, **every}, what)
    for place in places:
        found = [name for name in place if name.lower() in usual]
        if len(found) > 1:
            refuse("column", f"several columns could be the {what}: {_listed(found)}; say {what}=")
        if found:
            return place[found[0]]
    return None


def _named(name: str, columns: Mapping[str, str], option: str) -> str:
    if name not in columns:
        refuse("column", f"no column {name!r}, which {option}= names, among {_listed(columns)}")
    return columns[name]


def _refuse_twice(what: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        refuse("column", f"{what} that have one name: {', '.join(twice)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no columns"
