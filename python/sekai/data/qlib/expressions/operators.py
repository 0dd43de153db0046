"""The operators that are known, by their names in Qlib."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sekai.data.qlib.expressions import by_day, rolling, statistics
from sekai.data.qlib.expressions.operator import (
    CONDITION,
    COUNT,
    FRACTION,
    NOTHING,
    SERIES,
    TIME,
    VALUE,
    WINDOW,
    Array,
    Operator,
    Window,
)
from sekai.error import DataError

__all__ = ["BY_SIGN", "OPERATORS"]


def _plain(name: str, function: Callable[..., Any], count: int) -> Operator:
    def compute(_: Window, *arguments: Any) -> Array:
        with np.errstate(all="ignore"):
            result: Array = function(*arguments)
        return result

    return Operator(name, (VALUE,) * count, compute)


def _logical(name: str, function: Callable[..., Any], count: int) -> Operator:
    def compute(_: Window, *arguments: Any) -> Array:
        for argument in arguments:
            if getattr(argument, "dtype", None) != np.bool_:
                raise DataError(f"{name} takes conditions such as $close > 0, found numbers")
        result: Array = function(*arguments)
        return result

    return Operator(name, (CONDITION,) * count, compute)


def _choice(_: Window, condition: Any, this: Any, other: Any) -> Array:
    chosen: Array = np.where(condition, this, other)
    return chosen


def _sign(_: Window, values: Any) -> Array:
    signs: Array = np.sign(np.asarray(values, np.float32))
    return signs


def _back(size: float) -> int | None:
    """How far a window reaches before its own slot."""
    return None if size < 1 else int(size) - 1


def _shift_back(size: int) -> int | None:
    return None if size == 0 else size


def _rolling(name: str) -> Operator:
    return Operator(name, (SERIES, WINDOW), partial(rolling.rolled, name), back=_back)


_ALL = [
    _plain("Add", np.add, 2),
    _plain("Sub", np.subtract, 2),
    _plain("Mul", np.multiply, 2),
    _plain("Div", np.true_divide, 2),
    _plain("Power", np.power, 2),
    _plain("Greater", np.maximum, 2),
    _plain("Less", np.minimum, 2),
    _plain("Gt", np.greater, 2),
    _plain("Ge", np.greater_equal, 2),
    _plain("Lt", np.less, 2),
    _plain("Le", np.less_equal, 2),
    _plain("Eq", np.equal, 2),
    _plain("Ne", np.not_equal, 2),
    _plain("Abs", np.abs, 1),
    _plain("Log", np.log, 1),
    _plain("IsNull", np.isnan, 1),
    _plain("IsInf", np.isinf, 1),
    _logical("And", np.bitwise_and, 2),
    _logical("Or", np.bitwise_or, 2),
    _logical("Not", np.bitwise_not, 1),
    Operator("Sign", (SERIES,), _sign),
    Operator("If", (VALUE, VALUE, VALUE), _choice),
    Operator("Ref", (SERIES, WINDOW), rolling.shifted, back=_shift_back, shifts=True),
    Operator("Delta", (SERIES, WINDOW), rolling.difference, back=_shift_back, shifts=True),
    Operator("EMA", (SERIES, WINDOW), rolling.smoothed, back=lambda _: None),
    Operator("FFillNan", (SERIES,), rolling.filled, back=lambda: None),
    Operator("Cut", (SERIES, COUNT, NOTHING), by_day.cut, defaults=(None,)),
    Operator("DayLast", (SERIES,), by_day.last, by_day=True, sees_day=True),
    Operator(
        "DayCumsum", (SERIES, TIME, TIME, COUNT), by_day.cumulated,
        defaults=("9:30", "14:59", 1), by_day=True,
    ),
    Operator(
        "Quantile", (SERIES, COUNT, FRACTION), statistics.quantile,
        back=lambda size, _: _back(size),
    ),
    *(_rolling(name) for name in rolling.REDUCTIONS),
    *(
        Operator(name, (SERIES, COUNT), partial(statistics.statistic, name), back=_back)
        for name in statistics.STATISTICS
    ),
    *(
        Operator(name, (SERIES, SERIES, COUNT), partial(statistics.paired, name), back=_back)
        for name in statistics.PAIRS
    ),
]  # fmt: skip

OPERATORS = {operator.name: operator for operator in _ALL}

BY_SIGN: dict[type, Operator] = {
    sign: OPERATORS[name]
    for sign, name in (
        (ast.Add, "Add"), (ast.Sub, "Sub"), (ast.Mult, "Mul"), (ast.Div, "Div"),
        (ast.Pow, "Power"), (ast.BitAnd, "And"), (ast.BitOr, "Or"), (ast.Gt, "Gt"),
        (ast.GtE, "Ge"), (ast.Lt, "Lt"), (ast.LtE, "Le"), (ast.Eq, "Eq"), (ast.NotEq, "Ne"),
    )
}  # fmt: skip
