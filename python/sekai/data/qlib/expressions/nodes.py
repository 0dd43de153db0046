"""What an expression is made of once it has been read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sekai.data.qlib.expressions.operator import Operator

__all__ = ["Call", "Column", "Constant", "Node", "columns_of"]


@dataclass(frozen=True, slots=True)
class Column:
    """A field, such as `$close`."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a time of day, or nothing."""

    value: int | float | str | None


@dataclass(frozen=True, slots=True)
class Call:
    """An operator and what it is applied to."""

    operator: Operator
    arguments: tuple[Node, ...]


Node = Column | Constant | Call


def columns_of(node: Node) -> Iterator[str]:
    """The fields that are named, some perhaps more than once."""
    if isinstance(node, Column):
        yield node.name
    elif isinstance(node, Call):
        for argument in node.arguments:
            yield from columns_of(argument)
