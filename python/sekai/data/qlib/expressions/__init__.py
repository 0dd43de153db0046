"""Expressions of Qlib over the columns of one asset, computed without running any text."""

from sekai.data.qlib.expressions.evaluation import column_of
from sekai.data.qlib.expressions.expression import Expression

__all__ = ["Expression", "column_of"]
