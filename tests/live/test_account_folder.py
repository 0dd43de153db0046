"""State of an account outlives its sessions, and one session holds it at a time."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import BusyError, StateError
from sekai.live.account_folder import AccountFolder, account_path
from sekai.live.references import EquityReferences
from sekai.live.risk import RiskGate
from tests.live.test_risk import OFF, order, view

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Clocks:
    """Clocks that stand at given times."""

    boot: int = 1_000 * SECOND
    wall: int = 1_700_000_000 * SECOND
    name: str = "boot-1"

    def wall_ns(self) -> int:
        return self.wall

    def boot_ns(self) -> int:
        return self.boot

    def boot_id(self) -> str:
        return self.name


CLOCK = Clocks()


def later(seconds: int) -> Clocks:
    return replace(CLOCK, boot=CLOCK.boot + seconds * SECOND, wall=CLOCK.wall + seconds * SECOND)


def test_a_fresh_session_folder_goes_on_with_day_peak_and_rate(tmp_path: Path) -> None:
    references, gate = EquityReferences(), RiskGate(replace(OFF, max_orders_per_minute=2))
    for equity in (2e5, 2e5, 2e5, 1e5, 1e5, 1e5):
        references.note(CLOCK.wall, equity)
    gate.check([order(), order()], view(now=CLOCK.boot, receive_time=CLOCK.boot))
    with AccountFolder(tmp_path / "account", tmp_path / "first") as account:
        account.save(references.state_dict(), gate.order_times(), CLOCK)

    with AccountFolder(tmp_path / "account", tmp_path / "second") as account:
        again, fresh = EquityReferences(), RiskGate(gate.limits)
        again.load_state_dict(account.state.references)
        for time in account.order_times(later(10)):
            fresh.count(time)

    assert again.peak_equity == 2e5
    breach = again.breach()
    assert breach is not None
    now = later(10).boot
    assert fresh.check([order()], view(now=now, receive_time=now))[0] == []
    now = later(61).boot
    assert len(fresh.check([order()], view(now=now, receive_time=now))[0]) == 1


@pytest.mark.parametrize(
    ("clock", "count"),
    [
        (later(59), 2),
        (later(61), 0),
        (replace(CLOCK, wall=CLOCK.wall + 3600 * SECOND), 2),
        (replace(CLOCK, wall=CLOCK.wall - 3600 * SECOND), 2),
        (Clocks(boot=SECOND, wall=CLOCK.wall + 30 * SECOND, name="boot-2"), 2),
        (Clocks(boot=SECOND, wall=CLOCK.wall + 61 * SECOND, name="boot-2"), 0),
        (Clocks(boot=SECOND, wall=CLOCK.wall - 3600 * SECOND, name="boot-2"), 2),
    ],
)
def test_orders_are_aged_by_the_boot_clock_and_over_boots_by_the_wall_clock(
    tmp_path: Path, clock: Clocks, count: int
) -> None:
    with AccountFolder(tmp_path, tmp_path / "s") as account:
        account.save({}, [CLOCK.boot, CLOCK.boot], CLOCK)

    with AccountFolder(tmp_path, tmp_path / "s") as account:
        times = account.order_times(clock)

    assert len(times) == count
    assert all(0 <= clock.boot - time < 60 * SECOND for time in times)


def test_a_second_session_is_refused_by_name_of_the_first(tmp_path: Path) -> None:
    first = AccountFolder(tmp_path / "account", tmp_path / "first")

    with first, pytest.raises(BusyError) as error:
        AccountFolder(tmp_path / "account", tmp_path / "second")

    assert f"process {os.getpid()} with the session" in str(error.value)
    assert str(tmp_path / "first") in str(error.value)
    with AccountFolder(tmp_path / "account", tmp_path / "second"):
        pass


def test_a_session_that_was_killed_leaves_the_account_free(tmp_path: Path) -> None:
    code = (
        "import os, sys; from sekai.live.account_folder import AccountFolder\n"
        "account = AccountFolder(sys.argv[1], sys.argv[2]); account.namespace(is_new=True)\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "account"), str(tmp_path / "first")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=f"process {process.pid} with the session"):
            AccountFolder(tmp_path / "account", tmp_path / "second")
        process.kill()

    with AccountFolder(tmp_path / "account", tmp_path / "second") as account:
        assert account.state.session_count == 1


def test_a_recreated_session_folder_repeats_no_order_id(tmp_path: Path) -> None:
    names = []
    for is_new in (True, False, True, False, True):
        with AccountFolder(tmp_path / "account", tmp_path / "demo") as account:
            names.append(account.namespace(is_new=is_new))

    assert names[0] == names[1]
    assert names[2] == names[3]
    assert len(set(names)) == 3
    (tmp_path / "account" / "account.json").unlink()
    with AccountFolder(tmp_path / "account", tmp_path / "demo") as account:
        assert account.namespace(is_new=True) not in names
        assert account.namespace(is_new=True).startswith("demo.")


def test_an_account_without_an_id_has_the_same_namespace_in_every_run(tmp_path: Path) -> None:
    names = []
    for number in range(2):
        session = tmp_path / str(number) / "demo"
        with AccountFolder(account_path(None, session), session) as account:
            names.append(account.namespace(is_new=True, named=False))

    assert names == ["demo.1", "demo.1"]


def test_nobody_else_can_read_the_account(tmp_path: Path) -> None:
    with AccountFolder(tmp_path / "account", tmp_path / "s") as account:
        account.save({}, [], CLOCK)

        assert stat.S_IMODE(account.path.stat().st_mode) == 0o700
        for name in ("account.json", "holder.json"):
            assert stat.S_IMODE((account.path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"format": 2}', '{"format": 1, "order_ages": 3}', '{"format": 1, "x": 1}'],
)
def test_a_damaged_state_is_refused_and_left_as_it_is(tmp_path: Path, content: str) -> None:
    (tmp_path / "account.json").write_text(content)

    with pytest.raises(StateError, match="state of the account cannot be read"):
        AccountFolder(tmp_path, tmp_path / "s")

    assert (tmp_path / "account.json").read_text() == content
    (tmp_path / "account.json").unlink()
    AccountFolder(tmp_path, tmp_path / "s").close()


def test_the_state_is_one_file_of_json(tmp_path: Path) -> None:
    with AccountFolder(tmp_path, tmp_path / "s") as account:
        account.save({"day": 3}, [CLOCK.boot - SECOND], CLOCK, fsync=False)

    values = json.loads((tmp_path / "account.json").read_text())
    assert values["references"] == {"day": 3}
    assert values["order_ages"] == [SECOND]


ids = st.text(min_size=1, max_size=80)


@given(first=ids, second=ids)
def test_every_account_has_a_folder_of_its_own_inside_the_root(first: str, second: str) -> None:
    root = Path("/accounts")

    one, other = (account_path(name, "/session", root) for name in (first, second))

    assert one.parent == other.parent == root
    assert one.name.isascii()
    assert len(one.name) < 60
    assert (one.name.lower() == other.name.lower()) == (first == second)


def test_an_account_without_an_id_is_in_its_session_folder() -> None:
    assert account_path(None, "/session") == Path("/session/account")
    assert account_path("U1", "/session").parent == Path.home() / ".sekai" / "accounts"
    with pytest.raises(ValueError, match="account_id must be text or None"):
        account_path("", "/session")
