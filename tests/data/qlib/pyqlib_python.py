"""Interpreter with pyqlib: configured by the user, or created for long runs."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

VERSION = "0.9.7"
VARIABLE = "SEKAI_QLIB_PYTHON"
ROOT = Path(__file__).parent.parent.parent.parent
SCRIPT = Path(__file__).parent / "ask_pyqlib.py"


CACHED = ROOT / ".venv" / "peers" / "pyqlib" / "bin" / "python"
"""Folder of an environment created on demand, by a long run or a benchmark."""


@cache
def is_ready() -> bool:
    """Return True if an interpreter exists and its creation is complete."""
    if not CACHED.exists():
        return False
    return subprocess.run([CACHED, "-c", "import qlib.data"], capture_output=True).returncode == 0


def pyqlib_python() -> str:
    """Existing interpreter; tests that need it are skipped without one."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    if not is_ready():
        pytest.skip(
            f"no Python with pyqlib: name one by {VARIABLE}, or make one by `make nightly` or "
            f"`python benchmarks/qlib_provider.py`"
        )
    return str(CACHED)


def make_pyqlib_python() -> str:
    """Existing interpreter, or a new one."""
    if VARIABLE in os.environ or is_ready():
        return pyqlib_python()
    folder = CACHED.parent.parent
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    # Its own code calls what newer versions of pandas no longer have.
    wanted = [f"pyqlib=={VERSION}", "pandas<3", "setuptools", "cloudpickle", "pyarrow"]
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", *wanted], check=True)
    return str(CACHED)


def ask(python: str, home: Path, *arguments: str) -> Any:
    """Run the script; what it wrote to the file named last, if it did."""
    environment = {
        **os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT / "python"),
        "MPLBACKEND": "agg", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [python, str(SCRIPT), *arguments], env=environment, capture_output=True, text=True,
        cwd=home,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return np.load(arguments[-1]) if arguments[-1].endswith(".npz") else None
