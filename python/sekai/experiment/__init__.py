"""Experiments: train an agent from a TOML file, evaluate it, and store both in a run folder."""

from __future__ import annotations

from sekai.experiment.run import ExperimentResult, run_experiment
from sekai.experiment.run_folder import ExperimentError, RunFolder, find_run
from sekai.experiment.seeds import SeedsResult, run_seeds
from sekai.experiment.sweep import SweepResult, run_sweep

__all__ = [
    "ExperimentError",
    "ExperimentResult",
    "RunFolder",
    "SeedsResult",
    "SweepResult",
    "find_run",
    "run_experiment",
    "run_seeds",
    "run_sweep",
]
