"""Statistics: confidence intervals, p-values, multiple testing and the deflated Sharpe ratio."""

from sekai.evaluation.statistics.bootstrap import (
    block_length,
    bootstrap_interval,
    effective_observations,
    paired_bootstrap,
)
from sekai.evaluation.statistics.deflated_sharpe import (
    TornLineWarning,
    Trial,
    TrialLedger,
    deflated_sharpe,
    deflated_sharpe_of,
    effective_trials,
    expected_best_sharpe,
    minimum_track_record,
    probabilistic_sharpe,
)
from sekai.evaluation.statistics.multiple_testing import holm, overfitting_probability
from sekai.evaluation.statistics.significance import paired, seed_interval

__all__ = [
    "TornLineWarning",
    "Trial",
    "TrialLedger",
    "block_length",
    "bootstrap_interval",
    "deflated_sharpe",
    "deflated_sharpe_of",
    "effective_observations",
    "effective_trials",
    "expected_best_sharpe",
    "holm",
    "minimum_track_record",
    "overfitting_probability",
    "paired",
    "paired_bootstrap",
    "probabilistic_sharpe",
    "seed_interval",
]
