"""Histories drawn from a panel keep what its rows hold, and what follows within a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data.bootstrap import block_rows, bootstrap
from sekai.data.market_data import MarketData
from sekai.data.simulators import Disruptions, simulate_gbm
from tests.data.statistics import assert_mean

HALTS = Disruptions(halt_rate=0.05, halt_rows=3)


def growth(data: MarketData, start: Any = np.nan) -> Any:
    """Growth of each row over the last quoted close; 1 where halted."""
    close = data.field("close")
    mark = np.broadcast_to(start, close.shape[1])
    rows = []
    for values, quoted in zip(close, data.quoted, strict=True):
        rows.append(np.where(quoted, values / mark, 1.0))
        mark = np.where(quoted, values, mark)
    return np.array(rows)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 300),
    block=st.sampled_from([1, 2, 7.5, 30]),
    stationary=st.booleans(),
)
def test_a_drawn_row_does_what_it_did_from_the_first_close_on(
    seed: int, rows: int, block: float, stationary: bool
) -> None:
    data = simulate_gbm(3, 80, disruptions=HALTS, overnight=0.3)
    length = block if stationary else int(block)

    made = bootstrap(data, rows, seed, block_length=length, stationary=stationary)

    marked = np.flatnonzero(data.quoted.cumsum(axis=0).all(axis=1))[0]
    drawn = block_rows(79 - marked, rows, seed, length, stationary) + marked + 1
    assert np.array_equal(made.quoted, data.quoted[drawn])
    first = data.field("close")[data.quoted.argmax(axis=0), range(3)]
    np.testing.assert_allclose(growth(made, first), growth(data)[drawn], rtol=1e-9)
    for name in ("open", "high", "low"):
        np.testing.assert_allclose(
            made.field(name) / made.field("close"),
            (data.field(name) / data.field("close"))[drawn], rtol=1e-12,
        )  # fmt: skip
    assert np.array_equal(made.field("volume"), data.field("volume")[drawn], equal_nan=True)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), unlisted=st.sampled_from(["leave_out", "halt"]))
def test_bars_stay_coherent(seed: int, unlisted: Any) -> None:
    late = Disruptions(halt_rate=0.05, late_share=0.5, listing_rows=20)
    data = simulate_gbm(4, 200, seed, disruptions=late, overnight=0.3)

    made = bootstrap(data, 300, seed, block_length=5, unlisted=unlisted)

    opens, high, low, close, _ = (made.field(name)[made.quoted] for name in made.fields)
    assert np.all(low <= np.minimum(opens, close))
    assert np.all(high >= np.maximum(opens, close))


@pytest.mark.parametrize("stationary", [True, False])
def test_marginal_moments_and_correlations_are_kept(stationary: bool) -> None:
    data = simulate_gbm(2, 400, 1, correlation=0.6)
    source = np.log(growth(data)[1:])

    made = np.log(growth(bootstrap(data, 60_001, 2, block_length=5, stationary=stationary))[1:])

    # Blocks of 5 rows are independent, so that errors are at most those of sums of 5 rows.
    for place in range(2):
        wanted = source[:, place]
        error = wanted.std() * np.sqrt(5)
        assert_mean(made[:, place], wanted.mean(), error)
        square = (wanted - wanted.mean()) ** 2
        assert_mean((made[:, place] - wanted.mean()) ** 2, wanted.var(), square.std() * 5**0.5)
    assert np.corrcoef(made.T)[0, 1] == pytest.approx(np.corrcoef(source.T)[0, 1], abs=0.02)


def test_rows_follow_each_other_as_often_as_blocks_say() -> None:
    # A series that swings: neighbours correlate -0.6, which whole blocks keep.
    rng = np.random.default_rng(0)
    moves = rng.standard_normal(2000)
    for row in range(1, 2000):
        moves[row] = -0.6 * moves[row - 1] + 0.8 * moves[row]
    close = 100 * np.exp(np.cumsum(0.01 * moves))
    days = np.datetime64("2000-01-01", "ns") + np.arange(2000) * np.timedelta64(1, "D")
    data = MarketData(days, ["A"], ["close"], close[:, None, None])
    source = np.log(growth(data)[1:, 0])
    own = np.corrcoef(source[1:], source[:-1])[0, 1]

    for block, kept in [(50, 0.98), (4, 0.75), (1, 0.0)]:
        made = np.log(growth(bootstrap(data, 50_000, 1, block_length=block))[1:, 0])
        # A neighbour follows with chance 1 - 1 / block, or else it is any row.
        found = np.corrcoef(made[1:], made[:-1])[0, 1]
        assert found == pytest.approx(kept * own, abs=0.03)


def test_blocks_have_the_lengths_that_were_asked_for() -> None:
    drawn = block_rows(10_000, 100_000, 5, 8)
    fixed = block_rows(10_000, 99, 5, 8, stationary=False)

    begins = np.flatnonzero(np.diff(drawn, prepend=-5) % 10_000 != 1)
    assert_mean(np.diff(begins), 8.0)
    jumps = np.flatnonzero(np.diff(fixed) % 10_000 != 1) + 1
    assert jumps.tolist() == list(range(8, 99, 8))


def test_every_row_is_drawn_as_often_as_the_others() -> None:
    drawn = block_rows(10, 200_000, 6, 4)

    # Blocks of mean 4 and variance 12 widen the error of a count at most by sqrt(7).
    for row in range(10):
        assert_mean(drawn == row, 0.1, 0.3 * np.sqrt(7))


def test_more_rows_begin_with_the_same_history() -> None:
    data = simulate_gbm(3, 100, disruptions=HALTS)

    assert bootstrap(data, 500, 4).rows(0, 90) == bootstrap(data, 90, 4)
    assert bootstrap(data, 90, 4) != bootstrap(data, 90, 5)


def test_rows_before_a_listing_are_left_out_or_halts() -> None:
    data = simulate_gbm(2, 100)
    values, listed = data.values.copy(), np.ones((100, 2), bool)
    values[:60, 1], listed[:60, 1] = np.nan, False
    data = data.replace(values=values, listed=listed, quoted=listed, tradable=listed)

    without, halting = bootstrap(data, 3000), bootstrap(data, 3000, unlisted="halt")

    assert without.quoted.all()
    late = np.log(growth(data)[61:, 0])
    assert np.log(growth(without)[1:, 0]).max() <= late.max() + 1e-12
    assert halting.quoted[:, 0].all()
    assert halting.quoted[:, 1].mean() == pytest.approx(39 / 99, abs=0.08)
    first = halting.quoted[:, 1].argmax()
    assert np.array_equal(halting.listed[:, 1], np.arange(3000) >= first)


def test_series_of_the_market_and_masks_go_along() -> None:
    data = simulate_gbm(2, 60)
    tradable = np.ones((60, 2), bool)
    tradable[::3, 0] = False
    data = data.replace(tradable=tradable, market={"rate": np.arange(60.0)})

    made = bootstrap(data, 200, 1)

    drawn = made.market["rate"].astype(int)
    assert np.array_equal(drawn, block_rows(59, 200, 1, 20) + 1)
    assert np.array_equal(made.tradable, tradable[drawn])


def test_adjusted_closes_follow_their_own_returns() -> None:
    data = simulate_gbm(1, 60)
    adjusted = data.field("close") * np.linspace(0.5, 1.0, 60)[:, None]
    data = data.replace(
        fields=(*data.fields, "adj_close"),
        values=np.concatenate([data.values, adjusted[:, :, None]], axis=2),
        market={"row": np.arange(60.0)},
    )

    made = bootstrap(data, 200, 1)

    drawn = made.market["row"].astype(int)[1:]
    own = made.field("adj_close")[:, 0]
    np.testing.assert_allclose(own[1:] / own[:-1], adjusted[drawn, 0] / adjusted[drawn - 1, 0])


def test_stamps_go_on_for_whole_weeks() -> None:
    data = simulate_gbm(1, 12, start="2024-01-02")

    made = bootstrap(data, 30, block_length=3)

    assert np.array_equal(made.times[:12], data.times)
    assert np.all(np.is_busday(made.times.astype("datetime64[D]")))
    assert made.times[12] - data.times[0] == np.timedelta64(21, "D")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rows": 0}, "rows must be at least 1"),
        ({"block_length": 0.5}, "block_length must be from 1 to 49 rows, got"),
        ({"block_length": 50}, "block_length must be from 1 to 49 rows, got"),
        (
            {"block_length": 2.5, "stationary": False},
            "block_length must be an integer unless stationary",
        ),
        ({"unlisted": "drop"}, "unlisted must be"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bootstrap(simulate_gbm(2, 50), **{"rows": 10, **wrong})


def test_a_panel_without_closes_or_common_rows_is_refused() -> None:
    data = simulate_gbm(2, 50)
    never = np.ones((50, 2), bool)
    never[:, 1] = False
    values = np.where(never[:, :, None], data.values, np.nan)
    half = data.replace(values=values, listed=never, quoted=never, tradable=never)

    with pytest.raises(ValueError, match="bootstrap requires the field 'close', got fields"):
        bootstrap(data.select(fields=["open"]), 10)
    with pytest.raises(ValueError, match="unlisted='halt'"):
        bootstrap(half, 10)
    assert not bootstrap(half, 10, unlisted="halt").listed[:, 1].any()
