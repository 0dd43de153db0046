"""What a market is, charges and allows."""

from sekai.market.config import (
    AccountConfig,
    FundamentalConfig,
    MarketConfig,
    NewsConfig,
    PopulationConfig,
    SymbolConfig,
)

__all__ = [
    "AccountConfig",
    "FundamentalConfig",
    "MarketConfig",
    "NewsConfig",
    "PopulationConfig",
    "SymbolConfig",
]
