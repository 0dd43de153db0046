"""Infos as one dict of arrays, which gymnasium's vector envs give, and as one dict per env."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION, carried_over

__all__ = ["FINAL_OBS", "split_infos", "their_names"]

FINAL_OBS = "final_obs"
"""What gymnasium calls the last observation of a finished episode."""


def their_names(info: Mapping[str, Any]) -> dict[str, Any]:
    """The info of one env with gymnasium's names for the end of an episode."""
    return {FINAL_OBS if key == FINAL_OBSERVATION else key: value for key, value in info.items()}


def split_infos(infos: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """One dict per env, with our names for the end of an episode.

    An entry `x` belongs to the envs for which `_x` is true. Without `_x` it belongs to all: row by
    row if it has as many rows as there are envs, else as a whole. What the finishing step of an
    episode said stands at the top level too, as in our own vector envs.
    """
    return [_with_last(info) for info in _split(infos, count)]


def _split(infos: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    dicts: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, value in infos.items():
        if not _is_mask_name(key, infos):
            name = FINAL_OBSERVATION if key == FINAL_OBS else key
            for index, entry in _entries(value, infos.get(f"_{key}"), count):
                dicts[index][name] = entry
    return dicts


def _with_last(info: dict[str, Any]) -> dict[str, Any]:
    last = info.get(FINAL_INFO)
    return {**info, **carried_over(last, info)} if isinstance(last, Mapping) else info


def _is_mask_name(key: str, infos: Mapping[str, Any]) -> bool:
    return key.startswith("_") and key[1:] in infos


def _entries(value: Any, mask: Any, count: int) -> Sequence[tuple[int, Any]]:
    held = range(count) if mask is None else np.flatnonzero(mask).tolist()
    if isinstance(value, Mapping):
        parts = _split(value, count)
        return [(index, parts[index]) for index in held]
    has_rows = isinstance(value, (np.ndarray, list, tuple)) and len(value) == count
    return [(index, value[index] if has_rows else value) for index in held]
