"""`sekai paper`: what was learnt trades on a feed, from one command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sekai.data import simulate_gbm
from sekai.error import BrokerError
from sekai.live import SessionFolder, read_journal, read_status
from tests.cli.commands import LONGEST_SECONDS, begin, call, until

START = str(simulate_gbm(assets=3, rows=700, seed=1).times[0])[:10]
"""First day of the data of the run: longer data that begins then continues it."""


def sessions(runs: Path) -> list[SessionFolder]:
    return [SessionFolder(path) for path in sorted((runs / "small" / "live").iterdir())]


def test_a_run_trades_the_rows_it_was_judged_on_and_tells_what_came_of_it(runs: Path) -> None:
    found = call("paper", "small", "--runs", runs, "--bars", "25")

    assert found.code == 0, found.err
    assert "25 rows" in found.out
    assert "25 of 25 rows replay to the same bytes" in found.out
    assert "feed to decision" in found.out
    assert "sekai watch" in found.err
    (folder,) = sessions(runs)
    assert read_status(folder.status).state == "stopped"


def test_a_session_goes_on_by_name_and_flattens_in_the_end(runs: Path) -> None:
    call("paper", "small", "--runs", runs, "--bars", "20", "--session", "first", "-q")

    again = call(
        "paper", "small", "--runs", runs, "--bars", "9", "--resume", "--on-stop", "flatten"
    )

    assert again.code == 0, again.err
    (folder,) = sessions(runs)
    assert folder.path.name == "first"
    bars = [record for record in read_journal(folder.journal) if record.kind == "bar"]
    # Closing takes a row after the watchdog has sent its orders.
    assert 29 < len(bars) <= 39
    assert read_status(folder.status).positions == {}


def test_a_session_goes_on_with_the_limits_it_was_begun_with(runs: Path, tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("max_order_notional = 1.0\n", encoding="utf-8")
    call("paper", "small", "--runs", runs, "--bars", "5", "--limits", limits, "-q")
    limits.unlink()

    call("paper", "small", "--runs", runs, "--bars", "5", "--resume", "-q")

    (folder,) = sessions(runs)
    status = read_status(folder.status)
    assert (status.bars, status.orders_sent) == (10, 0)
    assert status.orders_refused > 0


def test_the_last_session_is_the_one_that_was_written_last(runs: Path) -> None:
    for name in ("z", "a"):
        call("paper", "small", "--runs", runs, "--bars", "3", "--session", name, "-q")

    found = call("paper", "small", "--runs", runs, "--bars", "3", "--resume", "-q")

    assert "continue  sekai paper small --resume --session a" in found.out


def test_a_session_that_breaks_off_says_how_to_go_on(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*given: object) -> None:
        raise BrokerError("nobody answers")

    monkeypatch.setattr("sekai.live.LiveRunner.run", breaks)

    found = call("paper", "small", "--runs", runs, "--session", "first")

    assert found.code == 1
    assert "nobody answers" in found.err
    assert "to continue: sekai paper small --resume --session first" in found.err


def test_rows_of_a_folder_are_traded_as_they_come(runs: Path, tmp_path: Path) -> None:
    data = simulate_gbm(assets=3, rows=730, seed=1, start=START)
    place = tmp_path / "rows"
    place.mkdir()
    data.rows(700, 730).to_parquet(place / "more.parquet")
    feed = tmp_path / "feed.toml"
    feed.write_text(f'kind = "folder"\npath = "{place}"\n', encoding="utf-8")

    found = call("paper", "small", "--runs", runs, "--feed", feed, "--bars", "30", "-q")

    assert found.code == 0, found.err
    assert "30 rows" in found.out


def test_other_bars_than_those_of_training_are_refused_or_allowed_by_name(
    runs: Path, tmp_path: Path
) -> None:
    daily = simulate_gbm(assets=3, rows=730, seed=1, start=START)
    hours = daily.times[699] + np.arange(1, 31) * np.timedelta64(1, "h")
    place = tmp_path / "rows"
    place.mkdir()
    daily.rows(700, 730).replace(times=hours).to_parquet(place / "more.parquet")
    feed = tmp_path / "feed.toml"
    feed.write_text(f'kind = "folder"\npath = "{place}"\n', encoding="utf-8")
    command = ("paper", "small", "--runs", runs, "--feed", feed, "--bars", "5", "-q")

    refused = call(*command, "--session", "refused")
    assert refused.code != 0
    assert "trained on bars of 86400 s" in refused.err
    assert "--allow bar_length" in refused.err

    found = call(*command, "--session", "allowed", "--allow", "bar_length")
    assert found.code == 0, found.err
    assert "5 rows" in found.out
    resumed = call(*command, "--session", "allowed", "--resume")
    assert resumed.code == 0, resumed.err
    unknown = call(*command, "--allow", "bar_lenght")
    assert unknown.code != 0
    assert "did you mean 'bar_length'" in unknown.err


def test_a_run_on_other_data_than_its_policy_is_refused(runs: Path) -> None:
    config = runs / "small" / "config.toml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("assets = 3", 'assets = ["X", "Y", "Z"]'), encoding="utf-8")

    for command in ("paper", "evaluate"):
        found = call(command, "small", "--runs", runs, "-q")
        assert found.code != 0
        assert "--allow assets" in found.err
    found = call("paper", "small", "--runs", runs, "-q", "--bars", "2", "--allow", "assets")
    assert found.code == 0, found.err


KLINES = """
kind = "recorded"
path = "{path}"
decoder = "binance"
streams = ["kline_1m"]
wait_seconds = 2
"""


def test_candles_of_several_symbols_are_traded(runs: Path, tmp_path: Path) -> None:
    history = simulate_gbm(assets=3, rows=700, seed=1)
    begin_ms = (
        int(history.times[-1].astype("datetime64[ms]").astype(int)) // 86_400_000 * 86_400_000
    )
    day = 86_400_000
    lines = []
    for number in range(1, 12):
        for place, name in enumerate(history.assets):
            # One symbol misses a day, and is not traded in it.
            if (number, place) != (5, 1):
                end = begin_ms + 16 * 3_600_000 + number * day
                inner = {
                    "t": end - day, "T": end - 1, "s": name, "i": "1d", "o": "10.0",
                    "c": f"{10 + number / 7 + place}", "h": "30.0", "l": "9.0", "v": "5e5",
                    "x": True,
                }  # fmt: skip
                frame = json.dumps({"e": "kline", "E": end, "s": name, "k": inner})
                lines.append(f"{(end + 300 * place) * 1_000_000} {frame}")
    path = tmp_path / "klines.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    feed = tmp_path / "feed.toml"
    feed.write_text(KLINES.format(path=path).replace("1m", "1d"), encoding="utf-8")

    found = call("paper", "small", "--runs", runs, "--feed", feed, "-q")

    assert found.code == 0, found.err
    assert "11 rows" in found.out
    assert "11 of 11 rows replay to the same bytes" in found.out


def test_limits_of_a_file_hold(runs: Path, tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("max_order_notional = 1.0\n", encoding="utf-8")

    call("paper", "small", "--runs", runs, "--bars", "10", "--limits", limits, "-q")

    (folder,) = sessions(runs)
    status = read_status(folder.status)
    assert status.orders_refused > 0
    assert status.orders_sent == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody"], "there is no run 'nobody'"),
        (["small", "--resume"], "has no session to continue"),
        (["small", "--on-stop", "panic"], "--on-stop must be hold or flatten"),
        (["small", "--session", "../elsewhere"], "--session must be a name and not a path"),
        (["small", "--feed", "nowhere.toml"], "nowhere.toml: No such file"),
    ],
)
def test_what_cannot_be_done_is_said(runs: Path, arguments: list[str], words: str) -> None:
    found = call("paper", *arguments, "--runs", runs)

    assert found.code == 2
    assert words in found.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "pigeon"\n', "feed.toml:1:8: kind must be one of replay, folder"),
        ('kind = "folder"\n', "a folder feed needs path"),
        (
            'kind = "folder"\npath = "x"\nspeed = 3\n',
            "feed.toml:3:1: a folder feed has no key 'speed'; expected one of history, path",
        ),
        (
            'kind = "recorded"\npath = "feed.toml"\nrows_of = "candles"\n',
            "rows of candles need seconds",
        ),
        (
            'kind = "recorded"\npath = "feed.toml"\nrows_of = "books"\n',
            "rows_of must be 'trades' or 'candles', got 'books'",
        ),
        (
            'kind = "recorded"\npath = "feed.toml"\nseconds = 60\nwait_seconds = 2\n',
            "wait_seconds needs rows of candles",
        ),
        ('kind = "websocket"\n', "needs url: text, or { env"),
        (
            'kind = "websocket"\nurl = "wss://host/ws?token=abcdef123456"\n',
            'feed.toml: url holds a secret; expected url = { env = "NAME" }',
        ),
        (
            'kind = "websocket"\nurl = { env = "NO_SUCH_VARIABLE" }\n',
            "environment variable NO_SUCH_VARIABLE is not set",
        ),
        (
            'kind = "websocket"\nurl = "ws://x"\n[headers]\nX-MBX-APIKEY = "abcdef123456"\n',
            "header X-MBX-APIKEY is a secret; expected X-MBX-APIKEY = { env",
        ),
        ('kind = "websocket"\nurl = { file = "x" }\n', "url must be text or { env"),
        ('kind = "websocket"\nurl = "ws://x"\ndecoder = "morse"\n', "got 'morse'"),
    ],
)
def test_a_wrong_feed_file_is_pointed_at(runs: Path, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "feed.toml"
    file.write_text(text, encoding="utf-8")

    found = call("paper", "small", "--runs", runs, "--feed", file)

    assert found.code == 2
    assert words in found.err
    assert "abcdef123456" not in found.err


def test_unknown_limits_are_named(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text("max_hope = 1.0\n", encoding="utf-8")

    found = call("paper", "small", "--runs", runs, "--limits", file)

    assert found.code == 2
    assert "has no key 'max_hope'" in found.err
    assert not (runs / "small" / "live").exists()


@pytest.mark.timeout(240)
def test_an_interrupt_stops_after_the_row_and_leaves_a_session_to_go_on_with(runs: Path) -> None:
    process = begin("paper", "small", "--runs", runs, "--speed", "3e5", folder=runs.parent)
    live = runs / "small" / "live"
    until(lambda: any(live.glob("*/journal.jsonl")), process)
    (folder,) = sessions(runs)
    until(lambda: folder.journal.stat().st_size > 8_000, process)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LONGEST_SECONDS)

    assert process.returncode == 130, err
    assert "stopping after this row" in err
    assert f"continue  sekai paper small --resume --session {folder.path.name}" in out
    assert read_status(folder.status).state == "stopped"


def test_the_kill_file_stops_trading_and_the_exit_code_says_so(runs: Path) -> None:
    folder = SessionFolder(runs / "small" / "live" / "killed")
    folder.path.mkdir(parents=True)
    folder.kill.write_text("by hand", encoding="utf-8")

    found = call("paper", "small", "--runs", runs, "--session", "killed", "--bars", "5")

    assert found.code == 1
    assert "by hand" in found.err
    assert read_status(folder.status).orders_sent == 0


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from sekai.cli.command import main
sys.argv = ["sekai", *sys.argv[1:]]
try:
    main()
finally:
    # Not `ru_maxrss`, which begins with that of the process that started this one.
    status = open("/proc/self/status").read() if sys.platform == "linux" else "VmHWM: 0 kB"
    peak = int(status.partition("VmHWM:")[2].split()[0]) // 1024
    print(f"torch is {sys.modules['torch']}, {peak} MB", file=sys.stderr)
"""


def test_a_paper_session_needs_no_torch(runs: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, "paper", "small", "--runs", str(runs)]
    finished = subprocess.run(
        [*command, "--bars", "10"], capture_output=True, text=True, check=False
    )

    assert finished.returncode == 0, finished.stderr
    assert "10 of 10 rows replay to the same bytes" in finished.stdout
    assert "torch is None" in finished.stderr
    megabytes = int(finished.stderr.rpartition("torch is None, ")[2].split(" MB")[0])
    assert megabytes < 300, "torch alone takes as much"
