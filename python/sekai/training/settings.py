"""Base class of training settings: frozen, checked, and readable from TOML."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch

from sekai.config.checked import CheckedConfig
from sekai.config.convert import SCALARS, require
from sekai.config.toml_file import dump_toml, read_toml
from sekai.storage.names import did_you_mean

__all__ = ["SEVERAL_KINDS", "Settings", "require", "resolve_device"]

Own = TypeVar("Own", bound="Settings")

DEVICES = "'cpu', 'cuda', 'cuda:N', 'mps' or 'auto'"

SEVERAL_KINDS = "several kinds"
"""Metadata key of a field that accepts values of other types than the default's."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(CheckedConfig):
    """Hyperparameters by name; each algorithm has its own subclass."""

    @classmethod
    def from_dict(cls: type[Own], values: Mapping[str, Any]) -> Own:
        """Build settings from plain values; an unknown name is an error with the closest one."""
        fields = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in fields:
                suggestion = did_you_mean(name, fields)
                raise ValueError(f"{cls.__name__} has no setting {name!r}{suggestion}")
        return cls(**values)

    def __post_init__(self) -> None:
        """Convert lists to tuples and mappings to settings, and check the types."""
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _checked(field, getattr(self, field.name)))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, without those that are None."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: _plain(value) for name, value in values.items() if value is not None}

    @classmethod
    def from_toml(cls: type[Own], path: str | Path) -> Own:
        """Read settings from a TOML file."""
        return cls.from_dict(read_toml(Path(path))[0])

    def to_toml(self) -> str:
        """Return the settings as TOML text."""
        return dump_toml(self.to_dict())

    def replaced(self: Own, **changes: Any) -> Own:
        """Copy with some settings changed and checked."""
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


def resolve_device(device: str | torch.device) -> torch.device:
    """Device of the networks by name; "auto" is the first of cuda, mps and cpu that is available.

    Raises:
        ValueError: the device is unknown, or not available here.
    """
    has_mps = torch.backends.mps.is_available()
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"unknown device {device!r}; expected {DEVICES}") from error
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(has_mps)}
    if resolved.type not in counts:
        raise ValueError(f"unsupported device {device!r}; expected {DEVICES}")
    count = counts[resolved.type]
    if (resolved.index or 0) >= count:
        available = [name for name, number in counts.items() if number]
        raise ValueError(
            f"device {str(device)!r} is not available; torch reports {count} of its type, use "
            f"{' or '.join(map(repr, available))}, or 'auto'"
        )
    return resolved


def _checked(field: dataclasses.Field[Any], value: Any) -> Any:
    factory: Any = field.default_factory
    if isinstance(factory, type) and issubclass(factory, Settings):
        settings = factory.from_dict(value) if isinstance(value, Mapping) else value
        expected = f"{factory.__name__} or a mapping"
        require(isinstance(settings, factory), field.name, expected, value)
        return settings
    if isinstance(value, list):
        value = tuple(value)
    # Without a default, or with None or several kinds, the type is unknown.
    kind = type(None if field.metadata.get(SEVERAL_KINDS) else field.default)
    if kind in SCALARS:
        types, name = SCALARS[kind]
        fits = isinstance(value, types) and isinstance(value, bool) == (kind is bool)
        require(fits, field.name, name, value)
    elif kind is tuple:
        require(isinstance(value, tuple), field.name, "a list", value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
