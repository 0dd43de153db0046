"""Reads the text of an expression: checked as a whole, never run."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from sekai.data.near_names import near
from sekai.data.qlib.expressions import operator as kinds
from sekai.data.qlib.expressions.nodes import Call, Column, Constant, Node, columns_of
from sekai.data.qlib.expressions.operator import Operator
from sekai.data.qlib.expressions.operators import BY_SIGN, OPERATORS
from sekai.error import DataError

__all__ = ["Expression"]

MAX_LENGTH = 4096
MAX_DEPTH = 50
"""Operators within operators."""
MAX_WINDOW = 10_000
PREFIX = "column__"
"""Stands for a dollar, which Python's grammar does not know."""
DOLLAR = re.compile(r"\$(\w+)")
TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):[0-5]\d")


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read: its text, its parts, and the fields that it names."""

    text: str
    node: Node
    columns: tuple[str, ...]
    """Such as `$close`, each once, in the order of their names."""

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Read an expression such as `If($ask == 0, $bid, $ask)`.

        Raises:
            DataError: when it is none, is too long or too deep, looks ahead, or names an
                operator that is not known.
        """
        if not isinstance(text, str):
            raise DataError(f"an expression such as '$close' was wanted, found {text!r}")
        return _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Expression:
    if len(text) > MAX_LENGTH:
        raise DataError(
            f"an expression of up to {MAX_LENGTH} characters was wanted, found {len(text)}"
        )
    names = DOLLAR.findall(text)
    node = _Reader(text, names).node(_tree(text).body, 0)
    columns = tuple(sorted(set(columns_of(node))))
    if not columns:
        raise DataError(f"an expression with a column such as $close was wanted, found {text!r}")
    return Expression(text, node, columns)


def _tree(text: str) -> ast.Expression:
    if PREFIX in text or "$$" in text:
        raise DataError(f"columns such as $close were wanted, found {text!r}")
    if max(text.count(sign) for sign in "([{-+~") > 10 * MAX_DEPTH:
        raise DataError(f"an expression of a person's size was wanted, found {_short(text)}")
    # By number: Python's grammar knows several spellings of one name, file systems do not.
    number = count()
    plain = DOLLAR.sub(lambda _: f"{PREFIX}{next(number)} ", text.strip())
    try:
        return ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"{_short(text)} is no expression: {error}") from None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns Python's tree into ours; what is not named here is refused."""

    text: str
    names: list[str]

    def node(self, tree: ast.expr, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.refusal(f"at most {MAX_DEPTH} operators within each other were wanted")
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
            raise self.refusal("'&' and '|' with parentheses were wanted instead of 'and' and 'or'")
        raise self.refusal(f"found {type(tree).__name__}, which is no part of one")

    def constant(self, value: object) -> Constant:
        if value is None:
            return Constant(None)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise self.refusal(f"numbers and times of day were wanted, found {value!r}")
        if isinstance(value, int) and abs(value) > 1 << 53:
            value = float("inf") if value.bit_length() > 1023 else float(value)
        if isinstance(value, float) and abs(value) == float("inf"):
            raise self.refusal("finite numbers were wanted")
        return Constant(value)

    def column(self, name: str) -> Column:
        if not name.startswith(PREFIX):
            raise self.refusal(f"columns begin with a dollar: found {name!r} for '${name}'")
        return Column(f"${self.names[int(name.removeprefix(PREFIX))]}")

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
        raise self.refusal("'Not(...)' was wanted instead of 'not'")

    def compare(self, tree: ast.Compare, depth: int) -> Node:
        if len(tree.ops) > 1:
            raise self.refusal("one comparison at a time was wanted: put each into parentheses")
        return self.apply(BY_SIGN.get(type(tree.ops[0])), [tree.left, *tree.comparators], depth)

    def call(self, tree: ast.Call, depth: int) -> Node:
        name = tree.func.id if isinstance(tree.func, ast.Name) else ""
        if name not in OPERATORS:
            raise self.refusal(f"no operator {name or 'of this kind'!r}{near(name, OPERATORS)}")
        if tree.keywords or any(isinstance(one, ast.Starred) for one in tree.args):
            raise self.refusal(f"{name} takes its arguments by their places")
        return self.apply(OPERATORS[name], tree.args, depth)

    def apply(self, operator: Operator | None, trees: list[ast.expr], depth: int) -> Node:
        if operator is None:
            raise self.refusal("found a sign that Qlib does not know")
        return self.checked(operator, [self.node(tree, depth + 1) for tree in trees])

    def checked(self, operator: Operator, given: list[Node]) -> Node:
        least = len(operator.takes) - len(operator.defaults)
        if not least <= len(given) <= len(operator.takes):
            raise self.refusal(
                f"{operator.name} takes {', '.join(operator.takes)}; found {len(given)}"
            )
        missing = len(operator.takes) - len(given)
        late = operator.defaults[len(operator.defaults) - missing :]
        arguments = (*given, *(Constant(value) for value in late))
        for kind, argument in zip(operator.takes, arguments, strict=True):
            self.check(operator, kind, argument)
        return Call(operator, arguments)

    def check(self, operator: Operator, kind: str, argument: Node) -> None:
        if kind in (kinds.VALUE, kinds.SERIES, kinds.CONDITION):
            plain = isinstance(argument, Constant) and isinstance(argument.value, str | None)
            if plain or (kind != kinds.VALUE and not any(columns_of(argument))):
                raise self.refusal(f"{operator.name} takes {kind}, found {_told(argument)}")
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
            raise self.refusal(f"{operator.name} takes {kind}, found {_told(argument)}")

    def refusal(self, why: str) -> DataError:
        return DataError(f"{_short(self.text)} is no expression that can be computed: {why}")


def _is_window(value: object, operator: Operator, least: int) -> bool:
    if isinstance(value, float):
        return operator.name in ("EMA", "Mean") and 0 < value < 1
    if not isinstance(value, int) or value > MAX_WINDOW:
        return False
    return value >= (1 if operator.name == "EMA" else least)


def _told(argument: Node) -> str:
    if isinstance(argument, Constant):
        return repr(argument.value)
    return "a column" if any(columns_of(argument)) else "numbers"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
