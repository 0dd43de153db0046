from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sekai.data.intraday import DayTicks
from sekai.error import DataError

TIMES: NDArray[np.datetime64] = np.array(
    ["2020-01-02T09:30", "2020-01-02T09:31", "2020-01-02T09:32"], dtype="datetime64[ns]"
)


def test_ticks_are_kept_as_they_were_given_and_cannot_be_changed() -> None:
    close = np.array([1.0, 2.0, 3.0])
    ticks = DayTicks("A", TIMES, {"$close": close})
    close[0] = 9.0
    assert len(ticks) == 3
    assert ticks.column("$close").tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="read-only"):
        ticks.column("$close")[0] = 5.0
    with pytest.raises(TypeError):
        ticks.columns["$open"] = close  # type: ignore[index]


@pytest.mark.parametrize(
    ("times", "close", "said"),
    [
        (TIMES[::-1], [1, 2, 3], "ascending"),
        (TIMES[:0], [], "at least one"),
        (TIMES, [1, 2], r"A: column '\$close' must have shape \(3,\), got \(2,\)"),
        (np.append(TIMES[:2], TIMES[2] + np.timedelta64(1, "D")), [1, 2, 3], "one day"),
    ],
)
def test_ticks_that_cannot_be_are_refused(
    times: NDArray[np.datetime64], close: list[float], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        DayTicks("A", times, {"$close": np.array(close)})


def test_a_missing_column_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(
        DataError, match=r"A: unknown column '\$bid'; expected one of \['\$close'\]"
    ):
        DayTicks("A", TIMES, {"$close": np.ones(3)}).column("$bid")
