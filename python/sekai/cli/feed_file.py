"""Feed files: a live or replayed feed and its history, described in TOML."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from sekai.config.convert import ConversionError, convert, require_known
from sekai.config.toml_file import ConfigSource

if TYPE_CHECKING:
    from sekai.data import MarketData
    from sekai.live import Feed, Secret
    from sekai.live.feeds import Decoder

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
    "folder": {"path": str, "poll_seconds": float, "history": dict},
    "recorded": {"path": str, "speed": float, **_ROWS, "history": dict},
    "websocket": {
        "url": str | dict,
        "headers": dict,
        **_ROWS,
        "stale_seconds": float,
        "history": dict,
    },
}
"""Types of the keys of each kind of feed."""

HISTORY_KEYS: Mapping[str, Any] = {
    "path": str,
    "url": str | dict,
    "headers": dict,
    "cold_start": bool,
    "rows": int,
}
DEFAULT_KLINES = 1_000


@dataclass(frozen=True, slots=True)
class FeedFile:
    """Feed described in a file.

    Args:
        source: content of the file: `kind`, the keys of that kind, and a table `[history]`.
        kind: kind of the feed.
        options: the other keys.
    """

    source: ConfigSource
    kind: str
    options: dict[str, Any]

    @classmethod
    def read(cls, file: Path) -> FeedFile:
        """Read and check a file."""
        source = ConfigSource.read(file)
        kind, options = _checked(source)
        made = cls(source, kind, options)
        made._check_history()
        return made

    def feed(
        self, like: MarketData, history: MarketData | None, speed: float | None = None
    ) -> Feed:
        """Build the feed.

        Args:
            like: panel with the assets and fields of a row.
            history: rows before the first one; None for a cold start.
            speed: speed of a replay, overriding that of the file.
        """
        options = self.options if speed is None else {**self.options, "speed": speed}
        return _BUILDERS[self.kind](_FeedParts(self.source, options, like, history))

    @property
    def has_history(self) -> bool:
        """True if the file names its history; otherwise it is that of the run."""
        return bool(self.options.get("history"))

    @property
    def is_cold_start(self) -> bool:
        """True if the history is collected from the feed itself."""
        return bool(self.options.get("history", {}).get("cold_start"))

    @property
    def history_rows(self) -> int | None:
        """Number of rows of history, if the file sets it."""
        rows: int | None = self.options.get("history", {}).get("rows")
        return rows

    @property
    def row_seconds(self) -> float | None:
        """Length of a row, if the file sets it."""
        if self.kind not in ("websocket", "recorded"):
            return None
        parts = _FeedParts(self.source, self.options, None, None)
        decoder = _decoder(parts) if "decoder" in self.options else None
        return self.options.get("seconds") or _candle_seconds(self.options, decoder)

    def read_history(self, like: MarketData) -> MarketData:
        """Read the history from its file, or fetch it from the venue."""
        table = self.options["history"]
        history = self._file(table["path"]) if "path" in table else self._klines(table, like)
        missing = [name for name in like.assets if name not in history.assets]
        missing += [name for name in like.fields if name not in history.fields]
        if missing:
            self._refuse(f"history lacks {', '.join(missing)}, which the run was trained on")
        return history.select(like.assets, like.fields).replace(warm_up=0)

    def _file(self, path: str) -> MarketData:
        from sekai.experiment.preparation import data_source

        source = data_source(path)
        if source is None:
            self._refuse(f"there is no file or folder {path}; expected rows of history")
        return source.read()

    def _klines(self, table: Mapping[str, Any], like: MarketData) -> MarketData:
        from sekai.live.feeds import fetch_klines
        from sekai.live.feeds.bars_from_trades import BAR_FIELDS

        parts = _FeedParts(self.source, self.options, like, None)
        url, headers = _url(parts, table, "history"), _headers(parts, table, "history")
        seconds = self.row_seconds
        if not url or not seconds:
            self._refuse("klines need url, and seconds of the feed")
        if unknown := sorted(set(like.fields) - set(BAR_FIELDS)):
            self._refuse(f"klines have no {', '.join(unknown)}; set path to a file that has")
        rows = table.get("rows", DEFAULT_KLINES)
        try:
            return fetch_klines(
                url, like.assets, seconds, rows, fields=like.fields, headers=headers
            )
        except ValueError as error:
            self._refuse(str(error))

    def _check_history(self) -> None:
        table = self.options.get("history")
        if table is None:
            return
        try:
            require_known("[history]", table, HISTORY_KEYS, ("history",))
            for name, value in table.items():
                convert(HISTORY_KEYS[name], value, ("history", name))
        except ConversionError as error:
            self.source.refuse(error.path, str(error), value=not error.is_key)
        others = ("rows", "headers")
        chosen = [name for name in table if name not in others and table[name] is not False]
        if len(chosen) != 1:
            self._refuse(
                "[history] needs one of path (a file), url (klines of the venue) "
                f"and cold_start = true (rows of the feed), got {', '.join(chosen) or 'none'}"
            )
        if self.is_cold_start and self.kind != "websocket":
            self._refuse(f"cold_start needs a websocket feed, got {self.kind}; set path instead")

    def _refuse(self, message: str) -> NoReturn:
        self.source.refuse(("history",), message)


@dataclass(frozen=True, slots=True)
class _FeedParts:
    source: ConfigSource
    options: dict[str, Any]
    like: Any
    history: MarketData | None

    def refuse(self, *path: str, message: str) -> NoReturn:
        self.source.refuse(path, message)


def _url(file: _FeedParts, options: Mapping[str, Any], *path: str) -> str | Secret | None:
    from sekai.live.session_log import redacted

    url = options.get("url")
    if isinstance(url, str) and redacted(url) != url:
        # Without a place: the line would be shown, and the secret with it.
        file.refuse(
            message='url holds a secret; expected url = { env = "NAME" }, the name of an '
            "environment variable that holds it, which keeps keys out of files",
        )
    return None if url is None else _text_or_secret(file, url, *path, "url")


def _headers(
    file: _FeedParts, options: Mapping[str, Any], *path: str
) -> dict[str, str | Secret] | None:
    from sekai.live.session_log import is_secret_name, redacted

    headers: dict[str, str | Secret] = {}
    for name, value in options.get("headers", {}).items():
        headers[name] = _text_or_secret(file, value, *path, "headers", name)
        if isinstance(value, str) and (is_secret_name(name) or redacted(value) != value):
            file.refuse(
                message=f'header {name} is a secret; expected {name} = {{ env = "NAME" }}, the '
                "name of an environment variable that holds it",
            )
    return headers or None


def _text_or_secret(file: _FeedParts, value: Any, *path: str) -> str | Secret:
    """Text of a key, or the secret in the environment variable that `{ env = "NAME" }` names."""
    from sekai.live import Secret

    if isinstance(value, str):
        return value
    variable = value.get("env") if isinstance(value, dict) and value.keys() == {"env"} else None
    if not isinstance(variable, str):
        message = f'{path[-1]} must be text or {{ env = "NAME" }}, got {value!r:.60}'
        file.refuse(*path, message=message)
    try:
        return Secret.from_env(variable)
    except (KeyError, ValueError) as error:
        file.refuse(*path, message=str(error.args[0]))


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


def _replay(file: _FeedParts) -> Feed:
    from sekai.experiment.preparation import data_source
    from sekai.live.feeds import ReplayFeed

    path = file.options["path"]
    source = data_source(path)
    if source is None:
        file.refuse("path", message=f"there is no file or folder {path}; expected rows to replay")
    start = file.options.get("start_row", max(file.like.warm_up, 1))
    return ReplayFeed(source.read(), start, file.options.get("speed"))


def _folder(file: _FeedParts) -> Feed:
    from sekai.live.feeds import CheckedFeed, FolderFeed

    seconds = file.options.get("poll_seconds", 0.25)
    assert file.history is not None, "a folder has no cold start"
    return CheckedFeed(FolderFeed(file.options["path"], file.history, poll_seconds=seconds))


def _recorded(file: _FeedParts) -> Feed:
    from sekai.live.feeds import RecordedFeed

    decoder = _decoder(file) if "decoder" in file.options else None
    aggregate = _aggregation(file, decoder)
    speed = file.options.get("speed")
    return aggregate(RecordedFeed(file.options["path"], decoder, speed=speed, history=file.history))


def _websocket(file: _FeedParts) -> Feed:
    from sekai.live.feeds import CheckedFeed, FeedRules, WebSocketFeed

    options = file.options
    url = _url(file, options)
    if not url:
        file.refuse(
            "url",
            message='a websocket feed needs url: text, or { env = "NAME" } with the name of an '
            "environment variable, which keeps keys out of files",
        )
    decoder = _decoder(file)
    aggregate = _aggregation(file, decoder)
    feed = WebSocketFeed(
        url,
        decoder,
        symbols=file.like.assets,
        history=file.history,
        headers=_headers(file, options),
    )
    seconds = _candle_seconds(options, decoder)
    # Where every event is a candle, that much time without one is normal.
    default = 30.0 if seconds is None else 1.5 * seconds + 30.0
    rules = FeedRules(stale_after=options.get("stale_seconds", default))
    return aggregate(CheckedFeed(feed, rules))


def _aggregation(file: _FeedParts, decoder: Decoder | None) -> Callable[[Feed], Feed]:
    """Aggregation of trades or candles to rows of all assets."""
    from sekai.live.feeds import BarsFromCandles, BarsFromTrades

    options, like = file.options, file.like
    candle_seconds = _candle_seconds(options, decoder)
    kind = options.get("rows_of", "trades" if candle_seconds is None else "candles")
    seconds = options.get("seconds", candle_seconds if kind == "candles" else None)
    if kind == "candles":
        if not seconds:
            file.refuse("seconds", message="rows of candles need seconds: the length of a candle")
        wait = options.get("wait_seconds", 5.0)
        return lambda feed: BarsFromCandles(
            feed,
            like.assets,
            seconds,
            history=file.history,
            fields=like.fields,
            wait_seconds=wait,
        )
    if "wait_seconds" in options:
        file.refuse(
            "wait_seconds", message='wait_seconds needs rows of candles: set rows_of = "candles"'
        )
    if seconds is None:
        return lambda feed: feed
    _check_age(file, seconds)
    return lambda feed: BarsFromTrades(
        feed, like.assets, seconds, history=file.history, fields=tuple(like.fields)
    )


def _check_age(file: _FeedParts, seconds: float) -> None:
    """Refuse a history that ends too long before live trades to be continued row by row."""
    from sekai.live.feeds.bars_from_trades import MAX_EMPTY_BARS

    if file.history is None or "url" not in file.options:
        return
    age = (time.time_ns() - int(file.history.calendar.nanoseconds[-1])) / 1e9
    if age / seconds > MAX_EMPTY_BARS:
        file.refuse(
            "kind",
            message=f"history ends at {file.history.times[-1]}, more than {MAX_EMPTY_BARS:,} rows "
            f"of {seconds:g} s ago; add a table [history] with path (a file with later rows), url "
            "(klines of the venue) or cold_start = true (collect rows before trading)",
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


def _decoder(file: _FeedParts) -> Decoder:
    from sekai.live.feeds import BinanceDecoder, JsonDecoder, JsonMapping

    if file.options.get("decoder", "binance") == "binance":
        return BinanceDecoder(list(file.options.get("streams", ["trade"])))
    try:
        return JsonDecoder(JsonMapping(**file.options.get("json", {})))
    except (TypeError, ValueError) as error:
        file.refuse("json", message=f"[json] of the feed: {error}")


_BUILDERS: dict[str, Callable[[_FeedParts], Feed]] = {
    "replay": _replay,
    "folder": _folder,
    "recorded": _recorded,
    "websocket": _websocket,
}
