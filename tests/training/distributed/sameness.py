"""Whether two trees of arrays are the same, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def assert_same(one: Any, other: Any, where: str = "") -> None:
    if isinstance(one, dict):
        assert list(one) == list(other), where
        for name in one:
            assert_same(one[name], other[name], f"{where}/{name}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for place, (first, second) in enumerate(zip(one, other, strict=True)):
            assert_same(first, second, f"{where}/{place}")
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other), where
    elif isinstance(one, np.ndarray):
        assert one.tobytes() == other.tobytes(), where
    else:
        assert one == other, where
