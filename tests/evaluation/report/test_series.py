import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sekai.evaluation import Episode
from sekai.evaluation.report.chart import (
    aligned,
    drawdown,
    is_relative,
    monthly_returns,
    rolling_beta,
    rolling_mean_and_deviation,
    wealth,
)
from sekai.evaluation.report.performance import window_for

EQUITY = arrays(np.float64, st.integers(2, 120), elements=st.floats(0.5, 100.0))
RETURNS = arrays(np.float64, 40, elements=st.floats(-0.1, 0.1))


def episode(equity: np.ndarray, first: str = "2020-01-30", hours: int = 24) -> Episode:
    times = np.datetime64(first, "ns") + (np.arange(len(equity)) * hours).astype("timedelta64[h]")
    return Episode(seed=0, rewards=np.diff(equity), equity=equity, times=times)


@given(equity=EQUITY)
def test_drawdown_is_never_above_nought_and_is_nought_at_peaks(equity: np.ndarray) -> None:
    fallen = drawdown(episode(equity), relative=True)

    peaks = equity == np.maximum.accumulate(equity)
    assert (fallen <= 0).all()
    assert np.array_equal(fallen == 0, peaks)


@given(equity=EQUITY, hours=st.integers(1, 900))
def test_months_together_are_the_whole_growth(equity: np.ndarray, hours: int) -> None:
    grown = monthly_returns(episode(equity, hours=hours))

    together = np.prod([1 + one for one in grown.values()])
    assert together == pytest.approx(equity[-1] / equity[0], rel=1e-9)


def test_a_return_belongs_to_the_month_that_it_ends_in() -> None:
    grown = monthly_returns(episode(np.array([100.0, 110.0, 99.0]), "2020-01-30"))
    assert grown == pytest.approx({(2020, 1): 0.1, (2020, 2): -0.1})


def test_a_ruined_account_stays_in_the_median() -> None:
    rows = aligned([np.array([1.0, 0.5]), np.array([1.0, 2.0, 3.0])])
    assert rows.tolist() == [[1.0, 0.5, 0.5], [1.0, 2.0, 3.0]]


def test_accounts_that_begin_with_nothing_grow_in_money() -> None:
    started = episode(np.array([0.0, 5.0, 3.0]))

    assert not is_relative([started])
    assert wealth(started, relative=False).tolist() == [0.0, 5.0, 3.0]
    assert drawdown(started, relative=False).tolist() == [0.0, 0.0, -2.0]


@given(returns=RETURNS, other=RETURNS, window=st.integers(3, 40))
def test_rolling_figures_are_those_of_each_window(
    returns: np.ndarray, other: np.ndarray, window: int
) -> None:
    mean, deviation = rolling_mean_and_deviation(returns, window)
    beta = rolling_beta(returns, other, window)

    for place in range(len(returns) - window + 1):
        mine, theirs = returns[place : place + window], other[place : place + window]
        assert mean[place] == pytest.approx(mine.mean(), abs=1e-12)
        assert deviation[place] == pytest.approx(mine.std(ddof=1), abs=1e-12)
        if theirs.std() > 1e-6:
            expected = np.cov(mine, theirs)[0, 1] / theirs.var(ddof=1)
            assert beta[place] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_beta_against_what_stands_still_is_not_defined() -> None:
    assert np.isnan(rolling_beta(np.arange(5.0), np.zeros(5), 3)).all()


@pytest.mark.parametrize(
    ("steps", "periods", "window"),
    [(504, 252.0, 63), (100, 252.0, 20), (100, float("nan"), 20), (9000, 8760.0, 2190)],
)
def test_windows_are_a_quarter_of_a_year_or_a_fifth_of_the_episode(
    steps: int, periods: float, window: int
) -> None:
    assert window_for(steps, periods) == window
