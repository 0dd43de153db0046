"""Conversion of plain values to the types of a dataclass, and the documentation of its fields."""

from __future__ import annotations

import ast
import collections.abc
import contextlib
import dataclasses
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sekai.config.toml_file import ConfigError, ConfigSource, KeyPath
from sekai.error import DataError
from sekai.storage.names import did_you_mean

CONVERTERS: dict[Any, tuple[Callable[[Any], Any], str]] = {}
"""Converters of further types, which raise `ValueError` or `TypeError`, with the type in words."""

SCALARS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "text"),
}
LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
TABLES = (dict, collections.abc.Mapping)


class ConversionError(ValueError):
    """A value does not fit its type.

    Args:
        path: keys that lead to the value, from where the conversion started.
        message: the problem and the expectation.
        is_key: the key itself is at fault, and not its value.
    """

    def __init__(self, path: KeyPath, message: str, *, is_key: bool = False) -> None:
        super().__init__(message)
        self.path, self.is_key = path, is_key


@dataclass(frozen=True, slots=True)
class FieldDoc:
    """Documentation of one field of a config."""

    name: str
    type: str
    """The annotation in the source, with aliases of types spelled out."""

    default: str
    """Empty if there is none."""

    text: str


def require(condition: bool, name: str, expected: str, value: Any) -> None:
    """Raise `ValueError` unless the condition holds.

    Args:
        condition: the check.
        name: name of the setting.
        expected: description of valid values.
        value: the value that was passed.
    """
    if not condition:
        raise ValueError(f"{name} must be {expected}, got {value!r}")


def require_known(owner: str, names: Iterable[str], known: Iterable[str], path: KeyPath) -> None:
    """Raise `ConversionError` for the first name that is not known, with the closest ones."""
    known = list(known)
    for name in names:
        if name not in known:
            message = f"{owner} has no key {name!r}{did_you_mean(name, known)}"
            raise ConversionError((*path, name), message, is_key=True)


def build(kind: type, values: Mapping[str, Any], path: KeyPath = (), **others: Any) -> Any:
    """Build a dataclass from plain values; unknown keys are an error with the closest names.

    Args:
        kind: the dataclass.
        values: its fields by name.
        path: keys that lead to the values.
        others: fields that need no conversion.

    Raises:
        ConversionError: a key is unknown, or a value does not fit.
    """
    hints = type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind) if field.name not in others]
    require_known(f"[{'.'.join(path)}]" if path else kind.__name__, values, known, path)
    arguments = {
        name: convert(hints.get(name, Any), value, (*path, name)) for name, value in values.items()
    }
    try:
        return kind(**arguments, **others)
    except (ValueError, TypeError) as error:
        raise ConversionError((*path, *mentioned_key(str(error), arguments)), str(error)) from error


def convert(hint: Any, value: Any, path: KeyPath) -> Any:
    """Convert a plain value to a type; an unknown type accepts every value.

    Raises:
        ConversionError: the value does not fit the type.
    """
    origin = typing.get_origin(hint) or hint
    if origin in (typing.Union, types.UnionType):
        return _union(typing.get_args(hint), value, path)
    if origin is Literal:
        return _checked(value in typing.get_args(hint), hint, value, path)
    if dataclasses.is_dataclass(hint):
        _checked(isinstance(value, Mapping), hint, value, path)
        return build(typing.cast(type, hint), value, path)
    if hint in SCALARS:
        fits = isinstance(value, SCALARS[hint][0]) and isinstance(value, bool) == (hint is bool)
        return _checked(fits, hint, value, path)
    if origin in LISTS:
        return _list(hint, value, path)
    if origin in TABLES:
        _checked(isinstance(value, Mapping), hint, value, path)
        inner = (*typing.get_args(hint), Any, Any)[1]
        return {name: convert(inner, item, (*path, name)) for name, item in value.items()}
    if hint in CONVERTERS:
        try:
            return CONVERTERS[hint][0](value)
        except (ValueError, TypeError):
            return _checked(False, hint, value, path)
    if origin is collections.abc.Callable:
        return _checked(callable(value), hint, value, path)
    return _checked(hint is not type(None), hint, value, path)


def mentioned_key(message: str, names: Iterable[str]) -> KeyPath:
    """Name that an error message mentions first; empty if it mentions none."""
    matches = {name: re.search(rf"\b{re.escape(name)}\b", message) for name in names}
    starts = {match.start(): name for name, match in matches.items() if match}
    return (starts[min(starts)],) if starts else ()


@contextlib.contextmanager
def pointing_at(source: ConfigSource, section: str, default: KeyPath = ()) -> Iterator[None]:
    """Point errors of the `with` block at the line of the key that they are about.

    Args:
        source: the file and its overrides.
        section: section of the keys.
        default: keys to point at if an error mentions no key and no value of the section; without
            them such an error is raised as it is.

    Raises:
        ConfigError: instead of the `ValueError`, `KeyError` or `TypeError` of the block.
    """
    try:
        yield
    except ConfigError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        path = _mentioned_path(error, source.values.get(section, {})) or default
        if not path:
            raise
        message = str(error.args[0] if isinstance(error, KeyError) else error)
        try:
            # An unknown name is a key itself.
            source.refuse((section, *path), message, value=f"'{path[-1]}'" not in message)
        except ConfigError as pointed:
            raise pointed from error


def _mentioned_path(error: Exception, values: Mapping[str, Any]) -> KeyPath:
    """Keys that lead to the value that an error quotes first, or else to the key it names first."""
    if isinstance(error, DataError) and error.problems:
        # The hints of a data problem name options that were not used.
        message, form = "; ".join(problem.found for problem in error.problems), r"\b{}="
    else:
        message, form = str(error.args[0] if error.args else ""), r"\b{}\b"
    paths = dict(_nested(values))
    quotes = re.findall("'([^']+)'", message)
    for fits in (str.__eq__, _contains_word):
        for quoted in quotes:
            for path, value in paths.items():
                if any(fits(text, quoted) for text in (path[-1], *_texts(value))):
                    return path
    starts = {
        match.start(): path
        for path in reversed(paths)
        if (match := re.search(form.format(re.escape(path[-1])), message))
    }
    return starts[min(starts)] if starts else ()


def _texts(value: Any) -> list[str]:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return [part for part in parts if isinstance(part, str)]


def _contains_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _nested(values: Mapping[str, Any], table: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Keys of all values, those of a table after the table."""
    for name, value in values.items():
        yield (*table, name), value
        if isinstance(value, Mapping):
            yield from _nested(value, (*table, name))


def type_hints(callee: Any) -> dict[str, Any]:
    """Type hints of a class or function; empty where they cannot be resolved."""
    try:
        return typing.get_type_hints(callee)
    except (NameError, TypeError):
        # Other packages may import types for type checkers alone.
        return {}


def documented_fields(config: type) -> list[FieldDoc]:
    """Fields of a config with their documentation, those of base classes included."""
    sources: dict[str, tuple[str, str]] = {}
    for base in reversed(config.__mro__):
        if dataclasses.is_dataclass(base):
            for name, kind, text in _source_fields(base):
                # A field that is defined again without a text keeps that of the base class.
                sources[name] = (kind, text or sources.get(name, ("", ""))[1])
    docs = []
    for field in dataclasses.fields(config):
        kind, text = sources.get(field.name, (str(field.type), ""))
        docs.append(FieldDoc(field.name, kind, _default(field), text))
    return docs


def nested_configs(config: type) -> list[tuple[str, type]]:
    """Dataclasses among the types of a config's fields, with the names of the fields."""
    hints = type_hints(config)
    return [
        (field.name, kind)
        for field in dataclasses.fields(config)
        for kind in typing.get_args(hints.get(field.name)) or (hints.get(field.name),)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    ]


def _union(hints: tuple[Any, ...], value: Any, path: KeyPath) -> Any:
    configs = [hint for hint in hints if dataclasses.is_dataclass(hint)]
    if isinstance(value, Mapping) and configs:
        fitting = [
            config
            for config in configs
            if value.keys() <= {field.name for field in dataclasses.fields(config)}
        ]
        return convert((fitting or configs[-1:])[0], value, path)
    for hint in hints:
        with contextlib.suppress(ConversionError):
            return convert(hint, value, path)
    expected = " or ".join(dict.fromkeys(_name(hint) for hint in hints if hint is not type(None)))
    raise ConversionError(path, f"{path[-1]} must be {expected}, got {value!r}")


def _list(hint: Any, value: Any, path: KeyPath) -> Any:
    _checked(isinstance(value, list), hint, value, path)
    inner = typing.get_args(hint)
    if len(inner) > 1 and inner[-1] is not Ellipsis:
        _checked(len(inner) == len(value), hint, value, path)
        return tuple(convert(kind, item, path) for kind, item in zip(inner, value, strict=True))
    return tuple(convert(inner[0] if inner else Any, item, path) for item in value)


def _checked(fits: bool, hint: Any, value: Any, path: KeyPath) -> Any:
    if not fits:
        raise ConversionError(path, f"{path[-1]} must be {_name(hint)}, got {value!r}")
    return value


def _name(hint: Any) -> str:
    """Name of a type in an error."""
    origin = typing.get_origin(hint) or hint
    if hint in SCALARS or hint in CONVERTERS:
        return (SCALARS.get(hint) or CONVERTERS[hint])[1]
    if origin is Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    if origin in LISTS:
        inner = [kind for kind in typing.get_args(hint) if kind is not Ellipsis]
        return f"a list of {len(inner)} values" if len(inner) > 1 else "a list"
    if origin in TABLES or dataclasses.is_dataclass(hint):
        return "a table"
    return getattr(hint, "__name__", str(hint))


def _source_fields(config: type) -> Iterator[tuple[str, str, str]]:
    """Name, annotation and docstring of each field that the class itself defines."""
    try:
        lines = inspect.findsource(sys.modules[config.__module__])[0]
    except (KeyError, OSError, TypeError):
        return
    body = _classes("".join(lines)).get(config.__qualname__, [])
    for index, statement in enumerate(body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            following = body[index + 1] if index + 1 < len(body) else None
            annotation = _spelled_out(ast.unparse(statement.annotation), config.__module__)
            yield statement.target.id, annotation, _docstring(following)


@functools.lru_cache(maxsize=64)
def _classes(source: str) -> dict[str, list[ast.stmt]]:
    """Bodies of the classes of a file by qualified name."""
    # `inspect.getsource` parses the file anew for each class: half a second of an import.
    found: dict[str, list[ast.stmt]] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, ast.ClassDef):
                found[f"{prefix}{child.name}"] = child.body
                inner = f"{prefix}{child.name}."
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{prefix}{child.name}.<locals>."
            if isinstance(child, ast.stmt):
                visit(child, inner)

    visit(ast.parse(source), "")
    return found


def _spelled_out(annotation: str, module: str) -> str:
    """Annotation in which names of unions, such as `AssetRate`, are replaced by the unions."""
    known = vars(sys.modules[module])

    def union(match: re.Match[str]) -> str:
        value = known.get(match[0])
        is_union = typing.get_origin(value) in (typing.Union, types.UnionType)
        return re.sub(r"\b(?:\w+\.)+", "", str(value)) if is_union else match[0]

    return re.sub(r"\b[A-Z]\w*", union, annotation)


def _docstring(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    if field.default_factory is dataclasses.MISSING:
        return ""
    value = field.default_factory()
    return f"{type(value).__name__}()" if dataclasses.is_dataclass(value) else repr(value)
