"""Infos: a list of dicts to its readers, columns to those in a hurry."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from sekai.vector import Column, Infos, stack_infos
from sekai.vector.infos import ColumnInfos, DictInfos
from tests.vector.worlds import ALL_BACKENDS, Drifter, build

DICTS: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": 2}, {"a": 3, "b": "y"}]


def columns() -> ColumnInfos:
    return ColumnInfos(
        3,
        {
            "a": Column(np.arange(3), np.array([1, 2, 3])),
            "b": Column(np.array([0, 2]), ["x", "y"]),
        },
    )


@pytest.mark.parametrize("infos", [DictInfos(list(DICTS)), columns()])
def test_infos_behave_as_a_list_of_dicts(infos: Infos) -> None:
    assert len(infos) == 3
    assert infos[0] == {"a": 1, "b": "x"}
    assert infos[-1] == {"a": 3, "b": "y"}
    assert infos[1:] == [{"a": 2}, {"a": 3, "b": "y"}]
    assert [info["a"] for info in infos] == [1, 2, 3]
    assert infos == DICTS
    assert infos != DICTS[:2]
    assert infos == DictInfos(list(DICTS))
    assert repr(infos).startswith("[{")
    assert next(reversed(infos)) == {"a": 3, "b": "y"}
    assert pickle.loads(pickle.dumps(infos)) == copy.deepcopy(infos) == DICTS
    with pytest.raises(IndexError):
        infos[3]
    with pytest.raises(TypeError):
        hash(infos)


@pytest.mark.parametrize("infos", [DictInfos(list(DICTS)), columns()])
def test_columns_say_who_has_the_key(infos: Infos) -> None:
    column = infos.column("b")

    assert column.indices.tolist() == [0, 2]
    assert list(column.values) == ["x", "y"]
    assert list(infos.keys()) == ["a", "b"]
    assert len(infos.column("no such").indices) == 0
    assert infos.value(2, "b") == "y"
    assert infos.value(1, "b") is None
    assert infos.value(0, "no such") is None


def test_columns_build_no_dicts() -> None:
    infos = columns()

    stacked = stack_infos(infos)
    infos.updated({1: {"b": "z"}}).column("b")

    assert stacked["a"].tolist() == [1, 2, 3]
    assert infos._built is None


@pytest.mark.parametrize("infos", [DictInfos(list(DICTS)), columns()])
def test_updated_infos_leave_the_first_ones_alone(infos: Infos) -> None:
    updated = infos.updated({1: {"b": "z", "c": 0.5}})

    assert updated.column("b").indices.tolist() == [0, 1, 2]
    assert list(updated.column("b").values) == ["x", "z", "y"]
    assert updated.value(1, "c") == 0.5
    assert updated.value(0, "a") == 1
    assert list(updated.keys()) == ["a", "b", "c"]
    assert updated[1] == {"a": 2, "b": "z", "c": 0.5}
    assert len(updated) == 3
    assert infos == DICTS
    assert infos.updated({}) is infos


def test_complete_columns_are_typed_arrays() -> None:
    stacked = stack_infos(
        [
            {"pnl": 0.5, "count": 1, "up": True, "name": "a", "weights": np.zeros(2)},
            {"pnl": 1.5, "count": 2, "up": False, "name": "bc", "weights": np.ones(2)},
        ]
    )

    assert stacked["pnl"].dtype == np.float64
    assert stacked["count"].dtype == np.int64
    assert stacked["up"].dtype == np.bool_
    assert stacked["name"].tolist() == ["a", "bc"]
    assert stacked["weights"].tolist() == [[0, 0], [1, 1]]


def test_a_missing_value_is_none_and_the_column_holds_objects() -> None:
    stacked = stack_infos([{"a": 1}, {"a": 2, "b": np.zeros(2)}, {}])

    assert stacked["a"].dtype == object
    assert stacked["a"].tolist() == [1, 2, None]
    assert stacked["b"][0] is None
    assert stacked["b"][1].tolist() == [0, 0]


def test_a_missing_value_can_be_chosen() -> None:
    stacked = stack_infos([{"a": 1}, {}], missing=np.nan)

    assert stacked["a"].dtype == np.float64
    assert np.isnan(stacked["a"][1])


@pytest.mark.parametrize(
    "values",
    [
        [{"x": 1}, {"x": 2}],
        [np.zeros(2), np.zeros(3)],
        [[1, 2], [3, 4]],
        [1, "one"],
        [None, 1],
    ],
)
def test_values_without_a_common_type_stay_objects(values: list[Any]) -> None:
    stacked = stack_infos([{"key": value} for value in values])["key"]

    assert (stacked.dtype, stacked.shape) == (np.dtype(object), (2,))
    assert stacked[0] is values[0]


def test_nothing_stacks_to_nothing() -> None:
    assert stack_infos([]) == {}
    assert stack_infos([{}, {}]) == {}


@pytest.mark.parametrize("backend", ALL_BACKENDS)
def test_the_infos_of_a_step_can_be_stacked(backend: str) -> None:
    with build(backend, [Drifter] * 3) as vec:
        vec.reset(seed=0)
        result = vec.step([0, 0, 0])
        assert isinstance(result.infos, Infos)
        stacked = stack_infos(result.infos)

    assert [value for value in stacked["steps"] if value is not None] == [1] * len(
        result.infos.column("steps").indices
    )
