from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sekai.data import MarketData, simulate_gbm
from tests.cli.commands import call

BARS = """\
Date,symbol,close
2020-01-01,A,1.0
2020-01-01,B,5.0
2020-01-02,A,1.5
2020-01-02,B,5.5
2020-01-03,A,{last}
2020-01-03,B,5.25
"""


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    file = tmp_path / "bars.csv"
    file.write_text(BARS.format(last="1.25"))
    return file


@pytest.fixture
def holes(tmp_path: Path) -> Path:
    file = tmp_path / "holes.csv"
    file.write_text(BARS.format(last=""))
    return file


def test_inspect_tells_assets_rows_times_and_holes(tmp_path: Path) -> None:
    panel = simulate_gbm(["X", "Y"], rows=30)
    quoted = panel.quoted.copy()
    quoted[7:9, 1] = False
    values = np.where(quoted[:, :, None], panel.values, np.nan)
    panel.replace(values=values, quoted=quoted, tradable=quoted).to_parquet(tmp_path / "x.parquet")

    told = call("data", "inspect", tmp_path / "x.parquet")

    assert told.code == 0, told.err
    lines = told.out.splitlines()
    assert "30 rows, 2 assets, fields open, high, low, close, volume" in lines[0]
    assert "a row every day" in lines[1]
    first, last = (str(time)[:10] for time in panel.times[[0, -1]])
    for asset, halted in (("X", "0"), ("Y", "2")):
        row = next(line.split() for line in lines if line.startswith(asset))
        assert row[1] == "30"
        assert {first, last} <= set(row)
        assert row[-2:] == [halted, "0"]


def test_a_bundled_set_is_a_source_too() -> None:
    told = call("data", "inspect", "sp500")

    assert "8,313 rows, 20 assets" in told.out
    assert "Information Technology" in told.out


def test_sound_data_passes(bars: Path) -> None:
    told = call("data", "validate", bars, "-o", "timezone=UTC")

    assert (told.code, told.out) == (0, f"{bars}: no problems found\n")


def test_unsound_data_fails_with_what_was_found(holes: Path) -> None:
    told = call("data", "validate", holes, "-o", "timezone=UTC")

    assert told.code == 1
    assert "missing A close at 2020-01-03" in told.out
    assert "Policies(missing='halt')" in told.out


def test_a_policy_mends_what_it_names(holes: Path, tmp_path: Path) -> None:
    words = ("-o", "timezone=UTC", "-o", "policies.missing=halt")

    refused = call("data", "convert", holes, tmp_path / "x.parquet", *words[:2])
    mended = call("data", "convert", holes, tmp_path / "x.parquet", *words)

    assert refused.code == 1
    assert mended.code == 0, mended.err
    panel = MarketData.from_parquet(tmp_path / "x.parquet")
    assert np.isnan(panel.field("close")).sum() == 1
    assert "repaired" in call("data", "inspect", holes, *words).out


@pytest.mark.parametrize("kind", ["parquet", "parquet-folder", "qlib"])
def test_what_is_converted_holds_the_same(bars: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / ("x.parquet" if kind == "parquet" else "x")

    told = call("data", "convert", bars, target, "--to", kind, "-o", "timezone=UTC")

    assert told.code == 0, told.err
    read = MarketData.from_qlib if kind == "qlib" else MarketData.from_parquet
    closes = read(target).field("close")
    np.testing.assert_allclose(closes, [[1.0, 5.0], [1.5, 5.5], [1.25, 5.25]])
    again = call("data", "convert", target, tmp_path / "again.parquet")
    assert again.code == 0, again.err
    assert "3 rows, 2 assets" in again.out


def test_nothing_is_overwritten(bars: Path, tmp_path: Path) -> None:
    before = bars.read_bytes()

    told = call("data", "convert", bars, bars)

    assert told.code == 2
    assert "nothing is overwritten" in told.err
    assert bars.read_bytes() == before


@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_data_that_is_not_there_is_misuse(command: str) -> None:
    told = call("data", command, "sp50")

    assert told.code == 2
    assert "unknown source 'sp50'" in told.err
    assert "did you mean 'sp500'?" in told.err


@pytest.mark.parametrize("command", ["inspect", "validate"])
@pytest.mark.parametrize("name", ["broken.parquet", "broken.csv", "folder"])
def test_data_that_cannot_be_read_is_a_failure(command: str, name: str, tmp_path: Path) -> None:
    if name == "folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(b"\x00\x01nothing\xff")

    told = call("data", command, tmp_path / name)

    assert told.code == 1
    assert told.out or told.err.startswith("error: ")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("tme=Date", "--option tme: the reader has no key 'tme'; did you mean 'time'"),
        ("policies.mising=halt", "--option policies.mising: [policies] has no key 'mising'"),
        ("policies.missing=helt", "--option policies.missing: "),
        ("time=5", "--option time: time must be text, got 5"),
        ("timezone", "--option timezone: expected name=value"),
    ],
)
def test_options_of_readers_are_checked(bars: Path, option: str, said: str) -> None:
    told = call("data", "inspect", bars, "-o", option)

    assert told.code == 2
    assert said in told.err


def test_training_on_data_that_cannot_be_read_leaves_no_run(tmp_path: Path) -> None:
    (tmp_path / "bars.parquet").write_bytes(b"nothing of the kind")

    told = call(
        "train", "--env", "Portfolio-v0", "--steps", "10", "--runs", tmp_path / "runs",
        "--set", f"data.source={tmp_path / 'bars.parquet'}",
    )  # fmt: skip

    assert told.code == 1
    assert "bars.parquet" in told.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_columns_that_are_not_known_are_said_with_the_option_that_names_them(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "bars.csv").write_text("when,what\n1,2\n")
    told = call("data", command, tmp_path / "bars.csv")

    assert told.code == 1
    assert "`-o time=NAME`" in told.out + told.err


def test_a_folder_without_a_format_is_told_the_formats(bars: Path, tmp_path: Path) -> None:
    told = call("data", "convert", bars, tmp_path / "folder", "-o", "timezone=UTC")

    assert told.code == 2
    assert "ends in .parquet" in told.err
    assert "--to qlib" in told.err
    assert "--to parquet-folder" in told.err
    assert not (tmp_path / "folder").exists()


def test_a_delay_of_rows_stays_out_of_a_qlib_folder(bars: Path, tmp_path: Path) -> None:
    words = ("-o", "timezone=UTC", "-o", "known_after=21h")

    told = call("data", "convert", bars, tmp_path / "days", "--to", "qlib", *words)

    assert told.code == 0, told.err
    calendar = (tmp_path / "days" / "calendars" / "day.txt").read_text()
    assert calendar.split() == ["2020-01-01", "2020-01-02", "2020-01-03"]


def test_one_of_something_is_written_in_the_singular(bars: Path) -> None:
    told = call("data", "inspect", bars, "-o", "timezone=UTC", "-o", 'assets=["A"]')

    assert "3 rows, 1 asset, fields close" in told.out


def test_another_frequency_of_a_qlib_folder_is_named_with_its_option(tmp_path: Path) -> None:
    simulate_gbm(2, rows=30, frequency="1min").to_qlib(tmp_path / "minutes")

    told = call("data", "inspect", tmp_path / "minutes")

    assert told.code == 1
    assert "no data of frequency 'day'; expected freq='1min'" in told.err
