"""States of vector envs, cut into those of some envs and joined again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sekai.error import StateError
from sekai.training.distributed.native_states import cut_native, joined_native
from sekai.training.distributed.rows import cut_rows, joined_rows
from sekai.training.randomness import Portion
from sekai.vector.native import NativeVecEnv

__all__ = ["cut_states", "joined_state"]


def cut_states(vec: Any, portions: Sequence[Portion]) -> list[dict[str, Any]]:
    """States of vector envs with some of the envs each, from the one that has them all."""
    return _cut(vec, vec.state_dict(), portions)


def joined_state(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The state of the vector env that has all envs, from those of some each."""
    first = states[0]
    if "layer" in first:
        return {"layer": first["layer"], "env": joined_state([state["env"] for state in states])}
    if "alive" in first:
        return {
            "alive": joined_rows([state["alive"] for state in states]),
            "vec": joined_state([state["vec"] for state in states]),
        }
    lasts = [state["last"] for state in states]
    return {
        **first,
        "num_envs": sum(state["num_envs"] for state in states),
        "must_reset": joined_rows([state["must_reset"] for state in states]),
        "last": None if lasts[0] is None else joined_rows(lasts),
        "envs": _joined_envs([state["envs"] for state in states]),
    }


def _joined_envs(envs: Sequence[Any]) -> Any:
    if isinstance(envs[0], Mapping):
        return {
            "batch": joined_native([own["batch"] for own in envs]),
            "finished": joined_rows([own["finished"] for own in envs]),
        }
    return [state for own in envs for state in own]


def _cut(vec: Any, state: Mapping[str, Any], portions: Sequence[Portion]) -> list[dict[str, Any]]:
    if "layer" in state:
        inner = _cut(vec.env, state["env"], portions)
        return [{"layer": state["layer"], "env": own} for own in inner]
    if "alive" in state:
        # The joint world that agents of several learn in has no state of its own.
        inner = _cut(getattr(vec, "inner", vec).vec, state["vec"], portions)
        pairs = zip(portions, inner, strict=True)
        return [{"alive": cut_rows(state["alive"], portion), "vec": own} for portion, own in pairs]
    if "envs" not in state:
        raise StateError(f"the state of a vector env was wanted, found one of {type(vec).__name__}")
    each = _cut_envs(vec, state["envs"], portions)
    return [
        {
            **state,
            "num_envs": portion.count,
            "must_reset": cut_rows(state["must_reset"], portion),
            "last": cut_rows(state["last"], portion),
            "envs": own,
        }
        for portion, own in zip(portions, each, strict=True)
    ]


def _cut_envs(vec: Any, envs: Any, portions: Sequence[Portion]) -> list[Any]:
    if not isinstance(envs, Mapping):
        return [envs[portion.first : portion.end] for portion in portions]
    assert isinstance(vec, NativeVecEnv), "whose envs are one state"
    pairs = zip(portions, cut_native(vec.batch, portions), strict=True)
    return [
        {"batch": own, "finished": cut_rows(envs["finished"], portion)} for portion, own in pairs
    ]
