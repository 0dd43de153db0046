"""What a user says when a provider directory is read as a panel or written from one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from sekai.data.policies import Policies

__all__ = ["QlibOptions", "QlibReadOptions", "QlibWriteOptions"]


class QlibReadOptions(TypedDict, total=False):
    """The keywords of `MarketData.from_qlib`; see `QlibOptions` for what each says."""

    freq: str
    market: str
    symbols: Sequence[str] | None
    fields: Sequence[str] | Mapping[str, str] | None
    start: Any
    end: Any
    sectors: Any
    timezone: str | None
    known_after: timedelta
    policies: Policies


class QlibWriteOptions(TypedDict, total=False):
    """The keywords of `MarketData.to_qlib`; see `sekai.data.qlib.write_qlib`."""

    freq: str | None
    market: str
    known_after: timedelta
    overwrite: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QlibOptions:
    """How to read a provider directory as a panel."""

    freq: str = "day"
    """Of which frequency."""
    market: str = "all"
    """The file of instruments, whose ranges say when each is listed."""
    symbols: Sequence[str] | None = None
    """The assets to take, in this order; if not given all of the market, as its file has them."""
    fields: Sequence[str] | Mapping[str, str] | None = None
    """Fields such as `close` or `$close`, or expressions by the name they are to have, such as
    `{"growth": "$close / Ref($close, 1)"}`; all fields if not given, the well-known ones first."""
    start: Any = None
    """The first stamp to take."""
    end: Any = None
    """The last stamp to take, included; a date stands for its beginning, as in Qlib."""
    sectors: Any = None
    """The sector of each asset: a mapping, or a frame or file with a column for each."""
    timezone: str | None = None
    """Where the clocks are that the stamps show, and where days begin and end."""
    known_after: timedelta = timedelta(0)
    """How long after its stamp a row is known: a minute for minutes stamped at their beginning."""
    policies: Policies = dataclasses.field(default_factory=Policies)
    """What to do about problems."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> QlibOptions:
        """The options of a call; a name that is none is refused with those that are."""
        known = {option.name for option in dataclasses.fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise TypeError(f"options among {sorted(known)} were wanted, found {unknown}")
        return cls(**given)
