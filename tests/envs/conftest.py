"""Fixtures of the tests of built-in tasks."""

from __future__ import annotations

import warnings

import pytest

from tests.envs.native_tasks import TASKS


@pytest.fixture(autouse=True)
def _forking_is_asked_for() -> None:
    """From Python 3.12 on, forking beside a thread warns; these tests fork on purpose."""
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)


@pytest.fixture(scope="module", params=sorted(TASKS))
def task(request: pytest.FixtureRequest) -> str:
    """Each task that is written in Rust."""
    return str(request.param)
