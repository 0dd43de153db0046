"""What training tells of itself, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

__all__ = ["Metrics", "mean_metrics"]

Metrics: TypeAlias = dict[str, float]


def mean_metrics(found: Sequence[Mapping[str, float]]) -> Metrics:
    """The means of what was told several times, by those who told it."""
    names = dict.fromkeys(name for told in found for name in told)
    return {name: float(np.mean([told[name] for told in found if name in told])) for name in names}
