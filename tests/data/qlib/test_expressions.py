from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from sekai.data.qlib import QlibProvider
from sekai.data.qlib.expression import Expression, column_of
from sekai.error import DataError
from tests.data.qlib.providers import DAYS, minutely, provider

Floats = NDArray[np.float32]
NAN = float("nan")


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> QlibProvider:
    fields: dict[str, tuple[int, ArrayLike]] = {
        "a": (0, [1, 2, 3, NAN, 5, 6, 7, 8, 9, 10]),
        "b": (0, [2, 2, 2, 2, 2, NAN, 8, 8, 8, 0]),
        "late": (4, [1, 2, 3]),
    }
    return QlibProvider(provider(tmp_path_factory.mktemp("q") / "d", "day", DAYS, {"X": fields}))


@pytest.fixture(scope="module")
def ticks(tmp_path_factory: pytest.TempPathFactory) -> QlibProvider:
    return QlibProvider(minutely(tmp_path_factory.mktemp("q") / "min"))


def values(found: QlibProvider, text: str, freq: str = "day", **slots: int) -> Floats:
    symbol = next(iter(found.instruments(freq=freq)))
    stop = slots.get("stop", len(found.calendar(freq)))
    return column_of(found, symbol, Expression.parse(text), slots.get("first", 0), stop, freq)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$a + 1", [2, 3, 4, NAN, 6, 7, 8, 9, 10, 11]),
        ("2 * ($a - $b)", [-2, 0, 2, NAN, 6, NAN, -2, 0, 2, 20]),
        ("-$a ** 2", [-1, -4, -9, NAN, -25, -36, -49, -64, -81, -100]),
        ("$a / $b", [0.5, 1, 1.5, NAN, 2.5, NAN, 0.875, 1, 1.125, np.inf]),
        ("1 + 2 * 3 - $a", [6, 5, 4, NAN, 2, 1, 0, -1, -2, -3]),
        ("Ref($a, 2)", [NAN, NAN, 1, 2, 3, NAN, 5, 6, 7, 8]),
        ("Ref($a, 0)", [1] * 10),
        ("Delta($a, 1)", [NAN, 1, 1, NAN, NAN, 1, 1, 1, 1, 1]),
        ("Mean($a, 2)", [1, 1.5, 2.5, 3, 5, 5.5, 6.5, 7.5, 8.5, 9.5]),
        ("Sum($a, 3)", [1, 3, 6, 5, 8, 11, 18, 21, 24, 27]),
        ("Max($a, 3)", [1, 2, 3, 3, 5, 6, 7, 8, 9, 10]),
        ("Min($a, 3)", [1, 1, 1, 2, 3, 5, 5, 6, 7, 8]),
        ("Var($a, 2)", [NAN, 0.5, 0.5, NAN, NAN, 0.5, 0.5, 0.5, 0.5, 0.5]),
        ("If($b == 0, $a, $b)", [2, 2, 2, 2, 2, NAN, 8, 8, 8, 10]),
        ("If(($a > 2) & Not($b > 7), 1, 0)", [0, 0, 1, 0, 1, 1, 0, 0, 0, 1]),
        ("($a > 8) | ($b < 1)", [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]),
        ("Greater($a, 5)", [5, 5, 5, NAN, 5, 6, 7, 8, 9, 10]),
        ("Less($a, 5)", [1, 2, 3, NAN, 5, 5, 5, 5, 5, 5]),
        ("Sign($a - 5)", [-1, -1, -1, NAN, 0, 1, 1, 1, 1, 1]),
        ("Abs(Sign($a - 5))", [1, 1, 1, NAN, 0, 1, 1, 1, 1, 1]),
        ("IsNull($a)", [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
        ("FFillNan($a)", [1, 2, 3, 3, 5, 6, 7, 8, 9, 10]),
        ("Cut($a, 2, None)", [NAN, NAN, 3, NAN, 5, 6, 7, 8, 9, 10]),
        ("Count($a, 2)", [1, 2, 2, 1, 1, 2, 2, 2, 2, 2]),
        ("IdxMax($b, 3)", [1, 1, 1, 1, 1, 3, 2, 1, 1, 1]),
        ("IdxMin($b, 3)", [1, 1, 1, 1, 1, 3, 2, 1, 1, 3]),
        ("Rank($a, 3)", [1, 1, 1, NAN, 1, 1, 1, 1, 1, 1]),
        ("Quantile($a, 4, 0.5)", [1, 1.5, 2, 2, 3, 5, 6, 6.5, 7.5, 8.5]),
        ("Slope($a, 3)", [NAN, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        ("Corr($a, -2 * $a, 3)", [NAN, -1, -1, -1, -1, -1, -1, -1, -1, -1]),
        ("$late + $a", [NAN] * 4 + [6, 8, 10] + [NAN] * 3),
        ("Mean($a > 2, 2)", [0, 0, 0.5, 0.5, 0.5, 1, 1, 1, 1, 1]),
        ("DayLast($a)", [1, 2, 3, NAN, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_an_expression_has_these_values(days: QlibProvider, text: str, wanted: Any) -> None:
    np.testing.assert_allclose(values(days, text), np.array(wanted, np.float32), rtol=1e-6)


PANDAS = {
    "Mean": lambda s, n: s.rolling(n, min_periods=1).mean(),
    "Sum": lambda s, n: s.rolling(n, min_periods=1).sum(),
    "Std": lambda s, n: s.rolling(n, min_periods=1).std(),
    "Var": lambda s, n: s.rolling(n, min_periods=1).var(),
    "Max": lambda s, n: s.rolling(n, min_periods=1).max(),
    "Min": lambda s, n: s.rolling(n, min_periods=1).min(),
    "EMA": lambda s, n: s.ewm(span=n, min_periods=1).mean(),
    "Med": lambda s, n: s.rolling(n, min_periods=1).median(),
    "Rank": lambda s, n: s.rolling(n, min_periods=1).rank(pct=True),
}
EXPANDING = {name: name.lower() for name in ("Mean", "Sum", "Std", "Var", "Max", "Min")}


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(PANDAS)),
    size=st.integers(1, 12),
    numbers=st.lists(
        st.one_of(st.just(NAN), st.just(np.inf), st.floats(-1000, 1000, width=32)), min_size=1,
        max_size=30,
    ),
)  # fmt: skip
@example(name="EMA", size=1, numbers=[0.0, NAN])
def test_windows_are_those_of_pandas(name: str, size: int, numbers: list[float]) -> None:
    from sekai.data.qlib.operators import OPERATORS
    from sekai.data.qlib.window_operators import Window

    array = np.array(numbers, np.float32)
    slots = np.arange(len(array))
    window = Window(0, slots.astype("datetime64[D]").astype("datetime64[ns]"), slots, 0)
    found = OPERATORS[name].compute(window, array, size)
    wanted = PANDAS[name](pd.Series(array), size).to_numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-4)
    if name in EXPANDING:
        found = OPERATORS[name].compute(window, array, 0)
        wanted = getattr(pd.Series(array).expanding(min_periods=1), EXPANDING[name])().to_numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-4)


def test_sums_of_a_day_begin_at_a_time_and_end_at_another(ticks: QlibProvider) -> None:
    volume = values(ticks, "$volume", "1min")[240:480]
    found = values(ticks, "DayCumsum($volume, '10:00', '14:00')", "1min")[240:480]
    wanted = np.nancumsum(np.where(np.arange(240) < 30, 0, volume))
    wanted[:30] = 0
    wanted[np.isnan(volume)] = NAN
    wanted[181:] = 0
    wanted[:30][np.isnan(volume[:30])] = 0
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_last_value_of_a_day_is_known_on_the_next(ticks: QlibProvider) -> None:
    close = values(ticks, "$close", "1min").reshape(3, 240)
    found = values(ticks, "Ref(DayLast($close), 240)", "1min").reshape(3, 240)
    assert np.isnan(found[0]).all()
    for day in (1, 2):
        before = close[day - 1]
        assert (found[day] == before[~np.isnan(before)][-1]).all()


@pytest.mark.parametrize("text", ["DayLast($close)", "$close / DayLast(Ref($close, 1))"])
@pytest.mark.parametrize(("first", "stop"), [(240, 480), (245, 246), (0, 1)])
def test_a_value_of_later_in_the_day_is_refused_however_little_is_asked_for(
    ticks: QlibProvider, text: str, first: int, stop: int
) -> None:
    with pytest.raises(DataError, match="looks ahead"):
        values(ticks, text, "1min", first=first, stop=stop)


def test_a_value_of_the_day_before_may_be_moved_by_no_less_than_a_day(ticks: QlibProvider) -> None:
    for slots in (240, 239):
        assert np.isfinite(values(ticks, f"Ref(DayLast($close), {slots})", "1min")[240:]).all()
    with pytest.raises(DataError, match="looks ahead"):
        values(ticks, "Ref(DayLast($close), 238)", "1min")


CAUSAL = [
    "Ref($close, 3)", "Mean($close, 7)", "EMA($close, 5)", "FFillNan($close)", "Mean($volume, 0)",
    "DayCumsum($volume)", "Ref(DayLast($close), 240)", "Delta(Mean($close, 3), 2)",
    "Ref($close, 0)", "Cut($close, 250)", "If($ask == 0, $bid, $ask)",
    "Std(Ref($close, 2), 4) / Max($close, 30)", "Mean(Ref(DayLast($close), 240), 5)",
]  # fmt: skip


@settings(max_examples=80, deadline=None)
@example(text="DayCumsum($volume)", ends=(240, 240))
@given(text=st.sampled_from(CAUSAL), ends=st.tuples(st.integers(0, 719), st.integers(1, 720)))
def test_a_value_depends_neither_on_where_reading_begins_nor_on_where_it_ends(
    ticks: QlibProvider, text: str, ends: tuple[int, int]
) -> None:
    first, stop = min(ends), max(ends)
    whole = values(ticks, text, "1min")
    np.testing.assert_allclose(
        values(ticks, text, "1min", first=first, stop=stop), whole[first:stop], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Ref($a, -1)", "Ref with -1 looks ahead by 1 slots"),
        ("Delta($a, -2)", "looks ahead by 2"),
        ("BFillNan($a)", r"unknown operator 'BFillNan'; did you mean 'FFillNan'\?"),
        ("Meen($a, 3)", "did you mean 'Mean'"),
        ("Mean($a)", r"invalid expression 'Mean\(\$a\)': Mean takes a column"),
        ("Mean($a, 2.5)", r"invalid expression 'Mean\(\$a, 2\.5\)': Mean takes a window of"),
        ("Mean($a, -3)", r"invalid expression 'Mean\(\$a, -3\)': Mean takes a window of"),
        ("Mean($a, 10001)", r"invalid expression 'Mean\(\$a, 10001\)': Mean takes"),
        ("Mean($a, $b)", "at least 1 slot, or 0 for all slots before, got a column"),
        ("Mean(3, 3)", r"invalid expression 'Mean\(3, 3\)': Mean takes a"),
        ("EMA($a, 0)", r"invalid expression 'EMA\(\$a, 0\)': EMA takes a window"),
        ("Std($a, 0.5)", r"invalid expression 'Std\(\$a, 0\.5\)': Std takes a"),
        ("DayCumsum($a, '25:00')", "a time of day"),
        ("DayCumsum($a, 930)", "a time of day"),
        ("$a + 'x'", "Add takes a column or a number, got 'x'"),
        ("close + 1", r"'close \+ 1': columns begin with a dollar: write '\$close'"),
        ("$a and $b", "'&' and '|'"),
        ("not $a", "Not"),
        ("1 < $a < 3", "': comparisons cannot be chained; put each into parentheses"),
        ("$a > 1 & $b > 2", "': comparisons cannot be chained; put each into parentheses"),
        ("$a if $b else 1", "IfExp is not supported"),
        ("$a[0]", "Subscript is not supported"),
        ("$a.real", "Attribute is not supported"),
        ("$a // 2", r"invalid expression '\$a // 2': unsupported operator sign"),
        ("__import__('os').system('true')", "unknown operator ''; expected one of Abs, Add"),
        ("eval('1')", "unknown operator 'eval'"),
        ("(lambda: $a)()", r"invalid expression '\(lambda: \$a\)\(\)': unknown operator"),
        ("[x for x in $a]", "ListComp is not supported"),
        ("Mean(N=3, feature=$a)", r"\$a\)': Mean takes positional arguments only"),
        ("Mean(*$a)", r"\$a\)': Mean takes positional arguments only"),
        ("Cut($a, 2, -1)", r"-1\)': Cut takes None, because the end of the data is not"),
        ("Quantile($a, 3, 1.5)", r"3, 1\.5\)': Quantile takes a number from 0 to 1"),
        ("$a + None", r"expression '\$a \+ None': Add takes a column or a number"),
        ("Corr($a, 2, 3)", "Corr takes a column"),
        ("$a + True", r"'\$a \+ True': constants must be numbers or times of day"),
        ("$a + 1e999", "finite"),
        ("$a + 1j", r"expression '\$a \+ 1j': constants must be numbers or times"),
        ("$$a", "columns such as"),
        ("column__0 + $a", "columns such as"),
        ("1 + 2", "expression without a column; expected one such"),
        ("$a +", "malformed expression"),
        ("$a\x00", "malformed expression"),
        ("", "malformed expression"),
        ("$a + " * 2000 + "1", "expression must have at most 4096 characters"),
        ("(" * 60 + "$a" + ")" * 60 + "+ Abs(" * 60, "malformed expression"),
        ("Abs(" * 51 + "$a" + ")" * 51, "operators may be nested at most 50 deep"),
        ("-" * 600 + "$a", "expression is nested too deeply"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        Expression.parse(text)


@pytest.mark.parametrize("text", ["And($a, $b)", "Not($a)", "($a > 1) - ($b > 1)"])
def test_numbers_are_no_conditions(days: QlibProvider, text: str) -> None:
    with pytest.raises(DataError, match=r"\)' cannot be evaluated"):
        values(days, text)


def test_huge_powers_of_numbers_take_no_time(days: QlibProvider) -> None:
    assert np.isinf(values(days, "$a + 9 ** 9 ** 9")[0])


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(st.sampled_from(list("$ab()+-*/<>=&|,.'0193 MeanRfIl~\\\n[]{}:@#")), max_size=40)
)
def test_any_text_is_an_expression_or_refused(days: QlibProvider, text: str) -> None:
    with suppress(DataError):
        assert len(values(days, text)) == 10


def test_fields_with_names_of_other_alphabets_are_themselves(tmp_path: Path) -> None:
    one = (0, np.ones(10))
    found = QlibProvider(provider(tmp_path / "x", "day", DAYS, {"X": {"\u00b5": one}}))
    assert values(found, "$\u00b5 + 1").tolist() == [2] * 10
