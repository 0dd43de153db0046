"""Who is told while an agent learns."""

from sekai.training.callbacks.callback import Callback
from sekai.training.callbacks.checkpoint import Checkpoint, latest_checkpoint
from sekai.training.callbacks.early_stopping import EarlyStopping
from sekai.training.callbacks.evaluate import Evaluate
from sekai.training.callbacks.progress_bar import ProgressBar
from sekai.training.callbacks.track import Track

__all__ = [
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "Evaluate",
    "ProgressBar",
    "Track",
    "latest_checkpoint",
]
