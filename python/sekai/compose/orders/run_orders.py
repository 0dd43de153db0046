"""Work many orders by one policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.baselines import OrderPolicy
from sekai.compose.orders.day_source import OrderData, intraday
from sekai.compose.orders.metrics import FILLS, metrics_dtype
from sekai.compose.orders.order import Order
from sekai.compose.orders.order_simulator import OrderSimulator
from sekai.compose.orders.simple import SingleAssetOrderExecutionSimple
from sekai.data.progress import Progress, reporter
from sekai.vector.crew import chosen_context

__all__ = ["OrderReport", "run_orders"]

CHUNKS_PER_WORKER = 8
"""How many parts each worker is given, so that none waits long for another at the end."""


@dataclass(frozen=True, slots=True, eq=False)
class OrderReport:
    """How orders went."""

    metrics: NDArray[Any]
    """One row an order, in their order: the fields of `SAOEMetrics`, and `cost`."""
    fills: NDArray[Any]
    """One row a tick: `order` (its place), time, wanted, filled, price, value and cost."""


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
    """Work every order to its end.

    Args:
        orders: what is to be traded.
        data: where ticks come from; None if `simulator_fn` knows.
        policy: decides the amount of each step from the `SAOEState`.
        progress: True for a bar on the standard error stream, or a function of how many orders
            are done and how many there are.
        workers: how many processes work; 1 for this one alone. What they need is pickled.
        simulator_fn: makes the simulator of an order; by default a
            `SingleAssetOrderExecutionSimple`.
        **settings: of that simulator: `ticks_per_step`, `vol_threshold`, `costs` and so on.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, was {workers}")
    run = _Run(policy, _simulators(data, simulator_fn, settings))
    report = reporter(progress, "orders")
    parts: list[OrderReport | None] = [None] * len(orders)
    for done, (place, part) in enumerate(_worked(run, orders, workers), 1):
        parts[place] = part
        report(done, len(orders))
    return _joined([part for part in parts if part is not None])


@dataclass(frozen=True, slots=True)
class _Run:
    policy: OrderPolicy
    simulator_fn: Callable[[Order], OrderSimulator]

    def one(self, place: int, order: Order) -> OrderReport:
        simulator = self.simulator_fn(order)
        while not simulator.done():
            simulator.step(self.policy(simulator.get_state()))
        return _report(place, simulator)


def _simulators(
    data: OrderData | None,
    simulator_fn: Callable[[Order], OrderSimulator] | None,
    settings: dict[str, Any],
) -> Callable[[Order], OrderSimulator]:
    if simulator_fn is not None:
        if settings or data is not None:
            raise TypeError(
                f"simulator_fn makes simulators as it likes: leave out data and {sorted(settings)}"
            )
        return simulator_fn
    if data is None:
        raise TypeError("data or a simulator_fn that has some was wanted, found neither")
    days = intraday(data)
    return lambda order: SingleAssetOrderExecutionSimple(order, days, **settings)


def _worked(run: _Run, orders: Sequence[Order], workers: int) -> Iterator[tuple[int, OrderReport]]:
    if workers == 1 or len(orders) < 2:
        for place, order in enumerate(orders):
            yield place, run.one(place, order)
        return
    chunks = np.array_split(np.arange(len(orders)), min(len(orders), workers * CHUNKS_PER_WORKER))
    context = chosen_context(None)
    import cloudpickle  # type: ignore[import-untyped]

    pickled = cloudpickle.dumps(run)
    with ProcessPoolExecutor(workers, context, _begin_worker, (pickled,)) as pool:
        waiting = [
            pool.submit(_work_chunk, [(int(place), orders[place]) for place in chunk])
            for chunk in chunks
        ]
        try:
            for finished in as_completed(waiting):
                yield from finished.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


_worker_run: _Run | None = None


def _begin_worker(pickled: bytes) -> None:
    global _worker_run
    import cloudpickle

    _worker_run = cloudpickle.loads(pickled)


def _work_chunk(chunk: list[tuple[int, Order]]) -> list[tuple[int, OrderReport]]:
    assert _worker_run is not None
    return [(place, _worker_run.one(place, order)) for place, order in chunk]


def _report(place: int, simulator: OrderSimulator) -> OrderReport:
    told = simulator.metrics
    assert told is not None
    kinds = [*metrics_dtype(len(told.stock_id)).descr, ("cost", "f8")]
    metrics = np.array([(*(told[name] for name in told), simulator.cost)], kinds)
    worked = simulator.fills
    fills = np.empty(len(worked), [("order", "i8"), *FILLS.descr])
    fills["order"] = place
    for name in FILLS.names or ():
        fills[name] = worked[name]
    return OrderReport(metrics, fills)


def _joined(parts: list[OrderReport]) -> OrderReport:
    if not parts:
        kinds = [*metrics_dtype().descr, ("cost", "f8")]
        return OrderReport(np.empty(0, kinds), np.empty(0, [("order", "i8"), *FILLS.descr]))
    return OrderReport(
        np.concatenate([part.metrics for part in parts]),
        np.concatenate([part.fills for part in parts]),
    )
