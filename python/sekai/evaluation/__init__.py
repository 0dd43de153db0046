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

__all__ = [
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
    "load_evaluation",
    "save_evaluation",
]
