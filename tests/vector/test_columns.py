"""Columns: infos that no layer takes apart say the same as dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.core.result import equal_values
from sekai.spaces import Box, Dict, Discrete, Space
from sekai.vector import Infos
from sekai.vector.batching import Batcher
from sekai.vector.infos import ColumnInfos, DictInfos, RowDicts, Rows

ENVS = 4
CHANGES = st.dictionaries(
    st.integers(0, ENVS - 1), st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3)
)


def as_columns(dicts: list[dict[str, Any]]) -> ColumnInfos:
    keys = dict.fromkeys(key for info in dicts for key in info)
    return ColumnInfos(len(dicts), {key: DictInfos(dicts).column(key) for key in keys})


@given(first=CHANGES, changes=st.lists(CHANGES, max_size=3), make=st.sampled_from("cd"))
def test_updated_infos_equal_updated_dicts(
    first: dict[int, dict[str, int]], changes: list[dict[int, dict[str, int]]], make: str
) -> None:
    dicts = [dict(first.get(index, {})) for index in range(ENVS)]
    infos: Infos = as_columns(dicts) if make == "c" else DictInfos(dicts)
    original, before = infos, [dict(info) for info in dicts]
    for change in changes:
        dicts = [{**info, **change.get(index, {})} for index, info in enumerate(dicts)]
        infos = infos.updated(change)

    for key in "abc":
        having = [index for index, info in enumerate(dicts) if key in info]
        column = infos.column(key)
        assert column.indices.tolist() == having
        assert list(column.values) == [dicts[index][key] for index in having]
        for indices in (having, [0, 3], [2]):
            wanted = [dicts[index].get(key) for index in indices]
            assert list(infos.values(indices, key)) == wanted
            assert list(infos.values(np.array(indices, np.int64), key)) == wanted
    assert set(infos.keys()) == {key for info in dicts for key in info}
    assert infos == dicts
    assert original == before


SPACES: dict[str, Space[Any]] = {
    "box": Box(-1.0, 1.0, shape=(2,), dtype=np.float32),
    "number": Box(-1.0, 1.0, shape=(), dtype=np.float64),
    "discrete": Discrete(5),
    "dict": Dict({"x": Box(-1.0, 1.0, shape=(2,)), "n": Discrete(3)}),
}


@pytest.mark.parametrize("name", SPACES)
def test_lazy_rows_are_the_rows_of_their_batch(name: str) -> None:
    batcher = Batcher(SPACES[name])
    samples = [SPACES[name].sample() for _ in range(3)]
    batch = batcher.stack(samples)

    rows = batcher.lazy_rows(batch, 3)

    assert isinstance(rows, Rows)
    assert (len(rows), len(rows[1:])) == (3, 2)
    assert all(row in SPACES[name] for row in rows)
    assert equal_values(batcher.stack(rows), batch)
    assert equal_values(list(rows), batcher.rows(batcher.stack(samples)))


def test_a_batch_of_rows_is_a_copy() -> None:
    batcher = Batcher(SPACES["box"])
    batch = np.zeros((3, 2), np.float32)

    batcher.stack(batcher.lazy_rows(batch, 3))[:] = 1

    assert not batch.any()


def test_a_batch_of_another_form_is_taken_apart_at_once() -> None:
    batcher = Batcher(SPACES["box"])

    assert not isinstance(batcher.lazy_rows(np.zeros((2, 2), np.float32), 3), Rows)
    assert not isinstance(batcher.lazy_rows(np.zeros((3, 2)), 3), Rows)
    assert not isinstance(batcher.lazy_rows(np.zeros((3, 5), np.float32), 3), Rows)


def test_row_dicts_take_one_column_more() -> None:
    rows = RowDicts(2, {"a": np.array([1, 2]), "b": np.array([3, 4])})

    more = rows.with_column("a", ["x", "y"])

    assert list(more) == [{"a": "x", "b": 3}, {"a": "y", "b": 4}]
    assert list(rows) == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]
    assert more[-1] == more[0:][1]
    with pytest.raises(IndexError):
        more[2]
