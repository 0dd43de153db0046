"""Qlib expressions: parsed without running any text, evaluated over calendar slots."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.qlib import operators as kinds
from sekai.data.qlib.operators import BY_SIGN, OPERATORS, Operator
from sekai.data.qlib.window_operators import Window
from sekai.error import DataError
from sekai.storage.names import did_you_mean

if TYPE_CHECKING:
    from sekai.data.qlib.provider import QlibProvider

Ints = NDArray[np.int64]

MAX_LENGTH = 4096
MAX_DEPTH = 50
"""Nesting of operators."""
MAX_WINDOW = 10_000
PREFIX = "column__"
"""Replaces the dollar sign, which is not in Python's grammar."""
DOLLAR = re.compile(r"\$(\w+)")
TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):[0-5]\d")
DAY = "datetime64[D]"


@dataclass(frozen=True, slots=True)
class Expression:
    """Parsed Qlib expression such as `Mean($close, 5) / $close`."""

    text: str
    node: Node
    columns: tuple[str, ...]
    """Referenced columns such as `$close`, sorted, without repetitions."""

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Parse an expression such as `If($ask == 0, $bid, $ask)`.

        Raises:
            DataError: if the text is malformed, too long or too deep, looks ahead, or uses an
                unknown operator.
        """
        if not isinstance(text, str):
            raise DataError(f"expression must be a string such as '$close', got {text!r}")
        return _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Expression:
    if len(text) > MAX_LENGTH:
        raise DataError(f"expression must have at most {MAX_LENGTH} characters, got {len(text)}")
    names = DOLLAR.findall(text)
    node = _Parser(text, names).node(_tree(text).body, 0)
    columns = tuple(sorted(set(_columns_of(node))))
    if not columns:
        raise DataError(f"expression without a column; expected one such as $close, got {text!r}")
    return Expression(text, node, columns)


def _tree(text: str) -> ast.Expression:
    if PREFIX in text or "$$" in text:
        raise DataError(f"malformed column name in {text!r}; expected columns such as $close")
    if max(text.count(sign) for sign in "([{-+~") > 10 * MAX_DEPTH:
        raise DataError(f"expression is nested too deeply: {_short(text)}")
    # Numbered, because Python normalizes identifiers and file systems do not.
    number = count()
    plain = DOLLAR.sub(lambda _: f"{PREFIX}{next(number)} ", text.strip())
    try:
        return ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"malformed expression {_short(text)}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Parser:
    """Converts Python's syntax tree to nodes; anything not handled is rejected."""

    text: str
    names: list[str]

    def node(self, tree: ast.expr, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.refusal(f"operators may be nested at most {MAX_DEPTH} deep")
        if isinstance(tree, ast.Constant):
            return self.constant(tree.value)
        if isinstance(tree, ast.Name):
            return self.column(tree.id)
        if isinstance(tree, ast.Call):
            return self.call(tree, depth)
        if isinstance(tree, ast.UnaryOp):
            return self.unary(tree, depth)
        if isinstance(tree, ast.BinOp):
            return self.apply(BY_SIGN.get(type(tree.op)), [tree.left, tree.right], depth)
        if isinstance(tree, ast.Compare):
            return self.compare(tree, depth)
        if isinstance(tree, ast.BoolOp):
            raise self.refusal("use '&' and '|' with parentheses instead of 'and' and 'or'")
        raise self.refusal(f"{type(tree).__name__} is not supported")

    def constant(self, value: object) -> Constant:
        if value is None:
            return Constant(None)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise self.refusal(f"constants must be numbers or times of day, got {value!r}")
        if isinstance(value, int) and abs(value) > 1 << 53:
            value = float("inf") if value.bit_length() > 1023 else float(value)
        if isinstance(value, float) and abs(value) == float("inf"):
            raise self.refusal("numbers must be finite")
        return Constant(value)

    def column(self, name: str) -> ColumnNode:
        if not name.startswith(PREFIX):
            raise self.refusal(f"columns begin with a dollar: write '${name}', not {name!r}")
        return ColumnNode(f"${self.names[int(name.removeprefix(PREFIX))]}")

    def unary(self, tree: ast.UnaryOp, depth: int) -> Node:
        inner = self.node(tree.operand, depth + 1)
        if isinstance(tree.op, ast.USub):
            if isinstance(inner, Constant) and isinstance(inner.value, int | float):
                return Constant(-inner.value)
            return self.checked(OPERATORS["Mul"], [inner, Constant(-1)])
        if isinstance(tree.op, ast.UAdd):
            return inner
        if isinstance(tree.op, ast.Invert):
            return self.checked(OPERATORS["Not"], [inner])
        raise self.refusal("use 'Not(...)' instead of 'not'")

    def compare(self, tree: ast.Compare, depth: int) -> Node:
        if len(tree.ops) > 1:
            raise self.refusal("comparisons cannot be chained; put each into parentheses")
        return self.apply(BY_SIGN.get(type(tree.ops[0])), [tree.left, *tree.comparators], depth)

    def call(self, tree: ast.Call, depth: int) -> Node:
        name = tree.func.id if isinstance(tree.func, ast.Name) else ""
        if name not in OPERATORS:
            raise self.refusal(f"unknown operator {name!r}{did_you_mean(name, OPERATORS)}")
        if tree.keywords or any(isinstance(argument, ast.Starred) for argument in tree.args):
            raise self.refusal(f"{name} takes positional arguments only")
        return self.apply(OPERATORS[name], tree.args, depth)

    def apply(self, operator: Operator | None, trees: list[ast.expr], depth: int) -> Node:
        if operator is None:
            raise self.refusal("unsupported operator sign")
        return self.checked(operator, [self.node(tree, depth + 1) for tree in trees])

    def checked(self, operator: Operator, nodes: list[Node]) -> Node:
        missing = len(operator.takes) - len(nodes)
        if not 0 <= missing <= len(operator.defaults):
            raise self.refusal(
                f"{operator.name} takes {', '.join(operator.takes)}; got {len(nodes)} arguments"
            )
        defaults = operator.defaults[len(operator.defaults) - missing :]
        arguments = (*nodes, *(Constant(value) for value in defaults))
        for kind, argument in zip(operator.takes, arguments, strict=True):
            self.check(operator, kind, argument)
        return Call(operator, arguments)

    def check(self, operator: Operator, kind: str, argument: Node) -> None:
        if kind in (kinds.VALUE, kinds.SERIES, kinds.CONDITION):
            plain = isinstance(argument, Constant) and isinstance(argument.value, str | None)
            if plain or (kind != kinds.VALUE and not any(_columns_of(argument))):
                raise self.refusal(f"{operator.name} takes {kind}, got {_describe(argument)}")
            return
        value = argument.value if isinstance(argument, Constant) else None
        if kind == kinds.TIME:
            fits = isinstance(value, str) and TIME_OF_DAY.fullmatch(value) is not None
        elif kind == kinds.NOTHING:
            fits = isinstance(argument, Constant) and value is None
        elif kind == kinds.FRACTION:
            fits = isinstance(value, int | float) and 0 <= value <= 1
        else:
            fits = _is_window(value, operator, 1 if kind == kinds.COUNT else 0)
            if operator.shifts and isinstance(value, int) and value < 0:
                raise self.refusal(f"{operator.name} with {value} looks ahead by {-value} slots")
        if not fits:
            raise self.refusal(f"{operator.name} takes {kind}, got {_describe(argument)}")

    def refusal(self, reason: str) -> DataError:
        return DataError(f"invalid expression {_short(self.text)}: {reason}")


def _is_window(value: object, operator: Operator, least: int) -> bool:
    if isinstance(value, float):
        return operator.name in ("EMA", "Mean") and 0 < value < 1
    if not isinstance(value, int) or value > MAX_WINDOW:
        return False
    return value >= (1 if operator.name == "EMA" else least)


def _describe(argument: Node) -> str:
    if isinstance(argument, Constant):
        return repr(argument.value)
    return "a column" if any(_columns_of(argument)) else "numbers"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


@dataclass(frozen=True, slots=True)
class ColumnNode:
    """Column such as `$close`."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """Number, time of day, or None."""

    value: int | float | str | None


@dataclass(frozen=True, slots=True)
class Call:
    """Operator applied to arguments."""

    operator: Operator
    arguments: tuple[Node, ...]


Node = ColumnNode | Constant | Call


def _columns_of(node: Node) -> Iterator[str]:
    if isinstance(node, ColumnNode):
        yield node.name
    elif isinstance(node, Call):
        for argument in node.arguments:
            yield from _columns_of(argument)


def column_of(
    provider: QlibProvider, symbol: str, expression: Expression, first: int, stop: int, freq: str
) -> NDArray[np.float32]:
    """Evaluate an expression from slot `first` up to but not including `stop`.

    Values do not depend on `first`: operators without a bounded window start at the first slot.

    Raises:
        DataError: if a column is missing, or a value would depend on a later slot.
    """
    if isinstance(expression.node, ColumnNode):
        return provider.values(symbol, expression.node.name, first, stop, freq)
    calendar = provider.calendar(freq)
    extents = [provider.extent(symbol, column, freq) for column in expression.columns]
    origin = min(begin for begin, _ in extents)
    begin = _reach(expression.node, first, calendar, origin)
    end = _day_end(calendar, stop) if _sees_day(expression.node) else stop
    times = calendar[begin:end]
    window = Window(begin, times, times.astype(DAY).astype(np.int64), origin)
    columns = {name: provider.values(symbol, name, begin, end, freq) for name in expression.columns}
    series = _Evaluation(expression, window, columns).of(expression.node)
    part = slice(first - begin, stop - begin)
    if series.known is not None and np.any(series.known[part] > window.slots[part]):
        raise DataError(
            f"{expression.text!r} looks ahead: DayLast is known at the end of a day; shift it to "
            f"the next day by Ref with at least a day's slots"
        )
    return np.asarray(series.values, np.float32)[part]


@dataclass(frozen=True, slots=True)
class _Series:
    values: Any
    """Array or number."""
    known: Ints | None = None
    """Slot at which each value becomes known; None if it is its own."""


@dataclass(frozen=True, slots=True)
class _Evaluation:
    expression: Expression
    window: Window
    columns: dict[str, NDArray[np.float32]]

    def of(self, node: Node) -> _Series:
        if isinstance(node, ColumnNode):
            return _Series(self.columns[node.name])
        if isinstance(node, Constant):
            return _Series(node.value)
        arguments = [self.of(argument) for argument in node.arguments]
        return _Series(self._values(node.operator, arguments), self._known(node, arguments))

    def _values(self, operator: Operator, arguments: list[_Series]) -> Any:
        values = [series.values for series in arguments]
        try:
            if any(isinstance(value, np.ndarray) for value in values):
                return operator.compute(self.window, *values)
            # Python numbers keep the float32 of a column, NumPy scalars would promote it.
            return np.asarray(operator.compute(self.window, *map(float, values))).item()
        except (DataError, TypeError) as error:
            raise DataError(f"{self.expression.text!r} cannot be evaluated: {error}") from None

    def _known(self, node: Call, arguments: list[_Series]) -> Ints | None:
        late = [series.known for series in arguments if series.known is not None]
        if node.operator.sees_day:
            ends = np.searchsorted(self.window.days, self.window.days, "right") - 1
            return self.window.slots[ends]
        if not late:
            return None
        known: Ints = np.maximum.reduce(late)
        if node.operator.name == "Ref":
            size = arguments[1].values
            moved = np.full(len(known), known[0] if size == 0 else -1)
            moved[size:] = known[: len(known) - size] if size else known[0]
            return moved
        return known


def _reach(node: Node, slot: int, calendar: NDArray[np.datetime64], origin: int) -> int:
    """Earliest slot that the value at `slot` depends on."""
    if not isinstance(node, Call):
        return slot
    operator = node.operator
    parameters = [
        argument.value
        for kind, argument in zip(operator.takes, node.arguments, strict=True)
        if kind in (kinds.WINDOW, kinds.COUNT, kinds.FRACTION, kinds.TIME)
        and isinstance(argument, Constant)
    ]
    back = operator.back(*parameters)
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
