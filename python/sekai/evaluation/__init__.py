"""Judging agents: what they earn, beside whom, and whether to believe it."""

from sekai.evaluation.baselines import baseline, baseline_names, register_baseline
from sekai.evaluation.episode import Episode, Fills
from sekai.evaluation.evaluate import evaluate
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
from sekai.evaluation.players import Ground, Moment, Player
from sekai.evaluation.statistics import (
    TrialLedger,
    bootstrap_interval,
    honesty_of,
    overfitting_probability,
    paired,
    paired_bootstrap,
    seed_interval,
)
from sekai.evaluation.walk_forward import WalkForwardEvaluation, walk_forward

__all__ = [
    "HIGHER_IS_BETTER",
    "Comparison",
    "Episode",
    "Evaluation",
    "EvaluationFileError",
    "Fills",
    "Flag",
    "Ground",
    "Honesty",
    "Interval",
    "Moment",
    "Player",
    "PolicyOutcome",
    "Provenance",
    "Sensitivity",
    "TrialLedger",
    "WalkForwardEvaluation",
    "baseline",
    "baseline_names",
    "bootstrap_interval",
    "evaluate",
    "honesty_of",
    "load_evaluation",
    "metrics_of",
    "overfitting_probability",
    "paired",
    "paired_bootstrap",
    "periods_per_year",
    "register_baseline",
    "save_evaluation",
    "seed_interval",
    "walk_forward",
]
