"""True exposure stays within the limits, whichever account is wrong.

A true account is hidden behind two opinions: that of the venue, which may lag behind fills, and
that of the ledger, which misses fills whose reports were lost. At least one of them is right up to
fills of open orders.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from sekai.live.account import BrokerAccount
from sekai.live.ledger import Ledger
from sekai.live.orders import BrokerOrder, ExecutionReport
from sekai.live.references import PriceValidator
from sekai.live.risk import RiskGate, RiskLimits, RiskView

SECOND = 1_000_000_000
PRICES = {"A": 100.0, "B": 50.0, "C": 200.0}
OFF = RiskLimits.from_dict(dict.fromkeys(RiskLimits().to_dict(), "off"))


@dataclass(frozen=True)
class Fill:
    """Fill of an order at the venue."""

    asset: str
    units: float


@dataclass(frozen=True)
class Schedule:
    """Faults of a venue before a decision."""

    held: dict[str, float]
    fills: tuple[Fill, ...]
    lag: int
    """Number of last fills that the venue's account does not have yet."""

    lost: int
    """Number of last fills whose reports are lost; the venue does not lag then."""

    waiting: tuple[Fill, ...]
    """Open orders; those in `hidden` are filled, which neither account has."""

    hidden: frozenset[int]
    wanted: tuple[Fill, ...]
    """Orders of the policy; those in `filled` are filled afterwards."""

    filled: frozenset[int]
    weight: float
    leverage: float


assets = st.sampled_from(["A", "B", "C"])
fills = st.builds(Fill, assets, st.floats(-300.0, 300.0).filter(lambda units: abs(units) > 0.1))
lists = st.lists(fills, max_size=5).map(tuple)
indices = st.frozensets(st.integers(0, 4))
schedules = st.builds(
    Schedule,
    held=st.dictionaries(assets, st.floats(-200.0, 200.0)),
    fills=lists,
    lag=st.integers(0, 3),
    lost=st.sampled_from([0, 0, 1, 2]),
    waiting=lists,
    hidden=indices,
    wanted=lists.filter(bool),
    filled=indices,
    weight=st.floats(0.1, 1.0),
    leverage=st.floats(0.2, 2.0),
)


def after(account: BrokerAccount, fills: tuple[Fill, ...]) -> BrokerAccount:
    units, cash = dict(account.units), account.cash
    for fill in fills:
        units[fill.asset] = units.get(fill.asset, 0.0) + fill.units
        cash -= fill.units * PRICES[fill.asset]
    return replace(account, cash=cash, units=units)


def opinions(schedule: Schedule) -> tuple[BrokerAccount, BrokerAccount, BrokerAccount]:
    """True account, the venue's answer, and the account of the ledger."""
    start = BrokerAccount(cash=100_000.0, units=schedule.held)
    count = len(schedule.fills)
    ledger = Ledger()
    ledger.adopt(start, 0)
    for number, fill in enumerate(schedule.fills[: count - min(schedule.lost, count)]):
        ledger.apply(
            ExecutionReport(
                id="r", order_id=str(number), kind="filled", units=fill.units,
                price=PRICES[fill.asset], asset=fill.asset,
            ),
            SECOND,
        )  # fmt: skip
    lag = 0 if schedule.lost else min(schedule.lag, count)
    return (
        after(start, schedule.fills),
        after(start, schedule.fills[: count - lag]),
        ledger.expected(),
    )


def excess(schedule: Schedule, *, without: str = "") -> float:
    """Exposure over its limit after the decision, relative; at most 0 if the gate held.

    Args:
        schedule: faults and orders.
        without: opinion that is left out of the check, `venue` or `ledger`.
    """
    truth, venue, ledger = opinions(schedule)
    accounts = {"venue": venue, "ledger": ledger}
    accounts.pop(without, None)
    first, *others = accounts.values()
    open_units: dict[str, tuple[float, float]] = {}
    for fill in schedule.waiting:
        low, high = open_units.get(fill.asset, (0.0, 0.0))
        open_units[fill.asset] = low + min(0.0, fill.units), high + max(0.0, fill.units)
    view = RiskView(
        account=first, other_accounts=tuple(others), prices=PRICES, bar_time=0, receive_time=0,
        now=0, day_equity=1.0, peak_equity=1.0, open_units=open_units,
    )  # fmt: skip
    limits = replace(OFF, max_position_weight=schedule.weight, max_gross_leverage=schedule.leverage)
    orders = [
        BrokerOrder(id=str(number), asset=fill.asset, units=fill.units,
                    reference_price=PRICES[fill.asset])
        for number, fill in enumerate(schedule.wanted)
    ]  # fmt: skip

    allowed, _ = RiskGate(limits).check(orders, view)

    sent = tuple(Fill(one.asset, one.units) for one in allowed if int(one.id) in schedule.filled)
    waiting = tuple(
        fill for number, fill in enumerate(schedule.waiting) if number in schedule.hidden
    )
    return _excess(after(truth, waiting), sent, schedule, _worst_values(truth, open_units))


def _worst_values(
    account: BrokerAccount, open_units: dict[str, tuple[float, float]]
) -> dict[str, float]:
    """Largest value of each position that was possible before the decision."""
    worst = {}
    for asset, price in PRICES.items():
        held, (low, high) = account.units.get(asset, 0.0), open_units.get(asset, (0.0, 0.0))
        worst[asset] = max(abs(held + low), abs(held + high)) * price
    return worst


def _excess(
    before: BrokerAccount, sent: tuple[Fill, ...], schedule: Schedule, worst: dict[str, float]
) -> float:
    end = after(before, sent)
    equity = end.equity(PRICES)
    values = {asset: abs(units) * PRICES[asset] for asset, units in end.units.items()}
    # A position over its limit already may stay there: it is not made larger.
    over = [
        values[asset] - max(schedule.weight * equity, worst[asset])
        for asset in {fill.asset for fill in sent}
    ]
    if sent:
        over.append(sum(values.values()) - max(schedule.leverage * equity, sum(worst.values())))
    return max(over, default=0.0) / 100_000.0


@given(schedule=schedules)
def test_allowed_orders_keep_true_exposure_within_the_limits(schedule: Schedule) -> None:
    assert excess(schedule) <= 1e-9


@pytest.mark.parametrize("opinion", ["venue", "ledger"])
def test_without_one_of_the_opinions_a_limit_is_exceeded(opinion: str) -> None:
    search = settings(
        max_examples=3_000, phases=[Phase.generate], derandomize=True, database=None, deadline=None
    )

    found = find(
        schedules, lambda schedule: excess(schedule, without=opinion) > 0.01, settings=search
    )

    assert excess(found, without=opinion) > 0.01
    assert excess(found) <= 1e-9


def weights_with_lagging_account(*, has_ledger: bool) -> list[float]:
    """True weights of A while a policy buys 45 % of equity with an account one call behind."""
    gate = RiskGate(replace(OFF, max_position_weight=0.5))
    start = BrokerAccount(cash=100_000.0, units={})
    ledger, truth = Ledger(), [start, start]
    ledger.adopt(start, 0)
    weights = []
    for row in range(3):
        assert ledger.compare(truth[-2], row * SECOND, PRICES).status in ("agreed", "lagging")
        view = RiskView(
            account=truth[-2], other_accounts=(ledger.expected(),) if has_ledger else (),
            prices=PRICES, bar_time=0, receive_time=0, now=0, day_equity=1.0, peak_equity=1.0,
            open_units={},
        )  # fmt: skip
        order = BrokerOrder(id=str(row), asset="A", units=450.0, reference_price=100.0)
        allowed, _ = gate.check([order], view)
        truth.append(after(truth[-1], tuple(Fill("A", one.units) for one in allowed)))
        for one in allowed:
            report = ExecutionReport(
                id="r", order_id=one.id, kind="filled", units=one.units, price=100.0, asset="A"
            )
            ledger.apply(report, row * SECOND)
        weights.append(truth[-1].units["A"] * 100.0 / 100_000.0)
    return weights


def test_an_account_one_call_behind_does_not_double_a_position() -> None:
    assert weights_with_lagging_account(has_ledger=True) == [0.45, 0.45, 0.45]
    assert max(weights_with_lagging_account(has_ledger=False)) == 0.9


class LatestPrices(PriceValidator):
    """Mutant: prices without the median of the rows before."""

    def note(self, prices: dict[str, float]) -> object:  # type: ignore[override]
        self.latest = prices
        return prices

    def prices(self) -> dict[str, float]:
        return self.latest


def weight_after_wrong_price(validator: PriceValidator, wrong: float) -> float:
    """True weight of A after a purchase while the price of the held B was wrong."""
    validator.warm_up([PRICES] * 5)
    validator.note({**PRICES, "B": wrong})
    account = BrokerAccount(cash=50_000.0, units={"B": 1_000.0})
    view = RiskView(
        account=account, prices=validator.prices(), bar_time=0, receive_time=0, now=0,
        day_equity=1.0, peak_equity=1.0,
    )  # fmt: skip
    order = BrokerOrder(id="o", asset="A", units=600.0, reference_price=100.0)
    allowed, _ = RiskGate(replace(OFF, max_position_weight=0.5)).check([order], view)
    return sum(one.units for one in allowed) * 100.0 / account.equity(PRICES)


@given(wrong=st.floats(min_value=0.0, allow_nan=False))
def test_a_wrong_price_of_another_asset_makes_no_room(wrong: float) -> None:
    assert weight_after_wrong_price(PriceValidator(0.1), wrong) <= 0.5


def test_without_the_median_a_wrong_price_makes_room() -> None:
    assert weight_after_wrong_price(LatestPrices(0.1), 500.0) > 0.5
