"""Where in the text of a TOML file each of its keys stands."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sekai.cli.experiment.toml import toml

__all__ = ["Path", "Place", "places_of"]

Path = tuple[str, ...]
"""The keys that lead to a value: `("train", "steps")`."""

HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(#.*)?$")
NAME = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
KEY = re.compile(rf"(\s*)({NAME}(?:\s*\.\s*{NAME})*)\s*=\s*")
TEXT = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*')(?!\s*=)""")
"""Text that is no key, and may look like one."""

PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


@dataclass(frozen=True, slots=True)
class Place:
    """Line and columns, from 1 on."""

    line: int
    column: int
    """Of the key."""

    value_column: int
    """Of what follows it; the same as `column` for a table."""


def places_of(text: str) -> dict[Path, Place]:
    """The places of all keys in a text that is valid TOML, those of inline tables included."""
    found: dict[Path, Place] = {}
    table: Path = ()
    for number, line, statement in _statements(text.split("\n")):
        header = HEADER.match(line)
        if header:
            table = _parts(header[1])
            column = line.index("[") + 1
            found.setdefault(table, Place(number, column, column))
            continue
        key = KEY.match(line)
        if key:
            parts = _parts(key[2])
            path = (*table, *parts)
            found[path] = place = Place(number, len(key[1]) + 1, key.end() + 1)
            value = functools.reduce(operator.getitem, parts, toml().loads(statement))
            found.update(_inline(path, value, place, line))
    return found


def _statements(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Number, first line and all of the text of each header and each key with its value."""
    begin = 0
    while begin < len(lines):
        end = begin + 1
        if KEY.match(lines[begin]) and not HEADER.match(lines[begin]):
            # A value that goes on in the next lines is whole as soon as it can be read.
            while end < len(lines) and not _is_whole("\n".join(lines[begin:end])):
                end += 1
        yield begin + 1, lines[begin], "\n".join(lines[begin:end])
        begin = end


def _is_whole(statement: str) -> bool:
    try:
        toml().loads(statement)
    except ValueError:
        return False
    return True


def _inline(path: Path, value: Any, place: Place, line: str) -> Iterator[tuple[Path, Place]]:
    """The places of keys in a table that stands behind its name, as far as they are in its line."""
    for name in value if isinstance(value, dict) else ():
        wanted = re.compile(rf"""(?<![\w-])["']?{re.escape(name)}["']?\s*=\s*""")
        match = wanted.search(TEXT.sub(_blank, line), place.value_column - 1)
        if match:
            found = Place(place.line, match.start() + 1, match.end() + 1)
            yield (*path, name), found
            yield from _inline((*path, name), value[name], found, line)


def _blank(text: re.Match[str]) -> str:
    return " " * len(text[0])


def _parts(dotted: str) -> Path:
    return tuple(next(filter(None, part), "") for part in PART.findall(dotted))
