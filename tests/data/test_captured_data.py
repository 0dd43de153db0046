"""The data that a function holds of its own is found wherever it is kept."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from sekai.data.features.events import Events
from sekai.data.features.lookahead import captured_data
from tests.data.holed_panels import make_panel

LONG = np.zeros(50)


def of_a_closure(held: Any) -> Any:
    return lambda data: held


def of_a_default(held: Any) -> Any:
    return lambda data, values=held: values


def of_a_keyword(held: Any) -> Any:
    def function(data: Any, *, values: Any = held) -> Any:
        return values

    return function


def of_a_partial(held: Any) -> Any:
    return functools.partial(lambda values, data: values, held)


def of_an_object(held: Any) -> Any:
    class Holder:
        def __init__(self) -> None:
            self.values = held

        def compute(self, data: Any) -> Any:
            return self.values

    return Holder().compute


def of_a_function_inside(held: Any) -> Any:
    inside = of_a_closure(held)
    return lambda data: inside(data)


def of_a_global(_: Any) -> Any:
    return lambda data: LONG


@pytest.mark.parametrize(
    "hide",
    [
        of_a_closure, of_a_default, of_a_keyword, of_a_partial, of_an_object,
        of_a_function_inside, of_a_global,
    ],
)  # fmt: skip
def test_data_is_found_wherever_it_is_kept(hide: Any) -> None:
    assert captured_data(hide(np.zeros(50)), 50) == ["ndarray"]


@pytest.mark.parametrize("held", [np.zeros(3), 4.0, "x" * 99, Events([], [], delay="0s")])
def test_parameters_and_what_can_be_changed_are_not_data(held: Any) -> None:
    assert captured_data(of_a_closure(held), 50) == []


def test_panels_and_tables_are_data() -> None:
    panel = make_panel(rows=50)

    assert captured_data(of_a_closure(panel), 50)[0] == "MarketData"
    assert captured_data(of_a_closure(dict.fromkeys(range(50))), 50) == ["dict"]


def test_a_name_that_is_bound_later_holds_nothing() -> None:
    def function(data: Any) -> Any:
        return later

    found = captured_data(function, 50)
    later = None

    assert (found, function(later)) == ([], None)
