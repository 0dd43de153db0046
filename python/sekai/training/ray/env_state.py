"""Env states of vector envs and native batches, split into slices and joined again."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sekai.error import StateError
from sekai.training.rng import EnvSlice
from sekai.vector.batching import map_arrays
from sekai.vector.native import NativeBatch, NativeVecEnv

__all__ = ["cut_rows", "cut_states", "env_slices", "joined_native", "joined_rows", "joined_state"]


def cut_states(vec: Any, slices: Sequence[EnvSlice]) -> list[dict[str, Any]]:
    """Split the state of a vector env into slices of envs."""
    return _cut(vec, vec.state_dict(), slices)


def joined_state(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join states of slices to the state of all envs."""
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


def _cut(vec: Any, state: Mapping[str, Any], slices: Sequence[EnvSlice]) -> list[dict[str, Any]]:
    if "layer" in state:
        inner = _cut(vec.env, state["env"], slices)
        return [{"layer": state["layer"], "env": own} for own in inner]
    if "alive" in state:
        # A `JointTrainingEnv` has no state of its own.
        inner = _cut(getattr(vec, "inner", vec).vec, state["vec"], slices)
        pairs = zip(slices, inner, strict=True)
        return [
            {"alive": cut_rows(state["alive"], env_slice), "vec": own} for env_slice, own in pairs
        ]
    if "envs" not in state:
        raise StateError(
            f"cannot split the state of {type(vec).__name__}; expected that of a vector env"
        )
    env_states = _cut_envs(vec, state["envs"], slices)
    return [
        {
            **state,
            "num_envs": env_slice.count,
            "must_reset": cut_rows(state["must_reset"], env_slice),
            "last": cut_rows(state["last"], env_slice),
            "envs": own,
        }
        for env_slice, own in zip(slices, env_states, strict=True)
    ]


def _cut_envs(vec: Any, envs: Any, slices: Sequence[EnvSlice]) -> list[Any]:
    if not isinstance(envs, Mapping):
        return [envs[env_slice.first : env_slice.end] for env_slice in slices]
    assert isinstance(vec, NativeVecEnv), "only native envs have one state"
    pairs = zip(slices, cut_native(vec.batch, slices), strict=True)
    return [
        {"batch": own, "finished": cut_rows(envs["finished"], env_slice)}
        for env_slice, own in pairs
    ]


KEY = "native"
MAGIC, VERSION = b"SKBA", 1
SEAL = struct.Struct("<4sIQ")
NUMBER = struct.Struct("<Q")
TASK_VERSION = 4
"""Size of the task version in bytes."""

FNV_START, FNV_PRIME, WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


@dataclass(frozen=True)
class _Decoded:
    head: bytes
    """Name, version and rules of the task."""

    count: int
    records: bytes


def cut_native(batch: NativeBatch, slices: Sequence[EnvSlice]) -> list[dict[str, bytes]]:
    """Split the state of a native batch, which is left unchanged."""
    whole = batch.state_dict()
    try:
        # With equal envs all records have the same length.
        _copy_first(batch, EnvSlice(0, 1, batch.num_envs))
        length = len(_decoded(batch.state_dict()).records) // batch.num_envs
        return [_cut_records(batch, whole, env_slice, length) for env_slice in slices]
    finally:
        batch.load_state_dict(whole)


def joined_native(states: Sequence[dict[str, bytes]]) -> dict[str, bytes]:
    """Join states of slices to the state of a native batch."""
    parts = [_decoded(state) for state in states]
    if any(part.head != parts[0].head for part in parts):
        raise StateError("cannot join states of different tasks or rules")
    count = sum(part.count for part in parts)
    return _encoded(_Decoded(parts[0].head, count, b"".join(part.records for part in parts)))


def _cut_records(
    batch: NativeBatch, whole: dict[str, bytes], env_slice: EnvSlice, length: int
) -> dict[str, bytes]:
    batch.load_state_dict(whole)
    # All other records now have the length of the first, which gives the offsets of these.
    _copy_first(batch, env_slice)
    decoded = _decoded(batch.state_dict())
    end = len(decoded.records) - (env_slice.total - env_slice.end) * length
    return _encoded(
        _Decoded(decoded.head, env_slice.count, decoded.records[env_slice.first * length : end])
    )


def _copy_first(batch: NativeBatch, env_slice: EnvSlice) -> None:
    """Copy the first env to all envs outside a slice."""
    for index in range(1, batch.num_envs):
        if not env_slice.first <= index < env_slice.end:
            batch.clone_env(0, index)


def _decoded(state: dict[str, bytes]) -> _Decoded:
    sealed = state[KEY]
    magic, version, length = SEAL.unpack_from(sealed)
    if (magic, version) != (MAGIC, VERSION):
        raise StateError(
            f"expected a state {MAGIC!r} of version {VERSION}, got {magic!r} of version {version}; "
            f"continue it with fit(..., engine='local')"
        )
    body = sealed[SEAL.size : SEAL.size + length]
    at = NUMBER.size + NUMBER.unpack_from(body)[0] + TASK_VERSION
    at += NUMBER.size + NUMBER.unpack_from(body, at)[0]
    return _Decoded(body[:at], NUMBER.unpack_from(body, at)[0], body[at + NUMBER.size :])


def _encoded(decoded: _Decoded) -> dict[str, bytes]:
    body = decoded.head + NUMBER.pack(decoded.count) + decoded.records
    content = SEAL.pack(MAGIC, VERSION, len(body)) + body
    return {KEY: content + NUMBER.pack(_checksum(content))}


def _checksum(content: bytes) -> int:
    """FNV-1a hash with 64 bits."""
    value = FNV_START
    for byte in content:
        value = ((value ^ byte) * FNV_PRIME) & WORD
    return value


def env_slices(num_envs: int, workers: int) -> list[EnvSlice]:
    """Split all envs into consecutive slices whose sizes differ by at most one."""
    least, more = divmod(num_envs, workers)
    ends = np.cumsum([least + (index < more) for index in range(workers)]).tolist()
    firsts = [0, *ends[:-1]]
    return [EnvSlice(first, end, num_envs) for first, end in zip(firsts, ends, strict=True)]


def cut_rows(rows: Any, env_slice: EnvSlice) -> Any:
    """Rows of a slice of envs."""
    return map_arrays(lambda array: array[env_slice.first : env_slice.end].copy(), rows)


def joined_rows(parts: Sequence[Any]) -> Any:
    """Join rows of slices to those of all envs."""
    return map_arrays(lambda *arrays: np.concatenate(arrays), *parts)
