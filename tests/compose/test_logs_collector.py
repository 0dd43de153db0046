"""Values that a log collector accepts from a step, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import LogCollector, LogLevel
from tests.spaces.strategies import law

LEVELS = st.sampled_from(LogLevel)


def test_levels_are_ordered_numbers() -> None:
    assert [level.value for level in LogLevel] == [10, 20, 30, 40]
    assert LogLevel.DEBUG < LogLevel.PERIODIC < LogLevel.INFO < LogLevel.CRITICAL


@law
@given(least=LEVELS, level=LEVELS, method=st.sampled_from(["scalar", "string", "array", "any"]))
def test_entries_below_the_least_level_are_dropped(
    least: LogLevel, level: LogLevel, method: str
) -> None:
    collector = LogCollector(least)
    value: Any = {"scalar": 1.5, "string": "x", "array": np.ones(2), "any": None}[method]

    getattr(collector, f"add_{method}")("name", value, level)

    assert list(collector.logs()) == (["name"] if level >= least else [])


def test_the_default_level_is_periodic_on_both_sides() -> None:
    collector = LogCollector()
    collector.add_scalar("told", 1)
    collector.add_scalar("dropped", 1, LogLevel.DEBUG)

    assert collector.logs() == {"told": (LogLevel.PERIODIC, 1.0)}


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.int64(2), np.array(2), np.array([[2.0]])]
)
def test_a_scalar_is_kept_as_a_float(value: Any) -> None:
    collector = LogCollector()
    collector.add_scalar("x", value)

    ((_, kept),) = collector.logs().values()
    assert (type(kept), kept) == (float, 2.0)


@pytest.mark.parametrize("value", [True, np.bool_(True)])
def test_a_bool_is_a_scalar(value: Any) -> None:
    collector = LogCollector()
    collector.add_scalar("x", value)

    assert collector.logs() == {"x": (20, 1.0)}


def test_a_tensor_of_one_element_is_a_scalar() -> None:
    torch = pytest.importorskip("torch")
    collector = LogCollector()
    collector.add_scalar("x", torch.tensor([2.5]))

    assert collector.logs() == {"x": (20, 2.5)}
    with pytest.raises(TypeError, match="'y' must be one number"):
        collector.add_scalar("y", torch.zeros(2))


@pytest.mark.parametrize("value", ["2", None, [2.0], 2j, np.array("2")])
def test_what_is_no_number_is_no_scalar(value: Any) -> None:
    collector = LogCollector()

    with pytest.raises(TypeError, match="'x' must be a number, got"):
        collector.add_scalar("x", value)
    with pytest.raises(TypeError, match=r"'x' must be one number, got ndarray of shape \(2,\)"):
        collector.add_scalar("x", np.zeros(2))
    assert collector.logs() == {}


def test_strings_and_arrays_are_what_they_say() -> None:
    collector = LogCollector()

    with pytest.raises(TypeError, match="'x' must be a string, got int 5"):
        collector.add_string("x", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'x' must be an array.*got list; use add_any"):
        collector.add_array("x", [1, 2])


def test_an_array_is_copied() -> None:
    collector, array = LogCollector(), np.zeros(2)
    collector.add_array("x", array)
    array[0] = 1

    assert collector.logs()["x"][1].tolist() == [0, 0]


def test_frames_and_series_of_pandas_are_arrays() -> None:
    pandas = pytest.importorskip("pandas")
    collector, frame = LogCollector(), pandas.DataFrame({"a": [1, 2]})
    collector.add_array("frame", frame)
    collector.add_array("series", frame["a"])
    frame.loc[0, "a"] = 9

    logs = collector.logs()
    assert logs["frame"][1]["a"].tolist() == logs["series"][1].tolist() == [1, 2]


def test_a_name_is_taken_once_a_step() -> None:
    collector = LogCollector()
    collector.add_scalar("x", 1)
    with pytest.raises(ValueError, match="'x' is already in the log of this step"):
        collector.add_string("x", "again")

    collector.reset()
    collector.add_string("x", "again")

    assert collector.logs() == {"x": (20, "again")}


def test_a_log_that_was_given_out_stays_as_it_was() -> None:
    collector = LogCollector()
    collector.add_scalar("x", 1)
    given_out = collector.logs()

    collector.reset()
    collector.add_scalar("y", 2)

    assert given_out == {"x": (20, 1.0)}
    assert collector.logs() == {"y": (20, 2.0)}
