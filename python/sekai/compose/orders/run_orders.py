"""Back-test of many orders with one policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.baselines import OrderPolicy
from sekai.compose.orders.data import OrderData, as_intraday
from sekai.compose.orders.order import Order
from sekai.compose.orders.simulators import OrderSimulator, SingleAssetOrderExecutionSimple
from sekai.compose.orders.state import FILLS, metrics_dtype
from sekai.data.intraday import Progress, reporter
from sekai.vector.worker_pool import start_context

__all__ = ["OrderReport", "run_orders"]

CHUNKS_PER_WORKER = 8
"""Chunks per worker, so that none waits long for another at the end."""


@dataclass(frozen=True, slots=True, eq=False)
class OrderReport:
    """Report of executed orders: metrics, fills and notices."""

    metrics: NDArray[Any]
    """One row per order: the fields of `SAOEMetrics`, and `cost`."""
    fills: NDArray[Any]
    """One row per tick: `order` (its index), time, wanted, filled, price, value and cost."""
    notices: Mapping[int, str] = field(default_factory=dict)
    """Notices by the index of an order: those larger than the market volume of their ticks."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.metrics):,} orders, {len(self.fills):,} fills, "
            f"{len(self.notices):,} notices)"
        )


def run_orders(
    orders: Sequence[Order],
    data: OrderData | None,
    policy: OrderPolicy,
    *,
    progress: Progress = True,
    workers: int = 1,
    simulator_fn: Callable[[Order], OrderSimulator] | None = None,
    **settings: Any,
) -> OrderReport:
    """Execute every order to its end with a policy.

    Args:
        orders: the orders.
        data: source of ticks; None if `simulator_fn` has one.
        policy: amount of each step from the `SAOEState`.
        progress: True for a bar on standard error, or a function of the numbers of finished and
            of all orders.
        workers: number of processes; 1 for this one alone. Arguments are pickled.
        simulator_fn: makes the simulator of an order; by default a
            `SingleAssetOrderExecutionSimple`.
        **settings: of that simulator: `ticks_per_step`, `vol_threshold`, `costs` and so on.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    run = _Run(policy, _simulators(data, simulator_fn, settings))
    report = reporter(progress, "orders")
    parts: list[OrderReport | None] = [None] * len(orders)
    for done, (index, part) in enumerate(_executed(run, orders, workers), 1):
        parts[index] = part
        report(done, len(orders))
    return _joined([part for part in parts if part is not None])


@dataclass(frozen=True, slots=True)
class _Run:
    policy: OrderPolicy
    simulator_fn: Callable[[Order], OrderSimulator]

    def execute(self, index: int, order: Order) -> OrderReport:
        simulator = self.simulator_fn(order)
        while not simulator.done():
            simulator.step(self.policy(simulator.get_state()))
        return _report(index, simulator)


def _simulators(
    data: OrderData | None,
    simulator_fn: Callable[[Order], OrderSimulator] | None,
    settings: dict[str, Any],
) -> Callable[[Order], OrderSimulator]:
    if simulator_fn is not None:
        if settings or data is not None:
            raise TypeError(
                f"simulator_fn excludes data and settings, got {sorted(settings)}; leave them out"
            )
        return simulator_fn
    if data is None:
        raise TypeError("pass data or a simulator_fn, got neither")
    days = as_intraday(data)
    return lambda order: SingleAssetOrderExecutionSimple(order, days, **settings)


def _executed(
    run: _Run, orders: Sequence[Order], workers: int
) -> Iterator[tuple[int, OrderReport]]:
    if workers == 1 or len(orders) < 2:
        for index, order in enumerate(orders):
            yield index, run.execute(index, order)
        return
    chunks = np.array_split(np.arange(len(orders)), min(len(orders), workers * CHUNKS_PER_WORKER))
    context = start_context(None)
    import cloudpickle  # type: ignore[import-untyped]

    pickled = cloudpickle.dumps(run)
    with ProcessPoolExecutor(workers, context, _start_worker, (pickled,)) as pool:
        pending = [
            pool.submit(_execute_chunk, [(int(index), orders[index]) for index in chunk])
            for chunk in chunks
        ]
        try:
            for finished in as_completed(pending):
                yield from finished.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


_worker_run: _Run | None = None


def _start_worker(pickled: bytes) -> None:
    global _worker_run
    import cloudpickle

    _worker_run = cloudpickle.loads(pickled)


def _execute_chunk(chunk: list[tuple[int, Order]]) -> list[tuple[int, OrderReport]]:
    assert _worker_run is not None
    return [(index, _worker_run.execute(index, order)) for index, order in chunk]


def _report(index: int, simulator: OrderSimulator) -> OrderReport:
    summary = simulator.metrics
    assert summary is not None
    kinds = [*metrics_dtype(len(summary.stock_id)).descr, ("cost", "f8")]
    metrics = np.array([(*(summary[name] for name in summary), simulator.cost)], kinds)
    ticks = simulator.fills
    fills = np.empty(len(ticks), [("order", "i8"), *FILLS.descr])
    fills["order"] = index
    for name in FILLS.names or ():
        fills[name] = ticks[name]
    return OrderReport(
        metrics, fills, {} if simulator.notice is None else {index: simulator.notice}
    )


def _joined(parts: list[OrderReport]) -> OrderReport:
    if not parts:
        kinds = [*metrics_dtype().descr, ("cost", "f8")]
        return OrderReport(np.empty(0, kinds), np.empty(0, [("order", "i8"), *FILLS.descr]))
    return OrderReport(
        np.concatenate([part.metrics for part in parts]),
        np.concatenate([part.fills for part in parts]),
        {index: notice for part in parts for index, notice in part.notices.items()},
    )
