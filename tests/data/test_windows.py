"""Windows in a file are those of the panel they were written from, however large the file is."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sekai.data.simulators import simulate_gbm
from sekai.data.windows import npy_file, window_file
from sekai.data.windows.panel_windows import PanelWindows
from sekai.data.windows.window_file import Windows
from sekai.error import ClosedError, DataError, MissingExtraError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DATA = simulate_gbm(3, 40)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Windows.write(tmp_path / "windows", DATA, 8, columns={"fold": np.arange(40) // 10})
    return tmp_path / "windows"


@settings(max_examples=30, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 4), st.integers(1, 4)),
    lookback=st.integers(1, 40),
    picks=st.lists(st.integers(0, 39), max_size=60),
    dtype=st.sampled_from([np.float32, np.float64]),
    chunk=st.sampled_from([1, 200, 1 << 24]),
)
def test_windows_are_what_the_panel_held(
    shape: tuple[int, int, int],
    lookback: int,
    picks: list[int],
    dtype: Any,
    chunk: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    panel = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    panel[0, 0, 0] = np.nan
    lookback = min(lookback, shape[0])
    path = tmp_path_factory.mktemp("w") / "windows"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_file, "CHUNK_BYTES", chunk)
        patch.setattr(npy_file, "CHUNK_BYTES", chunk)
        times = np.datetime64("2020-01-01T16:00") + np.arange(shape[0])
        names = [[f"{kind}{n}" for n in range(size)] for kind, size in zip("AF", shape[1:])]  # noqa: B905
        Windows.write(path, panel, lookback, times=times, assets=names[0], features=names[1],
                      dtype=dtype)  # fmt: skip
        with Windows.open(path) as windows:
            windows.verify()
            rows = np.array([pick % len(windows) for pick in picks], np.int64)
            found = windows.gather(rows)

    assert (len(windows), windows.lookback) == (shape[0] - lookback + 1, lookback)
    assert (list(windows.assets), list(windows.features)) == (names[0], names[1])
    assert np.array_equal(windows.times, times[lookback - 1 :])
    wanted = panel[rows[:, None] + np.arange(lookback)]
    assert found.dtype == dtype
    assert np.array_equal(found, wanted, equal_nan=True)


def test_a_file_and_a_panel_in_memory_give_the_same_windows(folder: Path) -> None:
    stored = Windows.open(folder)
    virtual = PanelWindows(
        DATA.values.astype(np.float32), 8, times=DATA.times, assets=DATA.assets,
        features=DATA.fields,
    )  # fmt: skip

    rows = np.array([30, 2, 3, 4, 0])

    after = rows + virtual.first_row - stored.first_row
    assert np.array_equal(stored.gather(rows), virtual.gather(after))
    assert np.array_equal(stored.times[rows], virtual.times[after])
    assert (stored.assets, stored.features) == (virtual.assets, virtual.features)


def test_columns_of_the_index_are_those_of_the_windows_last_rows(folder: Path) -> None:
    windows = Windows.open(folder)

    assert list(windows.columns) == ["fold"]
    assert np.array_equal(windows.columns["fold"], np.arange(7, 40) // 10)


def test_windows_go_into_the_array_that_is_given(folder: Path) -> None:
    windows, out = Windows.open(folder), np.empty((2, 8, 3, 5), np.float32)

    assert windows.gather([1, 2], out) is out
    assert np.array_equal(out, windows.gather([1, 2]))


@pytest.mark.parametrize("rows", [[33], [-1], [0, 99]])
def test_rows_that_are_not_there_are_refused_and_nothing_is_written(
    rows: list[int], folder: Path
) -> None:
    out = np.full((len(rows), 8, 3, 5), 7.0, np.float32)

    with pytest.raises(ValueError, match="rows must be from 0 to 32, got"):
        Windows.open(folder).gather(rows, out)

    assert np.all(out == 7.0)


def test_an_array_that_does_not_fit_is_refused(folder: Path) -> None:
    windows, frozen = Windows.open(folder), np.empty((1, 8, 3, 5), np.float32)
    frozen.flags.writeable = False

    for out in (np.empty((1, 8, 3, 5)), np.empty((2, 8, 3, 5), np.float32)):
        with pytest.raises(ValueError, match="out must be C-contiguous"):
            windows.gather([1], out)
    with pytest.raises(ValueError, match="out must be writable"):
        windows.gather([1], frozen)


def test_the_digest_tells_panels_apart_and_reads_no_values(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Windows.write(tmp_path / "same", DATA, 8, columns={"fold": np.arange(40) // 10})
    Windows.write(tmp_path / "fold", DATA, 8)
    Windows.write(tmp_path / "long", DATA, 9)
    Windows.write(tmp_path / "other", simulate_gbm(3, 40, 1), 8)
    monkeypatch.setattr(npy_file.NpyFile, "sha256", None)

    digests = [Windows.open(tmp_path / name).digest for name in ("fold", "long", "other")]

    digest = Windows.open(folder).digest
    assert Windows.open(tmp_path / "same").digest == digest
    assert len({digest, *digests}) == 4


def test_a_flipped_bit_is_found_when_asked_for(folder: Path) -> None:
    with (folder / "windows.npy").open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-3, os.SEEK_END)
        file.write(bytes([byte ^ 1]))

    with pytest.raises(DataError, match="was changed or damaged"):
        Windows.open(folder).verify()


def test_an_npy_file_with_an_index_beside_it_needs_no_folder(folder: Path, tmp_path: Path) -> None:
    values, index = tmp_path / "mine.npy", tmp_path / "mine.parquet"
    (folder / "windows.npy").rename(values)
    (folder / "index.parquet").rename(index)

    windows = Windows.open(values)
    named = Windows.open(values, index=index, assets=["A", "B", "C"], features=list("ohlcv"))

    assert windows.assets == ("asset_0", "asset_1", "asset_2")
    assert windows.features[4] == "feature_4"
    assert (named.assets, named.features) == (("A", "B", "C"), tuple("ohlcv"))
    assert windows.gather([5]).shape == (1, 8, 3, 5)
    assert windows.digest != named.digest
    with pytest.raises(DataError, match="no metadata"):
        windows.verify()
    with pytest.raises(DataError, match="expected 3 asset names and 5 feature names, got"):
        Windows.open(values, assets=["A"])


@pytest.mark.parametrize(
    "kind",
    [pa.timestamp("s"), pa.timestamp("us", tz="America/New_York"), pa.date32(), pa.timestamp("ns")],
    ids=str,
)
def test_times_of_any_kind_are_read_as_utc(kind: Any, folder: Path) -> None:
    days = np.datetime64("2020-01-01") + np.arange(33)
    table = pa.table({"time": pa.array(days.astype("datetime64[s]")).cast(kind)})
    pq.write_table(table, folder / "index.parquet")

    assert np.array_equal(Windows.open(folder).times, days.astype("datetime64[ns]"))


def broken_indices() -> dict[str, Any]:
    days = pa.array((np.datetime64("2020-01-01") + np.arange(33)).astype("datetime64[s]"))
    return {
        "33 windows, its index 5 rows": pa.table({"time": days[:5]}),
        r"missing column 'time'; got \['when'\]": pa.table({"when": days}),
        "column 'time' must hold timestamps, got int64": pa.table({"time": np.arange(33)}),
        "must have a time, 1 have none": pa.table({"time": pa.array([*days[:32], None])}),
    }


@pytest.mark.parametrize("words", broken_indices())
def test_an_index_that_does_not_belong_is_refused(words: str, folder: Path) -> None:
    pq.write_table(broken_indices()[words], folder / "index.parquet")

    with pytest.raises(DataError, match=words):
        Windows.open(folder)


def test_an_index_that_is_no_parquet_file_is_refused(folder: Path) -> None:
    (folder / "index.parquet").write_bytes(b"PAR1 and then nothing")

    with pytest.raises(DataError, match="malformed Parquet file: Could not open Parquet"):
        Windows.open(folder)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ("{", "malformed JSON: Expecting property name enclosed"),
        ("[]", r"expected keys \['assets', 'features', 'sha256'"),
        ({"version": 2}, "version must be 1, got 2"),
        ({"assets": "ABC", "features": 1}, "features must be a list"),
        ({"assets": ["A"]}, "expected 3 asset names and 5 feature names, got"),
        ({"sha256": 5}, "sha256 must be a string, got 5"),
    ],
)
def test_metadata_that_mean_something_else_are_refused(
    metadata: Any, words: str, folder: Path
) -> None:
    path = folder / "metadata.json"
    said = json.loads(path.read_text())
    path.write_text(metadata if isinstance(metadata, str) else json.dumps({**said, **metadata}))

    with pytest.raises(DataError, match=words):
        Windows.open(folder)


@pytest.mark.parametrize("shape", [(33, 8, 15), (33, 8, 0, 5), (33,)])
def test_values_that_are_no_windows_are_refused(shape: tuple[int, ...], folder: Path) -> None:
    np.save(folder / "windows.npy", np.zeros(shape, np.float32))

    with pytest.raises(DataError, match="windows by lookback by assets by features"):
        Windows.open(folder)


def test_nothing_is_left_of_a_write_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(window_file, "write_index", full)

    with pytest.raises(OSError, match="no space left"):
        Windows.write(tmp_path / "windows", DATA, 8)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_overwritten(folder: Path) -> None:
    before = (folder / "windows.npy").read_bytes()

    with pytest.raises(FileExistsError, match="remove it, or choose another name"):
        Windows.write(folder, DATA, 4)

    assert (folder / "windows.npy").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lookback": 0}, "lookback must be from 1 to 40"),
        ({"lookback": 41}, "lookback must be from 1 to 40"),
        ({"columns": {"fold": [1]}}, "column 'fold' must have 40 values"),
        ({"columns": {"time": np.arange(40)}}, "one column named 'time'"),
        ({"dtype": np.int32}, "dtype must be float32 or float64, got int32"),
        ({"panel": DATA.values}, "times is required: the panel has none"),
        ({"assets": ["A"]}, "panel must have 40 times, 1 assets and 5 features"),
        ({"times": np.full(40, np.datetime64("NaT"))}, "must have a time"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=words):
        Windows.write(tmp_path / "windows", **{"panel": DATA, "lookback": 8, **change})
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'type'"):
        Windows.write(tmp_path / "w", DATA, 8, type="f4")  # type: ignore[call-arg]


def test_a_copy_opens_the_file_for_itself(folder: Path) -> None:
    windows = Windows.open(folder, assets=list("XYZ"))
    copy = pickle.loads(pickle.dumps(windows))
    windows.close()

    assert copy.digest == windows.digest
    assert copy.gather([3]).shape == (1, 8, 3, 5)
    with pytest.raises(ClosedError):
        windows.gather([3])


def test_threads_read_from_one_file_at_once(folder: Path) -> None:
    windows, rows = Windows.open(folder), np.random.default_rng(0).integers(0, 33, 64)
    wanted = windows.gather(rows)
    same: list[bool] = []

    def gather() -> None:
        same.extend(np.array_equal(windows.gather(rows), wanted) for _ in range(20))

    threads = [threading.Thread(target=gather) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert same == [True] * 80


def test_a_missing_pyarrow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(MissingExtraError, match=r"\.\[data\]"):
        Windows.write(tmp_path / "windows", DATA, 8)
    assert list(tmp_path.iterdir()) == []
