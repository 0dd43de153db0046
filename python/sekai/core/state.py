"""Takes the state of an object apart into plain values, and puts it back.

What counts as state is what an instance holds in its attributes, less code (functions, classes,
modules, loggers) and less the names its class excludes. Generators are saved by their internal
state; parts that have a `state_dict` of their own (spaces, normalisers, sub-envs) are asked for it,
spaces also where a dict, list or tuple holds nothing else; the rest is copied deeply.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from sekai.core.portable_state import (
    BIT_GENERATORS,
    SECTIONS,
    Reference,
    is_code,
    restored_generator,
    revived_values,
)
from sekai.error import SekaiError, StateError
from sekai.spaces import Space

__all__ = ["capture", "check", "restore", "restored_generator"]


def capture(owner: object, excluded: Collection[str]) -> dict[str, Any]:
    """Everything `owner` holds that is state, as a value that later changes cannot reach."""
    generators: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    values: dict[str, Any] = {}
    # One memory for all attributes: what they share, they share in the copy too.
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
        raise StateError(f"a state of {_type_name(owner)} needs the keys {absent}, which it lacks")
    if state["type"] != _type_name(owner):
        raise StateError(f"a state of {_type_name(owner)} was wanted, found one of {state['type']}")
    for name, part in state["parts"].items():
        if not _fits(getattr(owner, name, None), part):
            raise StateError(
                f"the state holds a part {name!r} that this {_type_name(owner)} does not have"
            )
    for name, generator in state["generators"].items():
        _check_generator(name, generator)


def restore(owner: object, state: Mapping[str, Any], excluded: Collection[str]) -> None:
    """Give `owner` the captured state, or raise `StateError` and leave it as it was."""
    check(owner, state)
    values = revived_values(owner, state)
    _restore_parts(owner, state["parts"])
    kept = {*state["generators"], *state["parts"], *state["values"], *excluded}
    for name, value in list(vars(owner).items()):
        if name not in kept and not is_code(value):
            delattr(owner, name)
    for name, generator in state["generators"].items():
        setattr(owner, name, restored_generator(generator))
    memory: dict[int, Any] = {id(Reference.OWNER): owner}
    for name, value in values.items():
        setattr(owner, name, copy.deepcopy(value, memory))


def _check_generator(name: str, state: Any) -> None:
    kind = state.get("bit_generator") if isinstance(state, Mapping) else None
    if kind not in BIT_GENERATORS:
        raise StateError(f"generator {name!r} is of kind {kind!r}, known are {BIT_GENERATORS}")
    try:
        restored_generator(state)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StateError(f"the state of generator {name!r} is damaged: {error!r}") from error


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
        raise StateError(f"{_type_name(owner)}.{name} refused its state: {error!r}") from error


def _is_part(value: object) -> bool:
    """Whether it is asked for its state: it has one, or it holds spaces and nothing else."""
    return _has_own_state(value) or bool(_spaces_in(value))


def _spaces_in(value: object, depth: int = 4) -> dict[Any, Any]:
    """What a dict, list or tuple holds, if that is spaces, nested a few levels; else nothing."""
    found: dict[Any, Any] = {}
    if isinstance(value, dict) and type(value) is dict:
        found = dict(value)
    elif isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        found = dict(enumerate(value))
    is_all = depth > 0 and all(
        isinstance(part, Space) or _spaces_in(part, depth - 1) for part in found.values()
    )
    return found if is_all else {}


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
            f"name it in `state_excludes`, or write `state_dict` and `load_state_dict`"
        ) from error


def _type_name(owner: object) -> str:
    return type(owner).__qualname__
