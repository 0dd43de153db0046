"""What an experiment was told, by a file and by options, and where each word of it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, time
from pathlib import Path as FilePath
from typing import Any, NoReturn

from sekai.cli.experiment.places import Path, Place, places_of
from sekai.cli.experiment.toml import toml
from sekai.cli.failure import CommandError

__all__ = ["ExperimentError", "Source", "set_by_text"]


LARGEST = 2**20
"""Bytes of a file, at most."""


class ExperimentError(CommandError):
    """An experiment file, or an option, says something that cannot be."""


@dataclass(slots=True)
class Source:
    """Nested values, and who said them."""

    values: dict[str, Any] = field(default_factory=dict)
    file: FilePath | None = None
    text: str = ""
    places: dict[Path, Place] = field(default_factory=dict)
    options: dict[Path, str] = field(default_factory=dict)
    """By the keys that they set, the options that were typed."""

    is_data: bool = False
    """Whether it is the copy in a run folder: a data file, which has nothing imported."""

    @classmethod
    def read(cls, file: FilePath) -> Source:
        """Read a file; the one that a run folder keeps is a data file, whoever names it.

        Raises:
            ExperimentError: there is none, or it is not TOML.
        """
        try:
            if file.stat().st_size > LARGEST:
                raise ExperimentError(f"{file} is too large; expected at most {LARGEST} bytes")
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExperimentError(f"{file} cannot be read: {_reason(error)}") from error
        try:
            values = toml().loads(text)
        except ValueError as error:
            raise ExperimentError(_not_toml(file, text, str(error))) from error
        except RecursionError as error:
            raise ExperimentError(f"{file}: this is not TOML: it is nested too deeply") from error
        is_data = (file.parent / "run.json").exists()
        return cls(_plain(values), file, text, places_of(text), is_data=is_data)

    def set(self, path: Path, value: Any, option: str) -> None:
        """Take what an option says instead of what the file says."""
        table = self.values
        for name in path[:-1]:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ExperimentError(f"{option}: {name!r} is no table that has keys")
        table[path[-1]] = value
        self.options[path] = option

    def refuse(self, path: Path, message: str, *, value: bool = True) -> NoReturn:
        """Raise with the place of a key, or of the nearest table around it.

        Args:
            path: the keys that lead to it.
            message: what was wanted and what was found.
            value: whether the value is at fault, or the key itself.
        """
        for end in range(len(path), 0, -1):
            if path[:end] in self.options:
                raise ExperimentError(f"{self.options[path[:end]]}: {message}")
            if path[:end] in self.places:
                place = self.places[path[:end]]
                at_value = value and end == len(path)
                column = place.value_column if at_value else place.column
                raise ExperimentError(self._pointing(place.line, column, message))
        raise ExperimentError(f"{self.file}: {message}" if self.file else message)

    def _pointing(self, line: int, column: int, message: str) -> str:
        assert self.file is not None, "only files have places"
        return _pointed(self.file, self.text, line, column, message)


def _pointed(file: FilePath, text: str, line: int, column: int, message: str) -> str:
    lines = text.split("\n")
    shown = lines[line - 1] if line <= len(lines) else ""
    margin = f"{line:5d} | "
    arrow = " " * (len(margin) - 2) + "| " + " " * (column - 1) + "^"
    return f"{file}:{line}:{column}: {message}\n{margin}{shown}\n{arrow}"


def _plain(value: Any) -> Any:
    """The same with dates and times as text, as options of envs and of readers take them."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.isoformat() if isinstance(value, (date, time)) else value


def _not_toml(file: FilePath, text: str, message: str) -> str:
    found = re.search(r"\(at line (\d+), column (\d+)\)", message)
    if found is None:
        # The end of the document has no numbers.
        return f"{file}: this is not TOML: {message}"
    reason = message[: found.start()].strip()
    place = int(found[1]), int(found[2])
    return _pointed(file, text, *place, f"this is not TOML: {reason[:1].lower()}{reason[1:]}")


def _reason(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"it is not text in UTF-8 (byte {error.start})"
    return error.strerror or str(error)


def set_by_text(source: Source, option: str, text: str, least: int = 2) -> None:
    """Take `section.key=value` as an option gives it.

    Args:
        source: who takes it.
        option: what was typed, for errors.
        text: the keys and the value.
        least: how many keys there must be.
    """
    path, sign, value = text.partition("=")
    keys = tuple(part.strip() for part in path.split("."))
    if not sign or len(keys) < least or not all(keys):
        wanted = "section.key=value, such as train.clip=0.1" if least > 1 else "name=value"
        raise ExperimentError(f"{option}: {wanted} was wanted, found {text!r}")
    try:
        read = _plain(toml().loads(f"value = {value}")["value"])
    except ValueError:
        # Words need no quotes here: the shell has taken them away.
        read = value.strip()
    source.set(keys, read, option)
