"""Importing training leaves the program's multiprocessing start method as it was."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.timeout(300)


def _run(script: str) -> list[str]:
    """What a script prints in an interpreter of its own; a script that fails is an error."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_program_that_has_set_no_start_method_can_still_set_one() -> None:
    told = _run(
        """
        import multiprocessing
        import sekai.training
        print(multiprocessing.get_start_method(allow_none=True))
        multiprocessing.set_start_method("fork")
        print(multiprocessing.get_start_method())
        """
    )

    assert told == ["None", "fork"]


def test_a_start_method_that_was_set_before_stays() -> None:
    told = _run(
        """
        import multiprocessing
        multiprocessing.set_start_method("fork")
        import sekai.training
        print(multiprocessing.get_start_method())
        """
    )

    assert told == ["fork"]
