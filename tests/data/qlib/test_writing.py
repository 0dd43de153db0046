from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.data.qlib import QlibProvider, write_qlib
from sekai.data.qlib.files import encode_feature
from sekai.error import DataError
from tests.data.qlib.providers import DAYS, minutes


def panel(seed: int = 0, rows: int = 10, holes: float = 0.2) -> MarketData:
    """A panel of floats of 32 bits with halts, late listings and gaps in them."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(1, 1e6, (rows, 3, 2)).astype(np.float32)
    listed = rng.random((rows, 3)) >= holes
    listed[:, 0] = True
    listed[rng.integers(rows)] = True
    quoted = listed & (rng.random((rows, 3)) >= holes)
    quoted[0, 0] = quoted[np.argmax(listed[:, 1]), 1] = quoted[np.argmax(listed[:, 2]), 2] = True
    values[~quoted] = np.nan
    tradable = quoted & (rng.random((rows, 3)) >= holes)
    times = np.datetime64("2020-01-01") + np.arange(rows)
    return MarketData(times, ["AAA", "bbb", "Nul"], ["close", "volume"], values,
                      listed=listed, quoted=quoted, tradable=tradable)  # fmt: skip


def simple(**changes: Any) -> MarketData:
    made_of: dict[str, Any] = {"times": DAYS, "assets": ["AAA"], "fields": ["close"],
                               "values": np.arange(1.0, 11.0).reshape(-1, 1, 1)}  # fmt: skip
    return MarketData(**{**made_of, **changes})


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(2, 40), holes=st.floats(0, 0.6))
def test_what_is_written_is_read_again(seed: int, rows: int, holes: float) -> None:
    data = panel(seed, rows, holes)
    with tempfile.TemporaryDirectory() as folder:
        data.to_qlib(Path(folder) / "q")
        assert MarketData.from_qlib(Path(folder) / "q") == data


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Shanghai"])
def test_minutes_are_written_as_the_markets_clocks_show_their_beginning(
    tmp_path: Path, zone: str
) -> None:
    data = MarketData(minutes(2), ["A"], ["close"], np.ones((480, 1, 1)), timezone=zone)
    late = timedelta(minutes=1)
    data.to_qlib(tmp_path / "q", known_after=late)
    shown = QlibProvider(tmp_path / "q").calendar("1min")
    assert np.array_equal(shown, data.calendar.local - np.timedelta64(late))
    assert (
        MarketData.from_qlib(tmp_path / "q", freq="1min", timezone=zone, known_after=late) == data
    )


def test_values_are_rounded_to_32_bits_and_no_further(tmp_path: Path) -> None:
    data = simple(values=np.full((10, 1, 1), 1 / 3))
    data.to_qlib(tmp_path / "q")
    assert MarketData.from_qlib(tmp_path / "q").field("close")[0, 0] == np.float32(1 / 3)


def test_symbols_keep_their_case_in_the_list_and_have_folders_in_lower_case(tmp_path: Path) -> None:
    simple(assets=["Abc"]).to_qlib(tmp_path / "q")
    assert [file.name for file in (tmp_path / "q" / "features").iterdir()] == ["abc"]
    assert list(QlibProvider(tmp_path / "q").instruments()) == ["Abc"]


def test_masks_are_written_only_where_prices_do_not_tell_them(tmp_path: Path) -> None:
    simple().to_qlib(tmp_path / "plain")
    assert QlibProvider(tmp_path / "plain").fields("AAA") == ("$close",)
    tradable = np.ones((10, 1), np.bool_)
    tradable[3] = False
    simple(tradable=tradable).to_qlib(tmp_path / "told")
    assert QlibProvider(tmp_path / "told").fields("AAA") == ("$close", "$tradable")


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    simple().to_qlib(tmp_path / "q")
    before = {file: file.read_bytes() for file in (tmp_path / "q").rglob("*") if file.is_file()}
    with pytest.raises(FileExistsError, match="overwrite=True"):
        panel().to_qlib(tmp_path / "q")
    assert before == {file: file.read_bytes() for file in before}
    assert [entry.name for entry in tmp_path.iterdir()] == ["q"]


def test_overwriting_leaves_nothing_of_the_old_panel(tmp_path: Path) -> None:
    simple(assets=["Old"]).to_qlib(tmp_path / "q")
    data = panel()
    data.to_qlib(tmp_path / "q", overwrite=True)
    assert MarketData.from_qlib(tmp_path / "q") == data
    assert not list((tmp_path / "q" / "features" / "old").iterdir())


def test_only_a_provider_of_the_same_frequency_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(DataError, match="no calendar"):
        simple().to_qlib(tmp_path / "home", overwrite=True)
    simple().to_qlib(tmp_path / "q")
    with pytest.raises(DataError, match="it has day, expected a provider directory of 1min"):
        write_qlib(simple(times=minutes(1)[:10]), tmp_path / "q", "1min", overwrite=True)
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"


def test_an_interrupted_overwriting_is_refused_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel(1).to_qlib(tmp_path / "q")
    replace, moved = os.replace, []

    def stop_early(source: Any, target: Any) -> None:
        moved.append(target)
        if len(moved) > 3:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stop_early)
    with pytest.raises(KeyboardInterrupt):
        panel(2).to_qlib(tmp_path / "q", overwrite=True)
    with pytest.raises(DataError, match="calendar"):
        MarketData.from_qlib(tmp_path / "q")
    monkeypatch.undo()
    panel(2).to_qlib(tmp_path / "q", overwrite=True)
    assert MarketData.from_qlib(tmp_path / "q") == panel(2)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            lambda: simple(assets=["../x"]),
            r"'; expected letters, digits and signs such as _ - \. that are allowed in file names",
        ),
        (
            lambda: simple(assets=["a\tb"]),
            r"'; expected letters, digits and signs such as _ - \. that are allowed in file names",
        ),
        (lambda: simple(fields=["a/b"]), "invalid field name 'a/b'; expected letters, digits"),
        (lambda: simple(fields=["a", "A"], values=np.ones((10, 1, 2))), "differ in more than case"),
        (
            lambda: simple(values=np.full((10, 1, 1), 1e39)),
            r"AAA close: values must be below 3\.4e38, the maximum",
        ),
        (lambda: simple().rows(0, 0), "at least one row"),
        (
            lambda: simple(times=DAYS + np.timedelta64(16, "h")),
            r"time, got 2020-01-01T16:00:00\.000000000; pass known_after",
        ),
        (
            lambda: simple(values=np.full((10, 1, 1), np.nan)),
            "asset AAA is never listed; leave it out",
        ),
    ],
)
def test_what_the_format_cannot_say_is_refused_and_nothing_is_written(
    tmp_path: Path, data: Any, said: str
) -> None:
    with pytest.raises(DataError, match=said):
        data().to_qlib(tmp_path / "q", freq="day")
    assert not list(tmp_path.iterdir())


def test_days_that_are_known_in_the_evening_are_written_with_known_after(tmp_path: Path) -> None:
    late = timedelta(hours=16)
    data = simple(times=DAYS + np.timedelta64(16, "h"), timezone=None)
    data.to_qlib(tmp_path / "q", known_after=late)
    assert MarketData.from_qlib(tmp_path / "q", known_after=late) == data


def test_an_hour_that_clocks_show_twice_is_refused(tmp_path: Path) -> None:
    hours = np.arange("2020-11-01T04:00", "2020-11-01T09:00", 60, dtype="datetime64[m]")
    data = simple(times=hours, values=np.ones((5, 1, 1)), timezone="America/New_York")
    with pytest.raises(DataError, match="local timestamps must be ascending, got 2020-11-01"):
        data.to_qlib(tmp_path / "q")


def test_start_indices_that_32_bits_cannot_say_are_refused() -> None:
    assert np.frombuffer(encode_feature(np.ones(1), 1 << 24, "x"), "<f4")[0] == 1 << 24
    with pytest.raises(DataError, match="16777216, the last exact one in float32, got 16777217"):
        encode_feature(np.ones(1), (1 << 24) + 1, "x")


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    simple().to_qlib(tmp_path / "q")
    assert MarketData.from_qlib(tmp_path / "q") == simple()
    with pytest.raises(FileNotFoundError, match="create it"):
        simple().to_qlib(tmp_path / "a" / "b")
