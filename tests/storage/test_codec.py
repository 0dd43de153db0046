"""The codec of data files: what it writes it reads, and bounds hold on both sides."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sekai.market import Costs
from sekai.storage.codec import DEPTH, from_text, to_text
from sekai.storage.space_size import check_space
from sekai.storage.strict_json import NODES, parsed

NESTS: dict[str, Callable[[Any], Any]] = {
    "list": lambda value: [value],
    "tuple": lambda value: (value,),
    "dict": lambda value: {"a": value},
    "pairs": lambda value: {1: value},
    "object": lambda value: Costs(fixed=value),
}


@pytest.mark.parametrize("nest", NESTS)
def test_every_depth_that_can_be_written_can_be_read(nest: str) -> None:
    value: Any = 0
    for _ in range(DEPTH):
        value = NESTS[nest](value)

    assert from_text(to_text(value)) == value
    with pytest.raises(ValueError, match=f"at most {DEPTH} levels"):
        to_text(NESTS[nest](value))


@pytest.mark.parametrize("text", ["[" * 10**6, "[" * 3000 + "]" * 3000, '{"a":' * 10**5])
def test_deep_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - JSON has words of its own for some
        from_text(text)


def test_many_values_are_refused_on_both_sides() -> None:
    with pytest.raises(ValueError, match="too many values"):
        parsed("[" + "0," * (NODES + 1) + "0]")
    with pytest.raises(ValueError, match="too many values"):
        to_text([0] * (NODES + 1))


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 1}', "NaN", "[Infinity]", "9" * 400, '{"$float": "1"}', "1e999", '"\\ud800'],
)
def test_json_that_is_not_strict_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - JSON has words of its own for some
        from_text(text)


def box(shape: Any) -> dict[str, Any]:
    return {"type": "Box", "low": 0.0, "high": 1.0, "shape": shape, "dtype": "float32"}


@pytest.mark.parametrize(
    "space",
    [
        box([2**25]),
        box([2**13, 2**13]),
        box([0, 2**62]),
        box([-1]),
        box([True]),
        box([2.0]),
        box("x"),
        box([1] * 40),
        {**box([1]), "dtype": "object"},
        {**box([1]), "low": 2**100},
        {"type": "Discrete", "n": 2**30, "start": 0},
        {"type": "MultiDiscrete", "nvec": 2**20, "start": 0, "shape": [2**10]},
        {"type": "MultiDiscrete", "nvec": [2**23] * 3, "start": 0, "shape": [3]},
        {"type": "MultiBinary", "n": [2**20, 2**20]},
        {"type": "Tuple", "spaces": [box([2**23])] * 3},
    ],
    ids=str,
)
def test_a_space_without_bounds_is_refused(space: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        check_space(space)
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        from_text(json.dumps({"$space": space}))
