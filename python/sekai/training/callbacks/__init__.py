"""Callbacks: checkpoints, evaluation, early stopping, progress bar and tracking."""

from sekai.training.callbacks.callback import Callback
from sekai.training.callbacks.checkpoint import Checkpoint, latest_checkpoint
from sekai.training.callbacks.evaluate import EarlyStopping, Evaluate
from sekai.training.callbacks.reporting import ProgressBar, Track
from sekai.training.callbacks.trackers import MLflowTracker, WandbTracker

__all__ = [
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "Evaluate",
    "MLflowTracker",
    "ProgressBar",
    "Track",
    "WandbTracker",
    "latest_checkpoint",
]
