"""Fixtures of the tests of vector envs."""

from __future__ import annotations

import warnings

import pytest


@pytest.fixture(autouse=True)
def _forking_is_asked_for() -> None:
    """From Python 3.12 on, forking beside a thread warns; these tests fork on purpose."""
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
