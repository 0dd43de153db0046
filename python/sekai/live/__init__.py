"""Live trading: feeds, brokers, risk limits, journal, kill switch and status."""

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
