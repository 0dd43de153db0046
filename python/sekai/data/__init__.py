"""Market data: panels, readers, features, intraday data, simulators and windows."""

from sekai.data.bootstrap import bootstrap
from sekai.data.bundled import BundledSet, bundled_sets, load_bundled
from sekai.data.calendar import Calendar, Frequency
from sekai.data.features.events import Events
from sekai.data.features.feature import PanelFeature, feature_kinds, make_feature, register_feature
from sekai.data.features.lookahead import check_features
from sekai.data.features.pipeline import FeaturePanel, Pipeline, default_pipeline
from sekai.data.features.stream import FeatureStream
from sekai.data.frame_intraday import FrameIntraday
from sekai.data.indicators import FEATURES, Feature, Indicators, compute, feature_names
from sekai.data.intraday import DayCache, DayTicks, IntradayData, MarketIntraday
from sekai.data.market_data import PRICE_FIELDS, MarketData
from sekai.data.panel_io import inspect
from sekai.data.problems import Policies, Problem, Problems
from sekai.data.qlib import QlibIntraday, QlibProvider, write_qlib
from sekai.data.reading.options import Options
from sekai.data.signature import DataSignature, data_signature, require_same_data
from sekai.data.simulators import Disruptions, Regime, regime_path, simulate_gbm, simulate_regimes
from sekai.data.splits import Fold, WalkForward
from sekai.data.streaming import Bar, BarFeed
from sekai.data.tick_store import TickStore
from sekai.data.windows.panel_windows import PanelWindows, RollingWindows
from sekai.data.windows.window_file import Windows

__all__ = [
    "FEATURES",
    "PRICE_FIELDS",
    "Bar",
    "BarFeed",
    "BundledSet",
    "Calendar",
    "DataSignature",
    "DayCache",
    "DayTicks",
    "Disruptions",
    "Events",
    "Feature",
    "FeaturePanel",
    "FeatureStream",
    "Fold",
    "FrameIntraday",
    "Frequency",
    "Indicators",
    "IntradayData",
    "MarketData",
    "MarketIntraday",
    "Options",
    "PanelFeature",
    "PanelWindows",
    "Pipeline",
    "Policies",
    "Problem",
    "Problems",
    "QlibIntraday",
    "QlibProvider",
    "Regime",
    "RollingWindows",
    "TickStore",
    "WalkForward",
    "Windows",
    "bootstrap",
    "bundled_sets",
    "check_features",
    "compute",
    "data_signature",
    "default_pipeline",
    "feature_kinds",
    "feature_names",
    "inspect",
    "load_bundled",
    "make_feature",
    "regime_path",
    "register_feature",
    "require_same_data",
    "simulate_gbm",
    "simulate_regimes",
    "write_qlib",
]
