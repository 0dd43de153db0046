"""A few wrong prices move no reference of a risk limit; confirmed levels do."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import StateError
from sekai.live.references import EquityReferences, PriceValidator, TradingDays
from sekai.live.risk import RiskLimits

HOUR = 3_600_000_000_000
DAY = 24 * HOUR
LIMITS = RiskLimits(max_daily_loss=0.05, max_drawdown=0.25)


def validated(prices: list[float], **settings: Any) -> list[float]:
    validator = PriceValidator(0.2, **settings)
    return [validator.note({"A": price}).prices.get("A", math.nan) for price in prices]


def test_a_single_wrong_price_is_replaced_by_the_last_valid_one() -> None:
    for wrong in (1_000.0, 1.0, 130.0, 75.0):
        assert validated([100.0] * 4 + [wrong, 101.0])[-2:] == [100.0, 101.0]


def test_a_level_shift_is_accepted_after_consistent_rows() -> None:
    prices = [100.0] * 5 + [50.0, 51.0, 49.5, 50.0]

    assert validated(prices)[5:] == [100.0, 100.0, 49.5, 50.0]


def test_rows_that_do_not_agree_with_each_other_confirm_nothing() -> None:
    assert validated([100.0] * 5 + [50.0, 200.0, 50.0, 200.0, 50.0])[5:] == [100.0] * 5
    assert validated([100.0] * 5 + [50.0, 50.0, 100.0, 50.0, 50.0])[5:] == [100.0] * 5


def test_the_collar_looks_back_over_several_rows() -> None:
    # Each step is within the collar of the row before, and far from the rows before that.
    assert validated([100.0] * 5 + [118.0, 139.0])[-2:] == [118.0, 118.0]


@pytest.mark.parametrize("absurd", [1.7e308, math.inf, -math.inf, 0.0, -5.0, 5e-324, 1e16])
def test_an_absurd_price_never_validates(absurd: float) -> None:
    assert validated([100.0] * 3 + [absurd] * 50)[-1] == 100.0
    assert all(math.isnan(price) for price in validated([absurd] * 50))
    notes = PriceValidator(None).note({"A": absurd})
    assert (notes.prices, list(notes.suspects)) == ({}, ["A"])


def test_the_first_prices_have_to_be_confirmed_and_a_history_does_that() -> None:
    assert [math.isnan(price) for price in validated([100.0, 100.0, 100.0])] == [True, True, False]
    validator = PriceValidator(0.2)

    validator.warm_up([{"A": 100.0}] * 3)

    assert validator.note({"A": 101.0}).suspects == {}
    assert list(validator.note({"A": 101.0, "B": 7.0}).suspects) == ["B"]


def test_an_asset_without_a_price_keeps_its_last_and_is_no_suspect() -> None:
    validator = PriceValidator(0.2)
    validator.warm_up([{"A": 100.0}] * 3)

    notes = validator.note({"A": math.nan})

    assert (notes.prices, notes.suspects) == ({"A": 100.0}, {})


steady = st.floats(95.0, 105.0)


@given(
    prices=st.lists(steady, min_size=12, max_size=30),
    wrong=st.floats(allow_nan=False).filter(lambda price: not 76.0 < price < 127.0),
    data=st.data(),
)
def test_wrong_prices_that_are_not_repeated_never_validate(
    prices: list[float], wrong: float, data: st.DataObject
) -> None:
    where = data.draw(st.sets(st.integers(5, len(prices) - 1), max_size=4))
    where = {index for index in where if index - 1 not in where or index - 2 not in where}
    broken = [wrong if index in where else price for index, price in enumerate(prices)]

    found = validated(broken)

    assert all(95.0 <= price <= 105.0 for price in found[2:])
    assert [found[index] for index in range(5, len(prices)) if index not in where] == [
        prices[index] for index in range(5, len(prices)) if index not in where
    ]


@given(prices=st.lists(st.floats(1.0, 500.0) | st.just(1.7e308), max_size=30), cut=st.integers(0))
def test_a_validator_continues_from_its_state(prices: list[float], cut: int) -> None:
    whole, first, second = (PriceValidator(0.2) for _ in range(3))
    cut %= len(prices) + 1
    expected = [whole.note({"A": price}) for price in prices]

    found = [first.note({"A": price}) for price in prices[:cut]]
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    found += [second.note({"A": price}) for price in prices[cut:]]

    assert found == expected


def references(*rows: tuple[float, float], **settings: Any) -> EquityReferences:
    found = EquityReferences(LIMITS, **settings)
    for hours, equity in rows:
        found.note(int(hours * HOUR), equity)
    return found


def test_a_wrong_row_at_the_end_of_a_day_does_not_set_the_base_of_the_next() -> None:
    for wrong in (1.0, 50_000.0, 1e6):
        found = references((20, 1e5), (21, 1e5), (22, 1e5), (23.5, wrong), (25, 94_000.0))

        assert found.day_equity == 1e5
        found.note(26 * HOUR, 94_000.0)
        breach = found.breach()
        assert breach is not None
        assert breach.limit == "max_daily_loss"


def test_a_wrong_row_upwards_does_not_become_the_peak() -> None:
    found = references((1, 1e5), (2, 1e5), (3, 1e5), (4, 1e6), (5, 1e6), (6, 1e5), (7, 1e5))

    assert found.peak_equity == 1e5
    assert found.breach() is None


def test_an_equity_that_holds_becomes_the_peak() -> None:
    assert references((1, 1e5), (2, 2e5), (3, 2.1e5), (4, 1.9e5)).peak_equity == 1.9e5


@pytest.mark.parametrize("wrong", [1.0, 2e5, 1e9])
def test_a_wrong_first_row_is_forgotten_when_equity_is_confirmed(wrong: float) -> None:
    found = references((1, wrong), (2, 1e5), (3, 1e5), (4, 1e5))

    assert (found.day_equity, found.peak_equity) == (1e5, 1e5)


def test_a_single_wrong_row_down_flattens_nothing_and_a_loss_that_holds_does() -> None:
    found = references((1, 1e5), (2, 1e5), (3, 1e5), (4, 10.0), on_loss="flatten")

    assert found.must_flatten() is None
    assert found.breach(10.0) is not None
    found.note(5 * HOUR, 90_000.0)
    found.note(6 * HOUR, 90_000.0)
    breach = found.must_flatten()
    assert breach is not None
    assert (breach.limit, breach.base) == ("max_daily_loss", 1e5)
    assert references((1, 1e5), (2, 9e4), (3, 9e4), (4, 9e4)).must_flatten() is None


def test_a_flattening_loss_holds_until_its_own_reset_or_the_next_day() -> None:
    lost = ((1, 1e5), (2, 1e5), (3, 1e5), (4, 9e4), (5, 9e4), (6, 9e4))
    recovered = (*lost, (7, 1e5), (8, 1e5), (9, 1e5))

    found = references(*recovered, on_loss="flatten")
    assert found.breach() is None
    assert found.must_flatten() is not None
    other = references(on_loss="flatten")
    other.load_state_dict(json.loads(json.dumps(found.state_dict())))
    assert other.must_flatten() == found.must_flatten()
    found.reset_peak("the other limit")
    assert found.must_flatten() is not None
    found.reset_day("reviewed")
    assert found.must_flatten() is None

    assert references(*recovered, (30, 1e5), on_loss="flatten").must_flatten() is None
    assert references(*lost, (30, 9e4), on_loss="flatten").must_flatten() is None


def test_a_drawdown_over_days_is_measured_from_the_peak() -> None:
    found = references(*((24 * day + 5, 1e5 * 0.97**day) for day in range(12)), confirm_rows=1)

    breach = found.breach()

    assert breach is not None
    assert (breach.limit, breach.base) == ("max_drawdown", 1e5)


def test_resets_need_a_reason_and_are_replayed() -> None:
    found, other = (references((1, 2e5), (2, 2e5), (3, 2e5), (30, 1e5)) for _ in range(2))
    for equity in (1e5, 1e5, 1e5):
        for each in (found, other):
            each.note(31 * HOUR, equity)

    with pytest.raises(ValueError, match="reset_peak needs a reason"):
        found.reset_peak(" ")
    assert found.peak_equity == 2e5
    records = [found.reset_peak("withdrawal"), found.reset_day("withdrawal")]
    for record in json.loads(json.dumps(records)):
        other.replay(record)

    assert (found.peak_equity, found.day_equity) == (1e5, 1e5)
    assert records[0] == {
        "action": "reset_peak", "reason": "withdrawal", "before": 2e5, "equity": 1e5,
    }  # fmt: skip
    assert found.breach() is None
    assert other.state_dict() == found.state_dict()


def test_an_equity_that_is_no_number_is_ignored_and_counted() -> None:
    found = references((1, 1e5), (2, math.nan), (3, math.inf), (4, 1e5))

    assert (found.peak_equity, found.confirmed, found.ignored) == (1e5, 1e5, 2)


@given(
    equities=st.lists(st.floats(9e4, 1.1e5), min_size=8, max_size=40),
    wrong=st.floats(-1e12, 1e12),
    data=st.data(),
)
def test_one_wrong_row_leaves_every_reference_within_the_right_rows(
    equities: list[float], wrong: float, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(equities) - 4))
    broken = [wrong if row == index else equity for row, equity in enumerate(equities)]
    times = [row * 5 * HOUR for row in range(len(equities))]

    found = references(*((time / HOUR, equity) for time, equity in zip(times, broken, strict=True)))

    for value in (found.day_equity, found.peak_equity, found.confirmed):
        assert 9e4 <= value <= 1.1e5


@given(equities=st.lists(st.floats(1.0, 1e6), max_size=30), cut=st.integers(0))
def test_references_continue_from_their_state(equities: list[float], cut: int) -> None:
    rows = [(index * 7, equity) for index, equity in enumerate(equities)]
    cut %= len(rows) + 1
    resumed = EquityReferences(LIMITS)

    resumed.load_state_dict(json.loads(json.dumps(references(*rows[:cut]).state_dict())))
    for hours, equity in rows[cut:]:
        resumed.note(hours * HOUR, equity)

    assert resumed.state_dict() == references(*rows).state_dict()


def test_states_that_are_none_are_refused_and_change_nothing() -> None:
    found, validator = references((1, 1e5)), PriceValidator()
    validator.warm_up([{"A": 100.0}] * 3)
    before = found.state_dict(), validator.state_dict()

    with pytest.raises(StateError, match="not the state of equity references"):
        found.load_state_dict({**before[0], "window": [math.inf]})
    with pytest.raises(StateError, match="not the state of a price validator"):
        validator.load_state_dict({"valid": {"A": [1.7e308]}, "pending": {}})

    assert (found.state_dict(), validator.state_dict()) == before


def at(text: str, zone: str = "UTC") -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return int(moment.astimezone(timezone.utc).timestamp()) * 1_000_000_000


def test_days_are_those_of_utc_unless_a_zone_is_named() -> None:
    tokyo, utc = TradingDays(time_zone="Asia/Tokyo"), TradingDays()
    morning, evening = at("2024-03-05 14:59:00"), at("2024-03-05 15:01:00")

    assert utc.day(morning) == utc.day(evening) == at("2024-03-05 00:00:00") // DAY
    assert tokyo.day(evening) == tokyo.day(morning) + 1


def test_the_end_of_a_day_belongs_to_it() -> None:
    midnight = at("2024-03-06 00:00:00")

    assert TradingDays().day(midnight) == TradingDays().day(midnight - HOUR)
    assert TradingDays().day(midnight + 1) == TradingDays().day(midnight) + 1


def test_a_roll_over_hour_follows_daylight_saving() -> None:
    days = TradingDays(time_zone="America/New_York", rollover_hour=17)
    for date in ("2024-01-10", "2024-07-10"):
        before = at(f"{date} 16:59:00", "America/New_York")
        after = at(f"{date} 17:01:00", "America/New_York")

        assert days.day(after) == days.day(before) + 1
        assert days.day(after) == at(f"{date} 00:00:00") // DAY + 1


@given(times=st.lists(st.integers(0, 2**62), min_size=2), hour=st.integers(0, 23))
def test_later_times_are_never_of_an_earlier_day(times: list[int], hour: int) -> None:
    days = TradingDays(time_zone="Australia/Lord_Howe", rollover_hour=hour)

    found = [days.day(time) for time in sorted(times)]

    assert found == sorted(found)


def test_a_calendar_ends_its_days_at_the_close_of_the_exchange() -> None:
    pytest.importorskip("exchange_calendars")
    days, zone = TradingDays("XNYS"), "America/New_York"
    friday = days.day(at("2024-03-01 12:00:00", zone))

    assert friday == at("2024-03-01 00:00:00") // DAY
    assert days.day(at("2024-03-01 16:00:00", zone)) == friday
    assert days.day(at("2024-03-01 16:01:00", zone)) == friday + 3
    assert days.day(at("2024-03-04 09:30:00", zone)) == friday + 3
    # The day after Thanksgiving closes at 13:00.
    assert days.day(at("2024-11-29 13:01:00", zone)) == at("2024-12-02 00:00:00") // DAY
    assert days.day(at("1990-01-03 12:00:00", zone)) == at("1990-01-03 00:00:00") // DAY


def test_names_that_do_not_exist_are_refused() -> None:
    pytest.importorskip("exchange_calendars")
    with pytest.raises(ValueError, match="unknown trading calendar 'XXXX'"):
        TradingDays("XXXX")
    with pytest.raises(ValueError, match="unknown time zone 'Mars/Olympus'"):
        TradingDays(time_zone="Mars/Olympus")
    with pytest.raises(ValueError, match="rollover_hour must be"):
        TradingDays(rollover_hour=24)
