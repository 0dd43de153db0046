"""Settings that check themselves and can be written down."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from sekai.error import MissingExtraError

__all__ = ["Settings", "require"]

Own = TypeVar("Own", bound="Settings")

SEVERAL_KINDS = "several kinds"
"""In the metadata of a field: values of other kinds than the default's are fine."""


def require(holds: bool, name: str, wanted: str, found: Any) -> None:
    """Raise `ValueError` unless it holds."""
    if not holds:
        raise ValueError(f"{name} must be {wanted}, was {found!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Named numbers and words; every kind of agent has its own."""

    @classmethod
    def from_dict(cls: type[Own], values: Mapping[str, Any]) -> Own:
        """Settings from plain values; names that do not exist are errors, with the nearest one."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for name in values.keys() - fields.keys():
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(fields)}"
            raise ValueError(f"{cls.__name__} has no setting {name!r}{hint}")
        return cls(**values)

    def __post_init__(self) -> None:
        """Take lists for tuples and mappings for settings, and refuse what is of another kind."""
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _read(field, getattr(self, field.name)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what is None is left out."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: _written(value) for name, value in values.items() if value is not None}

    @classmethod
    def from_toml(cls: type[Own], path: str | Path) -> Own:
        """Settings from a TOML file."""
        return cls.from_dict(_toml_reader().loads(Path(path).read_text(encoding="utf-8")))

    def to_toml(self) -> str:
        """The settings as the text of a TOML file."""
        try:
            import tomli_w
        except ImportError as error:
            raise MissingExtraError.of("tomli-w", "train", "Writing TOML") from error
        return tomli_w.dumps(self.to_dict())

    def replaced(self: Own, **changes: Any) -> Own:
        """The same with some settings changed; checked as those of a file are."""
        return type(self).from_dict({**self.to_dict(), **changes})

    def _require_share(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(0.0 <= value <= 1.0, name, "from 0 to 1", value)

    def _require_positive(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(math.isfinite(value) and value > 0, name, "finite and above 0", value)

    def _require_count(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
            require(is_count, name, "a whole number of at least 1", value)


_KINDS: tuple[tuple[type, tuple[type, ...], str], ...] = (
    (bool, (bool,), "true or false"),
    (int, (int,), "a whole number"),
    (float, (int, float), "a number"),
    (str, (str,), "a word"),
    (tuple, (tuple,), "a list"),
)


def _read(field: dataclasses.Field[Any], value: Any) -> Any:
    made_by: Any = field.default_factory
    if isinstance(made_by, type) and issubclass(made_by, Settings):
        made = made_by.from_dict(value) if isinstance(value, Mapping) else value
        require(isinstance(made, made_by), field.name, f"{made_by.__name__} or a mapping", value)
        return made
    if isinstance(value, list):
        value = tuple(value)
    # Where there is no default, or None, or several kinds are fine, nothing is known of the kind.
    default = None if field.metadata.get(SEVERAL_KINDS) else field.default
    for kind, wanted, name in _KINDS:
        if type(default) is kind:
            fits = isinstance(value, wanted) and isinstance(value, bool) == (kind is bool)
            require(fits, field.name, name, value)
    return value


def _written(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _written(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _toml_reader() -> Any:
    # In the standard library from Python 3.11 on.
    try:
        return import_module("tomllib")
    except ImportError:
        return import_module("tomli")
