"""TOML files: locations of keys, overrides, and errors that point at the line."""

from __future__ import annotations

import functools
import operator
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, time
from pathlib import Path
from typing import Any, NoReturn

from sekai.error import SekaiError
from sekai.storage.optional import optional_import

KeyPath = tuple[str, ...]
"""Keys that lead to a value: `("train", "steps")`."""

MAX_BYTES = 2**20
"""Maximum size of a file."""

RUN_FILES = ("run.json", "seeds.json", "sweep.json")
"""Files that mark a folder as one of a run, whose TOML file is data."""

HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(#.*)?$")
NAME = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
KEY = re.compile(rf"(\s*)({NAME}(?:\s*\.\s*{NAME})*)\s*=\s*")
STRING = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*')(?!\s*=)""")
"""A string that is no key, and may contain text that looks like one."""

KEY_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


class ConfigError(SekaiError, ValueError):
    """Invalid key or value in a configuration file, an override or an option."""


@dataclass(frozen=True, slots=True)
class KeyLocation:
    """Line and columns of a key in a TOML file, counted from 1."""

    line: int
    column: int
    value_column: int
    """Column of the value; that of the key for a table."""


@dataclass(slots=True)
class ConfigSource:
    """Nested values of a TOML file and of overrides, and the location of each."""

    values: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None
    text: str = ""
    locations: dict[KeyPath, KeyLocation] = field(default_factory=dict)
    options: dict[KeyPath, str] = field(default_factory=dict)
    """Name of the option or override that set a key, for errors."""

    is_data: bool = False
    """True for the copy in a run folder: a data file, which may not name modules to import."""

    @classmethod
    def read(cls, file: Path) -> ConfigSource:
        """Read a TOML file; the one in a run folder counts as a data file.

        Raises:
            ConfigError: the file cannot be read, or is not TOML.
        """
        values, text = read_toml(file)
        is_data = any((file.parent / name).exists() for name in RUN_FILES)
        return cls(_plain(values), file, text, key_locations(text), is_data=is_data)

    def set(self, path: KeyPath, value: Any, option: str) -> None:
        """Override the value of a key.

        Args:
            path: the keys that lead to it.
            value: the new value.
            option: name of the option, for errors.
        """
        table = self.values
        for name in path[:-1]:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{option}: {name!r} is a value, not a table of keys")
        table[path[-1]] = value
        self.options[path] = option

    def refuse(self, path: KeyPath, message: str, *, value: bool = True) -> NoReturn:
        """Raise a `ConfigError` that points at a key, or at the nearest table around it.

        Args:
            path: the keys that lead to it.
            message: the problem and the expectation.
            value: point at the value, and not at the key itself.
        """
        for end in range(len(path), 0, -1):
            if path[:end] in self.options:
                raise ConfigError(f"{self.options[path[:end]]}: {message}")
            if path[:end] in self.locations:
                location = self.locations[path[:end]]
                at_value = value and end == len(path)
                column = location.value_column if at_value else location.column
                assert self.file is not None, "only files have locations"
                raise ConfigError(_pointing(self.file, self.text, location.line, column, message))
        # A key that is at fault itself may be a table that only options have made.
        made = [] if value else [key for key in self.options if key[: len(path)] == path]
        if made:
            raise ConfigError(f"{self.options[made[0]]}: {message}")
        raise ConfigError(f"{self.file}: {message}" if self.file else message)


def read_toml(file: Path) -> tuple[dict[str, Any], str]:
    """Parse a TOML file, and return its values and its text.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
    """
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{file} is too large; expected at most {MAX_BYTES} bytes")
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error
    try:
        return load_toml(text), text
    except ValueError as error:
        raise ConfigError(_not_toml(file, text, str(error))) from error
    except RecursionError as error:
        raise ConfigError(f"{file}: invalid TOML: nested too deeply") from error


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML text; `ValueError` if it is malformed."""
    values: dict[str, Any] = _toml_reader().loads(text)
    return values


def dump_toml(values: dict[str, Any]) -> str:
    """Write plain values as TOML text."""
    return str(optional_import("tomli_w", "train", "Writing TOML").dumps(values))


def set_option(source: ConfigSource, option: str, text: str, min_keys: int = 2) -> None:
    """Set a key from `section.key=value`, as an option of the command states it.

    Args:
        source: receives the value.
        option: name of the option, for errors.
        text: the keys and the value.
        min_keys: minimum number of keys.
    """
    path, sign, value = text.partition("=")
    keys = tuple(part.strip() for part in path.split("."))
    if not sign or len(keys) < min_keys or not all(keys):
        form = "section.key=value, such as train.steps=10000" if min_keys > 1 else "name=value"
        raise ConfigError(f"{option}: expected {form}, got {text!r}")
    try:
        parsed = _plain(load_toml(f"value = {value}")["value"])
    except ValueError:
        # Strings need no quotes here: the shell has removed them.
        parsed = value.strip()
    source.set(keys, parsed, option)


def key_locations(text: str) -> dict[KeyPath, KeyLocation]:
    """Locations of all keys in valid TOML text, those of inline tables included."""
    locations: dict[KeyPath, KeyLocation] = {}
    table: KeyPath = ()
    for number, line, statement in _statements(text.split("\n")):
        header = HEADER.match(line)
        if header:
            table = _key_parts(header[1])
            column = line.index("[") + 1
            locations.setdefault(table, KeyLocation(number, column, column))
            continue
        key = KEY.match(line)
        if key:
            parts = _key_parts(key[2])
            path = (*table, *parts)
            location = KeyLocation(number, len(key[1]) + 1, key.end() + 1)
            locations[path] = location
            value = functools.reduce(operator.getitem, parts, load_toml(statement))
            locations.update(_inline_locations(path, value, location, line))
    return locations


def _statements(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Number, first line and full text of each header and each key with its value."""
    start = 0
    while start < len(lines):
        end = start + 1
        if KEY.match(lines[start]) and not HEADER.match(lines[start]):
            # A value that continues on the next lines is complete as soon as it parses.
            while end < len(lines) and not _is_complete("\n".join(lines[start:end])):
                end += 1
        yield start + 1, lines[start], "\n".join(lines[start:end])
        start = end


def _is_complete(statement: str) -> bool:
    try:
        load_toml(statement)
    except ValueError:
        return False
    return True


def _inline_locations(
    path: KeyPath, value: Any, location: KeyLocation, line: str
) -> Iterator[tuple[KeyPath, KeyLocation]]:
    """Locations of the keys of an inline table, as far as they are on its first line."""
    for name in value if isinstance(value, dict) else ():
        pattern = re.compile(rf"""(?<![\w-])["']?{re.escape(name)}["']?\s*=\s*""")
        blanked = STRING.sub(lambda string: " " * len(string[0]), line)
        match = pattern.search(blanked, location.value_column - 1)
        if match:
            inner = KeyLocation(location.line, match.start() + 1, match.end() + 1)
            yield (*path, name), inner
            yield from _inline_locations((*path, name), value[name], inner, line)


def _key_parts(dotted: str) -> KeyPath:
    return tuple(next(filter(None, part), "") for part in KEY_PART.findall(dotted))


def _pointing(file: Path, text: str, line: int, column: int, message: str) -> str:
    lines = text.split("\n")
    shown = lines[line - 1] if line <= len(lines) else ""
    margin = f"{line:5d} | "
    arrow = " " * (len(margin) - 2) + "| " + " " * (column - 1) + "^"
    return f"{file}:{line}:{column}: {message}\n{margin}{shown}\n{arrow}"


def _not_toml(file: Path, text: str, message: str) -> str:
    match = re.search(r"\(at line (\d+), column (\d+)\)", message)
    if match is None:
        # Errors at the end of the document carry no numbers.
        return f"{file}: invalid TOML: {message}"
    reason = message[: match.start()].strip()
    line, column = int(match[1]), int(match[2])
    return _pointing(file, text, line, column, f"invalid TOML: {reason[:1].lower()}{reason[1:]}")


def _plain(value: Any) -> Any:
    """Copy of a value with dates and times as text, as envs and data sources take them."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, (date, time)) else value


def _toml_reader() -> Any:
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib
    return optional_import("tomli", "cli", "Reading TOML")
