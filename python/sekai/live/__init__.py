"""Run an agent on a stream: feeds, brokers, a journal, a monitor."""

from sekai.live.broker import Broker, BrokerAccount
from sekai.live.events import (
    BarEvent,
    CandleEvent,
    FeedEvent,
    FeedNotice,
    QuoteEvent,
    TradeEvent,
)
from sekai.live.feed import Feed
from sekai.live.feed_health import FeedHealth
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
)
from sekai.live.journal import Journal, Record, read_journal
from sekai.live.kill_switch import KillSwitch
from sekai.live.latency import LatencyHistogram
from sekai.live.live_config import LiveConfig
from sekai.live.orders import Order, OrderReport, OrderState
from sekai.live.paper_account import PaperAccount
from sekai.live.paper_broker import PaperBroker
from sekai.live.paper_faults import PaperFaults
from sekai.live.parity import Parity, check_parity
from sekai.live.risk_gate import Refusal, RiskGate
from sekai.live.risk_limits import RiskLimits
from sekai.live.runner import LiveRunner
from sekai.live.session_folder import SessionFolder
from sekai.live.status import LatencySummary, OrderLine, SessionStatus
from sekai.live.status_file import read_status
from sekai.live.trade_log import Trade, trades_of

__all__ = [
    "BarEvent",
    "BarsFromCandles",
    "BarsFromTrades",
    "BinanceDecoder",
    "Broker",
    "BrokerAccount",
    "Buffered",
    "CandleEvent",
    "CheckedFeed",
    "Decoder",
    "EventRecorder",
    "Feed",
    "FeedEvent",
    "FeedHealth",
    "FeedNotice",
    "FeedRules",
    "FolderFeed",
    "Journal",
    "JsonDecoder",
    "JsonMapping",
    "KillSwitch",
    "LatencyHistogram",
    "LatencySummary",
    "LiveConfig",
    "LiveRunner",
    "Order",
    "OrderLine",
    "OrderReport",
    "OrderState",
    "PaperAccount",
    "PaperBroker",
    "PaperFaults",
    "Parity",
    "QueueFeed",
    "QuoteEvent",
    "Record",
    "RecordedFeed",
    "Refusal",
    "ReplayFeed",
    "RiskGate",
    "RiskLimits",
    "SessionFolder",
    "SessionStatus",
    "Trade",
    "TradeEvent",
    "WebSocketFeed",
    "bars_of",
    "check_parity",
    "read_journal",
    "read_status",
    "trades_of",
]
