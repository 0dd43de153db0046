"""Tools for those who write environments: `check_env` and `check_causal`."""

from sekai.utils import checker

__all__ = ["checker"]
