"""Market data, and what is computed from it."""

from sekai.data.bar import Bar
from sekai.data.bootstrap import bootstrap
from sekai.data.bundled import BundledSet, bundled_sets, load_bundled
from sekai.data.calendar import Calendar, Frequency
from sekai.data.events import Events
from sekai.data.feature import PanelFeature
from sekai.data.feature_panel import FeaturePanel
from sekai.data.feature_registry import feature_kinds, make_feature, register_feature
from sekai.data.feature_stream import FeatureStream
from sekai.data.indicators import FEATURES, Feature, Indicators, compute, feature_names
from sekai.data.lookahead import check_features
from sekai.data.market_data import PRICE_FIELDS, MarketData
from sekai.data.panel_windows import PanelWindows
from sekai.data.pipeline import Pipeline, default_pipeline
from sekai.data.simulators import Disruptions, Regime, simulate_gbm, simulate_regimes
from sekai.data.splits import Fold, WalkForward
from sekai.data.windows import Windows

__all__ = [
    "FEATURES",
    "PRICE_FIELDS",
    "Bar",
    "BundledSet",
    "Calendar",
    "Disruptions",
    "Events",
    "Feature",
    "FeaturePanel",
    "FeatureStream",
    "Fold",
    "Frequency",
    "Indicators",
    "MarketData",
    "PanelFeature",
    "PanelWindows",
    "Pipeline",
    "Regime",
    "WalkForward",
    "Windows",
    "bootstrap",
    "bundled_sets",
    "check_features",
    "compute",
    "default_pipeline",
    "feature_kinds",
    "feature_names",
    "load_bundled",
    "make_feature",
    "register_feature",
    "simulate_gbm",
    "simulate_regimes",
]
