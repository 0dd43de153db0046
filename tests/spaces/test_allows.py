from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Simplex, Tuple
from sekai.spaces.masks import allows

SLOTS = {"values": np.zeros((2, 1), np.float32), "mask": np.array([True, False])}

CASES: list[tuple[Any, Any, Any, Any]] = [
    (Discrete(3, start=-1), np.array([1, 0, 1], np.int8), np.intp(1), np.intp(0)),
    (
        MultiDiscrete([2, 3]),
        (np.array([0, 1]), np.array([1, 1, 0])),
        np.array([1, 1]),
        np.array([1, 2]),
    ),
    (
        MultiBinary(3),
        np.array([0, 1, 2], np.int8),
        np.array([0, 1, 1], np.int8),
        np.array([1, 1, 1], np.int8),
    ),
    (Simplex(3), np.array([1, 0, 1]), np.array([0.5, 0.0, 0.5]), np.array([0.5, 0.25, 0.25])),
    (
        MaskedBox(0.0, 1.0, shape=(2, 1), dtype=np.float32),
        np.array([True, False]),
        SLOTS,
        {"values": np.zeros((2, 1), np.float32), "mask": np.array([True, True])},
    ),
    (
        Dict({"side": Discrete(2), "size": Discrete(3)}),
        {"side": np.array([1, 0])},
        {"side": 0, "size": 2},
        {"side": 1, "size": 2},
    ),
    (Tuple([Discrete(2), Discrete(2)]), (np.array([1, 0]), None), (0, 1), (1, 1)),
]


@pytest.mark.parametrize(("space", "mask", "right", "wrong"), CASES)
def test_a_mask_allows_what_could_be_sampled_under_it(
    space: Any, mask: Any, right: Any, wrong: Any
) -> None:
    assert allows(space, mask, right)
    assert not allows(space, mask, wrong)
    assert allows(space, None, wrong)


@pytest.mark.parametrize(("space", "mask", "right", "wrong"), CASES)
def test_every_masked_sample_is_allowed(space: Any, mask: Any, right: Any, wrong: Any) -> None:
    space.seed(0)

    assert all(allows(space, mask, space.sample(mask=mask)) for _ in range(50))


def test_a_box_has_no_masks() -> None:
    assert allows(Box(0, 1, (2,)), None, np.zeros(2, np.float32))
    with pytest.raises(TypeError, match=r"Box has no mask rule; .*allows\.register"):
        allows(Box(0, 1, (2,)), np.ones(2), np.zeros(2, np.float32))
