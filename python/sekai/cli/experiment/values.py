"""Plain values as what a type asks for, or a word on why they are not."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal

from sekai.cli.experiment.places import Path
from sekai.cli.field_facts import hints_of
from sekai.data.durations import duration
from sekai.data.near_names import near

__all__ = ["Misfit", "built", "converted", "mentioned"]

PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "text"),
}
LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
TABLES = (dict, collections.abc.Mapping)


class Misfit(Exception):  # noqa: N818 - not an error of the program
    """A value is not what a type asks for."""

    def __init__(self, path: Path, message: str, *, is_key: bool = False) -> None:
        """Say what is wrong.

        Args:
            path: the keys that lead to it, from where the conversion began.
            message: what was wanted and what was found.
            is_key: whether the key itself is at fault, and not its value.
        """
        super().__init__(message)
        self.path, self.is_key = path, is_key


def converted(hint: Any, value: Any, path: Path) -> Any:
    """What a value stands for where a type is wanted; types that nobody knows take everything.

    Raises:
        Misfit: it stands for nothing of the kind.
    """
    origin = typing.get_origin(hint) or hint
    if origin in (typing.Union, types.UnionType):
        return _one_of(typing.get_args(hint), value, path)
    if origin is Literal:
        return _checked(value in typing.get_args(hint), hint, value, path)
    if dataclasses.is_dataclass(hint):
        _checked(isinstance(value, Mapping), hint, value, path)
        return built(typing.cast(type, hint), value, path)
    if hint in PLAIN:
        kinds = PLAIN[hint][0]
        fits = isinstance(value, kinds) and isinstance(value, bool) == (hint is bool)
        return _checked(fits, hint, value, path)
    if origin in LISTS:
        return _list(hint, value, path)
    if origin in TABLES:
        _checked(isinstance(value, Mapping), hint, value, path)
        inner = (*typing.get_args(hint), Any, Any)[1]
        return {name: converted(inner, part, (*path, name)) for name, part in value.items()}
    if hint is timedelta:
        return _time(value, path)
    never = origin is collections.abc.Callable or hint is type(None)
    return _checked(not never, hint, value, path)


def built(kind: type, values: Mapping[str, Any], path: Path = (), **others: Any) -> Any:
    """A dataclass from plain values; keys that it does not have are refused with the nearest.

    Args:
        kind: the dataclass.
        values: its fields by name.
        path: the keys that lead to the values.
        others: fields that need no conversion.
    """
    hints = hints_of(kind)
    known = [one.name for one in dataclasses.fields(kind) if one.name not in others]
    for name in values:
        if name not in known:
            what = f"[{'.'.join(path)}]" if path else kind.__name__
            message = f"{what} has no key {name!r}{near(name, known)}"
            raise Misfit((*path, name), message, is_key=True)
    given = {
        name: converted(hints.get(name, Any), value, (*path, name))
        for name, value in values.items()
    }
    try:
        return kind(**given, **others)
    except (ValueError, TypeError) as error:
        raise Misfit((*path, *mentioned(str(error), given)), str(error)) from error


def mentioned(message: str, names: Iterable[str]) -> Path:
    """The name that a message is about: the one that it has first; none if it has none."""
    found = {name: re.search(rf"\b{re.escape(name)}\b", message) for name in names}
    starts = {match.start(): name for name, match in found.items() if match}
    return (starts[min(starts)],) if starts else ()


def _one_of(hints: tuple[Any, ...], value: Any, path: Path) -> Any:
    records = [one for one in hints if dataclasses.is_dataclass(one)]
    if isinstance(value, Mapping) and records:
        fitting = [
            one for one in records if value.keys() <= {f.name for f in dataclasses.fields(one)}
        ]
        return converted((fitting or records[-1:])[0], value, path)
    for hint in hints:
        with contextlib.suppress(Misfit):
            return converted(hint, value, path)
    wanted = " or ".join(dict.fromkeys(_words(one) for one in hints if one is not type(None)))
    raise Misfit(path, f"{path[-1]} must be {wanted}, was {value!r}")


def _list(hint: Any, value: Any, path: Path) -> Any:
    _checked(isinstance(value, list), hint, value, path)
    inner = typing.get_args(hint)
    if len(inner) > 1 and inner[-1] is not Ellipsis:
        _checked(len(inner) == len(value), hint, value, path)
        return tuple(converted(one, part, path) for one, part in zip(inner, value, strict=True))
    return tuple(converted(inner[0] if inner else Any, part, path) for part in value)


def _time(value: Any, path: Path) -> timedelta:
    try:
        return timedelta(microseconds=duration(value) / 1000)
    except (ValueError, TypeError) as error:
        raise Misfit(path, f"{path[-1]} must be a time such as '1min', was {value!r}") from error


def _checked(fits: bool, hint: Any, value: Any, path: Path) -> Any:
    if not fits:
        raise Misfit(path, f"{path[-1]} must be {_words(hint)}, was {value!r}")
    return value


def _words(hint: Any) -> str:
    """What a type asks for."""
    origin = typing.get_origin(hint) or hint
    if hint in PLAIN:
        return PLAIN[hint][1]
    if origin is Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    if origin in LISTS:
        inner = [one for one in typing.get_args(hint) if one is not Ellipsis]
        return f"a list of {len(inner)} values" if len(inner) > 1 else "a list"
    if origin in TABLES or dataclasses.is_dataclass(hint):
        return "a table"
    return getattr(hint, "__name__", str(hint))
