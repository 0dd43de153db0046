"""Live trading: feeds, brokers, risk limits, journal, kill switch and status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sekai.live.account import BrokerAccount
    from sekai.live.broker import Broker
    from sekai.live.config import LiveConfig, SessionFolder
    from sekai.live.events import (
        BarEvent,
        CandleEvent,
        FeedEvent,
        FeedNotice,
        QuoteEvent,
        TradeEvent,
    )
    from sekai.live.feed import Feed, FeedHealth
    from sekai.live.feeds import (
        BarsFromCandles,
        BarsFromTrades,
        BinanceDecoder,
        Buffered,
        CheckedFeed,
        Decoder,
        EventRecorder,
        FeedRules,
        FolderFeed,
        JsonDecoder,
        JsonMapping,
        QueueFeed,
        RecordedFeed,
        ReplayFeed,
        WebSocketFeed,
        bars_of,
        collect_history,
        fetch_klines,
    )
    from sekai.live.instruments import Instrument
    from sekai.live.journal import Journal, JournalRecord, read_journal
    from sekai.live.journal.session import Trade, trades_of
    from sekai.live.kill_switch import KillSwitch
    from sekai.live.latency import LatencyHistogram
    from sekai.live.orders import BrokerOrder, ExecutionReport, OrderState
    from sekai.live.paper.account import PaperAccount
    from sekai.live.paper.broker import PaperBroker
    from sekai.live.paper.faults import PaperFaults
    from sekai.live.parity import Parity, check_parity
    from sekai.live.risk import Refusal, RiskGate, RiskLimits
    from sekai.live.runner import LiveRunner
    from sekai.live.secret import Secret
    from sekai.live.status import LatencySummary, OrderLine, SessionStatus, read_status
    from sekai.live.supervision import Supervision

__all__ = [
    "BarEvent",
    "BarsFromCandles",
    "BarsFromTrades",
    "BinanceDecoder",
    "Broker",
    "BrokerAccount",
    "BrokerOrder",
    "Buffered",
    "CandleEvent",
    "CheckedFeed",
    "Decoder",
    "EventRecorder",
    "ExecutionReport",
    "Feed",
    "FeedEvent",
    "FeedHealth",
    "FeedNotice",
    "FeedRules",
    "FolderFeed",
    "Instrument",
    "Journal",
    "JournalRecord",
    "JsonDecoder",
    "JsonMapping",
    "KillSwitch",
    "LatencyHistogram",
    "LatencySummary",
    "LiveConfig",
    "LiveRunner",
    "OrderLine",
    "OrderState",
    "PaperAccount",
    "PaperBroker",
    "PaperFaults",
    "Parity",
    "QueueFeed",
    "QuoteEvent",
    "RecordedFeed",
    "Refusal",
    "ReplayFeed",
    "RiskGate",
    "RiskLimits",
    "Secret",
    "SessionFolder",
    "SessionStatus",
    "Supervision",
    "Trade",
    "TradeEvent",
    "WebSocketFeed",
    "bars_of",
    "check_parity",
    "collect_history",
    "fetch_klines",
    "read_journal",
    "read_status",
    "trades_of",
]

LAZY = {
    "BarEvent": "sekai.live.events",
    "BarsFromCandles": "sekai.live.feeds",
    "BarsFromTrades": "sekai.live.feeds",
    "BinanceDecoder": "sekai.live.feeds",
    "Broker": "sekai.live.broker",
    "BrokerAccount": "sekai.live.account",
    "BrokerOrder": "sekai.live.orders",
    "Buffered": "sekai.live.feeds",
    "CandleEvent": "sekai.live.events",
    "CheckedFeed": "sekai.live.feeds",
    "Decoder": "sekai.live.feeds",
    "EventRecorder": "sekai.live.feeds",
    "ExecutionReport": "sekai.live.orders",
    "Feed": "sekai.live.feed",
    "FeedEvent": "sekai.live.events",
    "FeedHealth": "sekai.live.feed",
    "FeedNotice": "sekai.live.events",
    "FeedRules": "sekai.live.feeds",
    "FolderFeed": "sekai.live.feeds",
    "Instrument": "sekai.live.instruments",
    "Journal": "sekai.live.journal",
    "JournalRecord": "sekai.live.journal",
    "JsonDecoder": "sekai.live.feeds",
    "JsonMapping": "sekai.live.feeds",
    "KillSwitch": "sekai.live.kill_switch",
    "LatencyHistogram": "sekai.live.latency",
    "LatencySummary": "sekai.live.status",
    "LiveConfig": "sekai.live.config",
    "LiveRunner": "sekai.live.runner",
    "OrderLine": "sekai.live.status",
    "OrderState": "sekai.live.orders",
    "PaperAccount": "sekai.live.paper.account",
    "PaperBroker": "sekai.live.paper.broker",
    "PaperFaults": "sekai.live.paper.faults",
    "Parity": "sekai.live.parity",
    "QueueFeed": "sekai.live.feeds",
    "QuoteEvent": "sekai.live.events",
    "RecordedFeed": "sekai.live.feeds",
    "Refusal": "sekai.live.risk",
    "ReplayFeed": "sekai.live.feeds",
    "RiskGate": "sekai.live.risk",
    "RiskLimits": "sekai.live.risk",
    "Secret": "sekai.live.secret",
    "SessionFolder": "sekai.live.config",
    "SessionStatus": "sekai.live.status",
    "Supervision": "sekai.live.supervision",
    "Trade": "sekai.live.journal.session",
    "TradeEvent": "sekai.live.events",
    "WebSocketFeed": "sekai.live.feeds",
    "bars_of": "sekai.live.feeds",
    "check_parity": "sekai.live.parity",
    "collect_history": "sekai.live.feeds",
    "fetch_klines": "sekai.live.feeds",
    "read_journal": "sekai.live.journal",
    "read_status": "sekai.live.status",
    "trades_of": "sekai.live.journal.session",
}
"""Modules of names that are imported at first use: a kill must not wait for envs and data."""


def __getattr__(name: str) -> Any:
    """Import a name at its first use."""
    if name not in LAZY:
        raise AttributeError(f"module 'sekai.live' has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted(__all__)
