"""Markets: order book, simulated market, costs, accounts, constraints and execution."""

from __future__ import annotations

from quant_gym_rs.codes import Operation, SelfTrade, Side, Status, TimeInForce
from sekai.market.accounts import CashAccount, MarginAccount
from sekai.market.almgren_chriss import AlmgrenChriss, Frontier, almgren_chriss_schedule
from sekai.market.constraints import Compromise, Constraints, ProjectedWeights, project_weights
from sekai.market.costs import Costs
from sekai.market.execution import Execution
from sekai.market.fees import Free, OfNotional, PerLot, Settled, settle
from sekai.market.market import (
    Account,
    AccountConfig,
    FundamentalConfig,
    Market,
    MarketConfig,
    NewsConfig,
    NewsEvent,
    PopulationConfig,
    Recording,
    SymbolConfig,
)
from sekai.market.order_book import (
    BatchResult,
    Depth,
    DepthLevel,
    Fill,
    Fills,
    OrderBook,
    Orders,
    Placement,
    QueuePosition,
    Resting,
)

__all__ = [
    "Account",
    "AccountConfig",
    "AlmgrenChriss",
    "BatchResult",
    "CashAccount",
    "Compromise",
    "Constraints",
    "Costs",
    "Depth",
    "DepthLevel",
    "Execution",
    "Fill",
    "Fills",
    "Free",
    "Frontier",
    "FundamentalConfig",
    "MarginAccount",
    "Market",
    "MarketConfig",
    "NewsConfig",
    "NewsEvent",
    "OfNotional",
    "Operation",
    "OrderBook",
    "Orders",
    "PerLot",
    "Placement",
    "PopulationConfig",
    "ProjectedWeights",
    "QueuePosition",
    "Recording",
    "Resting",
    "SelfTrade",
    "Settled",
    "Side",
    "Status",
    "SymbolConfig",
    "TimeInForce",
    "almgren_chriss_schedule",
    "project_weights",
    "settle",
]
