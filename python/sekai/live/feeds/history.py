"""History of a live feed: klines of a venue, rows collected from the feed itself, and its file."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np

from sekai.data import Bar, Frequency, MarketData
from sekai.data.calendar import DAY, YEAR_DAYS
from sekai.error import DataError, FeedEndedError, FeedError
from sekai.live.clock import Clock
from sekai.live.events import BarEvent, bar_time
from sekai.live.feed import Feed
from sekai.live.feeds.bars_from_trades import BAR_FIELDS
from sekai.live.feeds.binance import INTERVAL_UNITS
from sekai.live.secret import Secret, revealed, revealed_headers
from sekai.storage.codec import from_text, to_text
from sekai.storage.files import atomic_write

__all__ = ["collect_history", "fetch_klines", "load_history", "save_history"]

MAX_KLINES = 1_000
"""Klines per request; venues return no more."""

MAX_RESPONSE_BYTES = 16 * 2**20
FORMAT = "sekai history 1"


async def collect_history(
    feed: Feed,
    assets: Sequence[str],
    rows: int,
    *,
    fields: Sequence[str] = BAR_FIELDS,
    seconds: float | None = None,
    note_row: Callable[[int], None] | None = None,
    clock: Clock | None = None,
) -> MarketData:
    """Cold start: collect the first rows of a feed as its history; nothing is traded meanwhile.

    The first row is left out, since its interval may have begun before the feed. The history is
    set as `feed.history`, so that an env can be made of it and a session continues on the feed.

    Args:
        feed: feed of rows, without a history.
        assets: names of the assets of a row.
        rows: number of rows to collect: lookback of the env and of its features.
        fields: names of the fields of a row.
        seconds: length of a row; inferred from the rows if None.
        note_row: called with the number of rows after each one.
        clock: clock of this machine; rows of its future are left out, see `RowGuard`.

    Raises:
        FeedEndedError: the feed ended before.
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    bars: list[Bar] = []
    # The guard is built on the rules of feeds.
    from sekai.live.row_guard import MIN_LIMIT_SECONDS, RowGuard

    limit = None if seconds is None else max(MIN_LIMIT_SECONDS, seconds)
    guard = RowGuard(clock or Clock(), limit, None, is_replay=feed.is_replay)
    async for event in feed:
        if not isinstance(event, BarEvent):
            continue
        verdict = guard.check(event)
        if verdict.event is None:
            continue
        bars.append(verdict.event.bar)
        if note_row is not None and len(bars) > 1:
            note_row(len(bars) - 1)
        if len(bars) > rows:
            feed.history = _panel(bars[1:], assets, fields, seconds)
            return feed.history
    raise FeedEndedError(f"the feed ended after {max(0, len(bars) - 1)} of {rows} rows of history")


def fetch_klines(
    url: str | Secret,
    symbols: Sequence[str],
    seconds: float,
    rows: int,
    *,
    fields: Sequence[str] = BAR_FIELDS,
    end: int | None = None,
    timeout: float = 10.0,
    headers: Mapping[str, str | Secret] | None = None,
) -> MarketData:
    """Fetch the last closed candles of a venue as history, from an endpoint like Binance's klines.

    The endpoint is called with `symbol`, `interval`, `startTime`, `endTime` and `limit`, and
    answers with a list of `[open time in ms, open, high, low, close, volume, ...]`. Rows have the
    time at which their candle closed; a symbol without a candle is not quoted. Of the URL only the
    host is shown in errors.

    Args:
        url: `https://...` or `http://...` of the endpoint; a `Secret` if it holds a key.
        symbols: symbols, which become the assets.
        seconds: length of a candle.
        rows: number of rows.
        fields: some of open, high, low, close and volume, in order.
        end: nanoseconds since 1970 after which no candle closes; now if None.
        timeout: seconds to wait for all of an answer, of up to 1,000 klines.
        headers: additional headers, whose values may be `Secret`; redirects are not followed, so
            that they reach this host alone.

    Raises:
        FeedError: the venue does not answer, or not with klines.
    """
    address = revealed(url)
    host, span = _host(address), round(seconds * 1000)
    sent = {"Accept": "application/json", **revealed_headers(headers)}
    interval = _interval(seconds)
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    last = (time.time_ns() if end is None else end) // 1_000_000 // span * span
    times = range(last - rows * span, last, span)
    columns = [BAR_FIELDS.index(name) + 1 for name in fields]
    values = np.full((rows, len(symbols), len(fields)), np.nan)
    for asset, symbol in enumerate(symbols):
        for first in range(0, rows, MAX_KLINES):
            page = times[first : first + MAX_KLINES]
            query = {
                "symbol": symbol, "interval": interval, "startTime": page[0],
                "endTime": page[-1] + span - 1, "limit": len(page),
            }  # fmt: skip
            request = Request(f"{address}?{urlencode(query)}", headers=sent)
            for kline in _get(request, host, timeout):
                index = _index(kline, times, host)
                values[index, asset] = [_number(kline, column, host) for column in columns]
    quoted = np.isfinite(values).all(axis=2)
    if not quoted.any():
        raise FeedError(f"{host} has no klines of {', '.join(symbols)} in the last {rows} rows")
    return MarketData(
        np.array([begin + span for begin in times], "datetime64[ms]").astype("datetime64[ns]"),
        symbols,
        fields,
        values,
        # Listed from the first candle on.
        listed=np.maximum.accumulate(quoted, axis=0),
        quoted=quoted,
        frequency=_frequency(span * 1_000_000),
    )


def save_history(path: Path, history: MarketData) -> None:
    """Write a history atomically; `load_history` reads an equal panel."""
    frequency = history.frequency
    content = {
        "format": FORMAT,
        "times": history.calendar.nanoseconds,
        "assets": list(history.assets),
        "fields": list(history.fields),
        "values": history.values,
        **{name: getattr(history, name) for name in ("listed", "quoted", "tradable")},
        "market": dict(history.market),
        "sectors": dict(history.sectors),
        "timezone": history.timezone,
        "frequency": [frequency.nanoseconds, frequency.periods_per_year],
        "delist_after": history.delist_after,
    }
    atomic_write(path, to_text(content, "the history").encode("ascii"), fsync=True)


def load_history(path: Path) -> MarketData:
    """Read a history that `save_history` wrote.

    Raises:
        DataError: the file is missing, or is none.
    """
    try:
        content = from_text(path.read_text(encoding="ascii"))
        if content.pop("format") != FORMAT:
            raise ValueError(f"expected the format {FORMAT!r}")
        times = content.pop("times").astype("datetime64[ns]")
        return MarketData(times, frequency=Frequency(*content.pop("frequency")), **content)
    except Exception as error:
        # A damaged file can fail in any of these.
        raise DataError(f"{path} is not a usable history: {error}") from error


def _panel(
    bars: Sequence[Bar], assets: Sequence[str], fields: Sequence[str], seconds: float | None
) -> MarketData:
    masks: Mapping[str, Any] = {
        name: [bar.masks()[name] for bar in bars] for name in ("listed", "quoted", "tradable")
    }
    return MarketData(
        np.array([bar_time(bar) for bar in bars]).astype("datetime64[ns]"),
        assets,
        fields,
        np.stack([np.asarray(bar.values, np.float64) for bar in bars]),
        market={name: [bar.market[name] for bar in bars] for name in bars[0].market},
        frequency=None if seconds is None else _frequency(round(seconds * 1e9)),
        **{name: _stacked(rows) for name, rows in masks.items()},
    )


def _stacked(rows: Iterable[Any]) -> Any:
    rows = list(rows)
    return None if any(row is None for row in rows) else np.stack(rows)


def _frequency(nanoseconds: int) -> Frequency:
    return Frequency(nanoseconds, DAY * YEAR_DAYS / nanoseconds)


def _interval(seconds: float) -> str:
    for unit, length in sorted(INTERVAL_UNITS.items(), key=lambda item: -item[1]):
        if seconds >= length and math.isclose(seconds % length, 0.0):
            return f"{round(seconds / length)}{unit}"
    raise ValueError(f"klines need a whole number of seconds, got {seconds}")


def _host(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("url of klines must begin with https:// or http:// and name a host")
    return parts.hostname


class _NoRedirect(HTTPRedirectHandler):
    """Refuses redirects: urllib would send the headers, and their keys, to another host."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _get(request: Request, host: str, timeout: float) -> list[Any]:
    try:
        content = _answer(request, timeout)
        klines = json.loads(content) if len(content) <= MAX_RESPONSE_BYTES else None
    except HTTPError as error:
        error.close()
        raise FeedError(f"no klines from {host}: status {error.code}") from None
    except (OSError, ValueError) as error:
        # Without the message, which may contain the URL.
        raise FeedError(f"no klines from {host}: {type(error).__name__}") from None
    if not isinstance(klines, list):
        raise FeedError(f"no klines from {host}: expected a list of them")
    return klines


def _answer(request: Request, timeout: float) -> bytes:
    """Body of a response within a time, from the lookup of the host to the last byte.

    The timeout of a socket is not enough: it begins again with every byte of a slow answer.
    """
    results: Queue[bytes | BaseException] = Queue()

    def fetch() -> None:
        try:
            # The scheme is checked by `_host`.
            with build_opener(_NoRedirect).open(request, timeout=timeout) as got:
                results.put(got.read(MAX_RESPONSE_BYTES + 1))
        except BaseException as error:
            # Raised to the caller.
            results.put(error)

    threading.Thread(target=fetch, name="sekai-klines", daemon=True).start()
    try:
        result = results.get(timeout=timeout)
    except Empty:
        raise TimeoutError("no complete answer in time") from None
    if isinstance(result, BaseException):
        raise result
    return result


def _index(kline: Any, times: range, host: str) -> int:
    """Row of a kline; venues answer with the candle that is still open too, never asked for."""
    begin = kline[0] if isinstance(kline, list) and len(kline) > len(BAR_FIELDS) else None
    if type(begin) is not int or begin not in times:
        raise FeedError(f"unexpected kline from {host}: {str(kline)[:80]}")
    return times.index(begin)


def _number(kline: Sequence[Any], column: int, host: str) -> float:
    try:
        value = float(kline[column])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise FeedError(f"unexpected kline from {host}: {str(kline)[:80]}")
    return value
