"""Simulated markets: synthetic bars from a seed."""

from sekai.data.simulators.market import Disruptions
from sekai.data.simulators.regimes import (
    CALM_AND_TURBULENT,
    SWITCHING,
    Regime,
    regime_path,
    simulate_gbm,
    simulate_regimes,
)
from sekai.data.simulators.schedule import Schedule

__all__ = [
    "CALM_AND_TURBULENT",
    "SWITCHING",
    "Disruptions",
    "Regime",
    "Schedule",
    "regime_path",
    "simulate_gbm",
    "simulate_regimes",
]
