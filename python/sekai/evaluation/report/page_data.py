"""Charts as strict JSON inside a page: numbers packed, and nothing that could end a script."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.report.chart import Chart

__all__ = ["charts_as_json", "safe_json"]

UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What could end a script or begin another, as JSON also may write it."""


def charts_as_json(charts: Sequence[Chart]) -> str:
    """All charts, and the arrays that they refer to by place."""
    arrays: dict[str, int] = {}
    written = [
        {
            "height": chart.height,
            "views": [_packed(_view(view), arrays) for view in chart.views.values()],
        }
        for chart in charts
    ]
    return safe_json({"charts": written, "arrays": list(arrays)})


def safe_json(value: Any) -> str:
    """Strict JSON without characters that HTML knows."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character, written in UNSAFE.items():
        text = text.replace(character, written)
    return text


def _view(view: Any) -> dict[str, Any]:
    return {"traces": view.traces, "layout": view.layout}


def _packed(value: Any, arrays: dict[str, int]) -> Any:
    """The same with arrays put aside; many lines share one axis, which is so kept once."""
    if isinstance(value, np.ndarray):
        return {"array": arrays.setdefault(_array(value), len(arrays))}
    if isinstance(value, dict):
        return {name: _packed(part, arrays) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_packed(part, arrays) for part in value]
    if isinstance(value, np.generic):
        return _packed(value.item(), arrays)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _array(values: NDArray[Any]) -> str:
    """Its kind and its bytes, the lowest first on every machine."""
    kind = "f4" if values.dtype == np.float32 else "f8"
    return f"{kind}:{base64.b64encode(values.astype('<' + kind).tobytes()).decode('ascii')}"
