"""Takes the state of an object apart into plain values, and puts it back.

What counts as state is what an instance holds in its attributes, less code (functions, classes,
modules) and less the names its class excludes. Generators are saved by their internal state;
parts that have a `state_dict` of their own (spaces, normalisers, sub-envs) are asked for it;
the rest is copied deeply.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Collection, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from sekai.error import SekaiError, StateError

__all__ = ["capture", "check", "restore", "restored_generator"]

CODE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)
SECTIONS = ("generators", "parts", "values")
GENERATORS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")


class _Reference(enum.Enum):
    """Stands in a state for the object that the state was taken from."""

    OWNER = "owner"


def capture(owner: object, excluded: Collection[str]) -> dict[str, Any]:
    """Everything `owner` holds that is state, as a value that later changes cannot reach."""
    generators: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    values: dict[str, Any] = {}
    # One memory for all attributes: what they share, they share in the copy too.
    memory: dict[int, Any] = {id(owner): _Reference.OWNER}
    for name, value in vars(owner).items():
        if name in excluded or isinstance(value, CODE):
            continue
        if isinstance(value, np.random.Generator):
            generators[name] = value.bit_generator.state
        elif _has_own_state(value):
            parts[name] = value.state_dict()
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
    for name in state["parts"]:
        if not _has_own_state(getattr(owner, name, None)):
            raise StateError(
                f"the state holds a part {name!r} that this {_type_name(owner)} does not have"
            )
    for name, generator in state["generators"].items():
        _check_generator(name, generator)


def restore(owner: object, state: Mapping[str, Any], excluded: Collection[str]) -> None:
    """Give `owner` the captured state, or raise `StateError` and leave it as it was."""
    check(owner, state)
    _restore_parts(owner, state["parts"])
    kept = {*state["generators"], *state["parts"], *state["values"], *excluded}
    for name, value in list(vars(owner).items()):
        if name not in kept and not isinstance(value, CODE):
            delattr(owner, name)
    for name, generator in state["generators"].items():
        setattr(owner, name, restored_generator(generator))
    memory: dict[int, Any] = {id(_Reference.OWNER): owner}
    for name, value in state["values"].items():
        setattr(owner, name, copy.deepcopy(value, memory))


def restored_generator(state: Mapping[str, Any]) -> np.random.Generator:
    """A generator that continues where the one with this state stood."""
    bit_generator = getattr(np.random, state["bit_generator"])()
    bit_generator.state = dict(state)
    return np.random.Generator(bit_generator)


def _check_generator(name: str, state: Any) -> None:
    kind = state.get("bit_generator") if isinstance(state, Mapping) else None
    if kind not in GENERATORS:
        raise StateError(f"generator {name!r} is of kind {kind!r}, known are {GENERATORS}")
    try:
        restored_generator(state)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StateError(f"the state of generator {name!r} is damaged: {error!r}") from error


def _restore_parts(owner: object, parts: Mapping[str, Any]) -> None:
    before = {name: getattr(owner, name).state_dict() for name in parts}
    done: list[str] = []
    try:
        for name, part in parts.items():
            getattr(owner, name).load_state_dict(part)
            done.append(name)
    except Exception as error:
        for loaded in done:
            getattr(owner, loaded).load_state_dict(before[loaded])
        if isinstance(error, SekaiError):
            raise
        raise StateError(f"{_type_name(owner)}.{name} refused its state: {error!r}") from error


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
