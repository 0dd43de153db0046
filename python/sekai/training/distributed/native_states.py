"""States of native batches, cut into those of some envs and joined again.

A state is what `Batch::encode` of the crate `gym` writes: a seal around the name, the version and
the rules of a task, the number of envs, and a record of each of them. Records are moved as they
are: only the task knows what they mean, and how long they are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from sekai.error import StateError
from sekai.training.randomness import Portion
from sekai.vector.native import NativeBatch

__all__ = ["cut_native", "joined_native"]

KEY = "native"
MAGIC, VERSION = b"SKBA", 1
SEAL = struct.Struct("<4sIQ")
NUMBER = struct.Struct("<Q")
TASK_VERSION = 4
"""Bytes of the version of a task."""

FNV_START, FNV_PRIME, WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


@dataclass(frozen=True)
class _Opened:
    head: bytes
    """What all batches of the task with these rules begin with."""

    count: int
    records: bytes


def cut_native(batch: NativeBatch, portions: Sequence[Portion]) -> list[dict[str, bytes]]:
    """The states of some envs each; the batch is left as it was."""
    whole = batch.state_dict()
    try:
        # Where all envs are the same, records are equally long.
        _let_be_first(batch, Portion(0, 1, batch.num_envs))
        length = len(_opened(batch.state_dict()).records) // batch.num_envs
        return [_cut(batch, whole, portion, length) for portion in portions]
    finally:
        batch.load_state_dict(whole)


def joined_native(states: Sequence[dict[str, bytes]]) -> dict[str, bytes]:
    """The state of all envs, from those of some each."""
    parts = [_opened(state) for state in states]
    if any(part.head != parts[0].head for part in parts):
        raise StateError("states of one task with the same rules were wanted, found others")
    count = sum(part.count for part in parts)
    return _sealed(_Opened(parts[0].head, count, b"".join(part.records for part in parts)))


def _cut(
    batch: NativeBatch, whole: dict[str, bytes], portion: Portion, length: int
) -> dict[str, bytes]:
    batch.load_state_dict(whole)
    # All other records are now as long as the first, so that it is known where these lie.
    _let_be_first(batch, portion)
    found = _opened(batch.state_dict())
    end = len(found.records) - (portion.whole - portion.end) * length
    return _sealed(_Opened(found.head, portion.count, found.records[portion.first * length : end]))


def _let_be_first(batch: NativeBatch, kept: Portion) -> None:
    """Let all envs be what the first is, but for some."""
    for place in range(1, batch.num_envs):
        if not kept.first <= place < kept.end:
            batch.clone_env(0, place)


def _opened(state: dict[str, bytes]) -> _Opened:
    sealed = state[KEY]
    magic, version, length = SEAL.unpack_from(sealed)
    if (magic, version) != (MAGIC, VERSION):
        raise StateError(f"a state {MAGIC!r} of version {VERSION} was wanted, found {magic!r}, "
                         f"{version}: fit(..., engine='local') can go on from it")  # fmt: skip
    body = sealed[SEAL.size : SEAL.size + length]
    at = NUMBER.size + NUMBER.unpack_from(body)[0] + TASK_VERSION
    at += NUMBER.size + NUMBER.unpack_from(body, at)[0]
    return _Opened(body[:at], NUMBER.unpack_from(body, at)[0], body[at + NUMBER.size :])


def _sealed(found: _Opened) -> dict[str, bytes]:
    body = found.head + NUMBER.pack(found.count) + found.records
    content = SEAL.pack(MAGIC, VERSION, len(body)) + body
    return {KEY: content + NUMBER.pack(_checksum(content))}


def _checksum(content: bytes) -> int:
    """FNV-1a of 64 bits."""
    found = FNV_START
    for byte in content:
        found = ((found ^ byte) * FNV_PRIME) & WORD
    return found
