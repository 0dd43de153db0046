"""Monitor page in a browser, with a live session and a training run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sekai.experiment.run_folder import RunFolder, lock_run
from sekai.live.config import SessionFolder
from tests.cli.commands import ROOT, begin, environment
from tests.live.watch.browser import (
    CHROMIUM,
    DRIVER,
    PHONE,
    WIDE,
    Browser,
    chromium,
    eventually,
)
from tests.live.watch.samples import HOSTILE, TOKEN, begin_run, learn, put, sample

pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are needed"),
    pytest.mark.timeout(120),
]

ODD_LOSSES = ["<b>loss</b>", "<a href='javascript:window.hacked=1'>loss</a>"]
"""Names that plotly would read as a little HTML."""


@dataclass
class Watched:
    """A watcher of a session that trades, of one that nobody trusts, and of a training."""

    address: str
    session: SessionFolder
    hostile: SessionFolder
    run: RunFolder
    writer: subprocess.Popen[bytes]
    watcher: subprocess.Popen[str]

    @property
    def page(self) -> str:
        return self.address.partition("?")[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


@contextmanager
def begun(folder: Path) -> Iterator[Watched]:
    session = SessionFolder(folder / "runs" / "demo" / "live" / "paper")
    hostile = SessionFolder(folder / "runs" / "demo" / "live" / HOSTILE.replace("/", "\\"))
    put(session, sample())
    put_hostile(hostile)
    run = begin_run(folder / "runs", "momentum", rows=20)
    run.curve(20 * 1024, dict.fromkeys(ODD_LOSSES, 0.5))
    with lock_run(run.path):
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.live.watch.samples", str(session.path), "200"],
            cwd=ROOT, env=environment(),
        )  # fmt: skip
        names = ["demo/live/paper", "momentum", str(hostile.path)]
        watcher = begin("watch", *names, "--port", "0", folder=folder)
        try:
            assert watcher.stdout is not None
            address = watcher.stdout.readline().strip()
            yield Watched(address, session, hostile, run, writer, watcher)
        finally:
            for process in (writer, watcher):
                process.kill()
                process.communicate()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Server shared by all tests."""
    with begun(tmp_path_factory.mktemp("watched")) as watched:
        yield watched


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Watched]:
    """One that may be ended."""
    with begun(tmp_path) as watched:
        yield watched


def put_hostile(folder: SessionFolder) -> None:
    one = sample()
    odd = sample(
        session=HOSTILE, reason=HOSTILE, alerts=(HOSTILE,), costs={HOSTILE: 1.0}, state="halted",
        positions={HOSTILE: {"units": 1.0, "price": 1.0, "value": 1.0, "weight": 1.0}},
        latency={HOSTILE: next(iter(one.latency.values()))},
        equity_times=(HOSTILE, *one.equity_times[1:]),
        orders=(replace(
            one.orders[0], time=HOSTILE, id=HOSTILE, asset=HOSTILE, state=HOSTILE, reason=HOSTILE
        ),),
    )  # fmt: skip
    put(folder, odd)


def steady(browser: Browser) -> None:
    eventually(lambda: browser.text("#connection") == "live")
    eventually(lambda: bool(browser.lines()) and all(count > 0 for count in browser.lines()))


def test_a_session_is_drawn_and_its_numbers_change(
    browser: Browser, watched: Watched, pictures: Path
) -> None:
    browser.open(watched.address)
    steady(browser)

    assert browser.driver.current_url.startswith(watched.page)
    assert "token" not in browser.run("return location.href + document.referrer")
    assert browser.text(".state-word") == "Trading"
    assert len(browser.lines()) == 2
    equity = browser.text(".tile-value")
    assert re.fullmatch(r"1\d\d\u202f\d{3}\.\d\d", equity)
    eventually(lambda: browser.text(".tile-value") != equity)
    drawn = "return document.querySelector('[data-chart]').data[0].y.length"
    before = browser.run(drawn)
    eventually(lambda: browser.run(drawn) > before)
    shown = browser.text(".panel:not([hidden])")
    weight, latency = "\N{MINUS SIGN}36.0%", "feed to decision"
    for words in ("BTC-USD", weight, latency, "1.08430", "148.310", "commission",
                  "paper-900-BTC-USD", "connected", "the feed was gone for 3.2 s",
                  "refused"):  # fmt: skip
        assert words in shown, words
    browser.keep(pictures, "session")
    assert browser.complaints() == []


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "dark"), (PHONE, "light")])
def test_every_tab_fits_every_screen_in_every_theme(
    browser: Browser, watched: Watched, pictures: Path, size: tuple[int, int], scheme: str
) -> None:
    browser.open(watched.address, size, scheme)
    steady(browser)

    for place in range(3):
        eventually(lambda: bool(browser.text("[role=tab]")))
        browser.click(f"#tab-{place}")
        steady(browser)
        wide = browser.run("return document.documentElement.scrollWidth")
        assert wide <= size[0], place
        assert browser.run("return document.documentElement.dataset.theme") == scheme
        browser.keep(pictures, f"{place}-{size[0]}-{scheme}")
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(15, 20, 26)" if scheme == "dark" else "rgb(247, 246, 242)")
    assert browser.complaints() == []


def test_a_training_is_drawn_and_goes_on(
    browser: Browser, watched: Watched, pictures: Path
) -> None:
    browser.open(f"{watched.address}#source-1")
    eventually(lambda: bool(browser.text("#tab-1")))
    browser.click("#tab-1")
    steady(browser)
    assert browser.text(".panel:not([hidden]) .state-word") == "Running"
    assert "20\u202f480 of 100\u202f000 steps" in browser.text(".panel:not([hidden])")
    assert "measuring" in browser.text(".panel:not([hidden])")

    for row in range(21, 31):
        learn(watched.run, row)

    eventually(lambda: "30\u202f720 of 100" in browser.text(".panel:not([hidden])"))
    learn(watched.run, 31)
    eventually(lambda: "steps per second" in browser.text(".panel:not([hidden])"))
    assert browser.run(
        "return document.querySelector('[role=progressbar]').ariaValueNow"
    ) in ("30", "31")  # fmt: skip
    names = browser.run(
        "return [...document.querySelectorAll('[data-chart]')].filter(one => one.offsetWidth)"
        ".map(one => [...one.querySelectorAll('.legendtext')].map(name => name.textContent))"
    )
    assert names[:2] == [["episode_return"], ["loss_objective", "loss_critic", *ODD_LOSSES]]
    assert browser.run("return document.querySelectorAll('svg a').length") == 0
    last = "return [...document.querySelectorAll('#source-1 [data-chart]')][0].data[0].x.at(-1)"
    # Also what came while the chart was being drawn, and nothing after it.
    eventually(lambda: browser.run(last) == 31 * 1024)
    assert browser.complaints() == []
    browser.keep(pictures, "training")


def test_the_kill_switch_asks_once_more_and_then_all_is_red(
    browser: Browser, watched: Watched, pictures: Path
) -> None:
    browser.open(watched.address, PHONE)
    steady(browser)

    browser.click(".kill button.danger")
    eventually(lambda: "Open orders are cancelled" in browser.text("dialog[open]"))
    assert not watched.session.kill.exists(), "one click is not enough"
    browser.keep(pictures, "asking")
    browser.press("\ue00c")  # escape
    eventually(lambda: browser.text("dialog[open]") == "")
    assert not watched.session.kill.exists()
    browser.click(".kill button.danger")
    browser.press("too much <b>risk</b>")
    browser.click("dialog[open] button.danger")

    eventually(watched.session.kill.exists)
    eventually(lambda: browser.text(".state-word") == "Kill requested, NOT obeyed yet")
    assert "requested" in browser.text(".state-when")
    browser.keep(pictures, "requested")
    eventually(lambda: browser.text(".state-word") == "Trading stopped")
    assert "obeyed at" in browser.text(".state-when")
    assert "2 orders cancelled" in browser.text(".state-said")
    assert "too much <b>risk</b>" in browser.text(".state-said")
    red = browser.run("return getComputedStyle(document.querySelector('.state')).backgroundColor")
    assert red == "rgb(163, 33, 11)"
    assert browser.text(".kill button.danger") == ""
    browser.keep(pictures, "killed")

    browser.click(".kill button.plain-button")
    is_disabled = "return document.querySelector('dialog[open] [type=submit]').disabled"
    browser.press("pape")
    assert browser.run(is_disabled) is True
    browser.press("r")
    assert browser.run(is_disabled) is False
    browser.press("\ue007")  # enter
    eventually(lambda: not watched.session.kill.exists())
    eventually(lambda: browser.text(".state-word") == "Trading")
    assert browser.complaints() == []


def test_what_is_in_files_is_shown_as_text_and_never_runs(
    browser: Browser, watched: Watched
) -> None:
    browser.open(watched.address)
    eventually(lambda: bool(browser.text("#tab-2")))
    browser.click("#tab-2")
    steady(browser)

    shown = browser.text(".panel:not([hidden])")
    # Reason, alert, asset, cost, stage, and the parts of the order.
    assert shown.count(HOSTILE) >= 8
    eventually(lambda: browser.run("return document.querySelectorAll('.xtick').length") > 0)
    inside = "return document.querySelectorAll('main script, main img, svg a, svg script').length"
    assert browser.run(inside) == 0
    assert browser.run("return window.hacked") is None
    assert browser.complaints() == []


def test_what_is_put_into_the_page_cannot_run_and_reaches_nobody(
    browser: Browser, watched: Watched
) -> None:
    browser.open(watched.address)
    steady(browser)

    browser.run(
        "const one = document.createElement('script'); one.textContent = 'window.hacked = 1';"
        "document.body.append(one);"
        "const picture = '<img src=x onerror=\"window.hacked = 1\">';"
        "document.body.insertAdjacentHTML('beforeend', picture);"
        "fetch('http://127.0.0.1:9/').catch(() => 0)"
    )

    eventually(lambda: sum("Content Security Policy" in one for one in browser.complaints()) >= 1)
    assert browser.run("return window.hacked") is None
    assert browser.run("return document.cookie") == "", "scripts cannot read the cookie"


def test_tabs_follow_the_keyboard_and_everything_has_a_name(
    browser: Browser, watched: Watched
) -> None:
    browser.open(watched.address)
    eventually(lambda: bool(browser.text("#tab-2")))
    steady(browser)
    browser.run("document.getElementById('tab-0').focus()")

    browser.press("\ue014")  # right
    focused = "return document.activeElement.id + ' ' + document.activeElement.ariaSelected"
    assert browser.run(focused) == "tab-1 true"
    browser.press("\ue012")  # left
    browser.press("\ue012")
    assert browser.run(focused) == "tab-2 true"
    browser.press("\ue011")  # home
    assert browser.run(focused) == "tab-0 true"

    nameless = browser.run(
        "return [...document.querySelectorAll('button, select, [role=img], [role=region],"
        "[role=progressbar], dialog')].filter(one => !one.ariaLabel && !one.textContent.trim())"
        ".map(one => one.outerHTML.slice(0, 80))"
    )
    assert nameless == []
    unreachable = browser.run(
        "return [...document.querySelectorAll('.scroll')].filter(one => one.tabIndex < 0).length"
    )
    assert unreachable == 0


def test_a_process_that_has_gone_and_a_watcher_that_has_gone_are_told_apart(
    browser: Browser, own: Watched, pictures: Path
) -> None:
    browser.open(own.address)
    steady(browser)

    own.writer.kill()

    eventually(lambda: browser.text(".state-word").startswith("No sign of life for "))
    first = browser.text(".state-word")
    eventually(lambda: browser.text(".state-word") > first)
    assert browser.text("#lost") == ""
    browser.keep(pictures, "silent")
    os.kill(own.watcher.pid, signal.SIGINT)
    eventually(lambda: "Connection lost, reconnecting" in browser.text("#lost"))
    browser.keep(pictures, "lost")
    assert browser.text("#connection") == "lost"
    own.watcher.communicate(timeout=30)

    port = own.page.rpartition(":")[2].strip("/")
    anew = begin("watch", str(own.session.path), "--port", port, folder=own.run.path)
    try:
        eventually(lambda: "The monitor was restarted" in browser.text("#lost"))
    finally:
        anew.kill()
        anew.communicate()


@pytest.mark.nightly
def test_the_page_finds_its_watcher_again(browser: Browser, own: Watched) -> None:
    browser.open(own.address)
    steady(browser)
    os.kill(own.watcher.pid, signal.SIGSTOP)
    back = threading.Timer(10, os.kill, (own.watcher.pid, signal.SIGCONT))
    back.start()

    eventually(lambda: "Connection lost, reconnecting" in browser.text("#lost"), 30)
    back.join()

    eventually(lambda: browser.text("#connection") == "live", 30)
    assert browser.text("#lost") == ""


@contextmanager
def watching(folder: Path, name: str, port: str) -> Iterator[str]:
    """A watcher of one session, with a token that outlives it; its page."""
    (folder / "token").write_text(TOKEN)
    words = ("watch", f"demo/live/{name}", "--token-file", "token", "--port", port)
    watcher = begin(*words, folder=folder)
    try:
        assert watcher.stdout is not None
        yield watcher.stdout.readline().partition("?")[0]
    finally:
        watcher.kill()
        watcher.communicate()


@pytest.mark.nightly
def test_a_page_begins_with_what_is_known_and_never_shows_one_session_as_another(
    browser: Browser, tmp_path: Path
) -> None:
    early, other = (
        SessionFolder(tmp_path / "runs" / "demo" / "live" / name) for name in ("early", "other")
    )
    early.path.mkdir(parents=True)
    early.journal.touch()
    put(other, sample(session="other"))
    with watching(tmp_path, "early", "0") as page:
        browser.open(f"{page}?token={TOKEN}")
        eventually(lambda: browser.text(".state-word") == "Waiting")
        assert browser.lines() == []
        assert browser.text(".tiles") == ""
        one = sample()
        put(early, replace(one, equity_times=one.equity_times[:1], equity_values=(1.0,)))
        eventually(lambda: "shown from the second bar on" in browser.text("figure"))
        put(early, sample())
        steady(browser)
        assert browser.text("h1") == "early"
    with watching(tmp_path, "other", page.rpartition(":")[2].strip("/")):
        eventually(lambda: browser.text("h1") == "other")
        steady(browser)
