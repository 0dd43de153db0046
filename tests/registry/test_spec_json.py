"""Specs as JSON: exact, strict, and nothing imported before an env is made."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
import math
import operator
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sekai.registry import EnvSpec, WrapperSpec
from sekai.registry.deferred import Deferred, resolved
from sekai.spaces import Box, Dict, Discrete
from sekai.wrappers import TimeLimit, TransformReward
from tests.worlds import RandomWalk


class Side(enum.Enum):
    BUY = 1
    SELL = -1


@dataclasses.dataclass(frozen=True)
class Costs:
    rate: float
    sides: tuple[Side, ...] = (Side.BUY,)
    table: Any = None


def double(reward: float) -> float:
    return 2 * reward


NUMBERS = st.integers() | st.floats() | st.complex_numbers()
SIMPLE = (
    st.none()
    | st.booleans()
    | NUMBERS
    | st.text()
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
    | st.sampled_from([double, Side, Side.SELL, np.tanh, math.sqrt, np.float32, operator.neg])
    | st.sampled_from([np.dtype("<f4"), np.dtype("M8[ns]"), np.dtype([("a", "i4"), ("b", "f8")])])
    | st.builds(pathlib.Path, st.from_regex(r"[a-z]{1,5}", fullmatch=True))
    | st.builds(Costs, st.floats(allow_nan=False), st.just((Side.SELL, Side.BUY)))
)
SCALARS = arrays.scalar_dtypes().flatmap(arrays.from_dtype)
ARRAYS = arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0, min_side=0))
KEYS = st.text() | st.integers() | st.none()
VALUES = st.recursive(
    SIMPLE | SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.frozensets(st.integers() | st.text(), max_size=3)
        | st.sets(st.integers() | st.text(), max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
KWARGS = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5})?:[A-Z][a-z]{1,5}", fullmatch=True)
SPECS = st.builds(
    EnvSpec,
    id=st.from_regex(r"([a-z]{1,5}/)?[A-Z][a-z]{1,5}(-v[1-9])?", fullmatch=True),
    entry_point=PATHS | st.just(RandomWalk),
    max_episode_steps=st.none() | st.integers(1, 10**9),
    reward_threshold=st.none() | st.floats(),
    kwargs=KWARGS,
    order_enforce=st.booleans(),
    validate_actions=st.booleans(),
    nondeterministic=st.booleans(),
    vector_entry_point=st.none() | PATHS,
    wrappers=st.lists(
        st.builds(
            WrapperSpec, PATHS | st.just(TimeLimit), KWARGS, st.lists(VALUES, max_size=2).map(tuple)
        ),
        max_size=2,
    ).map(tuple),
)


def round_trip(value: Any) -> Any:
    spec = EnvSpec("Walk-v0", RandomWalk, kwargs={"value": value})
    return resolved(EnvSpec.from_json(spec.to_json()).kwargs["value"])


def identical(left: Any, right: Any) -> bool:
    """Equal in type and to the last bit, all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (np.ndarray, np.generic)):
        same_kind = left.dtype == right.dtype and left.shape == right.shape
        return bool(same_kind and left.tobytes() == right.tobytes())
    if isinstance(left, dict):
        return list(left) == list(right) and all(identical(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(identical, left, right))
    if isinstance(left, (float, complex)):
        return repr(left) == repr(right)
    return bool(left == right)


@given(SPECS)
def test_a_spec_equals_itself_read_back_from_strict_json(spec: EnvSpec) -> None:
    text = spec.to_json()
    json.loads(text, parse_constant=pytest.fail)

    read = EnvSpec.from_json(text)

    assert read == spec
    assert spec == read
    assert hash(read) == hash(spec)
    assert read.to_json() == text


@given(VALUES)
def test_an_argument_survives_to_the_last_bit(value: Any) -> None:
    assert identical(round_trip(value), value)


@pytest.mark.parametrize(
    "space",
    [Box(-np.inf, 1.0, shape=(2,)), Dict({"a": Discrete(3, start=-1), "b": Box(0, 1, (1,))})],
)
def test_a_space_survives(space: Any) -> None:
    assert round_trip(space) == space
    assert EnvSpec("A", RandomWalk, kwargs={"s": space}) == EnvSpec.from_json(
        EnvSpec("A", RandomWalk, kwargs={"s": space}).to_json()
    )


def test_a_dataclass_with_arrays_survives_and_compares() -> None:
    costs = Costs(0.1, table=np.arange(3))
    spec = EnvSpec("Walk-v0", RandomWalk, kwargs={"costs": costs})

    read = EnvSpec.from_json(spec.to_json())

    assert read == spec
    assert np.array_equal(round_trip(costs).table, costs.table)
    other = dataclasses.replace(costs, table=np.arange(4))
    assert read != EnvSpec("Walk-v0", RandomWalk, kwargs={"costs": other})


@pytest.mark.parametrize(
    "change",
    [
        {"id": "Other-v0"},
        {"entry_point": "tests.worlds:Market"},
        {"max_episode_steps": 4},
        {"reward_threshold": 1.0},
        {"kwargs": {"noise": np.float32(0.5)}},
        {"order_enforce": False},
        {"validate_actions": False},
        {"nondeterministic": True},
        {"vector_entry_point": "a:b"},
        {"wrappers": (WrapperSpec(TimeLimit, {"max_episode_steps": 3}),)},
    ],
)
def test_specs_that_differ_are_not_equal(change: dict[str, Any]) -> None:
    spec = EnvSpec("Walk-v0", RandomWalk, kwargs={"noise": 0.5})

    assert dataclasses.replace(spec, **change) != spec
    assert EnvSpec.from_json(dataclasses.replace(spec, **change).to_json()) != spec


def test_a_class_equals_its_import_path() -> None:
    assert EnvSpec("Walk-v0", RandomWalk) == EnvSpec("Walk-v0", "tests.worlds:RandomWalk")


@pytest.mark.parametrize(
    "function", [lambda reward: reward, functools.partial(double), Costs(1.0).__eq__]
)
def test_code_that_no_import_finds_is_named_in_the_error(function: Any) -> None:
    layer = WrapperSpec(TransformReward, {"fn": function})
    spec = EnvSpec("Walk-v0", RandomWalk, wrappers=(layer,))

    with pytest.raises(
        ValueError, match=r"'fn' of the wrapper TransformReward .*top level of a mod"
    ):
        spec.to_json()


def test_an_env_that_no_import_finds_is_named_in_the_error() -> None:
    spec = EnvSpec("Walk-v0", lambda: RandomWalk())

    with pytest.raises(ValueError, match="the entry_point of Walk-v0 is <function"):
        spec.to_json()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), r"'x' of Walk-v0\['deep'\]\[1\] is of type object"),
        (np.array([object()]), "holds Python objects"),
        (np.dtype(object), "holds Python objects"),
    ],
)
def test_a_value_that_json_cannot_hold_is_named_in_the_error(value: Any, message: str) -> None:
    spec = EnvSpec("Walk-v0", RandomWalk, kwargs={"x": {"deep": [0, value]}})

    with pytest.raises(ValueError, match=message):
        spec.to_json()


GOOD = json.loads(EnvSpec("Walk-v0", RandomWalk).to_json())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": 1}, "has the keys"),
        ({"order_enforce": 1}, "must be true or false"),
        ({"id": "a b"}, "looks like"),
        ({"entry_point": "os.system"}, "looks like 'package.module:Class'"),
        ({"kwargs": {"x": {"$pickle": "gASV"}}}, "one key out of"),
        ({"kwargs": {"x": {"$float": "1e5"}}}, "'inf', '-inf' or 'nan'"),
        ({"kwargs": {"x": {"$dtype": "|O"}}}, "without Python objects"),
        ({"kwargs": {"x": {"$tuple": [], "more": 1}}}, "one key out of"),
        ({"wrappers": [{"entry_point": "a:b"}]}, "a wrapper has the keys"),
        ({"kwargs": {"x": float("nan")}}, "strict JSON was wanted, found NaN"),
    ],
)
def test_bad_json_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EnvSpec.from_json(json.dumps({**GOOD, **change}))


def test_reading_a_spec_imports_nothing() -> None:
    text = EnvSpec(
        "Walk-v0", "colorsys:rgb_to_hsv", kwargs={"x": Side.BUY, "y": double, "s": Discrete(2)}
    ).to_json()
    text = text.replace("tests.registry.test_spec_json", "colorsys")
    script = (
        "import sys\nfrom sekai.registry import EnvSpec\n"
        f"EnvSpec.from_json({text!r}).to_json()\nassert 'colorsys' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("tag", "payload", "message"),
    [
        ("$dataclass", ["os:system", {"command": "true"}], "must be a class"),
        ("$dataclass", ["builtins:list", {}], "must be a dataclass"),
        ("$jsonable", ["builtins:list", {}], "must have a class method from_jsonable"),
        ("$enum", ["builtins:list", "BUY"], "must be a class"),
    ],
)
def test_only_the_kind_of_class_that_was_named_is_called(
    tag: str, payload: list[Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        Deferred(tag, payload).resolve()


def test_times_keep_their_zone() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=9))

    assert round_trip(datetime.datetime(2024, 1, 2, 3, tzinfo=zone)).utcoffset().seconds == 9 * 3600
