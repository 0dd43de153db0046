"""Supervision of a session before its env, feed and policy exist."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sekai.error import JournalError
from sekai.live import LiveConfig, LiveRunner, SessionFolder, Supervision, read_status
from tests.cli.commands import environment
from tests.live.operated import wait_until
from tests.live.sessions import FREE, follow, world

CONFIG = LiveConfig(limits=FREE, sync="never")
PACKAGE = Path(__file__).parents[2] / "python" / "sekai" / "live"


def test_a_kill_is_obeyed_before_a_runner_exists_and_held_by_it(tmp_path: Path) -> None:
    place, folder = world(), SessionFolder(tmp_path / "session")
    broker = place.broker()
    supervision = Supervision(broker, folder.path, CONFIG)
    supervision.start()

    folder.kill.parent.mkdir(exist_ok=True)
    folder.kill.touch()
    wait_until(lambda: bool(supervision.link.kill_obeyed))
    wait_until(lambda: folder.status.exists() and bool(read_status(folder.status).kill_obeyed))
    shown = read_status(folder.status)
    runner = LiveRunner(
        follow, place.env(), place.feed(), broker, folder.path, CONFIG, supervision=supervision
    )
    status = asyncio.run(runner.run())

    assert shown.state == "killed"
    assert (status.state, status.bars, status.orders_sent) == ("killed", 60, 0)
    assert status.kill_obeyed == shown.kill_obeyed


def test_an_account_is_held_from_the_start_of_its_supervision(tmp_path: Path) -> None:
    place = world()
    first = Supervision(place.broker(), tmp_path / "s", CONFIG)
    first.start()

    with pytest.raises(JournalError, match="a session runs once"):
        Supervision(place.broker(), tmp_path / "s", CONFIG).start()
    with pytest.raises(RuntimeError, match="starts once"):
        first.start()

    asyncio.run(first.stop())
    first.close()
    first.close()
    again = Supervision(place.broker(), tmp_path / "s", CONFIG)
    again.start()
    again.close()


def test_supervision_of_another_session_is_refused(tmp_path: Path) -> None:
    place, broker = world(), world().broker()
    other = Supervision(broker, tmp_path / "other", CONFIG)

    with pytest.raises(ValueError, match="supervision is of another folder"):
        LiveRunner(
            follow, place.env(), place.feed(), broker, tmp_path / "s", CONFIG, supervision=other
        )


LIGHT = """
import sys
import sekai.live.supervision
heavy = {"sekai.data", "sekai.envs.portfolio", "sekai.vector", "sekai.policy"} & set(sys.modules)
assert not heavy, heavy
"""


def test_supervision_imports_neither_envs_nor_data() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], env=environment(), check=True)


ALONE = """
import importlib, os, sys
import sekai

for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        status = 1
        try:
            importlib.import_module(name)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, name
"""


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_module_can_be_imported_first() -> None:
    files = [file.relative_to(PACKAGE).with_suffix("") for file in sorted(PACKAGE.rglob("*.py"))]
    names = [".".join(("sekai", "live", *file.parts)).removesuffix(".__init__") for file in files]

    command = [sys.executable, "-c", ALONE, *names]
    subprocess.run(command, env=environment(), check=True)
