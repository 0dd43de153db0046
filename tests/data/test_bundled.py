"""Sets that other packages bring along are what they are said to be."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sekai.data.bundled import BundledSet, bundled_sets, load_bundled
from sekai.error import DataError, MissingExtraError

SETS = {known.name: known for known in bundled_sets()}


@pytest.mark.parametrize("known", SETS.values(), ids=SETS.keys())
def test_a_set_has_the_assets_fields_and_span_it_is_listed_with(known: BundledSet) -> None:
    data = load_bundled(known.name)

    assert (data.assets, data.fields) == (known.assets, known.fields)
    days = data.calendar.dates
    assert (str(days[0]), str(days[-1])) == (known.first, known.last)
    assert set(data.sectors) == set(known.assets)
    assert data.frequency.name == "1d"
    assert data.frequency.periods_per_year == pytest.approx(252, abs=1.5)


@pytest.mark.parametrize("name", SETS)
def test_days_are_stamped_at_the_close_in_new_york(name: str) -> None:
    data = load_bundled(name)

    hours = (data.times - data.times.astype("datetime64[D]")).astype("timedelta64[h]").astype(int)
    winter = data.times.astype("datetime64[M]").astype(int) % 12 == 0
    assert set(hours) == {20, 21}
    assert set(hours[winter]) == {21}


def test_sp500_is_read_without_importing_skfolio() -> None:
    script = (
        "import sys; from sekai.data.bundled import load_bundled\n"
        "close = load_bundled('sp500').field('close')\n"
        "assert not {'skfolio', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "assert (close[0, 0], close[-1, -1]) == (0.264, 106.627)"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.nightly
def test_sp500_is_what_skfolio_loads() -> None:
    # In a process of its own: skfolio's imports take half a minute and warn.
    script = (
        "import numpy as np; from sekai.data.bundled import load_bundled\n"
        "ours = load_bundled('sp500')\n"
        "from skfolio.datasets import load_sp500_dataset; theirs = load_sp500_dataset()\n"
        "assert tuple(theirs.columns) == ours.assets\n"
        "assert (theirs.index.values.astype('M8[D]') == ours.calendar.dates).all()\n"
        "assert np.array_equal(theirs.values, ours.field('close'))\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)


def test_bokeh_bars_earn_what_adjusted_closes_do_and_trade_as_many_dollars() -> None:
    stocks: Any = importlib.import_module("bokeh_sampledata.stocks")
    data = load_bundled("bokeh_stocks")

    for name in data.assets:
        series, place = getattr(stocks, name), data.asset(name)
        there = data.quoted[:, place]
        bars = dict(zip(data.fields, data.values[there, place].T, strict=True))
        np.testing.assert_allclose(bars["close"], series["adj_close"], rtol=1e-12)
        dollars = np.array(series["close"]) * np.array(series["volume"])
        np.testing.assert_allclose(bars["close"] * bars["volume"], dollars, rtol=1e-12)
        # Factors change between rows and never within one.
        np.testing.assert_allclose(
            bars["open"] / bars["close"], np.array(series["open"]) / np.array(series["close"])
        )


def test_bokeh_stocks_are_listed_from_their_first_day_on() -> None:
    data = load_bundled("bokeh_stocks")

    first = [str(data.calendar.dates[row]) for row in data.listed.argmax(axis=0)]
    assert dict(zip(data.assets, first, strict=True)) == {
        "AAPL": "2000-03-01", "FB": "2012-05-18", "GOOG": "2004-08-19",
        "IBM": "2000-03-01", "MSFT": "2000-03-01",
    }  # fmt: skip
    assert data.listed[-1].all()


@pytest.mark.parametrize("name", SETS)
def test_a_missing_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(MissingExtraError, match=f"pip install {SETS[name].package}"):
        load_bundled(name)


def test_another_file_than_the_one_that_is_known_is_refused(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "skfolio" / "datasets" / "data"
    folder.mkdir(parents=True)
    spec = importlib.util.spec_from_loader("skfolio", None, is_package=True)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    spec.submodule_search_locations.append(str(tmp_path / "skfolio"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)

    for content in (None, b"no gzip", b"\x1f\x8b\x08"):
        if content is not None:
            (folder / "sp500_dataset.csv.gz").write_bytes(content)
        with pytest.raises(DataError, match="unexpected data in skfolio"):
            load_bundled("sp500")


def test_an_unknown_name_tells_those_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"data set 'dax'; expected one of \['sp500', 'bokeh_stocks'\]"
    ):
        load_bundled("dax")


def test_listing_the_sets_imports_none_of_their_packages() -> None:
    script = (
        "import sys; from sekai.data.bundled import bundled_sets; assert len(bundled_sets()) == 2\n"
        "assert not {'skfolio', 'bokeh_sampledata', 'pandas', 'pyarrow'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
