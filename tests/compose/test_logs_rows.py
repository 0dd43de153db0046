"""Files with a row for each episode: what they hold, and when they are written."""

from __future__ import annotations

import csv
import datetime
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import CsvWriter, ParquetWriter
from sekai.error import DataError, MissingExtraError
from tests.compose.episodes import broken_off, tell, tell_all
from tests.spaces.strategies import law

WRITERS: list[Any] = [CsvWriter, ParquetWriter]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; cells that hold nothing are left out."""
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows: list[dict[str, Any]] = list(csv.DictReader(file))
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(path).to_pylist()
    return [{name: cell for name, cell in row.items() if cell not in ("", None)} for row in rows]


@pytest.fixture(params=WRITERS)
def kind(request: pytest.FixtureRequest) -> Any:
    if request.param is ParquetWriter:
        pytest.importorskip("pyarrow")
    return request.param


def numbers(rows: list[dict[str, Any]]) -> list[dict[str, float]]:
    return [{name: float(cell) for name, cell in row.items()} for row in rows]


def test_each_episode_is_a_row(kind: Any, tmp_path: Path) -> None:
    writer = kind(tmp_path)
    tell_all(writer, [[{"reward": 1.0, "pa": 2.0}, {"reward": 2.0, "pa": 4.0}], [{"ffr": 0.1}]])

    assert numbers(rows_of(writer.path)) == [{"reward": 3.0, "pa": 3.0}, {"ffr": 0.1}]
    assert [file.name for file in tmp_path.iterdir()] == [writer.path.name]


def test_parents_are_made_and_a_string_is_a_path(kind: Any, tmp_path: Path) -> None:
    folder = os.fspath(tmp_path / "a" / "b")
    writer = kind(folder)
    tell_all(writer, [[{"x": 1.0}]])

    assert writer.path.parent == Path(folder)
    assert len(rows_of(writer.path)) == 1


def test_nothing_is_written_before_the_end_and_the_old_file_stays_until_then(
    kind: Any, tmp_path: Path
) -> None:
    tell_all(kind(tmp_path), [[{"x": 1.0}]])
    writer = kind(tmp_path)
    before = writer.path.read_bytes()

    writer.on_env_all_ready()
    tell(writer, [{"x": 2.0}])

    assert writer.path.read_bytes() == before
    writer.on_env_all_done()
    assert numbers(rows_of(writer.path)) == [{"x": 2.0}]


def test_rows_are_kept_when_a_collection_is_broken_off(kind: Any, tmp_path: Path) -> None:
    writer = kind(tmp_path)
    writer.on_env_all_ready()
    tell(writer, [{"x": 2.0}])
    writer.flush()

    assert numbers(rows_of(writer.path)) == [{"x": 2.0}]


def test_rows_that_nobody_wrote_are_written_before_the_next_collection(
    kind: Any, tmp_path: Path
) -> None:
    writer = kind(tmp_path)
    writer.on_env_all_ready()
    tell(writer, [{"x": 2.0}])

    writer.on_env_all_ready()

    assert numbers(rows_of(writer.path)) == [{"x": 2.0}]
    tell_all(writer, [[{"x": 3.0}]])
    assert numbers(rows_of(writer.path)) == [{"x": 3.0}]


def test_leaving_a_with_by_an_exception_writes_the_rows(kind: Any, tmp_path: Path) -> None:
    writer = kind(tmp_path)
    with pytest.raises(RuntimeError, match="broken off"), writer:
        broken_off(writer, [{"x": 2.0}])

    assert numbers(rows_of(writer.path)) == [{"x": 2.0}]


def test_a_flush_without_news_leaves_the_file_alone(kind: Any, tmp_path: Path) -> None:
    writer = kind(tmp_path)
    writer.flush()
    assert not writer.path.exists()
    tell_all(writer, [[{"x": 1.0}]])
    writer.path.unlink()

    writer.close()

    assert not writer.path.exists()


def test_a_write_that_fails_leaves_the_old_file(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = kind(tmp_path)
    tell_all(writer, [[{"x": 1.0}]])
    whole = writer._write

    def failing(path: Path) -> None:
        whole(path)
        raise OSError("the disk is full")

    monkeypatch.setattr(writer, "_write", failing)
    with pytest.raises(OSError, match="the disk is full"):
        tell_all(writer, [[{"x": 2.0}]])
    assert numbers(rows_of(writer.path)) == [{"x": 1.0}]
    assert len(list(tmp_path.iterdir())) == 1

    monkeypatch.undo()
    writer.flush()
    assert numbers(rows_of(writer.path)) == [{"x": 2.0}]


def test_a_collection_without_episodes_leaves_a_file_without_rows(
    kind: Any, tmp_path: Path
) -> None:
    writer = kind(tmp_path)
    tell_all(writer, [[{"x": 1.0}]])
    tell_all(writer, [])

    assert rows_of(writer.path) == []


def test_strings_and_times_are_cells_and_other_things_are_left_out(
    kind: Any, tmp_path: Path
) -> None:
    writer = kind(tmp_path)
    stamp = datetime.datetime(2020, 1, 2, 9, 30)
    values = {"stock": "é,世\n", "time": stamp, "history": np.zeros(2), "nothing": None}
    tell_all(writer, [[values, values]])

    (row,) = rows_of(writer.path)
    assert list(row) == ["stock", "time"]
    assert row["stock"] == "é,世\n"
    assert str(row["time"]) == "2020-01-02 09:30:00"


def test_numpy_and_pandas_times_are_cells(kind: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    writer = kind(tmp_path)
    stamp = "2020-01-02T09:30:00"
    tell_all(writer, [[{"a": np.datetime64(stamp, "ns"), "b": pandas.Timestamp(stamp)}]])

    (row,) = rows_of(writer.path)
    assert [pandas.Timestamp(cell) for cell in row.values()] == [pandas.Timestamp(stamp)] * 2


@law
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b,c", "é"]), st.floats(allow_nan=False), min_size=1),
        min_size=1,
        max_size=5,
    )
)
def test_numbers_come_back_exactly(tmp_path_factory: Any, episodes: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    for kind in WRITERS:
        writer = kind(folder)
        tell_all(writer, [[values] for values in episodes])

        assert numbers(rows_of(writer.path)) == episodes


def test_a_restored_writer_writes_the_rows_of_before_too(kind: Any, tmp_path: Path) -> None:
    writer, other = kind(tmp_path / "first"), kind(tmp_path / "second")
    tell(writer, [{"x": 1.0}])
    other.load_state_dict(writer.state_dict())
    tell(other, [{"x": 2.0}])
    other.close()

    assert numbers(rows_of(other.path)) == [{"x": 1.0}, {"x": 2.0}]
    assert not writer.path.exists()


def test_parquet_columns_have_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    writer = ParquetWriter(tmp_path)
    stamp = np.datetime64("2020-01-02T09:30:00", "ns")
    tell_all(writer, [[{"x": 1.0}], [{"word": "a", "time": stamp}]])

    schema = parquet.read_table(writer.path).schema
    assert {name: str(schema.field(name).type) for name in schema.names} == {
        "x": "double",
        "word": "string",
        "time": "timestamp[ns]",
    }


def test_a_parquet_column_of_two_kinds_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    writer = ParquetWriter(tmp_path)

    with pytest.raises(DataError, match="'x' must have values of one type, got float, str"):
        tell_all(writer, [[{"x": 1.0}], [{"x": "a"}]])

    assert writer.columns() == {"x": [1.0, "a"]}


def test_a_missing_package_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(MissingExtraError, match=r"ParquetWriter needs .*'pyarrow'.*\.\[data\]"):
        ParquetWriter(tmp_path / "new")

    assert not (tmp_path / "new").exists()
