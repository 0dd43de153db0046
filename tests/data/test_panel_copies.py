"""Panels can be copied and sent to other processes, and their rows counted in any number."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from sekai.data import MarketData


def panel() -> MarketData:
    times = np.datetime64("2024-01-01", "ns") + np.arange(6) * np.timedelta64(1, "D")
    values = np.random.default_rng(0).uniform(1, 2, (6, 2, 2))
    values[3, 1] = np.nan
    return MarketData(
        times, ["A", "B"], ["open", "close"], values, market={"rate": np.arange(6.0)},
        sectors={"A": "energy"}, timezone="Europe/Paris", warm_up=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))]
)
def test_a_copy_is_the_same_panel(copied: Callable[[MarketData], MarketData]) -> None:
    data = panel()
    other = copied(data)

    assert other == data
    assert not other.values.flags.writeable
    assert dict(other.market) == {"rate": pytest.approx(np.arange(6.0))}


@pytest.mark.parametrize("row", [2, 2.0, np.int64(2), np.float64(2)])
def test_the_future_is_changed_after_a_row_of_any_kind_of_number(row: float) -> None:
    data = panel()
    other = data.perturb_after(row, np.random.default_rng(1))

    assert other.rows(0, 3) == data.rows(0, 3)
    assert other != data
