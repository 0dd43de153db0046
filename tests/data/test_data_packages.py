"""Optional packages of readers, and lazy import of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sekai.data import MarketData, inspect
from sekai.error import MissingExtraError
from tests.data.panels import bars

HEAVY = ["pandas", "polars", "pyarrow", "narwhals"]


def test_importing_the_stage_loads_no_package_of_frames() -> None:
    script = f"import sys, sekai.data; print([name for name in {HEAVY} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("pyarrow", lambda path: MarketData.from_parquet(path)),
        ("pyarrow", lambda path: MarketData.from_csv(path)),
        ("pyarrow", lambda _: MarketData.from_frame(bars())),
        ("narwhals", lambda _: MarketData.from_frame(bars())),
        ("pyarrow", inspect),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    package: str, call: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(MissingExtraError, match=rf"{package}.*pip install '\.\[data\]'"):
        call(tmp_path)


@pytest.mark.parametrize("package", ["pyarrow", "polars", "pandas"])
def test_writing_names_a_missing_package_too(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = MarketData.from_frame(bars())
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)
    # Also where no earlier test has loaded it.
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(MissingExtraError, match=package):
        data.to_frame(package)
    if package == "pyarrow":
        with pytest.raises(MissingExtraError, match=package):
            data.to_parquet(tmp_path / "x.parquet")
    assert not list(tmp_path.iterdir())
