"""Broken and hostile provider directories: refused by name, never run, never large."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.data.qlib import QlibIntraday, QlibProvider
from sekai.error import DataError
from tests.data.qlib.providers import daily, minutely


def read_all(root: Path) -> None:
    QlibProvider(root).features(None, ["$close"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "got 0 bytes"),
        (b"\0\0\0", "got 3 bytes"),
        (b"\0" * 9, "got 9 bytes"),
        (np.array([np.nan, 1], "<f4").tobytes(), "got nan"),
        (np.array([np.inf, 1], "<f4").tobytes(), "got inf"),
        (np.array([-1, 1], "<f4").tobytes(), "got -1"),
        (np.array([0.5, 1], "<f4").tobytes(), "got 0.5"),
        (np.array([11, 1], "<f4").tobytes(), "from 0 to 10.*got 11"),
        (np.array([5, *range(6)], "<f4").tobytes(), "at most 5 values.*got 6"),
    ],
)
def test_a_broken_feature_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    root = daily(tmp_path / "day")
    (root / "features" / "aaa" / "close.day.bin").write_bytes(content)
    with pytest.raises(DataError, match=rf"aaa.close\.day\.bin.*{said}"):
        read_all(root)
    with pytest.raises(DataError, match=r"aaa.close\.day\.bin"):
        MarketData.from_qlib(root)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("2020-01-02\n2020-01-01\n", r"day\.txt:2: .*ascending"),
        ("2020-01-02\n\n2020-01-02\n", r"day\.txt:3: .*ascending"),
        ("2020-01-01\nnow\n", r"day\.txt:2: malformed timestamp 'now'"),
        ("2020-01-01\nNaT\n", r"day\.txt:2: malformed timestamp 'NaT'"),
        ("2020-13-01\n", r"day\.txt:1: malformed timestamp '2020-13-01'"),
        ("0001-01-01\n2020-01-01\n", r"day\.txt:1: .*1678 to 2261"),
        ("2020-01-01T00:00+05\n", r"day\.txt:1: "),
        ("\u0662020-01-01\n", r"day\.txt:1: "),
    ],
)
def test_a_broken_calendar_is_named_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    root = daily(tmp_path / "day")
    (root / "calendars" / "day.txt").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read_all(root)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("AAA", "expected symbol, first and last timestamp"),
        ("AAA 2020-01-01 2020-01-02", "separated by tabs"),
        ("AAA\t2020-01-01", "malformed line 'AAA"),
        ("AAA\t2020-01-01\tnever", "never"),
        ("AAA\t2020-01-03\t2020-01-01", "must not be after the last"),
        ("../../etc\t2020-01-01\t2020-01-02", "invalid symbol name"),
        ("\t2020-01-01\t2020-01-02", "invalid symbol name"),
        ("aaa\t2020-01-01\t2020-01-02", "share a folder"),
    ],
)
def test_a_broken_line_of_instruments_is_named(tmp_path: Path, line: str, said: str) -> None:
    root = daily(tmp_path / "day")
    path = root / "instruments" / "all.txt"
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(DataError, match=rf"all\.txt:4: .*{said}"):
        read_all(root)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    root = daily(tmp_path / "day")
    (root / "calendars" / "day.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read"):
        read_all(root)


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    root = daily(tmp_path / "day")
    (root / "features" / "aaa" / "close.day.bin").unlink()
    (root / "features" / "aaa" / "close.day.bin").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_all(root)


def test_an_instrument_without_a_folder_is_named(tmp_path: Path) -> None:
    root = daily(tmp_path / "day")
    path = root / "instruments" / "all.txt"
    path.write_text(f"{path.read_text()}DDD\t2020-01-01\t2020-01-02\n")
    with pytest.raises(DataError, match="instrument DDD has no folder"):
        read_all(root)


CLOSE = "features/sh600000/close.1min.bin"


@settings(max_examples=150, deadline=None)
@given(
    file=st.sampled_from(["calendars/1min.txt", "instruments/all.txt", CLOSE]),
    where=st.integers(0, 400),
    content=st.binary(max_size=40),
    cut=st.booleans(),
)
@example(file=CLOSE, where=12, content=b"\x01\x00\x80\x7f", cut=False)  # a loud NaN
def test_whatever_a_file_holds_it_is_read_or_refused(
    file: str, where: int, content: bytes, cut: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = minutely(Path(folder) / "min", days=1)
        path = root / file
        whole = path.read_bytes()
        rest = b"" if cut else whole[where + len(content) :]
        path.write_bytes(whole[:where] + content + rest)
        try:
            found = QlibProvider(root)
            table = found.features(None, ["$close", "Mean($close, 3)"], freq="1min")
            assert len(table) <= 240
            MarketData.from_qlib(root, freq="1min", fields=["close"], timezone="UTC")
            for stock in found.instruments(freq="1min"):
                QlibIntraday(found).day(stock, np.datetime64("2020-01-01"))
        except DataError:
            pass
