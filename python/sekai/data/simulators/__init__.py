"""Markets that are made up: bars from a seed, with the laws that were asked for."""

from sekai.data.simulators.clock import Clock
from sekai.data.simulators.disruptions import Disruptions
from sekai.data.simulators.gbm import simulate_gbm
from sekai.data.simulators.regimes import (
    CALM_AND_TURBULENT,
    SWITCHING,
    Regime,
    regime_path,
    simulate_regimes,
)
from sekai.data.simulators.world import WorldOptions

__all__ = [
    "CALM_AND_TURBULENT",
    "SWITCHING",
    "Clock",
    "Disruptions",
    "Regime",
    "WorldOptions",
    "regime_path",
    "simulate_gbm",
    "simulate_regimes",
]
