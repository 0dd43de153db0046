"""Evaluation: metrics, baselines, significance, walk-forward and reports."""

from sekai.evaluation.baselines import baseline, baseline_names, register_baseline
from sekai.evaluation.compare import EvaluationComparison, compare
from sekai.evaluation.evaluate import evaluate
from sekai.evaluation.evaluation import (
    BaselineComparison,
    DeflatedSharpe,
    Episode,
    EpisodeFills,
    Evaluation,
    Flag,
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
from sekai.evaluation.policy import EpisodeContext, Policy, StepContext
from sekai.evaluation.statistics import (
    TrialLedger,
    bootstrap_interval,
    deflated_sharpe_of,
    overfitting_probability,
    paired,
    paired_bootstrap,
    seed_interval,
)
from sekai.evaluation.walk_forward import WalkForwardEvaluation, walk_forward

__all__ = [
    "HIGHER_IS_BETTER",
    "BaselineComparison",
    "DeflatedSharpe",
    "Episode",
    "EpisodeContext",
    "EpisodeFills",
    "Evaluation",
    "EvaluationComparison",
    "EvaluationFileError",
    "Flag",
    "Interval",
    "Policy",
    "PolicyOutcome",
    "Provenance",
    "Sensitivity",
    "StepContext",
    "TrialLedger",
    "WalkForwardEvaluation",
    "baseline",
    "baseline_names",
    "bootstrap_interval",
    "compare",
    "deflated_sharpe_of",
    "evaluate",
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
