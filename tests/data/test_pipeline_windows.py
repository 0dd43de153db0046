"""Windows take a pipeline, its result or market data directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.data import PanelWindows, Pipeline, Windows, simulate_gbm
from sekai.data.windows.panel_windows import RollingWindows
from sekai.error import NotFittedError

DATA = simulate_gbm(assets=3, rows=120)
LOOKBACK = 10


def pipeline_of(dtype: Any = np.float32) -> Pipeline:
    return Pipeline(["log_return", "volatility(20)"], scaling="zscore", dtype=dtype).fit(DATA)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_of_a_pipeline_are_those_of_its_result(dtype: Any, tmp_path: Path) -> None:
    pipeline = pipeline_of(dtype)
    panel = pipeline.transform(DATA)
    Windows.write(tmp_path / "direct", DATA, LOOKBACK, pipeline=pipeline)
    Windows.write(tmp_path / "panel", panel, LOOKBACK)

    with Windows.open(tmp_path / "direct") as direct, Windows.open(tmp_path / "panel") as written:
        assert direct.digest == written.digest
        assert direct.dtype == dtype, "the pipeline's own dtype, so that it can continue the file"
        assert direct.features == panel.names
        assert np.array_equal(direct.gather([0])[0], panel.values[:LOOKBACK])
        rolled = RollingWindows(Windows.open(tmp_path / "direct", pipeline=pipeline), DATA)
        assert len(rolled) == len(direct)
        rolled.file.close()


def test_an_explicit_dtype_is_kept(tmp_path: Path) -> None:
    Windows.write(tmp_path / "w", DATA, LOOKBACK, pipeline=pipeline_of(np.float64), dtype="f4")

    with Windows.open(tmp_path / "w") as windows:
        assert windows.dtype == np.float32


def test_a_pipeline_needs_market_data_and_a_fit(tmp_path: Path) -> None:
    pipeline = pipeline_of()
    with pytest.raises(TypeError, match="computes features of market data, got a FeaturePanel"):
        Windows.write(tmp_path / "w", pipeline.transform(DATA), LOOKBACK, pipeline=pipeline)
    with pytest.raises(NotFittedError):
        Windows.write(
            tmp_path / "w", DATA, LOOKBACK, pipeline=Pipeline(["log_return"], scaling="zscore")
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("panel", [DATA, pipeline_of().transform(DATA)], ids=["data", "features"])
def test_windows_in_memory_take_panels_with_names(panel: Any) -> None:
    names = panel.fields if panel is DATA else panel.names
    values = panel.values.astype(np.float32)
    windows = PanelWindows(panel, LOOKBACK)
    plain = PanelWindows(values, LOOKBACK, times=DATA.times, assets=DATA.assets, features=names)

    assert windows.digest == plain.digest
    with pytest.raises(ValueError, match="times is required: the panel has none"):
        PanelWindows(values, LOOKBACK)
