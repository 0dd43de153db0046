"""Feeds: replayed, recorded, from folders, queues and websockets; buffers, checks and bars."""

from sekai.live.backoff import Backoff
from sekai.live.feeds.bars_from_candles import BarsFromCandles
from sekai.live.feeds.bars_from_trades import BarsFromTrades, bars_of
from sekai.live.feeds.binance import BinanceDecoder
from sekai.live.feeds.buffered import Buffered, BufferPolicy, EventBuffer, QueueFeed
from sekai.live.feeds.checked import CheckedFeed
from sekai.live.feeds.decoder import Decoder
from sekai.live.feeds.feed_rules import FeedRules
from sekai.live.feeds.folder_feed import FolderFeed
from sekai.live.feeds.history import collect_history, fetch_klines
from sekai.live.feeds.json_decoder import JsonDecoder, JsonMapping
from sekai.live.feeds.recording import (
    EventRecorder,
    RecordedFeed,
    ReplayFeed,
    event_from_json,
    event_to_json,
)
from sekai.live.feeds.websocket_feed import SocketLimits, WebSocketFeed

__all__ = [
    "Backoff",
    "BarsFromCandles",
    "BarsFromTrades",
    "BinanceDecoder",
    "BufferPolicy",
    "Buffered",
    "CheckedFeed",
    "Decoder",
    "EventBuffer",
    "EventRecorder",
    "FeedRules",
    "FolderFeed",
    "JsonDecoder",
    "JsonMapping",
    "QueueFeed",
    "RecordedFeed",
    "ReplayFeed",
    "SocketLimits",
    "WebSocketFeed",
    "bars_of",
    "collect_history",
    "event_from_json",
    "event_to_json",
    "fetch_klines",
]
