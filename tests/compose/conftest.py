"""Fixtures of the tests of composed envs."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _forking_is_asked_for() -> None:
    """From Python 3.12 on, forking beside a thread warns; these tests fork on purpose."""
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A test that is interrupted on purpose, also where a shell has told its jobs not to hear."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
