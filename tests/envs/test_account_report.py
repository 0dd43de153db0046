"""Broker account reports: a reported row replaces the simulated account."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import Bar
from sekai.envs import MultiPortfolio, Portfolio
from sekai.envs.portfolio.batch import COST_FIELDS, AccountReport
from sekai.error import ResetRequired
from sekai.market import Execution, MarginAccount
from tests.envs.streamed_worlds import DATA, HALF, a_stream, same, streamed

NAMES = DATA.assets
USUAL: dict[str, Any] = {"features": ("log_return",), "lookback": 3}


def marks(row: int) -> Any:
    return DATA.field("close")[row]


units_of = st.lists(st.floats(0.0, 100.0), min_size=3, max_size=3)
reports = st.builds(
    AccountReport,
    cash=st.floats(1.0, 1e6),
    units=units_of | units_of.map(lambda units: dict(zip(NAMES, units, strict=True))),
    open_units=st.just({}) | units_of,
    costs=st.dictionaries(st.sampled_from(COST_FIELDS), st.floats(-10.0, 100.0)),
    traded=st.floats(0.0, 1e5),
)


@given(report=reports, record=st.booleans())
@settings(deadline=None, max_examples=50)
def test_what_was_reported_is_what_the_env_shows(report: AccountReport, record: bool) -> None:
    env, bars = a_stream(record=record)
    env.report(report)
    env.push(bars[0])

    result = env.step(HALF)

    given_units = report.units
    units = [*given_units.values()] if isinstance(given_units, dict) else given_units
    values = np.array(units) * marks(20)
    equity = report.cash + values.sum()
    assert result.info["cash"] == report.cash
    assert result.info["equity"] == pytest.approx(equity)
    assert result.info["cost"] == pytest.approx(sum(report.costs.values()))
    assert result.info["turnover"] == pytest.approx(report.traded / 1e5)
    assert result.info["pnl"] == pytest.approx(equity - 1e5)
    assert result.reward == pytest.approx(np.log(equity / 1e5))
    assert result.observation["weights"][:3] == pytest.approx(values / equity, rel=1e-5)


def test_reports_are_of_one_row_each_in_order_and_later_rows_are_simulated() -> None:
    env, bars = a_stream()
    for cash in (50_000.0, 60_000.0):
        env.report(AccountReport(cash=cash, units={}))
    for bar in bars[:3]:
        env.push(bar)

    assert [env.step(HALF).info["cash"] for _ in range(2)] == [50_000.0, 60_000.0]
    assert env.step(HALF).info["turnover"] > 0.5


def test_reports_that_wait_are_part_of_the_state_and_not_of_the_next_episode() -> None:
    env, bars = a_stream()
    other, _ = a_stream()
    env.report(AccountReport(cash=50_000.0, units={}))
    other.load_state_dict(env.state_dict())
    for one in (env, other):
        one.push(bars[0])

    results = [one.step(HALF) for one in (env, other)]

    assert same(*results)
    assert results[0].info["cash"] == 50_000.0
    env.report(AccountReport(cash=1.0, units={}))
    env.reset(seed=0)
    env.push(bars[1])
    assert env.step(HALF).info["cash"] > 1_000.0


def test_each_row_between_decisions_has_its_own_report() -> None:
    tradable = np.ones((40, 3), np.bool_)
    tradable[21] = False
    data = DATA.replace(tradable=tradable)
    env = Portfolio(
        data=data.rows(0, 21), stream=True, features=["log_return"], lookback=3,
        decisions="trading_days",
    )  # fmt: skip
    env.reset(seed=0)
    for number, bar in enumerate(Bar.each(data, 21, 23)):
        env.report(AccountReport(cash=9e4 - number, units={}, costs={"fixed": 2.0}))
        env.push(bar)

    info = env.step(HALF).info

    assert (info["cash"], info["fixed"], info["time_index"]) == (9e4 - 1, 4.0, 22.0)


def test_a_reported_account_can_be_called_and_ruined() -> None:
    account = MarginAccount(leverage=2.0, maintenance=0.25)
    env, bars = a_stream(account=account)
    units = 1e5 / marks(20)[0]
    env.report(AccountReport(cash=-0.9e5, units={NAMES[0]: units}))
    env.report(AccountReport(cash=0.0, units={}))
    for bar in bars[:2]:
        env.push(bar)

    assert env.step(HALF).info["margin_call"] == 1.0
    assert env.step(HALF).terminated


def test_open_orders_that_were_reported_stand() -> None:
    execution = Execution(unfilled="carry", sizing="decision")
    env, bars = a_stream(execution=execution)
    env.report(AccountReport(cash=1e5, units={}, open_units={NAMES[1]: 4.0}))
    tradable = np.array([True, False, True])
    halted = Bar(bars[0].time, bars[0].values, tradable=tradable, market=bars[0].market)
    env.push(halted)
    env.step(HALF)
    env.push(bars[1])

    result = env.step(np.array([0.0, 0.0, 0.0, 1.0]))

    assert result.observation["weights"][1] > 0.0


def test_reported_changes_are_logged_as_trades_at_the_price_of_fills() -> None:
    env, bars = a_stream(record=True)
    costs = {"proportional": 1.0, "half_spread": 2.0, "impact": 3.0, "fixed": 5.0}
    env.report(AccountReport(cash=9e4, units={NAMES[0]: 3.0}, costs=costs, traded=600.0))
    env.push(bars[0])
    env.step(HALF)

    (log,) = env.take_log()

    assert (log.trades.asset.tolist(), log.trades.units.tolist()) == ([NAMES[0]], [3.0])
    assert log.trades.price.tolist() == [DATA.field("open")[20, 0]]
    assert log.trades.rate.tolist() == [6.0 / 600.0]
    assert log.trades.row.tolist() == [20]


def test_reported_delistings_are_logged_at_what_they_cost() -> None:
    listed = np.ones((40, 3), np.bool_)
    listed[21:, 0] = False
    values = np.where(listed[:, :, None], DATA.values, np.nan)
    data = DATA.replace(values=values, listed=listed, quoted=listed, tradable=listed)
    env, bars = streamed(data, 20, record=True)
    env.reset(seed=0)
    env.report(AccountReport(cash=9e4, units={NAMES[0]: 3.0}))
    value = 3.0 * marks(20)[0]
    env.report(AccountReport(cash=9.1e4, units={}, costs={"delisting": value / 4}))
    for bar in bars[:2]:
        env.push(bar)
        env.step(HALF)

    trades = env.take_log()[0].trades

    assert trades.units.tolist() == [3.0, -3.0]
    assert (trades.price[1], trades.rate[1]) == (marks(20)[0], pytest.approx(0.25))


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (AccountReport(cash=np.nan, units={}), "cash must be finite"),
        (AccountReport(cash=1.0, units={NAMES[0]: np.inf}), "units must be finite"),
        (AccountReport(cash=1.0, units={}, open_units=[0.0, np.nan, 0.0]), "open_units must be"),
        (AccountReport(cash=1.0, units=[1.0, 2.0]), "units must have shape \\(3,\\)"),
        (AccountReport(cash=1.0, units={"gold": 1.0}), "unknown asset 'gold'"),
        (AccountReport(cash=1.0, units={}, costs={"bribes": 1.0}), "unknown cost 'bribes'"),
        (AccountReport(cash=1.0, units={}, costs={"fixed": np.nan}), "paid must be finite"),
        (AccountReport(cash=1.0, units={}, traded=-1.0), "traded must be at least 0"),
        (AccountReport(cash=1.0, units={}, traded=np.inf), "traded must be finite"),
    ],
)
def test_what_cannot_be_an_account_is_refused_and_changes_nothing(
    report: AccountReport, words: str
) -> None:
    env, bars = a_stream()
    before = env.batch.state_dict()

    with pytest.raises(ValueError, match=words):
        env.report(report)

    assert env.batch.state_dict() == before
    env.push(bars[0])
    assert env.step(HALF).info["turnover"] > 0.0


def test_there_is_no_account_outside_an_episode() -> None:
    env, _ = streamed(DATA, 20)

    with pytest.raises(ResetRequired):
        env.report(AccountReport(cash=1.0, units={}))


def test_the_accounts_of_several_agents_are_not_reported() -> None:
    env = MultiPortfolio()
    env.reset(seed=0)
    before = env.batch.state_dict()

    with pytest.raises(ValueError, match="account of a single agent, got 3 agents: use a Port"):
        env.report(AccountReport(cash=1.0, units={}))

    assert env.batch.state_dict() == before


def test_the_account_of_an_only_agent_is_reported_as_that_of_a_portfolio() -> None:
    only = MultiPortfolio(DATA.rows(0, 20), agents=["only"], stream=True, **USUAL)
    alone = Portfolio(DATA.rows(0, 20), stream=True, **USUAL)
    for env in (only, alone):
        env.reset(seed=0)
        env.report(AccountReport(cash=5e4, units={"asset0": 3.0}))
        env.push(next(iter(Bar.each(DATA, 20))))

    one, other = only.step({"only": HALF}), alone.step(HALF)

    assert one.info["only"] == other.info
    assert one.rewards["only"] == other.reward


def test_places_that_are_free_have_no_units() -> None:
    env, bars = a_stream(slots=2)
    env.report(AccountReport(cash=5e4, units=[1.0, 0.0, 0.0]))
    env.push(bars[0])

    assert env.step(np.array([0.2, 0.2, 0.2, 0.0, 0.0, 0.4])).info["cash"] == 5e4
