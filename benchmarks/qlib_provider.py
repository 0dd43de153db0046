"""Speed of reading Qlib provider directories, compared with pyqlib in its own environment.

CPU time, minimum of several interleaved rounds.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from measure import in_peer, peer_python, show
from sekai.data import DayCache, MarketData, QlibIntraday, QlibProvider

ROWS, ASSETS, FIELDS = 2500, 500, ("open", "high", "low", "close", "vwap", "volume")
DAYS = 100
ROUNDS = 3

THEIRS = """
import json, logging, sys, time, warnings
warnings.simplefilter("ignore")
import qlib
from qlib.data import D
root, freq, start, end, fields, cpu = *sys.argv[1:5], json.loads(sys.argv[5]), time.process_time
qlib.init(provider_uri={freq: root}, region="cn", expression_cache=None, dataset_cache=None,
          redis_port=-1, kernels=1, logging_level=logging.ERROR)
from qlib.data.cache import H
D.calendar(freq=freq)
begin = cpu()
D.features(D.instruments("all"), fields, start or None, end or None, freq=freq)
first = cpu() - begin
H["f"].clear()
begin = cpu()
D.features(D.instruments("all"), fields, start or None, end or None, freq=freq)
print(json.dumps({"seconds": [first, cpu() - begin]}))
"""


def seconds(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def panel(root: Path) -> list[str]:
    """Read a daily panel as a table, as a `MarketData`, and as a frame of pyqlib."""
    days = np.busday_offset("2010-01-01", np.arange(ROWS), roll="forward")
    values = np.random.default_rng(0).uniform(10, 11, (ROWS, ASSETS, len(FIELDS)))
    values[..., 1], values[..., 2] = 12, 9
    names = [f"SH{600000 + index}" for index in range(ASSETS)]
    MarketData(days.astype("datetime64[D]"), names, FIELDS, values).to_qlib(root)
    columns = [f"${field}" for field in FIELDS]
    times: dict[str, list[float]] = {"table": [], "panel": [], "theirs": []}
    for _ in range(ROUNDS):
        provider = QlibProvider(root)
        times["table"].append(seconds(partial(provider.features, None, columns)))
        times["panel"].append(seconds(partial(MarketData.from_qlib, root, fields=FIELDS)))
        times["theirs"].append(min(theirs(root, "day", "", "", columns)))
    best = {name: min(values) for name, values in times.items()}
    shape = f"{ASSETS} symbols x {ROWS} days x {len(FIELDS)} fields"
    return [
        shape,
        *(f"{best[name]:.2f} s" for name in best),
        f"{best['theirs'] / best['table']:.0f}x",
    ]


def one_day(root: Path) -> list[str]:
    """Read a day of minutes of one symbol, uncached and cached."""
    of_day = np.concatenate([np.arange(570, 690), np.arange(780, 900)]).astype("timedelta64[m]")
    days = np.arange("2020-01-01", "2030-01-01", dtype="datetime64[D]")[:DAYS]
    times = (days[:, None] + of_day).ravel()
    values = np.random.default_rng(0).uniform(10, 11, (len(times), 1, 4))
    names = ("close", "volume", "bid", "ask")
    MarketData(times, ["SH600000"], names, values).to_qlib(root)
    columns = [f"${name}" for name in names]
    time.sleep(0.1)
    durations: dict[str, list[float]] = {"uncached": [], "cached": [], "theirs": []}
    for _ in range(ROUNDS):
        for name, cache in (("uncached", DayCache(0)), ("cached", DayCache())):
            source = QlibIntraday(QlibProvider(root), "1min", columns, cache=cache)
            source.preload(["SH600000"], days)
            durations[name].append(seconds(partial(all_days, source, days)) / DAYS)
        end = f"{days[1]} 15:00:00"
        durations["theirs"].append(theirs(root, "1min", str(days[1]), end, columns)[1])
    best = {name: 1e6 * min(values) for name, values in durations.items()}
    return [
        "1 day x 4 columns",
        *(f"{best[name]:.0f} us" for name in best),
        f"{best['theirs'] / best['uncached']:.0f}x",
    ]


def all_days(source: QlibIntraday, days: NDArray[np.datetime64]) -> None:
    """Read days in order."""
    for day in days:
        source.day("SH600000", day)


def theirs(root: Path, freq: str, start: str, end: str, fields: list[str]) -> list[float]:
    """CPU seconds of pyqlib, cold and with cached calendars."""
    configured = os.environ.get("SEKAI_QLIB_PYTHON")
    packages = ("pyqlib==0.9.7", "pandas<3", "setuptools", "cloudpickle", "pyarrow")
    python = Path(configured) if configured else peer_python("pyqlib", *packages)
    return in_peer(python, THEIRS, str(root), freq, start, end, json.dumps(fields))["seconds"]


def main() -> None:
    """Measure a panel and a day."""
    with tempfile.TemporaryDirectory() as folder:
        show(
            "A provider directory, CPU time",
            ["data", "features", "from_qlib", "pyqlib", "pyqlib / features"],
            [panel(Path(folder) / "day")],
        )
        show(
            "Minutes of a day, CPU time",
            ["data", "uncached", "cached", "pyqlib", "pyqlib / uncached"],
            [one_day(Path(folder) / "1min")],
        )


if __name__ == "__main__":
    main()
