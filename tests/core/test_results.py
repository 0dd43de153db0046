from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.core.result import (
    MAResetResult,
    MAStepResult,
    ResetResult,
    StepResult,
    VecResetResult,
    VecStepResult,
)

FLAGS = np.array([True, False])

RESULTS: list[Any] = [
    StepResult(np.arange(3.0), 1.5, False, True, {"weights": np.ones(2)}),
    ResetResult({"prices": np.arange(3.0), "regime": 2}, {"day": "monday"}),
    VecStepResult(np.ones((2, 3)), np.ones(2), FLAGS, ~FLAGS, [{}, {"a": 1}]),
    VecResetResult(np.ones((2, 3)), [{}, {}]),
    MAStepResult({"a": np.ones(2)}, {"a": 1.0}, {"a": False}, {"a": False}, {"a": {}}),
    MAResetResult({"a": np.ones(2)}, {"a": {}}),
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
class TestEveryResult:
    def test_is_a_dataclass_whose_fields_can_be_listed(self, result: Any) -> None:
        assert dataclasses.is_dataclass(type(result))
        names = [field.name for field in dataclasses.fields(result)]
        assert names == list(type(result).__match_args__)

    def test_cannot_be_changed(self, result: Any) -> None:
        name = dataclasses.fields(result)[0].name

        with pytest.raises(dataclasses.FrozenInstanceError, match=name):
            setattr(result, name, None)
        with pytest.raises(dataclasses.FrozenInstanceError, match=name):
            delattr(result, name)

    def test_has_no_room_for_other_attributes(self, result: Any) -> None:
        assert not hasattr(result, "__dict__")
        with pytest.raises((AttributeError, TypeError)):
            result.another = 1

    def test_unpacks_in_the_order_of_its_fields(self, result: Any) -> None:
        fields = [getattr(result, field.name) for field in dataclasses.fields(result)]

        unpacked = [*result]

        assert len(unpacked) == len(fields)
        assert all(one is other for one, other in zip(unpacked, fields, strict=True))

    def test_equals_its_copy_by_value(self, result: Any) -> None:
        assert copy.deepcopy(result) == result
        assert pickle.loads(pickle.dumps(result)) == result

    def test_differs_when_one_number_differs(self, result: Any) -> None:
        first = dataclasses.fields(result)[0].name

        assert dataclasses.replace(result, **{first: np.array([9.0])}) != result
        assert result != "something else"

    def test_is_not_hashable(self, result: Any) -> None:
        with pytest.raises(TypeError, match="unhashable"):
            hash(result)

    def test_shows_its_fields(self, result: Any) -> None:
        shown = repr(result)

        assert shown.startswith(type(result).__name__ + "(")
        assert all(f"{field.name}=" in shown for field in dataclasses.fields(result))


@given(terminated=st.booleans(), truncated=st.booleans())
def test_a_step_is_done_when_terminated_or_truncated(terminated: bool, truncated: bool) -> None:
    assert StepResult(0, 0.0, terminated, truncated, {}).done is (terminated or truncated)


def test_a_step_result_takes_its_arguments_by_position_and_by_name() -> None:
    by_name = StepResult(observation=1, reward=2.0, terminated=False, truncated=True, info={})

    assert StepResult(1, 2.0, False, truncated=True, info={}) == by_name
    with pytest.raises(TypeError, match="info"):
        StepResult(1, 2.0, False, True)  # type: ignore[call-arg]


def test_results_can_be_taken_apart_by_pattern_matching() -> None:
    match StepResult(1, 2.0, False, True, {}):
        case StepResult(observation, reward, _, truncated=truncated):
            assert (observation, reward, truncated) == (1, 2.0, True)
        case _:
            pytest.fail("the pattern did not match")


def test_a_step_and_a_reset_unpack_like_gymnasium_s_tuples() -> None:
    observation, reward, terminated, truncated, info = StepResult(1, 2.0, False, True, {"a": 3})
    first, reported = ResetResult(4, {"b": 5})

    assert (observation, reward, terminated, truncated, info) == (1, 2.0, False, True, {"a": 3})
    assert (first, reported) == (4, {"b": 5})
    with pytest.raises(ValueError, match="too many values"):
        first, reported = StepResult(1, 2.0, False, True, {})


def test_results_name_their_type_parameter() -> None:
    assert StepResult[int].__origin__ is StepResult  # type: ignore[attr-defined]
    assert ResetResult[int].__origin__ is ResetResult  # type: ignore[attr-defined]


def test_a_result_that_is_part_of_a_cycle_is_collected() -> None:
    class Holder:
        pass

    holder = Holder()
    holder.result = StepResult(holder, 0.0, False, False, {})  # type: ignore[attr-defined]
    watched = weakref.ref(holder)

    del holder
    gc.collect()

    assert watched() is None


def test_equal_values_treats_nan_as_equal_to_itself() -> None:
    nan = float("nan")

    assert StepResult(np.array([nan]), nan, False, False, {"x": nan}) == StepResult(
        np.array([nan]), nan, False, False, {"x": nan}
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.ones(2), np.ones(3)),
        (np.ones(2, np.float32), np.ones(2, np.float64)),
        ({"a": 1}, {"b": 1}),
        ([1, 2], (1, 2)),
        ((1, 2), (1, 2, 3)),
        (np.array([None, 1]), np.array([None, 2])),
        (1.0, 2.0),
        ("a", 1),
    ],
)
def test_unequal_observations_make_unequal_results(left: Any, right: Any) -> None:
    assert ResetResult(left, {}) != ResetResult(right, {})
    assert ResetResult(left, {}) == ResetResult(copy.deepcopy(left), {})


def test_dones_of_a_batch_join_both_flags() -> None:
    result = VecStepResult(
        np.zeros(3), np.zeros(3), np.array([1, 0, 0], bool), np.array([0, 1, 0], bool), [{}] * 3
    )

    assert result.dones.tolist() == [True, True, False]


def test_flags_of_agents_are_paired_by_name_not_by_position() -> None:
    result = MAStepResult({}, {}, {"a": True, "b": False}, {"b": True, "a": False, "c": False}, {})

    assert result.dones == {"a": True, "b": True, "c": False}
    assert result.any_done
    assert not result.all_done


def test_nobody_left_is_all_done() -> None:
    assert MAStepResult({}, {}, {}, {}, {}).all_done
    assert not MAStepResult({}, {}, {}, {}, {}).any_done


def test_flags_that_are_neither_true_nor_false_are_refused() -> None:
    with pytest.raises(TypeError, match="truncated must be a bool, got <class 'numpy.ndarray'>"):
        StepResult(0, 0.0, False, np.zeros(2, bool), {})  # type: ignore[arg-type]
