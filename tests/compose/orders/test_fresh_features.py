from __future__ import annotations

from pathlib import Path

import numpy as np

from sekai.compose import TickFeatures
from sekai.data import MarketData
from sekai.data.qlib import QlibIntraday, QlibProvider, write_qlib

DAY = np.datetime64("2020-01-02")


def minutes(price: float) -> MarketData:
    times = DAY.astype("datetime64[ns]") + np.arange(570, 600) * np.timedelta64(1, "m")
    values = np.full((30, 1, 2), price)
    values[:, 0, 0] += np.arange(30)
    return MarketData(times, ["A"], ["close", "volume"], values)


def test_features_of_a_folder_that_was_rewritten_are_those_of_the_new_files(tmp_path: Path) -> None:
    root = tmp_path / "provider"
    write_qlib(minutes(10.0), root, "1min")
    shown = TickFeatures(QlibIntraday(QlibProvider({"1min": root})), relative=False)
    first = shown.features("A", DAY).today[:, 0].tolist()
    again = shown.features("A", DAY)

    write_qlib(minutes(20.0), root, "1min", overwrite=True)

    assert first == again.today[:, 0].tolist() == [10.0 + at for at in range(30)]
    assert shown.features("A", DAY).today[:, 0].tolist() == [20.0 + at for at in range(30)]
