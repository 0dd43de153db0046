"""The end of a test run says what was skipped, and how to have it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")

TESTS = {
    "test_pages.py": """
        import pytest

        pytestmark = pytest.mark.skipif(True, reason="chromium and chromedriver are needed")

        @pytest.mark.parametrize("page", range(3))
        def test_page(page): ...
        """,
    "test_extras.py": """
        import pytest

        def test_one(): pytest.importorskip("no_such_package")
        def test_other(): pytest.importorskip("no_such_package.part")
        """,
    "test_module.py": """
        import pytest

        absent = pytest.importorskip("no_such_module")

        def test_never(): ...
        """,
    "test_data.py": """
        import pytest

        def test_minutes(): pytest.skip("no minutes.csv: name the folder that has it by SEKAI_DATA")
        def test_days(): pytest.skip("no days.csv: name the folder that has it by SEKAI_DATA")
        def test_elsewhere(): pytest.skip("only on another machine")
        def test_passes(): ...
        """,
}


def run(folder: Path, *arguments: str) -> str:
    shutil.copy(CONFTEST, folder / "conftest.py")
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", *arguments]
    # Other plugins take seconds to load.
    own = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=own, check=False)
    return done.stdout


def write(folder: Path, names: list[str]) -> None:
    for name in names:
        lines = TESTS[name].splitlines()
        (folder / name).write_text("\n".join(line[8:] for line in lines))


@pytest.mark.parametrize("workers", ["0", "2"])
def test_skips_are_counted_by_reason_with_a_remedy(tmp_path: Path, workers: str) -> None:
    write(tmp_path, list(TESTS))

    lines = run(tmp_path, "-n", workers).splitlines()

    reported = [line for line in lines if " skipped: " in line]
    assert reported == [
        "3 browser tests skipped: install chromium and chromium-driver",
        "2 tests of market data skipped: name the folder of the data sets by SEKAI_DATA",
        "2 tests skipped: no package no_such_package; pip install it, or -e '.[dev]' for all",
        "1 test file skipped: no package no_such_module; pip install it, or -e '.[dev]' for all",
        "1 test skipped: only on another machine",
    ]


def test_a_run_without_skips_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_fine.py").write_text("def test_fine(): ...\n")

    assert "skipped" not in run(tmp_path, "-n", "0")
