"""Market data, and what is computed from it."""

from sekai.data.calendar import Calendar, Frequency
from sekai.data.indicators import FEATURES, Feature, Indicators, compute, feature_names
from sekai.data.inspection import inspect
from sekai.data.market_data import PRICE_FIELDS, MarketData
from sekai.data.policies import Policies
from sekai.data.problems import Problem, Problems
from sekai.data.reading.options import Options

__all__ = [
    "FEATURES",
    "PRICE_FIELDS",
    "Calendar",
    "Feature",
    "Frequency",
    "Indicators",
    "MarketData",
    "Options",
    "Policies",
    "Problem",
    "Problems",
    "compute",
    "feature_names",
    "inspect",
]
