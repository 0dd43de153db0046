"""Test runs: which examples are drawn, and a summary of what was skipped and what it needs."""

from __future__ import annotations

import re
import signal
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

# The default run draws the same examples every time: a suite that was green stays green.
# `make nightly` searches at random with `--hypothesis-profile=search`; what it finds becomes an
# `@example` of its test. Time limits are pytest-timeout's: a deadline per example fails on a
# loaded machine.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("repeatable")

# A shell that starts the tests in the background has interrupts ignored, and the tests send some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

PACKAGE = "no package {}; pip install it, or -e '.[dev]' for all"


class Skip(NamedTuple):
    """Reason of a skip."""

    kind: str
    """Name of the skipped test kind, such as `browser test`."""
    said: str
    """The remedy, or the reason where none is known."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped, by reason, and what they need."""
    skips = Counter(map(_skip, terminalreporter.stats.get("skipped", [])))
    if not skips:
        return
    terminalreporter.section("skipped tests")
    for skip, count in sorted(skips.items(), key=lambda pair: (-pair[1], pair[0].said)):
        terminalreporter.write_line(f"{count} {_plural(skip.kind, count)} skipped: {skip.said}")


def _skip(report: Any) -> Skip:
    *_, text = report.longrepr
    reason = str(text).removeprefix("Skipped: ")
    # A file that cannot be imported is skipped before its tests are known.
    kind = "test file" if isinstance(report, pytest.CollectReport) else "test"
    if "chromium" in reason:
        return Skip("browser test", "install chromium and chromium-driver")
    if "SEKAI_DATA" in reason:
        return Skip(f"{kind} of market data", "name the folder of the data sets by SEKAI_DATA")
    package = re.match(r"could not import '([^'.]+)", reason)
    return Skip(kind, PACKAGE.format(package[1]) if package else reason)


def _plural(kind: str, count: int) -> str:
    first, of, rest = kind.partition(" of ")
    return kind if count == 1 else f"{first}s{of}{rest}"
