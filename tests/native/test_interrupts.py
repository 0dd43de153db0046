"""Ctrl-C: long native calls end within a second, and what they worked on can be used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

MARKET = """
    import json
    from quant_gym_rs._core import Market, trading_defaults
    market = Market(json.dumps(json.loads(trading_defaults())["market"]), 3)
    def good():
        before = market.now
        assert before > 0
        market.tick(5)
        assert market.now == before + 5
        market.decode(market.encode())
"""
CALLS = {
    "ticks": (MARKET, "market.tick(10**9)"),
    "recorded ticks": (MARKET, "market.record_columns(4 * 10**6)"),
    "a market that another thread runs": (
        MARKET
        + """
    import os, threading, time
    threading.Thread(target=market.tick, args=(10**9,), daemon=True).start()
    time.sleep(0.2)
    def good():
        os._exit(0)
""",
        "market.mid()",
    ),
    "projected weights": (
        """
    import numpy as np
    from quant_gym_rs._core import project_weights
    rows = np.random.default_rng(0).normal(0, 1, (60_000, 41))
    movable = np.ones((60_000, 40), np.bool_)
    limits = dict(lower=[-0.2] * 40, upper=[0.2] * 40, cash_lower=0.0, cash_upper=1.0)
    limits.update(leverage=1.3, sectors=[i % 4 for i in range(40)], sector_caps=[0.4] * 4)
    def good():
        assert project_weights(rows[:2], rows[:2], movable[:2], **limits)[0].shape == (2, 41)
""",
        "project_weights(rows, rows, movable, turnover=0.3, **limits)",
    ),
    "a reset of many envs": (
        """
    import numpy as np, json
    from quant_gym_rs._core import TradingBatch, trading_defaults
    settings = json.loads(trading_defaults())
    settings["market"]["population"].update(noise=2_000)
    settings["warm_up"] = 500
    batch = TradingBatch(json.dumps(settings), 300, 1)
    rows = np.zeros((300, 54))
    def good():
        batch.reset(np.arange(1), None, rows, None)
        assert rows[0].any()
""",
        "batch.reset(np.arange(300), np.arange(300, dtype=np.uint64), rows, None)",
    ),
}


def seconds_of(process: int) -> float:
    """Seconds of a core that a process has used: on a busy machine it may wait for one."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_ends_a_long_call_within_a_second(name: str) -> None:
    prepare, call = CALLS[name]
    program = textwrap.dedent(prepare) + textwrap.dedent(
        f"""
        import time
        print("ready", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", time.process_time(), flush=True)
        else:
            print("over", flush=True)
        good()
        """
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.4)
        begun = seconds_of(child.pid)
        child.send_signal(signal.SIGINT)
        word, seconds = child.stdout.readline().split()
        assert child.wait(40) == 0

    took = float(seconds) - begun
    assert word == "interrupted"
    assert took < 1.0, f"it took {took:.2f} seconds"


def test_a_signal_handler_that_calls_the_market_in_mid_call_is_refused() -> None:
    program = textwrap.dedent(MARKET) + textwrap.dedent(
        """
        import signal
        def look(number, frame):
            try:
                market.mid()
            except RuntimeError as error:
                print(error, flush=True)
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            market.tick(10**9)
        except KeyboardInterrupt:
            good()
        """
    )

    reported = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=30
    )

    assert reported.returncode == 0, reported.stderr
    assert "in the middle of a call of its own" in reported.stdout
