"""Order execution: time of one order, of a thousand orders, and of env steps.

Qlib's nested executors take about 3.6 s for one order of eight steps over a day of minute bars.
The thousand orders use minute bars of nine symbols in the folder `SEKAI_DATA` or beside the
repository, and synthetic minute bars if there are none.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from measure import interleaved, medians, show
from sekai.compose import (
    TWAP,
    ComposedOrderExecution,
    Order,
    OrderDir,
    SimulatedMinutes,
    SingleAssetOrderExecution,
    SingleAssetOrderExecutionSimple,
    init_qlib,
    run_orders,
)
from sekai.data import MarketData, Policies

QLIB_SECONDS = 3.6
FILE = Path("minute_oanda", "oanda_1m_9symbols_2020Q1.csv.gz")
EXECUTOR = {"time_per_step": "1day", "inner_executor": {"time_per_step": "30min"}}
EXCHANGE = {
    "deal_price": "close", "open_cost": 0.0005, "close_cost": 0.0015, "min_cost": 5.0,
    "trade_unit": 100, "volume_threshold": {"all": ("cum", "0.2*DayCumsum($volume)")},
}  # fmt: skip


def one_order() -> list[list[str]]:
    """Milliseconds of CPU time for one order of eight steps, from data to metrics."""
    order = Order("AAA", 12_000, OrderDir.BUY, "2020-01-02 09:30", "2020-01-02 14:59")
    panel = minutes()
    with tempfile.TemporaryDirectory() as folder:
        panel.to_qlib(Path(folder) / "1min", freq="1min")
        folders = {"provider_uri_1min": Path(folder) / "1min"}
        init_qlib(folders)

        def from_provider() -> int:
            return execute(SingleAssetOrderExecution(order, EXECUTOR, EXCHANGE))

        def from_files() -> int:
            init_qlib(folders)
            return from_provider()

        def simple() -> int:
            return execute(SingleAssetOrderExecutionSimple(order, panel))

        kinds: dict[str, Callable[[], int]] = {
            "SingleAssetOrderExecution": from_provider,
            "the same, files read again": from_files,
            "SingleAssetOrderExecutionSimple": simple,
        }  # fmt: skip
        times = medians(interleaved(kinds, repeats=30))
    return [
        [name, f"{nanoseconds / 1e6:.2f}", f"{QLIB_SECONDS / nanoseconds * 1e9:,.0f}"]
        for name, nanoseconds in times.items()
    ]


def minutes() -> MarketData:
    """Three days of synthetic minute bars, with the fields of an exchange."""
    simulated = SimulatedMinutes()
    days = [simulated.day("AAA", np.datetime64("2020-01-02") + n) for n in range(3)]
    columns = [np.concatenate([day.column(f"${n}") for day in days]) for n in ("close", "volume")]
    values = np.stack([*columns, np.ones(len(columns[0]))], axis=1)[:, None, :]
    stamps = np.concatenate([day.times for day in days])
    return MarketData(stamps, ["AAA"], ["close", "volume", "factor"], values)


def many_orders(count: int = 1000) -> list[list[str]]:
    """Wall time for many orders with a progress bar, with their fills."""
    panel = real_minutes()
    orders, data = random_orders(panel, count)
    rows = []
    for workers in (1, 2):
        begin = time.perf_counter()
        report = run_orders(orders, data, TWAP(), workers=workers, vol_threshold=0.5)
        seconds = time.perf_counter() - begin
        filled, fills = report.metrics["ffr"].mean(), len(report.fills)
        rows.append([str(workers), f"{seconds:.1f}", f"{fills:,}", f"{filled:.3f}"])
    return rows


def real_minutes() -> MarketData | None:
    """Minute bars of nine symbols; None without the file."""
    default_folder = Path(__file__).parents[1].parent / "shared" / "data"
    file = Path(os.environ.get("SEKAI_DATA", default_folder)) / FILE
    if not file.exists():
        return None
    return MarketData.from_csv(file, timezone="UTC", policies=Policies(calendars="union"))


def random_orders(panel: MarketData | None, count: int) -> tuple[list[Order], Any]:
    """Random orders of four hours each, and their data."""
    rng = np.random.default_rng(0)
    if panel is None:
        assets, dates = tuple("ABCDEFGHI"), np.datetime64("2020-01-02") + np.arange(60)
    else:
        assets, dates = panel.assets, np.unique(panel.times.astype("datetime64[D]"))
        dates = dates[np.is_busday(dates)][1:-1]
    hour = 8 if panel is not None else 9
    orders = []
    for index in range(count):
        date = str(rng.choice(dates))
        start = f"{date} {hour:02}:{rng.integers(30, 60)}"
        orders.append(
            Order(assets[index % 9], 100.0, OrderDir(index % 2), start, f"{date} {hour + 4}:30")
        )
    return orders, SimulatedMinutes() if panel is None else panel


def envs(seconds: float = 2.0, num_envs: int = 256) -> list[list[str]]:
    """Steps per second of wall and CPU time, of composed envs and of the native batch."""
    rows = []
    for name, env in (
        ("composed, one env", ComposedOrderExecution()),
        ("native, one env", sekai.make("OrderExecution-v0")),
    ):
        wall_rate, cpu_rate = rates_of_env(env, seconds)
        rows.append([name, "1", f"{wall_rate:,.0f}", f"{cpu_rate:,.0f}"])
    for threads in (1, 2):
        with sekai.make_vec("OrderExecution-v0", num_envs, num_threads=threads) as vec:
            wall_rate, cpu_rate = rates_of_vec(vec, seconds)
        name = f"native, {threads} threads"
        rows.append([name, str(num_envs), f"{wall_rate:,.0f}", f"{cpu_rate:,.0f}"])
    return rows


def rates_of_env(env: Any, seconds: float) -> tuple[float, float]:
    """Steps per second of wall and CPU time, of a single env."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, env.action_space.n, 64).tolist()
    env.reset(seed=0)
    begin, begin_cpu, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begin < seconds:
        for action in actions:
            if env.step(action).terminated:
                env.reset()
        steps += len(actions)
    return steps / (time.perf_counter() - begin), steps / (time.process_time() - begin_cpu)


def rates_of_vec(vec: Any, seconds: float) -> tuple[float, float]:
    """Steps per second of wall and CPU time, of a vector env with random actions."""
    rng = np.random.default_rng(0)
    actions = [rng.integers(0, vec.action_space.n, vec.num_envs) for _ in range(64)]
    vec.reset(seed=0)
    for action in actions:
        vec.step(action)
    begin, begin_cpu, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begin < seconds:
        for action in actions:
            vec.step(action)
        steps += len(actions) * vec.num_envs
    return steps / (time.perf_counter() - begin), steps / (time.process_time() - begin_cpu)


def execute(simulator: Any) -> int:
    """Execute an order by TWAP; return the number of orders."""
    policy = TWAP()
    while not simulator.done():
        simulator.step(policy(simulator.get_state()))
    return 1


if __name__ == "__main__":
    show("One order, ms", ["simulator", "ms", "times faster than 3.6 s"], one_order())
    columns = ["kind", "envs", "steps/s", "steps/s of CPU time"]
    show("OrderExecution-v0, steps per second", columns, envs())
    show("1,000 orders, TWAP", ["processes", "s", "fills", "mean filled"], many_orders())
