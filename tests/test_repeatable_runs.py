"""The default test run draws the same examples every time; only the nightly search is random."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PROPERTY = """
from pathlib import Path
from hypothesis import given, settings, strategies as st

@given(st.integers())
def test_plain(drawn):
    with Path(__file__).with_name("drawn.txt").open("a") as file:
        file.write(f"{drawn}\\n")

@settings(max_examples=20)
@given(st.floats())
def test_with_settings(drawn):
    with Path(__file__).with_name("drawn.txt").open("a") as file:
        file.write(f"{drawn!r}\\n")
"""


def drawn_examples(folder: Path, *options: str) -> str:
    """Examples that property tests draw in a new run."""
    folder.mkdir()
    (folder / "test_property.py").write_text(PROPERTY)
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *options, str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return (folder / "drawn.txt").read_text()


@pytest.mark.timeout(120)
def test_the_default_run_draws_the_same_examples_twice(tmp_path: Path) -> None:
    first = drawn_examples(tmp_path / "first")
    second = drawn_examples(tmp_path / "second")

    assert first == second
    assert len(set(first.splitlines())) > 20


@pytest.mark.timeout(120)
def test_the_search_draws_other_examples_each_time(tmp_path: Path) -> None:
    first = drawn_examples(tmp_path / "first", "--hypothesis-profile=search")
    second = drawn_examples(tmp_path / "second", "--hypothesis-profile=search")

    assert first != second


def test_rust_property_tests_have_a_seed_of_their_own() -> None:
    assert 'PROPTEST_RNG_SEED = "1"' in (ROOT / ".cargo" / "config.toml").read_text()
