"""Feed files: a live or replayed feed described in TOML."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from sekai.config.convert import ConversionError, convert, require_known
from sekai.config.toml_file import ConfigSource

if TYPE_CHECKING:
    from sekai.data import MarketData
    from sekai.live import Feed
    from sekai.live.feeds import Decoder

__all__ = ["read_feed"]

_ROWS: dict[str, Any] = {
    "decoder": Literal["binance", "json"],
    "streams": list[str],
    "json": dict,
    "seconds": float,
    "rows_of": Literal["trades", "candles"],
    "wait_seconds": float,
}
KEYS: Mapping[str, Mapping[str, Any]] = {
    "replay": {"path": str, "speed": float, "start_row": int},
    "folder": {"path": str, "poll_seconds": float},
    "recorded": {"path": str, "speed": float, **_ROWS},
    "websocket": {"url": str, "url_variable": str, **_ROWS, "stale_seconds": float},
}
"""Types of the keys of each kind of feed."""


def read_feed(file: Path | None, data: MarketData, speed: float | None) -> Feed:
    """Build the feed of a file; a replay of the data without one.

    Args:
        file: TOML file with `kind` and the keys of that kind.
        data: history; for a replay, the rows after its warm-up are replayed.
        speed: speed of a replay, overriding that of the file.
    """
    from sekai.live.feeds import ReplayFeed

    if file is None:
        return ReplayFeed(data, max(data.warm_up, 1), speed)
    source = ConfigSource.read(file)
    kind, options = _checked(source)
    if speed is not None:
        options["speed"] = speed
    return _BUILDERS[kind](_FeedFile(source, options, data))


@dataclass(frozen=True, slots=True)
class _FeedFile:
    source: ConfigSource
    options: dict[str, Any]
    data: MarketData

    def refuse(self, key: str, message: str) -> NoReturn:
        self.source.refuse((key,), message)


def _checked(source: ConfigSource) -> tuple[str, dict[str, Any]]:
    values = dict(source.values)
    kind = values.pop("kind", None)
    if not isinstance(kind, str) or kind not in KEYS:
        source.refuse(("kind",), f"kind must be one of {', '.join(KEYS)}, got {kind!r}")
    known = KEYS[kind]
    try:
        require_known(f"a {kind} feed", values, known, ())
        options = {name: convert(known[name], value, (name,)) for name, value in values.items()}
    except ConversionError as error:
        source.refuse(error.path, str(error), value=not error.is_key)
    if "path" in known and "path" not in values:
        source.refuse(("kind",), f"a {kind} feed needs path")
    return kind, options


def _replay(file: _FeedFile) -> Feed:
    from sekai.experiment.preparation import data_source
    from sekai.live.feeds import ReplayFeed

    path = file.options["path"]
    source = data_source(path)
    if source is None:
        file.refuse("path", f"there is no file or folder {path}; expected rows to replay")
    start = file.options.get("start_row", max(file.data.warm_up, 1))
    return ReplayFeed(source.read(), start, file.options.get("speed"))


def _folder(file: _FeedFile) -> Feed:
    from sekai.live.feeds import CheckedFeed, FolderFeed

    seconds = file.options.get("poll_seconds", 0.25)
    return CheckedFeed(FolderFeed(file.options["path"], file.data, poll_seconds=seconds))


def _recorded(file: _FeedFile) -> Feed:
    from sekai.live.feeds import RecordedFeed

    decoder = _decoder(file) if "decoder" in file.options else None
    aggregate = _aggregation(file, decoder)
    speed = file.options.get("speed")
    return aggregate(RecordedFeed(file.options["path"], decoder, speed=speed, history=file.data))


def _websocket(file: _FeedFile) -> Feed:
    from sekai.live.feeds import CheckedFeed, FeedRules, WebSocketFeed

    options = file.options
    url = options.get("url") or os.environ.get(options.get("url_variable", ""))
    if not url:
        file.refuse(
            "url_variable",
            "a websocket feed needs url, or url_variable: the name of an environment variable "
            "that holds the URL, which keeps keys out of files",
        )
    decoder = _decoder(file)
    aggregate = _aggregation(file, decoder)
    feed = WebSocketFeed(url, decoder, symbols=file.data.assets, history=file.data)
    seconds = _candle_seconds(options, decoder)
    # Where every event is a candle, that much time without one is normal.
    default = 30.0 if seconds is None else 1.5 * seconds + 30.0
    rules = FeedRules(stale_after=options.get("stale_seconds", default))
    return aggregate(CheckedFeed(feed, rules))


def _aggregation(file: _FeedFile, decoder: Decoder | None) -> Callable[[Feed], Feed]:
    """Aggregation of trades or candles to rows of all assets."""
    from sekai.live.feeds import BarsFromCandles, BarsFromTrades

    options, data = file.options, file.data
    candle_seconds = _candle_seconds(options, decoder)
    kind = options.get("rows_of", "trades" if candle_seconds is None else "candles")
    seconds = options.get("seconds", candle_seconds if kind == "candles" else None)
    if kind == "candles":
        if not seconds:
            file.refuse("seconds", "rows of candles need seconds: the length of a candle")
        wait = options.get("wait_seconds", 5.0)
        return lambda feed: BarsFromCandles(
            feed, data.assets, seconds, history=data, wait_seconds=wait
        )
    if "wait_seconds" in options:
        file.refuse("wait_seconds", 'wait_seconds needs rows of candles: set rows_of = "candles"')
    if seconds is None:
        return lambda feed: feed
    return lambda feed: BarsFromTrades(
        feed, data.assets, seconds, history=data, fields=tuple(data.fields)
    )


def _candle_seconds(options: Mapping[str, Any], decoder: Decoder | None) -> float | None:
    """Length of candles if the decoder reads nothing else, 0 if unknown; None otherwise."""
    from sekai.live.feeds import BinanceDecoder, JsonDecoder

    if isinstance(decoder, BinanceDecoder):
        is_candle = all(name.startswith("kline_") for name in decoder.streams)
        return (options.get("seconds") or decoder.candle_seconds or 0.0) if is_candle else None
    if isinstance(decoder, JsonDecoder) and decoder.mapping.kind == "candle":
        return float(options.get("seconds", 0.0))
    return None


def _decoder(file: _FeedFile) -> Decoder:
    from sekai.live.feeds import BinanceDecoder, JsonDecoder, JsonMapping

    if file.options.get("decoder", "binance") == "binance":
        return BinanceDecoder(list(file.options.get("streams", ["trade"])))
    try:
        return JsonDecoder(JsonMapping(**file.options.get("json", {})))
    except (TypeError, ValueError) as error:
        file.refuse("json", f"[json] of the feed: {error}")


_BUILDERS: dict[str, Callable[[_FeedFile], Feed]] = {
    "replay": _replay,
    "folder": _folder,
    "recorded": _recorded,
    "websocket": _websocket,
}
