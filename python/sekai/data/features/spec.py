"""How a feature is written: `momentum`, `momentum(20)`, `rank(momentum(rows=20, skip=1))`."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["parsed", "written"]

LONGEST = 1_000
"""Characters of a feature, at most."""


def parsed(spec: str) -> tuple[str, list[Any], dict[str, Any]]:
    """The name, the arguments in order and those by keyword.

    Arguments are numbers, strings, True, False and None. A word without quotes is a string, and
    so is a feature in brackets of another: it is looked up by the one that takes it.
    """
    if len(spec) > LONGEST:
        raise _unreadable(spec)
    try:
        node = ast.parse(spec.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # Brackets in brackets exhaust the parser, and zero bytes are no text to it.
        raise _unreadable(spec) from error
    if isinstance(node, ast.Name):
        return node.id, [], {}
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise _unreadable(spec)
    keywords = {item.arg: _value(item.value, spec) for item in node.keywords if item.arg}
    if len(keywords) < len(node.keywords):
        raise _unreadable(spec)
    return node.func.id, [_value(item, spec) for item in node.args], keywords


def written(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """The spec that is parsed into this name and these arguments."""
    parts = [_text(value) for value in arguments]
    parts += [f"{key}={_text(value)}" for key, value in keywords.items()]
    return f"{name}({', '.join(parts)})" if parts else name


def _value(node: ast.expr, spec: str) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call):
        return ast.unparse(node)
    try:
        value = ast.literal_eval(node)
    except ValueError as error:
        raise _unreadable(spec) from error
    if not isinstance(value, (int, float, str, bool, type(None))):
        raise _unreadable(spec)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    if value.isidentifier() and not keyword.iskeyword(value):
        return value
    return value if _is_call(value) else repr(value)


def _is_call(text: str) -> bool:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(node, ast.Call) and ast.unparse(node) == text


def _unreadable(spec: str) -> ValueError:
    return ValueError(
        f"a feature such as 'momentum', 'momentum(20)' or 'rank(momentum(rows=20))' was wanted, "
        f"found {spec!r:.200}"
    )
