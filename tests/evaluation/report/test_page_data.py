import base64
import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sekai.evaluation.report.chart import Chart, ChartView
from sekai.evaluation.report.page import charts_as_json, safe_json


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is not strict JSON")


def read(charts: list[Chart]) -> Any:
    return json.loads(charts_as_json(charts), parse_constant=refuse)


def chart(**trace: Any) -> Chart:
    return Chart(title="", views={"": ChartView(traces=[trace])})


@given(text=st.text())
def test_no_text_can_end_the_script_that_holds_it(text: str) -> None:
    written = safe_json({text: [text]})

    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == {text: [text]}


def test_arrays_come_back_with_their_holes() -> None:
    found = read([chart(x=np.array([1.5, np.nan, -np.inf]), y=np.array([1, 2], np.float32))])

    kinds = [text.partition(":") for text in found["arrays"]]
    assert found["charts"][0]["views"][0]["traces"] == [{"x": {"array": 0}, "y": {"array": 1}}]
    assert [kind for kind, _, _ in kinds] == ["f8", "f4"]
    numbers = np.frombuffer(base64.b64decode(kinds[0][2]), "<f8")
    assert np.array_equal(numbers, [1.5, np.nan, -np.inf], equal_nan=True)


def test_an_axis_that_many_lines_share_is_kept_once() -> None:
    x = np.arange(5.0)
    assert len(read([chart(x=x, y=x + 1), chart(x=x.copy(), y=x + 2)])["arrays"]) == 3


def test_lone_numbers_that_json_has_no_words_for_are_null() -> None:
    found = read([chart(y=[float("nan"), 1.0, float("inf"), np.float64(2)])])
    assert found["charts"][0]["views"][0]["traces"][0]["y"] == [None, 1.0, None, 2.0]
