"""The JSON of spaces: exact, strict, and helpful when it is wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Simplex, Space

FINE = Box(0.1, np.inf, (2,)).to_jsonable()


@pytest.mark.parametrize(
    ("space", "description"),
    [
        (
            Box(-np.inf, [1, 2], dtype=np.int8),
            {"type": "Box", "low": -128, "high": [1, 2], "shape": [2], "dtype": "int8"},
        ),
        (
            Box(-np.inf, np.inf, (3,)),
            {"type": "Box", "low": "-inf", "high": "inf", "shape": [3], "dtype": "float32"},
        ),
        (Discrete(3, start=-1), {"type": "Discrete", "n": 3, "start": -1}),
        (
            MultiDiscrete([2, 3]),
            {"type": "MultiDiscrete", "nvec": [2, 3], "start": 0, "shape": [2]},
        ),
        (MultiBinary((2, 3)), {"type": "MultiBinary", "n": [2, 3]}),
        (Simplex(3, 0.5), {"type": "Simplex", "n": 3, "caps": 0.5, "dtype": "float64"}),
        (
            Dict(b=Discrete(2)),
            {"type": "Dict", "spaces": [["b", {"type": "Discrete", "n": 2, "start": 0}]]},
        ),
    ],
)
def test_a_space_describes_itself(space: Space[Any], description: dict[str, Any]) -> None:
    assert space.to_jsonable() == description
    assert Space.from_jsonable(description) == space


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_no_bit_of_a_float_is_lost(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    low = -rng.random(200).astype(dtype) * np.finfo(dtype).max
    high = np.append(rng.random(197), [np.finfo(dtype).tiny, np.inf, np.finfo(dtype).max])
    space = Box(low, high.astype(dtype), dtype=dtype)

    rebuilt = Box.from_jsonable(json.loads(json.dumps(space.to_jsonable(), allow_nan=False)))

    assert rebuilt.low.tobytes() == space.low.tobytes()
    assert rebuilt.high.tobytes() == space.high.tobytes()


def test_no_bit_of_a_64_bit_integer_is_lost() -> None:
    unsigned = Box([0, 2**63 + 1], [2**64 - 1, 2**64 - 3], dtype=np.uint64)
    signed = Box([-(2**63), -(2**53) - 1], [2**63 - 1, 2**53 + 1], dtype=np.int64)

    for space in (unsigned, signed):
        rebuilt = Box.from_jsonable(json.loads(json.dumps(space.to_jsonable())))
        assert rebuilt.low.tolist() == space.low.tolist()
        assert rebuilt.high.tolist() == space.high.tolist()


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({**FINE, "type": "Bax"}, "'type' must be one of .*'Box'.* got 'Bax'"),
        ({**FINE, "type": ["Box"]}, "'type' must be one of"),
        ({"low": 0}, "an object with the key 'type'"),
        ([], r"an object with the key 'type', got \[\]"),
        ({**FINE, "hgih": 1}, r"has the keys \['dtype', 'high', 'low', 'shape'\].*'hgih'"),
        ({"type": "Box", "low": 0}, r"has the keys .* got \['low'\]"),
        ({**FINE, "low": [0, 0, 0]}, "'low' must hold 2 numbers, got 3"),
        ({**FINE, "low": "zero"}, "'low' must hold numbers, 'inf' or '-inf', got 'zero'"),
        ({**FINE, "low": None}, "'low' must hold numbers"),
        ({**FINE, "low": float("nan")}, "low must not be NaN"),
        ({**FINE, "dtype": "float33"}, "dtype must be bool, integer"),
        ({**FINE, "shape": "ab"}, "each size in shape must be an integer"),
        ({"type": "Discrete", "n": "3", "start": 0}, "n must be an integer"),
        ({"type": "Dict", "spaces": {"a": 1}}, "must be a list of .* pairs"),
        ({"type": "Dict", "spaces": [["a"]]}, "must be a list of .* pairs"),
        ({"type": "Dict", "spaces": [["a", 3]]}, "an object with the key 'type', got 3"),
        ({"type": "Dict", "spaces": [[1, {}]]}, "must be a list of .* pairs"),
        ({"type": "Dict", "spaces": [["a", FINE], ["a", FINE]]}, "names must be unique"),
        ({"type": "Tuple", "spaces": {}}, "must be a list of spaces"),
    ],
)
def test_a_wrong_description_says_what_was_wanted(description: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Space.from_jsonable(description)


def test_the_description_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the JSON of a Discrete, got Box"):
        Discrete.from_jsonable(FINE)
    with pytest.raises(ValueError, match="expected the JSON of a Box, got MaskedBox"):
        Box.from_jsonable(MaskedBox(0, 1, (2,)).to_jsonable())
