"""Arrays that other threads write into while native calls without the GIL read them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

import quant_gym_rs._core as core
from sekai.error import InvalidActionError, OrderError
from sekai.market import OrderBook
from tests.native.subjects import trading_config

ENVS = 64


@contextmanager
def writing(write: Callable[[np.random.Generator], None]) -> Iterator[None]:
    """Write from another thread as fast as possible."""
    is_over = threading.Event()

    def work() -> None:
        rng = np.random.default_rng(0)
        # The pause lets calls through that find the arrays as they should be.
        while not is_over.wait(1e-5):
            write(rng)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def buffers(envs: int, width: int) -> list[Any]:
    flags = [np.zeros(envs, np.bool_), np.zeros(envs, np.bool_)]
    return [np.zeros((envs, width)), np.zeros(envs), *flags, np.zeros((envs, width))]


def test_actions_that_change_during_a_step_are_those_that_were_checked() -> None:
    batch = core.TradingBatch(trading_config(warm_up=5), ENVS, 2)
    rows = buffers(ENVS, 54)
    batch.reset(np.arange(ENVS), np.arange(ENVS, dtype=np.uint64), rows[0], None)
    actions, skip = np.ones((ENVS, 1), np.int64), np.zeros(ENVS, np.bool_)

    def write(rng: np.random.Generator) -> None:
        actions[:, 0] = rng.integers(0, 3, ENVS)
        actions[rng.integers(ENVS), 0] = 10**9
        skip[:] = rng.random(ENVS) < 0.5
        actions[:, 0] = 1

    step: Callable[..., None] = batch.step
    taken = 0
    with writing(write):
        for _ in range(300):
            with suppress(InvalidActionError):
                step(actions, *rows, skip)
                taken += 1

    assert taken > 0
    assert np.isfinite(rows[0]).all()
    batch.load_state_dict(batch.state_dict())


def test_columns_of_orders_that_change_during_a_batch_are_those_that_were_checked() -> None:
    book = OrderBook()
    kind, side = np.zeros(4000, np.int8), np.tile([0, 1], 2000).astype(np.int8)
    price, size = np.tile([99, 101], 2000), np.ones(4000, np.int64)
    account, id = np.arange(4000) % 7, np.full(4000, -1)

    def write(rng: np.random.Generator) -> None:
        kind[:] = rng.integers(0, 9, 4000)
        price[:] = rng.integers(90, 110, 4000)
        size[rng.integers(4000)] = -(2**40)
        size[:] = 1
        kind[:] = 0

    with writing(write):
        for _ in range(60):
            with suppress(OrderError):
                book.batch_columns(kind, side, price, size, account, id, False)

    bid, ask = book.best_bid, book.best_ask
    assert bid is None or ask is None or bid < ask
    book.decode(book.encode())


def test_bars_that_change_during_a_series_are_those_that_were_checked() -> None:
    state = core.FeatureState()
    bars = np.tile([102.0, 99.0, 100.0, 5.0, 2.0], (3000, 1))

    def write(rng: np.random.Generator) -> None:
        bars[rng.integers(3000), 2] = -1.0
        bars[:, 2] = 100.0

    with writing(write):
        for _ in range(100):
            before, rows = state.encode(), None
            with suppress(ValueError):
                rows = state.series(bars)
            assert (state.encode() == before) is (rows is None)
            assert rows is None or np.isfinite(rows).all()


def test_masks_may_hold_any_byte() -> None:
    odd = np.full((1, 3), 7, np.uint8).view(np.bool_)
    limits = {"lower": [0.0] * 3, "upper": [1.0] * 3, "cash_lower": 0.0, "cash_upper": 1.0}
    wanted, held = np.full((1, 4), 0.25), np.array([[0.0, 0.0, 0.0, 1.0]])

    weights, _ = core.project_weights(wanted, held, odd, **limits)  # type: ignore[arg-type]

    assert weights == pytest.approx(wanted)
