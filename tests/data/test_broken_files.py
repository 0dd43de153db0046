"""Files that are broken, or that are not what their names say, are refused by name."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from sekai.data import MarketData, Policies, inspect
from sekai.error import DataError
from tests.data.panels import bars


class Trap:
    """Object that executes code when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a file was unpickled",)


def whole(tmp_path: Path) -> bytes:
    bars(200).to_parquet(tmp_path / "whole.parquet")
    content = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "whole.parquet").unlink()
    return content


def flipped(content: bytes) -> bytes:
    """With the length of its last part changed."""
    return content[:-8] + b"\xff\xff\xff\x7f" + content[-4:]


@pytest.mark.parametrize(
    "content",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content[20:],
        flipped,
        lambda _: b"",
        lambda _: b"time,symbol,close\n2020-01-01,A,1\n",
        lambda _: pickle.dumps(Trap()),
        lambda _: gzip.compress(b"PAR1"),
    ],
    ids=["half", "one byte short", "no head", "wrong length", "empty", "text", "pickle", "gzip"],
)
def test_what_is_no_parquet_file_is_refused_by_name(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(content(whole(tmp_path)))
    bars().to_parquet(tmp_path / "a.parquet")

    for place in (path, tmp_path):
        with pytest.raises(DataError, match=r"cannot be read: .* in .*x\.parquet") as caught:
            MarketData.from_parquet(place)
        (problem,) = inspect(place)
        assert problem == caught.value.problems[0]
        assert problem.kind == "file"


def test_a_file_whose_rows_are_broken_is_refused_by_name(tmp_path: Path) -> None:
    content = bytearray(whole(tmp_path))
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    (tmp_path / "x.parquet").write_bytes(content)

    with pytest.raises(DataError, match=r"x\.parquet"):
        MarketData.from_parquet(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "header must have unique column names"),
        (b"a,b,c\n1,2,3\n", r"column: missing time column; name it one of \('time'"),
        (b"time,symbol,close\n", "no rows"),
        (b"time,symbol,close\n2020-01-01,A\n", "cannot be read"),
        (
            b"time,symbol,close,close\n2020-01-01,A,1,2\n",
            "header must have unique column names",
        ),
        (b"time,symbol\n2020-01-01,A\n", "no fields"),
        (b"\xff\xfe\x00time", "cannot be read"),
        (b"\x00\x01\x02\x03\n\x05", "missing time column"),
        (
            b"time;symbol;close\n2020-01-01;A;1\n",
            "missing time column",
        ),
    ],
)
def test_what_is_no_table_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(content)

    with pytest.raises(DataError, match=message):
        MarketData.from_csv(tmp_path / "x.csv")


def test_a_packed_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    bars(200).to_csv(tmp_path / "x.csv.gz", index=False)
    content = (tmp_path / "x.csv.gz").read_bytes()
    for broken in (content[: len(content) // 2], b"time,symbol,close\n2020-01-01,A,1\n"):
        (tmp_path / "x.csv.gz").write_bytes(broken)

        with pytest.raises(DataError, match=r"cannot be read: .*x\.csv\.gz"):
            MarketData.from_csv(tmp_path / "x.csv.gz")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1.0]] * 36),
        pa.array([{"a": 1.0}] * 36),
        pa.array([b"\x00"] * 36),
        pa.array([[("a", 1)]] * 36, pa.map_(pa.string(), pa.int64())),
        pa.array([1] * 36, pa.duration("s")),
    ],
    ids=["list", "struct", "binary", "map", "duration"],
)
def test_nested_and_strange_columns_are_named(column: pa.Array, tmp_path: Path) -> None:
    table = pa.Table.from_pandas(bars()).append_column("odd", column)
    pq.write_table(table, tmp_path / "x.parquet")

    with pytest.raises(
        DataError,
        match="column odd: column must be numeric, got",
    ):
        MarketData.from_parquet(tmp_path / "x.parquet")
    data = MarketData.from_parquet(tmp_path / "x.parquet", policies=Policies(columns="ignore"))
    assert data == MarketData.from_frame(bars())


@pytest.mark.parametrize("name", ["time", "symbol"])
def test_a_nested_key_is_refused(name: str, tmp_path: Path) -> None:
    table = pa.Table.from_pandas(bars()).drop_columns([name])
    pq.write_table(table.append_column(name, pa.array([[1.0]] * 36)), tmp_path / "x.parquet")

    with pytest.raises(DataError, match=f"column '{name}' cannot be used: column has type list"):
        MarketData.from_parquet(tmp_path / "x.parquet")


def test_where_there_is_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        MarketData.from_parquet(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"file: no file with suffix \.parquet or \.pq in"):
        MarketData.from_parquet(tmp_path)
    with pytest.raises(DataError, match=r"file: no file with suffix \.csv or \.csv\.gz in"):
        MarketData.from_csv(tmp_path)
