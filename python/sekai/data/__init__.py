"""Market data, and what is computed from it."""

from sekai.data.indicators import FEATURES, Feature, Indicators, compute, feature_names

__all__ = ["FEATURES", "Feature", "Indicators", "compute", "feature_names"]
