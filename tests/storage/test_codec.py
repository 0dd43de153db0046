"""The codec of data files: what it writes it reads, and bounds hold on both sides."""

from __future__ import annotations

import json
import math
import struct
from collections import deque
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.market import Costs
from sekai.storage.arrays import check_space
from sekai.storage.codec import BIT_GENERATORS, DEPTH, from_text, to_text
from sekai.storage.strict_json import NODES, decode_record, encode_record, parse_json


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


FLOATS = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 5e-324, 1.7e308]
FLOATS.append(struct.unpack(">d", bytes.fromhex("7ff0000000abcdef"))[0])


@pytest.mark.parametrize("value", FLOATS, ids=lambda value: bits(value).hex())
def test_floats_keep_their_bits_in_files_and_in_records(value: float) -> None:
    assert bits(from_text(to_text(value))) == bits(value)
    assert bits(decode_record(encode_record({"x": [value]}))["x"][0]) == bits(value)


def test_records_and_files_share_their_tags() -> None:
    record = {
        "array": np.arange(3.0),
        "scalar": np.datetime64(5, "ns"),
        "float": math.nan,
        "bytes": b"x",
        "pairs": {1: 2},
    }

    assert json.loads(encode_record(record)) == json.loads(to_text(record))


VALUES = [
    deque([1, (2,)], maxlen=3),
    deque(),
    Decimal("1.10"),
    datetime(2026, 1, 2, tzinfo=timezone.utc),
    date(2026, 1, 2),
    timedelta(days=-1, microseconds=3),
    {(1, 2), (3,)},
    Path("a/b"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_survive(value: Any) -> None:
    again = from_text(to_text(value))

    assert again == value
    assert type(again) is type(value)
    assert getattr(again, "maxlen", None) == getattr(value, "maxlen", None)


@pytest.mark.parametrize("kind", BIT_GENERATORS)
def test_a_generator_continues(kind: str) -> None:
    generator = np.random.Generator(getattr(np.random, kind)())
    generator.random(7)

    again = from_text(to_text(generator))

    assert again.random() == generator.random()


@pytest.mark.parametrize(
    "value",
    [
        {"$generator": {"bit_generator": "test"}},
        {"$generator": {"bit_generator": "seed", "state": 1}},
        {"$generator": {"bit_generator": "PCG64", "state": 1}},
        {"$generator": 3},
        {"$deque": [-5, []]},
        {"$deque": [1.0, []]},
        {"$datetime": "yesterday"},
        {"$decimal": "much"},
        {"$float": "3ff0000000000000"},
        {"$array": ["<f8", [1], "AAAA"]},
        {"$array": ["<f8", [1], "AAAAAAAAAAA=", "zlib"]},
    ],
    ids=str,
)
def test_malformed_values_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - messages differ
        from_text(json.dumps(value))


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
        parse_json("[" + "0," * (NODES + 1) + "0]")
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
