"""What to do about data that are not in order: named by the user, never guessed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from sekai.data.delisting import checked_delist_after

__all__ = ["CHOICES", "Policies"]

HALT = ("error", "halt", "drop_row")

CHOICES = {
    "columns": ("error", "ignore"),
    "keys": ("error", "drop_row"),
    "unsorted": ("error", "sort"),
    "duplicates": ("error", "first", "last"),
    "numbers": HALT,
    "infinite": HALT,
    "prices": HALT,
    "volumes": HALT,
    "bars": (*HALT, "keep"),
    "missing": (*HALT, "forward_fill"),
    "missing_other": ("error", "keep", "forward_fill", "drop_row"),
    "calendars": ("error", "union", "forward_fill", "intersection"),
    "gaps": ("error", "allow"),
    "empty": ("error", "drop"),
    "listing": ("error", "drop_row"),
    "market": ("error", "keep", "forward_fill"),
}
"""What each policy can be; the first is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What readers do about each kind of problem; what is not named is an error.

    * `error`: all problems are listed and nothing is read.
    * `halt`: a wrong value becomes NaN, and the asset is not quoted in that row.
    * `drop_row`: the asset's row is left out as a whole, and a time with no row left as well.
    * `forward_fill`: the last known value of the asset is repeated. A repeated price can be seen
      but is no quote: the asset is neither quoted nor tradable in that row. A repeated volume
      leaves the quote as it is and makes the asset not tradable: nobody saw that volume.
    * `keep`: what was found stays.

    Nothing is ever filled from a later row. Assets that begin later than others or end earlier
    are no problem: `listed` tells.
    """

    columns: str = "error"
    """Columns that hold no numbers, or that only some of the files have."""
    keys: str = "error"
    """Rows without a time or an asset, with a time that cannot be read, or that no clock showed
    or showed twice because it was set."""
    unsorted: str = "error"
    """Rows of an asset that go back in time within a file."""
    duplicates: str = "error"
    """Two rows of one asset at one time: keep the `first` or the `last`."""
    numbers: str = "error"
    """Text where a number should be."""
    infinite: str = "error"
    """Numbers that are infinite."""
    prices: str = "error"
    """Prices of 0 or less."""
    volumes: str = "error"
    """Volumes below 0."""
    bars: str = "error"
    """Bars with a high below the low, or with an open or close outside the two."""
    missing: str = "error"
    """Prices and volumes that are missing in a row that is there."""
    missing_other: str = "error"
    """Other values that are missing in a row that is there."""
    calendars: str = "error"
    """Rows that an asset lacks between its first and its last, and others have. `union` takes
    them as halts, `forward_fill` as halts that show the last prices, and `intersection` leaves
    only times at which every asset has a row."""
    gaps: str = "error"
    """Times at which there is no row at all for longer than `longest_gap`."""
    longest_gap: timedelta = timedelta(days=14)
    """How long markets may be closed; four times the usual distance of rows if that is more."""
    empty: str = "error"
    """Assets without a single quote."""
    listing: str = "error"
    """Rows of an asset at a time at which it is said not to be listed."""
    market: str = "error"
    """Times at which a series of the whole market has no value, or several."""
    fill_limit: int | None = None
    """The most rows in a row that a value is repeated for; None for as long as it is listed."""
    delist_after: int | None = None
    """Trading days (days with a row) without an asset after which it counts as delisted, where no
    table, column or file of instruments says when it is listed. Each delisting that is inferred so
    is reported in `MarketData.repairs`; None infers none."""

    def __post_init__(self) -> None:
        for field in fields(self):
            found = getattr(self, field.name)
            choices = CHOICES.get(field.name)
            if choices and found not in choices:
                raise ValueError(f"{field.name} must be one of {choices}, was {found!r}")
        if self.longest_gap <= timedelta(0):
            raise ValueError(f"longest_gap must be above 0, was {self.longest_gap}")
        if self.fill_limit is not None and self.fill_limit < 1:
            raise ValueError(f"fill_limit must be at least 1 row, or None, was {self.fill_limit}")
        checked_delist_after(self.delist_after)
