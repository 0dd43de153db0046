"""Commands run by an interpreter with pyqlib; results go to a file.

python ask_pyqlib.py features <root> <freq> <fields as JSON> <file to write>
python ask_pyqlib.py store <root> <freq> <content as JSON>
python ask_pyqlib.py init <config as JSON> <other config as JSON> <file to write>
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


def features(root: str, freq: str, fields: str, file: str) -> None:
    """Read a provider directory of ours."""
    import qlib  # type: ignore[import-not-found]
    from qlib.contrib.ops.high_freq import (  # type: ignore[import-not-found]
        DayCumsum,
        DayLast,
        FFillNan,
        IsInf,
        IsNull,
    )
    from qlib.data import D  # type: ignore[import-not-found]

    qlib.init(
        provider_uri={freq: root}, region="cn", expression_cache=None, dataset_cache=None,
        redis_port=-1, kernels=1, logging_level=logging.ERROR,
        custom_ops=[DayCumsum, DayLast, FFillNan, IsInf, IsNull],
    )  # fmt: skip
    wanted = json.loads(fields)
    began = time.perf_counter()
    frame = D.features(D.instruments("all"), wanted, freq=freq)
    seconds = time.perf_counter() - began
    np.savez(
        file, instrument=frame.index.get_level_values(0).to_numpy().astype(str),
        datetime=frame.index.get_level_values(1).to_numpy().astype("datetime64[ns]"),
        values=frame.to_numpy(np.float32), seconds=seconds,
    )  # fmt: skip


def store(root: str, freq: str, content: str) -> None:
    """Write a provider directory by pyqlib's own storage classes."""
    from pathlib import Path

    import qlib
    from qlib.data.storage.file_storage import (  # type: ignore[import-not-found]
        FileCalendarStorage,
        FileFeatureStorage,
    )

    reported: dict[str, Any] = json.loads(content)
    for part in (
        "calendars",
        "instruments",
        *(f"features/{s.lower()}" for s in reported["features"]),
    ):
        Path(root, part).mkdir(parents=True)
    Path(root, "calendars", f"{freq}.txt").touch()
    Path(root, "instruments", "all.txt").touch()
    qlib.init(provider_uri={freq: root}, region="cn", redis_port=-1, logging_level=logging.ERROR)
    uri = {freq: root}
    FileCalendarStorage(freq=freq, future=False, provider_uri=uri).extend(reported["calendar"])
    # By hand: pyqlib's own class writes the columns in an order that it cannot read.
    lines = [f"{name}\t{a}\t{b}\n" for name, spans in reported["ranges"].items() for a, b in spans]
    Path(root, "instruments", "all.txt").write_text("".join(lines))
    for symbol, fields in reported["features"].items():
        for field, (start, values) in fields.items():
            one = FileFeatureStorage(instrument=symbol, field=field, freq=freq, provider_uri=uri)
            one.write(np.array(values, float), start)


def init(config: str, other: str, file: str) -> None:
    """Initialise pyqlib through sekai, twice, and read by its own `D` from each."""
    from sekai.compat.qlib import init_qlib

    found = []
    for chosen in (config, other):
        init_qlib(json.loads(chosen), with_pyqlib=True)
        from qlib.data import D

        frame = D.features(D.instruments("all"), ["$close", "DayCumsum($volume)"], freq="1min")
        found.append(frame.to_numpy(np.float32))
    np.savez(file, first=found[0], second=found[1])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    commands: dict[str, Callable[..., None]] = {"features": features, "store": store, "init": init}
    commands[sys.argv[1]](*sys.argv[2:])
