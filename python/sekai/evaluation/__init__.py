"""Judging agents: what they earn, beside whom, and whether to believe it."""

from sekai.evaluation.episode import Episode, Fills
from sekai.evaluation.evaluation import (
    Comparison,
    Evaluation,
    Flag,
    Honesty,
    Interval,
    PolicyOutcome,
    Provenance,
    Sensitivity,
)
from sekai.evaluation.evaluation_file import (
    EvaluationFileError,
    load_evaluation,
    save_evaluation,
)
from sekai.evaluation.metrics import HIGHER_IS_BETTER, metrics_of, periods_per_year
from sekai.evaluation.statistics import (
    TrialLedger,
    bootstrap_interval,
    honesty_of,
    overfitting_probability,
    paired,
    paired_bootstrap,
    seed_interval,
)

__all__ = [
    "HIGHER_IS_BETTER",
    "Comparison",
    "Episode",
    "Evaluation",
    "EvaluationFileError",
    "Fills",
    "Flag",
    "Honesty",
    "Interval",
    "PolicyOutcome",
    "Provenance",
    "Sensitivity",
    "TrialLedger",
    "bootstrap_interval",
    "honesty_of",
    "load_evaluation",
    "metrics_of",
    "overfitting_probability",
    "paired",
    "paired_bootstrap",
    "periods_per_year",
    "save_evaluation",
    "seed_interval",
]
