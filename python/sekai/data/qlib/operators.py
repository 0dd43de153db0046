"""Operators of Qlib expressions by name, with the kinds of their arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from sekai.data.qlib import window_operators as rolling
from sekai.data.qlib.window_operators import Array, Window
from sekai.error import DataError

SERIES = "a column or an expression of one"
VALUE = "a column or a number"
CONDITION = "a condition"
WINDOW = "a window of at least 1 slot, or 0 for all slots before"
COUNT = "an integer of at least 1"
FRACTION = "a number from 0 to 1"
NOTHING = "None, because the end of the data is not known in advance"
TIME = "a time of day such as '9:30'"


@dataclass(frozen=True, slots=True)
class Operator:
    """Qlib operator: its arguments, its function and the slots it depends on."""

    name: str
    takes: tuple[str, ...]
    """Kind of each argument; those with a value in `defaults` are optional."""
    compute: Callable[..., Array]
    """Function of a `Window` and the arguments."""
    defaults: tuple[Any, ...] = ()
    back: Callable[..., int | None] = field(default=lambda *_: 0)
    """Number of earlier slots a value depends on, from the non-series arguments; None for all."""
    by_day: bool = False
    """True if a value depends on all slots of its day up to its own."""
    sees_day: bool = False
    """True if a value depends on later slots of its day as well."""
    shifts: bool = False
    """True if values are moved to later slots."""


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
                raise DataError(f"{name} takes conditions such as $close > 0, got numbers")
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
    return None if size < 1 else int(size) - 1


def _shift_back(size: int) -> int | None:
    return None if size == 0 else size


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
    Operator("Ref", (SERIES, WINDOW), rolling.shift, back=_shift_back, shifts=True),
    Operator("Delta", (SERIES, WINDOW), rolling.difference, back=_shift_back, shifts=True),
    Operator("EMA", (SERIES, WINDOW), rolling.exponential_mean, back=lambda _: None),
    Operator("FFillNan", (SERIES,), rolling.forward_fill, back=lambda: None),
    Operator("Cut", (SERIES, COUNT, NOTHING), rolling.cut, defaults=(None,)),
    Operator("DayLast", (SERIES,), rolling.day_last, by_day=True, sees_day=True),
    Operator(
        "DayCumsum",
        (SERIES, TIME, TIME, COUNT),
        rolling.day_cumsum,
        defaults=("9:30", "14:59", 1),
        by_day=True,
    ),
    Operator(
        "Quantile", (SERIES, COUNT, FRACTION), rolling.quantile, back=lambda size, _: _back(size)
    ),
    *(
        Operator(name, (SERIES, WINDOW), partial(rolling.reduction, name), back=_back)
        for name in rolling.REDUCTIONS
    ),
    *(
        Operator(name, (SERIES, COUNT), partial(rolling.statistic, name), back=_back)
        for name in rolling.STATISTICS
    ),
    *(
        Operator(name, (SERIES, SERIES, COUNT), partial(rolling.pair_statistic, name), back=_back)
        for name in rolling.PAIRS
    ),
]

OPERATORS = {operator.name: operator for operator in _ALL}

_SIGNS: dict[type, str] = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Div: "Div",
    ast.Pow: "Power",
    ast.BitAnd: "And",
    ast.BitOr: "Or",
    ast.Gt: "Gt",
    ast.GtE: "Ge",
    ast.Lt: "Lt",
    ast.LtE: "Le",
    ast.Eq: "Eq",
    ast.NotEq: "Ne",
}
BY_SIGN = {sign: OPERATORS[name] for sign, name in _SIGNS.items()}
