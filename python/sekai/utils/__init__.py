"""Environment checkers: `check_env` and `check_causal`."""

from sekai.utils import checker

__all__ = ["checker"]
