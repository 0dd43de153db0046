"""Simulator, interpreters and reward composed into an environment."""

from sekai.compat.qlib import QlibConfig, current_qlib, init_qlib

__all__ = [
    "QlibConfig",
    "current_qlib",
    "init_qlib",
]
