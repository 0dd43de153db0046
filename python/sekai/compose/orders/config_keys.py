"""Keys of Qlib's configs: which are used, ignored, or accepted with some values alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sekai.data.near_names import near

__all__ = ["Limited", "check_values", "refuse_unknown"]

Limited = Mapping[str, tuple[tuple[Any, ...], str]]
"""Values that a key may have, and the remedy where it has another."""


def refuse_unknown(settings: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    """Raise a `ValueError` that names the nearest key, for the first that is not known."""
    names = tuple(known)
    for name in settings:
        if name not in names:
            raise ValueError(f"{what} has no key {str(name)!r}{near(str(name), names)}")


def check_values(settings: Mapping[str, Any], limited: Limited, what: str) -> None:
    """Raise a `ValueError` for the first value that would change results and is not supported."""
    for name, (values, remedy) in limited.items():
        if name not in settings:
            continue
        given = settings[name]
        # What is refused can be any object, also one whose comparison is no bool.
        if not any(given is value for value in values) and not (
            isinstance(given, (str, bool)) and given in values
        ):
            raise ValueError(f"{what}: {name} {remedy}, was {given!r}")
