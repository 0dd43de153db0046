"""Capture and restore of an object's state: `state_dict` of envs, wrappers and vector envs.

The state of an instance is its attributes, without code (functions, classes, modules, loggers) and
without the names that its class excludes. Random generators are saved by their internal state;
parts with a `state_dict` of their own (spaces, normalizers, sub-envs) by that, spaces also where a
dict, list or tuple holds nothing else; other attributes are copied deeply.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from sekai.core.portable_state import SECTIONS, Reference, is_code, revived_values
from sekai.error import SekaiError, StateError
from sekai.spaces import Space
from sekai.storage.codec import generator_from_state


def capture(owner: object, excluded: Collection[str]) -> dict[str, Any]:
    """Copy of the state of `owner`, which later changes do not affect."""
    generators: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    values: dict[str, Any] = {}
    # One memo for all attributes: objects that they share are shared in the copy too.
    memory: dict[int, Any] = {id(owner): Reference.OWNER}
    for name, value in vars(owner).items():
        if name in excluded or is_code(value):
            continue
        if isinstance(value, np.random.Generator):
            generators[name] = value.bit_generator.state
        elif _is_part(value):
            parts[name] = _part_state(value)
        else:
            values[name] = _copied(owner, name, value, memory)
    return {
        "type": _type_name(owner),
        "generators": generators,
        "parts": parts,
        "values": values,
    }


def check(owner: object, state: Mapping[str, Any]) -> None:
    """Raise `StateError` unless `state` was captured from an object like `owner`."""
    absent = [key for key in ("type", *SECTIONS) if key not in state]
    if absent:
        raise StateError(f"the state of a {_type_name(owner)} lacks the keys {absent}")
    if state["type"] != _type_name(owner):
        raise StateError(f"expected a state of {_type_name(owner)}, got one of {state['type']}")
    for name, part in state["parts"].items():
        if not _fits(getattr(owner, name, None), part):
            raise StateError(
                f"unknown part {name!r} in the state; this {_type_name(owner)} has no such part"
            )
    for name, generator in state["generators"].items():
        _generator(name, generator)


def restore(owner: object, state: Mapping[str, Any], excluded: Collection[str]) -> None:
    """Set the captured state, or raise `StateError` and leave `owner` unchanged."""
    check(owner, state)
    values = revived_values(owner, state)
    _restore_parts(owner, state["parts"])
    stored = {*state["generators"], *state["parts"], *state["values"], *excluded}
    for name, value in list(vars(owner).items()):
        if name not in stored and not is_code(value):
            delattr(owner, name)
    for name, generator in state["generators"].items():
        setattr(owner, name, _generator(name, generator))
    memory: dict[int, Any] = {id(Reference.OWNER): owner}
    for name, value in values.items():
        setattr(owner, name, copy.deepcopy(value, memory))


def _generator(name: str, state: Any) -> np.random.Generator:
    try:
        return generator_from_state(state)
    except ValueError as error:
        raise StateError(f"malformed state of generator {name!r}: {error}") from error


def _restore_parts(owner: object, parts: Mapping[str, Any]) -> None:
    before = {name: _part_state(getattr(owner, name)) for name in parts}
    done: list[str] = []
    try:
        for name, part in parts.items():
            done.append(name)
            _load_part(getattr(owner, name), part)
    except Exception as error:
        for loaded in done:
            _load_part(getattr(owner, loaded), before[loaded])
        if isinstance(error, SekaiError):
            raise
        raise StateError(f"{_type_name(owner)}.{name} rejected its state: {error!r}") from error


def _is_part(value: object) -> bool:
    """Return True if the value has a state of its own, or holds spaces and nothing else."""
    return _has_own_state(value) or bool(_spaces_in(value))


def _spaces_in(value: object, depth: int = 4) -> dict[Any, Any]:
    """Items of a dict, list or tuple if all are spaces, nested a few levels; else empty."""
    items: dict[Any, Any] = {}
    if isinstance(value, dict) and type(value) is dict:
        items = dict(value)
    elif isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        items = dict(enumerate(value))
    is_all = depth > 0 and all(
        isinstance(part, Space) or _spaces_in(part, depth - 1) for part in items.values()
    )
    return items if is_all else {}


def _part_state(part: Any) -> Any:
    spaces = _spaces_in(part)
    if not spaces:
        return part.state_dict()
    return {key: _part_state(space) for key, space in spaces.items()}


def _fits(own: object, part: Any) -> bool:
    spaces = _spaces_in(own)
    if not spaces:
        return _has_own_state(own)
    return (
        isinstance(part, Mapping)
        and spaces.keys() == part.keys()
        and all(_fits(space, part[key]) for key, space in spaces.items())
    )


def _load_part(own: Any, part: Any) -> None:
    spaces = _spaces_in(own)
    if not spaces:
        own.load_state_dict(part)
    for key, space in spaces.items():
        _load_part(space, part[key])


def _has_own_state(value: object) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _copied(owner: object, name: str, value: object, memory: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memory)
    except (TypeError, copy.Error) as error:
        raise StateError(
            f"{_type_name(owner)}.{name} ({type(value).__name__}) cannot be copied into a state: "
            f"name it in `state_excludes`, or implement `state_dict` and `load_state_dict`"
        ) from error


def _type_name(owner: object) -> str:
    return type(owner).__qualname__
