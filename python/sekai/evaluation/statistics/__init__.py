"""How far numbers may be from the truth, and how much of them is luck."""

from sekai.evaluation.statistics.block_length import block_length
from sekai.evaluation.statistics.bootstrap import bootstrap_interval, paired_bootstrap
from sekai.evaluation.statistics.ledger import TornLineWarning, Trial, TrialLedger
from sekai.evaluation.statistics.memory import effective_observations
from sekai.evaluation.statistics.overfitting import overfitting_probability
from sekai.evaluation.statistics.seeds import paired, seed_interval
from sekai.evaluation.statistics.several import holm
from sekai.evaluation.statistics.sharpe_luck import (
    deflated_sharpe,
    effective_trials,
    expected_best_sharpe,
    honesty_of,
    least_track_record,
    probabilistic_sharpe,
)

__all__ = [
    "TornLineWarning",
    "Trial",
    "TrialLedger",
    "block_length",
    "bootstrap_interval",
    "deflated_sharpe",
    "effective_observations",
    "effective_trials",
    "expected_best_sharpe",
    "holm",
    "honesty_of",
    "least_track_record",
    "overfitting_probability",
    "paired",
    "paired_bootstrap",
    "probabilistic_sharpe",
    "seed_interval",
]
