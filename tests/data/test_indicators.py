"""Public interface of the features: names, options, states and errors."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from quant_gym_rs._core import FeatureState
from sekai.data import FEATURES, Indicators, compute, feature_names
from sekai.error import StateError

CLOSE = 100 + np.arange(40) % 7.0


def columns(**changes: Any) -> dict[str, Any]:
    bars = {"high": CLOSE + 1, "low": CLOSE - 1, "close": CLOSE, "volume": 5.0, "trades": 3}
    return bars | changes


def value(name: str, rows: np.ndarray[Any, Any]) -> float:
    return float(rows[-1, feature_names(full55=True).index(name)])


def pushed(bars: int = 40, **options: bool) -> Indicators:
    indicators = Indicators(**options)
    for close in CLOSE[:bars]:
        indicators.push(close + 1, close - 1, close, 5.0, 3)
    return indicators


def test_the_features_are_listed_in_the_order_of_a_row() -> None:
    assert [feature.index for feature in FEATURES] == list(range(55))
    assert feature_names() == tuple(feature.name for feature in FEATURES[:54])
    assert feature_names(full55=True)[54] == "f_net_order_flow"
    assert {feature.name for feature in FEATURES if feature.privileged} == {
        "f_fair_value_dev",
        "f_price_to_fair",
        "f_sentiment_price_gap",
    }


def test_the_registry_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        FEATURES[0].neutral = 1.0  # type: ignore[misc]


def test_rows_have_as_many_values_as_there_are_names() -> None:
    assert compute(**columns()).shape == (40, 54)
    assert compute(**columns(), full55=True).shape == (40, 55)
    assert (len(Indicators()), len(Indicators(full55=True))) == (54, 55)
    assert compute([], [], []).shape == (0, 54)


def test_values_that_cannot_be_computed_yet_are_neutral_or_nan() -> None:
    shown, raw = compute(**columns()), compute(**columns(), raw=True)

    neutral = np.array([feature.neutral for feature in FEATURES[:54]])
    assert np.array_equal(np.where(np.isnan(raw), neutral, raw), shown)
    assert np.isnan(raw[0, feature_names().index("f_rsi_8")])


def test_the_fair_value_is_hidden_from_those_who_may_not_know_it() -> None:
    seen = columns(fair=80.0, sentiment=0.5)

    assert value("f_price_to_fair", compute(**seen)) > 1.2
    assert value("f_sentiment_price_gap", compute(**seen)) > 0.1
    hidden = compute(**seen, privileged=False)
    assert value("f_price_to_fair", hidden) == 1.0
    assert value("f_sentiment_price_gap", hidden) == 0.0


def test_lists_and_other_dtypes_give_the_same() -> None:
    given = columns(trades=np.full(40, 3, np.uint8))
    lists = {name: np.asarray(column).tolist() for name, column in given.items()}

    assert np.array_equal(compute(**lists), compute(**given))


def test_a_column_of_another_length_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"bid must have 40 values, one per close, got shape \(39,\)"
    ):
        compute(**columns(bid=CLOSE[1:]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"close": np.where(np.arange(40) == 7, np.nan, CLOSE)},
            "in row 7: expected a price above",
        ),
        ({"low": CLOSE + 2}, "in row 0: expected a price not above high as low"),
        ({"volume": -1.0}, "a volume of at least zero"),
        ({"trades": 0.5}, "a whole number of trades"),
        ({"fair": np.inf}, "as fair, got inf"),
        ({"news_duration": 5.0}, "a whole number of ticks as news_elapsed, got NaN"),
    ],
)
def test_a_value_that_no_bar_can_have_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compute(**columns(**changes))


def test_a_misspelt_column_is_named() -> None:
    with pytest.raises(
        TypeError, match=r"unknown columns \['bids'\]; expected some of \['bid', 'ask'"
    ):
        compute(**columns(bids=CLOSE))
    with pytest.raises(TypeError, match=r"unknown columns \['bids'\]; expected some of \['bid'"):
        Indicators().row(bids=1.0)  # type: ignore[call-arg]


def test_a_refused_bar_changes_nothing() -> None:
    indicators = pushed()
    before = indicators.state_dict()

    with pytest.raises(ValueError, match="a price above zero as close, got -1"):
        indicators.push(1.0, 1.0, -1.0)

    assert indicators.state_dict() == before


def test_reset_forgets_every_bar() -> None:
    indicators = pushed()

    indicators.reset()

    assert indicators.state_dict() == Indicators().state_dict()


def _changed(state: bytes, place: int) -> bytes:
    return state[:place] + bytes([state[place] ^ 1]) + state[place + 1 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda state: {"features": state[:-1]}, "bytes"),
        (lambda state: {"features": state[:7]}, "bytes"),
        (lambda state: {"features": state + b"x"}, "bytes"),
        (lambda state: {"features": _changed(state, 300)}, "checksum"),
        (lambda state: {"features": _changed(state, 4)}, "version 1, got version 0"),
        (lambda state: {"features": b"SKFT\x02\0\0\0" + state[8:]}, "got version 2; update"),
        (lambda state: {"features": b"PK\x03\x04"}, "got other bytes"),
        (
            lambda state: {"features": "text"},
            r"under 'features', got a dict with \{'features': 'str'\}",
        ),
        (lambda state: {}, "state must be a dict with bytes under 'features'"),
        (lambda state: None, "must be a dict with bytes under 'features', got NoneType"),
        (
            lambda state: pushed(normalize=True).state_dict(),
            "normalize=false, .*, got normalize=true",
        ),
    ],
)
def test_a_damaged_or_foreign_state_is_refused_and_changes_nothing(
    damage: Any, message: str
) -> None:
    indicators = pushed()
    before = indicators.state_dict()

    with pytest.raises(StateError, match=message):
        indicators.load_state_dict(damage(pushed(30).state_dict()["features"]))

    assert indicators.state_dict() == before


def test_a_state_is_not_reached_by_later_bars() -> None:
    indicators = pushed(20)
    state = indicators.state_dict()
    kept = copy.deepcopy(state)

    indicators.push(101.0, 99.0, 100.0)

    assert state == kept


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_goes_its_own_way_from_the_same_past(duplicate: Any) -> None:
    indicators = pushed(20, normalize=True, privileged=False, full55=True)
    before = indicators.state_dict()

    copied = duplicate(indicators)

    assert copied.state_dict() == before
    assert np.array_equal(copied.row(), indicators.row())
    copied.push(101.0, 99.0, 100.0)
    assert indicators.state_dict() == before


def test_other_threads_run_while_a_series_is_computed() -> None:
    bars = np.full((400_000, 5), 100.0)
    turns = 0
    done = threading.Event()

    def work() -> None:
        FeatureState().series(bars)
        done.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60.0)  # Python itself takes no turns: only a released lock gives one.
    try:
        worker = threading.Thread(target=work)
        worker.start()
        while not done.wait(0.001):
            turns += 1
    finally:
        sys.setswitchinterval(interval)
    worker.join()

    assert turns > 5


def test_importing_sekai_imports_no_indicators() -> None:
    script = "import sys, sekai; print('sekai.data' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert run.stdout.strip() == "False"
