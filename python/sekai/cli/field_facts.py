"""What the fields of a config are: their kinds, their defaults, and what is written below them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["FieldFacts", "fields_of", "hints_of", "tables_of"]


@dataclass(frozen=True, slots=True)
class FieldFacts:
    """One field."""

    name: str
    kind: str
    """Its type, as it was written."""

    default: str
    """"" where there is none."""

    about: str


def fields_of(config: type) -> list[FieldFacts]:
    """The fields of a config, those of its bases included."""
    written: dict[str, tuple[str, str]] = {}
    for base in reversed(config.__mro__):
        if dataclasses.is_dataclass(base):
            written.update({name: (kind, about) for name, kind, about in _written(base)})
    facts = []
    for one in dataclasses.fields(config):
        kind, about = written.get(one.name, (str(one.type), ""))
        facts.append(FieldFacts(one.name, kind, _default(one), about))
    return facts


def tables_of(config: type) -> list[tuple[str, type]]:
    """The dataclasses that fields of a config can be, by the names of the fields."""
    hints = hints_of(config)
    return [
        (one.name, kind)
        for one in dataclasses.fields(config)
        for kind in typing.get_args(hints.get(one.name)) or (hints.get(one.name),)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    ]


def hints_of(callee: Any) -> dict[str, Any]:
    """The types that something wants, by name; empty where they cannot be told."""
    try:
        return typing.get_type_hints(callee)
    except (NameError, TypeError):
        # Of other packages: their types may be imported for type checkers alone.
        return {}


def _written(config: type) -> Iterator[tuple[str, str, str]]:
    """Name, type and the sentence below, of each field that this very class has."""
    try:
        source = textwrap.dedent(inspect.getsource(config))
    except (OSError, TypeError):
        return
    body = typing.cast(ast.ClassDef, ast.parse(source).body[0]).body
    for place, statement in enumerate(body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            after = body[place + 1] if place + 1 < len(body) else None
            kind = ast.unparse(statement.annotation)
            yield statement.target.id, kind, _sentence(after)


def _sentence(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    if field.default_factory is dataclasses.MISSING:
        return ""
    made = field.default_factory()
    return f"{type(made).__name__}()" if dataclasses.is_dataclass(made) else repr(made)
