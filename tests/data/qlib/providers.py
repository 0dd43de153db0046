"""Provider directories written by hand, byte by byte as Qlib has them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.intraday import MTIME_RESOLUTION

Times = NDArray[np.datetime64]
DAYS: Times = np.arange("2020-01-01", "2020-01-11", dtype="datetime64[D]")


def minutes(days: int = 3) -> Times:
    """The minutes of a Chinese exchange on some days: 240 a day, with a break at noon."""
    of_day = np.concatenate([np.arange(570, 690), np.arange(780, 900)]).astype("timedelta64[m]")
    stamps: Times = (DAYS[:days, None] + of_day).ravel().astype("datetime64[s]")
    return stamps


def text(stamp: np.datetime64) -> str:
    return str(stamp).replace("T", " ")


def provider(
    root: Path,
    freq: str,
    calendar: Times,
    features: Mapping[str, Mapping[str, tuple[int, ArrayLike]]],
    ranges: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> Path:
    """Write a directory: of each symbol and field the start index and the values."""
    for part in ("calendars", "instruments", "features"):
        (root / part).mkdir(parents=True)
    stamps = [text(stamp) for stamp in calendar]
    (root / "calendars" / f"{freq}.txt").write_text("".join(f"{line}\n" for line in stamps))
    whole = {symbol: [(stamps[0], stamps[-1])] for symbol in features} if ranges is None else ranges
    lines = [f"{name}\t{a}\t{b}\n" for name, spans in whole.items() for a, b in spans]
    (root / "instruments" / "all.txt").write_text("".join(lines))
    for symbol, fields in features.items():
        folder = root / "features" / symbol.lower()
        folder.mkdir()
        for field, (start, values) in fields.items():
            content = np.concatenate([[start], np.asarray(values, float)]).astype("<f4")
            content.tofile(folder / f"{field}.{freq}.bin")
    return root


def daily(root: Path) -> Path:
    """Two symbols, of which one begins later, has a hole, and is listed twice."""
    close = np.arange(10.0) + 1
    return provider(
        root, "day", DAYS,
        {"AAA": {"close": (0, close), "volume": (0, close * 100)},
         "BBB": {"close": (3, [5, np.nan, 7, 8, 9]), "volume": (3, [1, np.nan, 3, 4, 5])}},
        {"AAA": [("2020-01-01", "2020-01-10")],
         "BBB": [("2020-01-04", "2020-01-06"), ("2020-01-08", "2020-01-08")]},
    )  # fmt: skip


def minutely(root: Path, days: int = 3, seed: int = 0) -> Path:
    """One symbol of minutes with holes, and zeros among bids and asks."""
    rng = np.random.default_rng(seed)
    stamps = minutes(days)
    fields: dict[str, tuple[int, ArrayLike]] = {}
    for name in ("open", "high", "low", "close", "volume", "bid", "ask"):
        values = rng.uniform(1, 100, len(stamps))
        values[rng.random(len(stamps)) < 0.1] = np.nan
        if name in ("bid", "ask"):
            values[rng.random(len(stamps)) < 0.1] = 0
        fields[name] = (0, values)
    return provider(root, "1min", stamps, {"SH600000": fields})


def let_settle() -> None:
    """Wait until files that were just written may be remembered."""
    time.sleep(1.5 * MTIME_RESOLUTION / 1e9)
