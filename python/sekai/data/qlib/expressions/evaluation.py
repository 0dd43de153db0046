"""Computes an expression for some slots, from as many slots before them as it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.qlib.expressions.expression import Expression
from sekai.data.qlib.expressions.nodes import Call, Column, Constant, Node
from sekai.data.qlib.expressions.operator import (
    COUNT,
    FRACTION,
    TIME,
    WINDOW,
    Operator,
    Window,
)
from sekai.error import DataError

if TYPE_CHECKING:
    from sekai.data.qlib.provider import QlibProvider

__all__ = ["column_of"]

Ints = NDArray[np.int64]
DAY = "datetime64[D]"


def column_of(
    provider: QlibProvider, symbol: str, expression: Expression, first: int, stop: int, freq: str
) -> NDArray[np.float32]:
    """The values of an expression from slot `first` up to but not including `stop`.

    They do not depend on `first`: what reaches back without end is computed from the beginning.

    Raises:
        DataError: when a field is not there, or a value would depend on a later slot.
    """
    if isinstance(expression.node, Column):
        return provider.values(symbol, expression.node.name, first, stop, freq)
    calendar = provider.calendar(freq)
    extents = [provider.extent(symbol, column, freq) for column in expression.columns]
    origin = min(begin for begin, _ in extents)
    begin = _reach(expression.node, first, calendar, origin)
    end = _day_end(calendar, stop) if _sees_day(expression.node) else stop
    times = calendar[begin:end]
    window = Window(begin, times, times.astype(DAY).astype(np.int64), origin)
    columns = {name: provider.values(symbol, name, begin, end, freq) for name in expression.columns}
    found = _Evaluation(expression, window, columns).of(expression.node)
    wanted = slice(first - begin, stop - begin)
    if found.known is not None and np.any(found.known[wanted] > window.slots[wanted]):
        raise DataError(
            f"{expression.text!r} looks ahead: DayLast is known at the end of a day, bring it to "
            f"the next by Ref with at least a day's slots"
        )
    return np.asarray(found.values, np.float32)[wanted]


@dataclass(frozen=True, slots=True)
class _Series:
    values: Any
    """An array, or a number."""
    known: Ints | None = None
    """The slot at which each value is known; None if that is its own."""


@dataclass(frozen=True, slots=True)
class _Evaluation:
    expression: Expression
    window: Window
    columns: dict[str, NDArray[np.float32]]

    def of(self, node: Node) -> _Series:
        if isinstance(node, Column):
            return _Series(self.columns[node.name])
        if isinstance(node, Constant):
            return _Series(node.value)
        given = [self.of(argument) for argument in node.arguments]
        return _Series(self._values(node.operator, given), self._known(node, given))

    def _values(self, operator: Operator, given: list[_Series]) -> Any:
        values = [series.values for series in given]
        try:
            if any(isinstance(value, np.ndarray) for value in values):
                return operator.compute(self.window, *values)
            # Python's own numbers leave the 32 bits of a column as they are, NumPy's do not.
            return np.asarray(operator.compute(self.window, *map(float, values))).item()
        except (DataError, TypeError) as error:
            raise DataError(f"{self.expression.text!r} cannot be computed: {error}") from None

    def _known(self, node: Call, given: list[_Series]) -> Ints | None:
        late = [series.known for series in given if series.known is not None]
        if node.operator.sees_day:
            ends = np.searchsorted(self.window.days, self.window.days, "right") - 1
            return self.window.slots[ends]
        if not late:
            return None
        known: Ints = np.maximum.reduce(late)
        if node.operator.name == "Ref":
            size = given[1].values
            moved = np.full(len(known), known[0] if size == 0 else -1)
            moved[size:] = known[: len(known) - size] if size else known[0]
            return moved
        return known


def _reach(node: Node, slot: int, calendar: NDArray[np.datetime64], origin: int) -> int:
    """The earliest slot that a value depends on."""
    if not isinstance(node, Call):
        return slot
    operator = node.operator
    told = [
        argument.value
        for kind, argument in zip(operator.takes, node.arguments, strict=True)
        if kind in (WINDOW, COUNT, FRACTION, TIME) and isinstance(argument, Constant)
    ]
    back = operator.back(*told)
    earlier = min(slot, origin) if back is None else max(min(slot, origin), slot - back)
    if operator.by_day:
        earlier = int(np.searchsorted(calendar, calendar[earlier].astype(DAY), "left"))
    return min(_reach(argument, earlier, calendar, origin) for argument in node.arguments)


def _day_end(calendar: NDArray[np.datetime64], stop: int) -> int:
    if stop == 0:
        return 0
    day = calendar[stop - 1].astype(DAY) + np.timedelta64(1, "D")
    return int(np.searchsorted(calendar, day, "left"))


def _sees_day(node: Node) -> bool:
    return isinstance(node, Call) and (
        node.operator.sees_day or any(_sees_day(argument) for argument in node.arguments)
    )
