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
from sekai.evaluation.players import Ground, Moment, Player
from sekai.evaluation.statistics import TrialLedger
from sekai.evaluation.walk_forward import WalkForwardEvaluation, walk_forward

__all__ = [
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
    "evaluate",
    "load_evaluation",
    "register_baseline",
    "save_evaluation",
    "walk_forward",
]
