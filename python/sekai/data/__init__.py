"""Market data, and what is computed from it."""

from sekai.data.calendar import Calendar, Frequency
from sekai.data.indicators import FEATURES, Feature, Indicators, compute, feature_names
from sekai.data.market_data import PRICE_FIELDS, MarketData

__all__ = [
    "FEATURES",
    "PRICE_FIELDS",
    "Calendar",
    "Feature",
    "Frequency",
    "Indicators",
    "MarketData",
    "compute",
    "feature_names",
]
