"""Settings as the JSON that the Rust core reads and checks."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

__all__ = ["to_json"]


def to_json(settings: dict[str, Any]) -> str:
    """Strict JSON. What it cannot tell becomes text, which the core refuses by its name."""
    return json.dumps(_finite(settings), allow_nan=False, default=_plain)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else f"a {type(value).__name__}"
