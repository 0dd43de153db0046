"""What only a person may end: a loss limit that closed positions, an account nobody explains."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from sekai.live import BrokerAccount, LiveConfig, PaperBroker, SessionFolder, read_journal
from tests.live.operated import OperatedSession, falling_market, wait_until
from tests.live.sessions import FREE, world

FALLING = falling_market(begin=6, share=0.03)


def loss_config(limit: str) -> LiveConfig:
    limits = dataclasses.replace(FREE, **{limit: 0.05})  # type: ignore[arg-type]
    return LiveConfig(limits=limits, sync="never", on_loss="flatten")


def flattened(folder: Path, limit: str) -> None:
    """Let a session lose more than its limit, and see its positions closed."""
    broker = FALLING.broker(SessionFolder(folder).paper)
    with OperatedSession(FALLING, folder, broker, loss_config(limit)) as session:
        assert session.trade(5).positions
        assert session.trade(6).state == "halted"
        # The watchdog closes while rows go on: closing orders rest until the next row, unless they
        # were filled in an earlier one.
        wait_until(lambda: session.is_closing() or not session.status().positions)
        session.trade(1)
        status = session.until(lambda status: status.state == "halted" and not status.positions)

        assert list(status.causes) == ["loss_limit"]
        assert status.causes["loss_limit"].startswith(f"{limit}: equity ")
        assert any("closing all positions" in alert for alert in status.alerts)
        shown = session.command("status").out
        assert "halted" in shown
        assert f"loss_limit: {limit}" in shown
        assert [one["notice"] for one in session.records("notice")] == ["loss_limit"]
        assert session.records("order")
    closing = read_journal(SessionFolder(folder).watchdog)
    assert {record.kind for record in closing} >= {"order"}


@pytest.mark.parametrize(
    ("limit", "command"), [("max_daily_loss", "reset-day"), ("max_drawdown", "reset-peak")]
)
def test_a_loss_closes_positions_until_a_person_resets_it_over_restarts(
    tmp_path: Path, limit: str, command: str
) -> None:
    folder = tmp_path / "session"
    flattened(folder, limit)

    broker = FALLING.broker(SessionFolder(folder).paper)
    with OperatedSession(FALLING, folder, broker, loss_config(limit)) as session:
        before = session.until(lambda status: status.state == "halted")
        assert list(before.causes) == ["loss_limit"]
        after = session.trade(3)
        assert (after.state, after.orders_sent) == ("halted", before.orders_sent)
        assert after.positions == {}
        other = "reset-peak" if command == "reset-day" else "reset-day"
        session.command(other, "--reason", "the wrong one")
        wait_until(lambda: len(session.records("reset")) == 1)
        assert session.trade(1).state == "halted"

        session.command(command, "--reason", "reviewed the loss")
        session.until(lambda status: status.state == "trading")
        status = session.trade(2)

    assert status.orders_sent > after.orders_sent
    assert status.positions
    reasons = [one["reason"] for one in session.records("reset")]
    assert reasons == ["the wrong one", "reviewed the loss"]


def test_equity_that_recovers_does_not_reopen_a_closed_account(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    flattened(folder, "max_daily_loss")

    broker = Deposited.like(FALLING.env(), SessionFolder(folder).paper)
    assert isinstance(broker, Deposited)
    broker.cash = 50_000.0
    config = dataclasses.replace(loss_config("max_daily_loss"), max_cash_discrepancy=1.0)
    with OperatedSession(FALLING, folder, broker, config) as session:
        status = session.trade(5)

        assert status.equity > 100_000.0
        assert status.state == "halted"


class Deposited(PaperBroker):
    """Broker whose account has cash and units that no fill explains."""

    cash = 0.0
    units: dict[str, float] | None = None

    def current_account(self) -> BrokerAccount:
        account = super().current_account()
        units = dict(account.units)
        for asset, size in (self.units or {}).items():
            units[asset] = units.get(asset, 0.0) + size
        return dataclasses.replace(account, cash=account.cash + self.cash, units=units)


ADOPTING = LiveConfig(limits=FREE, sync="never", account_lag_seconds=0.1)


@pytest.mark.parametrize(
    ("cash", "units"), [(10_000.0, None), (-10_000.0, None), (0.0, {"A1": 20.0})]
)
def test_an_account_that_differs_is_only_reduced_until_a_person_adopts_it(
    tmp_path: Path, cash: float, units: dict[str, float] | None
) -> None:
    place, folder = world(), tmp_path / "session"
    asset = place.data.assets[0]

    def broker(is_different: bool) -> Deposited:
        made = Deposited.like(place.env(), SessionFolder(folder).paper)
        assert isinstance(made, Deposited)
        if is_different:
            made.cash, made.units = cash, units and {asset: 20.0}
        return made

    first = broker(False)
    with OperatedSession(place, folder, first, ADOPTING) as session:
        assert session.trade(4).state == "trading"
        first.cash, first.units = cash, units and {asset: 20.0}
        status = session.trade(6)
        assert (status.state, list(status.causes)) == ("reducing", ["account_mismatch"])
        assert any("account not explained by own orders" in alert for alert in status.alerts)
        assert only_reductions(session, place.data.assets, since=6)

    with OperatedSession(place, folder, broker(True), ADOPTING) as session:
        # A restart explains nothing either.
        assert session.trade(3).state == "reducing"
        adopted = session.command("adopt", "--reason", "seen at the broker")
        assert adopted.code == 0
        session.until(lambda status: status.state == "trading")
        status = session.trade(3)

        assert (status.state, dict(status.causes)) == ("trading", {})
        assert [one["reason"] for one in session.records("command")] == ["seen at the broker"]
        actions = [one["action"] for one in session.records("ledger")]
        assert actions.count("adopt") == 2


def only_reductions(session: OperatedSession, assets: tuple[str, ...], since: int) -> bool:
    """Return True if no order since a row adds to a position."""
    accounts = session.records("account")
    decisions = session.records("decision")
    for account, decision in zip(accounts[since:], decisions[since:], strict=False):
        held: dict[str, Any] = dict(zip(assets, account["units"].tolist(), strict=True))
        if any(order["units"] * held[order["asset"]] > 0.0 for order in decision["orders"]):
            return False
    return True
