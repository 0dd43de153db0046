"""A feed as a TOML file says it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.cli.experiment.source import Source
from sekai.cli.failure import CommandError

if TYPE_CHECKING:
    from sekai.data import MarketData
    from sekai.live import Feed
    from sekai.live.feeds import Decoder

__all__ = ["feed_of"]

KEYS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "replay": {"path": str, "speed": (int, float), "start_row": int},
    "folder": {"path": str, "poll_seconds": (int, float)},
    "recorded": {
        "path": str, "speed": (int, float), "decoder": str, "streams": list, "json": dict,
        "seconds": (int, float), "rows_of": str, "wait_seconds": (int, float),
    },
    "websocket": {
        "url": str, "url_variable": str, "decoder": str, "streams": list, "json": dict,
        "seconds": (int, float), "rows_of": str, "wait_seconds": (int, float),
        "stale_seconds": (int, float),
    },
}  # fmt: skip
"""What each kind of feed can be told."""


def feed_of(file: Path | None, data: MarketData, speed: float | None) -> Feed:
    """The feed that a file describes; a replay of the data if there is none.

    Args:
        file: TOML, with `kind` and the keys of that kind.
        data: what is known: history, or for a replay what comes after its warm-up.
        speed: of a replay, instead of what the file says.
    """
    from sekai.live.feeds import ReplayFeed

    if file is None:
        return ReplayFeed(data, max(data.warm_up, 1), speed)
    source = Source.read(file)
    told = _checked(source)
    return _MAKERS[str(source.values["kind"])](told, data, speed)


def _checked(source: Source) -> dict[str, Any]:
    told = dict(source.values)
    kind = told.pop("kind", None)
    if kind not in KEYS:
        source.refuse(("kind",), f"kind must be one of {', '.join(KEYS)}, was {kind!r}")
    known = KEYS[str(kind)]
    for name, value in told.items():
        if name not in known:
            source.refuse(
                (name,), f"a {kind} feed knows {', '.join(known)}, found {name!r}", value=False
            )
        if not isinstance(value, known[name]) or isinstance(value, bool):
            source.refuse((name,), f"{name} cannot be {value!r}")
    for name in ("path",) if "path" in known else ():
        if name not in told:
            source.refuse(("kind",), f"a {kind} feed needs {name}")
    return told


def _replay(told: dict[str, Any], data: MarketData, speed: float | None) -> Feed:
    from sekai.cli.experiment.market import reader_of
    from sekai.live.feeds import ReplayFeed

    reader = reader_of(told["path"])
    if reader is None:
        raise CommandError(f"{told['path']} has no rows to replay: there is no such file or folder")
    rows = reader.read()
    start = told.get("start_row", max(data.warm_up, 1))
    return ReplayFeed(rows, start, told.get("speed") if speed is None else speed)


def _folder(told: dict[str, Any], data: MarketData, speed: float | None) -> Feed:
    from sekai.live.feeds import CheckedFeed, FolderFeed

    return CheckedFeed(FolderFeed(told["path"], data, poll_seconds=told.get("poll_seconds", 0.25)))


def _recorded(told: dict[str, Any], data: MarketData, speed: float | None) -> Feed:
    from sekai.live.feeds import RecordedFeed

    speed = told.get("speed") if speed is None else speed
    decoder = _decoder(told) if "decoder" in told else None
    in_rows = _rows_of(told, decoder, data)
    return in_rows(RecordedFeed(told["path"], decoder, speed=speed, history=data))


def _websocket(told: dict[str, Any], data: MarketData, speed: float | None) -> Feed:
    from sekai.live.feeds import CheckedFeed, FeedRules, WebSocketFeed

    url = told.get("url") or os.environ.get(told.get("url_variable", ""))
    if not url:
        raise CommandError(
            "a websocket feed needs url, or url_variable: the name of a variable of the "
            "environment that holds it, which keeps keys out of files"
        )
    decoder = _decoder(told)
    in_rows = _rows_of(told, decoder, data)
    feed = WebSocketFeed(url, decoder, symbols=data.assets, history=data)
    seconds = _candle_seconds(told, decoder)
    # Where every event is a candle, so much time without one is as it should be.
    usual = 30.0 if seconds is None else 1.5 * seconds + 30.0
    rules = FeedRules(stale_after=told.get("stale_seconds", usual))
    return in_rows(CheckedFeed(feed, rules))


def _rows_of(
    told: dict[str, Any], decoder: Decoder | None, data: MarketData
) -> Callable[[Feed], Feed]:
    """What makes rows of all assets, where the feed brings single trades or candles."""
    from sekai.live.feeds import BarsFromCandles, BarsFromTrades

    candle_seconds = _candle_seconds(told, decoder)
    kind = told.get("rows_of", "trades" if candle_seconds is None else "candles")
    if kind not in ("trades", "candles"):
        raise CommandError(f"rows_of must be trades or candles, was {kind!r}")
    seconds = told.get("seconds", candle_seconds if kind == "candles" else None)
    if kind == "candles":
        if not seconds:
            raise CommandError("rows of candles need seconds: the length of a candle")
        wait = told.get("wait_seconds", 5.0)
        return lambda feed: BarsFromCandles(
            feed, data.assets, seconds, history=data, wait_seconds=wait
        )
    if "wait_seconds" in told:
        raise CommandError('wait_seconds is for rows of candles: say rows_of = "candles"')
    if seconds is None:
        return lambda feed: feed
    return lambda feed: BarsFromTrades(
        feed, data.assets, seconds, history=data, fields=tuple(data.fields)
    )


def _candle_seconds(told: dict[str, Any], decoder: Decoder | None) -> float | None:
    """The length of the candles that are all a decoder reads; 0 if nobody says how long."""
    from sekai.live.feeds import BinanceDecoder, JsonDecoder

    if isinstance(decoder, BinanceDecoder):
        is_candle = all(name.startswith("kline_") for name in decoder.streams)
        return (told.get("seconds") or decoder.candle_seconds or 0.0) if is_candle else None
    if isinstance(decoder, JsonDecoder) and decoder.mapping.kind == "candle":
        return float(told.get("seconds", 0.0))
    return None


def _decoder(told: dict[str, Any]) -> Decoder:
    from sekai.live.feeds import BinanceDecoder, JsonDecoder, JsonMapping

    name = told.get("decoder", "binance")
    if name == "binance":
        return BinanceDecoder(told.get("streams", ["trade"]))
    if name == "json":
        try:
            return JsonDecoder(JsonMapping(**told.get("json", {})))
        except (TypeError, ValueError) as error:
            raise CommandError(f"[json] of the feed: {error}") from error
    raise CommandError(f"decoder must be binance or json, was {name!r}")


_MAKERS: dict[str, Callable[[dict[str, Any], MarketData, float | None], Feed]] = {
    "replay": _replay,
    "folder": _folder,
    "recorded": _recorded,
    "websocket": _websocket,
}
