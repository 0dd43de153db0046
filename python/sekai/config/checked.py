"""Base class of configs: unknown keyword arguments are errors with the closest names."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from sekai.error import UnknownOptionError
from sekai.storage.names import close_matches


class CheckedConfig:
    """Base class of dataclasses whose constructor suggests names for unknown keyword arguments.

    Raises:
        UnknownOptionError: a keyword argument is not a field.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # Type checkers read the constructor of the dataclass.

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            """Create an instance for the constructor of the dataclass."""
            fields = [field.name for field in dataclasses.fields(cls) if field.init]
            for name in kwargs:
                if name not in fields:
                    close = close_matches(name, fields) or _described_by(cls, name)
                    raise UnknownOptionError(cls.__name__, name, fields, close)
            return super().__new__(cls)


def _described_by(config: type, name: str) -> list[str]:
    """Fields whose documentation begins with a word that is spelled like `name`."""
    from sekai.config.convert import documented_fields

    by_word: dict[str, list[str]] = {}
    for doc in documented_fields(config):
        word = re.match(r"\w+", doc.text.lower())
        if word is not None:
            by_word.setdefault(word[0], []).append(doc.name)
    return [field for word in close_matches(name, by_word, 1) for field in by_word[word]]
