"""What a file that sekai wrote says of its panel, beside the rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sekai.data.calendar import Frequency
from sekai.data.reading.columns import refuse

if TYPE_CHECKING:
    from sekai.data.market_data import MarketData

__all__ = ["MARKET_PREFIX", "Stored"]

KEY = b"sekai.market_data"
VERSION = 2
MARKET_PREFIX = "market/"
"""Begins the names of columns that are series of the market: a field may have the same name."""


@dataclass(frozen=True, slots=True)
class Stored:
    """All of a panel but its arrays."""

    assets: tuple[str, ...]
    fields: tuple[str, ...]
    market: tuple[str, ...]
    sectors: dict[str, str]
    timezone: str | None
    frequency: tuple[int, float]
    warm_up: int
    delist_after: int | None
    rows: int

    @classmethod
    def of(cls, data: MarketData) -> Stored:
        """What is to be stored of a panel."""
        frequency = (data.frequency.nanoseconds, data.frequency.periods_per_year)
        return cls(
            data.assets, data.fields, tuple(data.market), dict(data.sectors), data.timezone,
            frequency, data.warm_up, data.delist_after, len(data),
        )  # fmt: skip

    @classmethod
    def found_in(cls, schema: Any, file: str | None = None) -> Stored | None:
        """What a schema tells, or None if it is not one of sekai's."""
        text = (schema.metadata or {}).get(KEY)
        if text is None:
            return None
        try:
            told = json.loads(text)
            if told.pop("version") != VERSION:
                raise ValueError("another version of sekai wrote it")
            for name in ("assets", "fields", "market", "frequency"):
                told[name] = tuple(told[name])
            Frequency(*told["frequency"])
            return cls(**told)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            refuse("file", f"what sekai noted in it cannot be read: {error}", file)

    def metadata(self) -> dict[bytes, bytes]:
        """As Arrow keeps it with a schema."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return {KEY: json.dumps({"version": VERSION, **told}).encode()}
