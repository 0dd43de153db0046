"""Specs as JSON: exact, strict, and without import paths."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sekai.error import UnknownEnvError
from sekai.registry import EnvSpec, WrapperSpec, register, register_kind
from sekai.spaces import Box, Dict, Discrete
from sekai.wrappers import RecordEpisodeStatistics, TimeLimit, TransformReward
from tests.worlds import RandomWalk


class Side(enum.Enum):
    BUY = 1
    SELL = -1


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A class that nobody registers."""


@dataclasses.dataclass(frozen=True)
class Fees:
    rate: float
    sides: tuple[Side, ...] = (Side.BUY,)
    table: Any = None


class Loud(RecordEpisodeStatistics[Any, Any]):
    """A wrapper of a user."""


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
    | st.sampled_from([double, Side, Side.SELL, Fees, Loud, np.float32, np.str_, float, bool])
    | st.sampled_from([np.dtype("<f4"), np.dtype("M8[ns]"), np.dtype([("a", "i4"), ("b", "f8")])])
    | st.builds(pathlib.Path, st.from_regex(r"[a-z]{1,5}", fullmatch=True))
    | st.builds(Fees, st.floats(allow_nan=False), st.just((Side.SELL, Side.BUY)))
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
LAYERS = st.sampled_from([TimeLimit, TransformReward, "sekai.wrappers.time_limit:TimeLimit", Loud])
SPECS = st.builds(
    EnvSpec,
    id=st.just("Walk-v0"),
    entry_point=st.sampled_from([RandomWalk, "tests.worlds:RandomWalk"]),
    max_episode_steps=st.none() | st.integers(1, 10**9),
    reward_threshold=st.none() | st.floats(),
    kwargs=KWARGS,
    order_enforce=st.booleans(),
    validate_actions=st.booleans(),
    nondeterministic=st.booleans(),
    wrappers=st.lists(
        st.builds(WrapperSpec, LAYERS, KWARGS, st.lists(VALUES, max_size=2).map(tuple)), max_size=2
    ).map(tuple),
)


@pytest.fixture(autouse=True)
def registered(clean_registry: None) -> None:
    register("Walk-v0", RandomWalk)
    register_kind("tests.Side", Side)
    register_kind("tests.Fees", Fees)
    register_kind("tests.Loud", Loud)
    register_kind("double", double)


def round_trip(value: Any) -> Any:
    spec = EnvSpec("Walk-v0", RandomWalk, kwargs={"value": value})
    return EnvSpec.from_json(spec.to_json()).kwargs["value"]


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


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
    spec = EnvSpec("Walk-v0", RandomWalk, kwargs={"s": space})
    assert EnvSpec.from_json(spec.to_json()) == spec


def test_a_dataclass_with_arrays_survives_and_compares() -> None:
    costs = Fees(0.1, table=np.arange(3))
    spec = EnvSpec("Walk-v0", RandomWalk, kwargs={"costs": costs})

    read = EnvSpec.from_json(spec.to_json())

    assert read == spec
    assert np.array_equal(round_trip(costs).table, costs.table)
    other = dataclasses.replace(costs, table=np.arange(4))
    assert read != EnvSpec("Walk-v0", RandomWalk, kwargs={"costs": other})


@pytest.mark.parametrize(
    "change",
    [
        {"max_episode_steps": 4},
        {"reward_threshold": 1.0},
        {"kwargs": {"noise": np.float32(0.5)}},
        {"order_enforce": False},
        {"validate_actions": False},
        {"nondeterministic": True},
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
    "change",
    [{"id": "Other-v0"}, {"entry_point": "tests.worlds:Market"}, {"vector_entry_point": "a:b"}],
)
def test_another_env_is_not_equal(change: dict[str, Any]) -> None:
    spec = EnvSpec("Walk-v0", RandomWalk)

    assert dataclasses.replace(spec, **change) != spec


@pytest.mark.parametrize(
    "function", [lambda reward: reward, functools.partial(double), np.tanh, os.system, identical]
)
def test_a_function_that_is_not_registered_is_named_in_the_error(function: Any) -> None:
    layer = WrapperSpec(TransformReward, {"fn": function})
    spec = EnvSpec("Walk-v0", RandomWalk, wrappers=(layer,))

    with pytest.raises(ValueError, match=r"'fn' of the wrapper TransformReward .*register_kind"):
        spec.to_json()


def test_a_dataclass_that_is_not_registered_is_named_in_the_error() -> None:
    spec = EnvSpec("Walk-v0", RandomWalk, kwargs={"fees": Unknown()})

    with pytest.raises(ValueError, match=r"'fees' of Walk-v0 is of type Unknown.*register_kind"):
        spec.to_json()


def test_a_wrapper_that_is_not_registered_is_named_in_the_error() -> None:
    spec = EnvSpec("Walk-v0", RandomWalk, wrappers=(WrapperSpec("os:system"),))

    with pytest.raises(ValueError, match=r"wrapper system is neither .*register_kind"):
        spec.to_json()


def test_a_spec_of_an_unregistered_env_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="'Walker-v0' is not registered.*'Walk-v0'"):
        EnvSpec("Walker-v0", RandomWalk).to_json()


@pytest.mark.parametrize("name", ["entry_point", "vector_entry_point"])
def test_a_spec_with_another_entry_point_cannot_be_written(name: str) -> None:
    change: dict[str, Any] = {name: lambda: RandomWalk()}
    spec = dataclasses.replace(EnvSpec("Walk-v0", RandomWalk), **change)

    with pytest.raises(ValueError, match=f"the {name} of Walk-v0 is <function"):
        spec.to_json()


def test_an_unregistered_id_in_a_file_is_unknown_and_the_nearest_is_named() -> None:
    text = EnvSpec("Walk-v0", RandomWalk).to_json().replace("Walk-v0", "Wall-v0")

    with pytest.raises(UnknownEnvError, match="'Walk-v0'"):
        EnvSpec.from_json(text)


def test_entry_points_are_those_of_the_registered_spec() -> None:
    register("Fast-v0", RandomWalk, vector_entry_point="a:b")

    read = EnvSpec.from_json(EnvSpec("Fast-v0", RandomWalk, vector_entry_point="a:b").to_json())

    assert (read.entry_point, read.vector_entry_point) == (RandomWalk, "a:b")


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


def written() -> dict[str, Any]:
    description: dict[str, Any] = json.loads(EnvSpec("Walk-v0", RandomWalk).to_json())
    return description


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": 1}, "has the keys"),
        ({"format": "sekai spec 1"}, "expected the format"),
        ({"order_enforce": 1}, "must be true or false"),
        ({"id": "a b"}, "must look like"),
        ({"id": 7}, "must be text"),
        ({"entry_point": "os:system"}, "has the keys"),
        ({"max_episode_steps": -1}, "at least 1"),
        ({"max_episode_steps": 1.5}, "at least 1"),
        ({"reward_threshold": "x"}, "must be a number"),
        ({"kwargs": []}, "must be an object"),
        ({"kwargs": {"$tuple": []}}, "must be a mapping of names"),
        ({"wrappers": {}}, "must be an object"),
        ({"kwargs": {"x": {"$pickle": "gASV"}}}, "unknown tag"),
        ({"kwargs": {"x": {"$import": "os:system"}}}, "unknown tag"),
        ({"kwargs": {"x": {"$dataclass": ["os:system", {}]}}}, "unknown tag"),
        ({"kwargs": {"x": {"$float": "1e5"}}}, "'inf', '-inf', 'nan'"),
        ({"kwargs": {"x": {"$dtype": "|O"}}}, "unknown dtype"),
        ({"kwargs": {"x": {"$dtype": "f8,(2,)f8"}}}, "unknown dtype"),
        ({"kwargs": {"x": {"$tuple": [], "more": 1}}}, "unknown tag"),
        ({"kwargs": {"x": {"$object": ["os:system", {}]}}}, "unknown kind"),
        ({"kwargs": {"x": {"$object": ["tests.Fees", {"rate": 1, "x": 2}]}}}, "unknown fields"),
        ({"kwargs": {"x": {"$object": ["tests.Fees", {}]}}}, "cannot build tests.Fees"),
        ({"kwargs": {"x": {"$object": ["double", {}]}}}, "expected a class, got the function"),
        ({"kwargs": {"x": {"$object": ["AgentConfig", {"account": 7}]}}}, "account"),
        ({"kwargs": {"x": {"$kind": "Costs"}}}, "unknown kind"),
        ({"kwargs": {"x": {"$enum": ["tests.Side", "mro"]}}}, "has no member"),
        ({"kwargs": {"x": {"$enum": ["tests.Fees", "rate"]}}}, "has no member"),
        ({"kwargs": {"x": {"$type": "numpy.object_"}}}, "unknown type"),
        ({"wrappers": [{"entry_point": "a:b"}]}, "a wrapper has the keys"),
        ({"wrappers": [{"name": "os:system", "kwargs": {}, "args": []}]}, "unknown wrapper"),
        ({"wrappers": [{"name": "Costs", "kwargs": {}, "args": []}]}, "unknown wrapper"),
        ({"kwargs": {"x": float("nan")}}, "strict JSON, got NaN"),
        ({"kwargs": {"x": 10**400}}, "400 digits|401 digits"),
    ],
)
def test_bad_json_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EnvSpec.from_json(json.dumps({**written(), **change}))


def test_duplicate_keys_are_refused() -> None:
    text = json.dumps(written())

    with pytest.raises(ValueError, match="duplicate key 'id'"):
        EnvSpec.from_json(f'{text[:-1]}, "id": "Walk-v0"}}')


def test_reading_a_spec_imports_no_entry_point() -> None:
    script = (
        "import sys\nfrom sekai.registry import EnvSpec, register\n"
        "register('Hue-v0', 'colorsys:rgb_to_hsv')\n"
        "text = EnvSpec('Hue-v0', 'colorsys:rgb_to_hsv').to_json()\n"
        "EnvSpec.from_json(text).to_json()\nassert 'colorsys' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", script], check=True)


def test_times_keep_their_zone() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=9))

    assert round_trip(datetime.datetime(2024, 1, 2, 3, tzinfo=zone)).utcoffset().seconds == 9 * 3600
