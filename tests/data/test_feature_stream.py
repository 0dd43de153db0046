"""Rows pushed one by one are the rows of the whole panel, byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.data.features.events import Events
from sekai.data.features.pipeline import Pipeline
from sekai.data.features.stream import FeatureStream
from tests.data.holed_panels import NAMED, make_panel, panels


def push(stream: FeatureStream, data: MarketData, row: int) -> Any:
    return stream.push(
        data.times[row], data.values[row], listed=data.listed[row], quoted=data.quoted[row],
        tradable=data.tradable[row],
        market={name: series[row] for name, series in data.market.items()},
    )  # fmt: skip


@given(
    data=panels(min_rows=2),
    specs=st.lists(st.sampled_from(NAMED), min_size=1, max_size=5, unique=True),
    part=st.floats(0, 1),
    mask=st.sampled_from(["asset", "feature"]),
)
@settings(deadline=None, max_examples=120)
def test_a_stream_gives_the_bytes_of_the_whole_panel(
    data: MarketData, specs: list[str], part: float, mask: Any
) -> None:
    pipeline = Pipeline(specs, clip=9.0, mask=mask)
    begin = int(part * (len(data) - 1))
    whole = pipeline.transform(data)
    stream = pipeline.stream(data.rows(0, begin))

    for row in range(begin, len(data)):
        assert push(stream, data, row).tobytes() == whole.values[row].tobytes()

    assert len(stream) == len(data)


@pytest.mark.parametrize("scaling", ["zscore", "robust", "rank"])
def test_all_features_on_a_scale_stream_as_they_are_computed(scaling: str) -> None:
    data = make_panel(rows=90, seed=5)
    events = Events(data.times[::7], np.arange(13.0), delay="30h")
    features: list[Any] = [*NAMED, events.latest(age=True), events.sum(3), events.decay("4d")]
    pipeline = Pipeline(features, scaling=scaling).fit(data.rows(0, 60))
    whole = pipeline.transform(data)
    stream = pipeline.stream(data.rows(0, 60))

    for row in range(60, 90):
        assert push(stream, data, row).tobytes() == whole.values[row].tobytes()


def test_masks_that_are_not_given_are_those_that_a_panel_would_have() -> None:
    given_masks = make_panel(rows=80, seed=6, holes=0.2)
    plain = {"listed": None, "quoted": None, "tradable": None}
    data = MarketData(given_masks.times, given_masks.assets, given_masks.fields, given_masks.values)
    stream = Pipeline(["log_return"]).stream(data.rows(0, 10))

    for row in range(10, 80):
        stream.push(data.times[row], data.values[row])

    kept = stream.panel()
    assert not data.listed[10:].all()
    for name in plain:
        assert np.array_equal(getattr(kept, name), getattr(data, name)), name
    assert np.array_equal(kept.values, data.values, equal_nan=True)


def test_the_history_may_be_as_short_as_the_lookback() -> None:
    data = make_panel(rows=50)
    pipeline = Pipeline(["momentum(5)", "volatility(7)"])
    stream = pipeline.stream(data.rows(49 - 7, 49))

    assert pipeline.lookback == 8
    assert push(stream, data, 49).tobytes() == pipeline.transform(data).values[49].tobytes()


def test_what_was_shown_stays_as_it_was() -> None:
    data = make_panel(rows=200)
    stream = Pipeline(["log_return"]).stream(data.rows(0, 40))
    early = stream.panel()
    digest = early.digest

    for row in range(40, 200):
        push(stream, data, row)

    assert data.rows(0, 40) == MarketData(**_made_of(early))
    assert early.digest == digest


def _made_of(data: MarketData) -> dict[str, Any]:
    names = (
        "times", "assets", "fields", "values", "listed", "quoted", "tradable", "market",
        "sectors", "timezone", "frequency", "warm_up",
    )  # fmt: skip
    return {name: getattr(data, name) for name in names}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": 0}, r"be after the last row at 2020-02-09T21:00:00\.000000000"),
        ({"values": np.zeros((4, 5))}, r"values must have shape \(5, 5\) .*, got \(4, 5\)"),
        ({"market": {}}, r"market series must be \['rate'\], got \[\]"),
        ({"quoted": np.ones(5)}, "quoted must have dtype bool, got float64"),
        (
            {"listed": np.zeros(5, bool)},
            r"is quoted but not listed at 2020-02-10T21:00:00\.000000000",
        ),
    ],
)
def test_a_row_that_is_refused_changes_nothing(change: dict[str, Any], message: str) -> None:
    data = make_panel(rows=42, holes=0.0)
    pipeline = Pipeline(["log_return", "indicators(f_rsi_8)"])
    stream = pipeline.stream(data.rows(0, 40))
    given_row: dict[str, Any] = {
        "time": data.times[40], "values": data.values[40],
        "market": {"rate": data.market["rate"][40]},
    } | change  # fmt: skip
    if given_row["time"] == 0:
        given_row["time"] = data.times[39]

    with pytest.raises(ValueError, match=message):
        stream.push(**given_row)

    assert len(stream) == 40
    assert push(stream, data, 40).tobytes() == pipeline.transform(data).values[40].tobytes()


def test_a_row_that_a_feature_refuses_changes_nothing() -> None:
    data = make_panel(rows=42, holes=0.0)

    def picky(panel: MarketData) -> Any:
        if panel.market["rate"][-1] == 13:
            raise ValueError("unlucky")
        return panel.field("close")

    pipeline = Pipeline(["indicators(f_ema_8)", "drawdown", picky])
    stream = pipeline.stream(data.rows(0, 40))

    with pytest.raises(ValueError, match="unlucky"):
        stream.push(data.times[40], 2 * data.values[40], market={"rate": 13.0})

    assert len(stream) == 40
    for row in (40, 41):
        assert push(stream, data, row).tobytes() == pipeline.transform(data).values[row].tobytes()
