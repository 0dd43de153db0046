"""Tensors of observation leaves, their asset slots and window lookup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.data import PanelWindows, RollingWindows, Windows
from sekai.error import StateError
from sekai.policy.observations import Leaf, Slots, arrays_of, is_action_mask
from sekai.vector.vec_env import VecEnv

__all__ = [
    "WindowGather",
    "by_slot",
    "observed_mask",
    "on_device",
    "tensors_of",
    "used_slots",
    "window_gather",
]


def tensors_of(batch: Any) -> dict[str, torch.Tensor]:
    """Tensors of a batch by leaf name, sharing the memory of the arrays."""
    return {name: torch.from_numpy(array) for name, array in arrays_of(batch).items()}


def on_device(values: Any, device: torch.device) -> Any:
    """Tensors of a nested dict on a device; those that are there already are not copied."""
    if isinstance(values, Mapping):
        return {name: on_device(part, device) for name, part in values.items()}
    return values.to(device) if isinstance(values, Tensor) else values


def observed_mask(observations: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """Action mask among leaves: batch by actions; None if there is none."""
    parts = [rows for name, rows in observations.items() if is_action_mask(name)]
    masks = [rows.reshape(len(rows), -1) != 0 for rows in parts]
    return torch.cat(masks, dim=-1) if masks else None


INDEX, WINDOWS = "index", "windows"
WindowSource = PanelWindows | Windows | RollingWindows


class WindowGather:
    """Window lookup by index. The windows belong to the env, and are not saved with the agent."""

    windows: WindowSource | None

    def __init__(self, windows: WindowSource) -> None:
        self.windows = windows
        self.shape = (windows.lookback, len(windows.assets), len(windows.features))

    @classmethod
    def without_data(cls, shape: tuple[int, int, int]) -> WindowGather:
        """Lookup with the shape of windows only, to build networks."""
        gather = cls.__new__(cls)
        gather.windows, gather.shape = None, shape
        return gather

    def leaves(self, leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
        """Leaves after the lookup: windows instead of the index."""
        return {
            WINDOWS if name == INDEX else name: Leaf(self.shape) if name == INDEX else leaf
            for name, leaf in leaves.items()
        }

    def __call__(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Observations with their windows."""
        if self.windows is None:
            raise StateError("windows cannot be looked up without the data of an env")
        rows = observations[INDEX].reshape(-1).numpy()
        windows: NDArray[Any] = self.windows.gather(rows)
        return {**observations, WINDOWS: torch.from_numpy(windows)}

    def __deepcopy__(self, memory: dict[int, Any]) -> WindowGather:
        # Copies of networks share the data.
        return self


def window_gather(vec: VecEnv, leaves: Mapping[str, Leaf]) -> WindowGather | None:
    """Window lookup of the envs, if their observations hold window indices."""
    if INDEX not in leaves or leaves[INDEX].shape != (1,):
        return None
    try:
        windows = vec.get_attr(WINDOWS)
    except AttributeError:
        return None
    first = windows[0]
    if not isinstance(first, WindowSource):
        return None
    for other in windows[1:]:
        if other is not first and not _same(other, first):
            raise ValueError(
                "all envs must have the same windows; use "
                "observation='window', or one vector env for each"
            )
    return WindowGather(first)


def _same(windows: Any, other: Any) -> bool:
    if isinstance(windows, PanelWindows) and isinstance(other, PanelWindows):
        is_alike = windows.lookback == other.lookback and windows.assets == other.assets
        return is_alike and np.array_equal(windows.panel, other.panel)
    return type(windows) is type(other) and bool(windows.digest == other.digest)


def by_slot(slots: Slots, features: Tensor) -> Tensor:
    """Reshape features to batch by slots by times by channels."""
    if slots.axis == 1:
        return features.transpose(1, 2)
    return features.reshape(len(features), slots.count, 1, slots.channels)


def used_slots(slots: Slots, observations: Mapping[str, Tensor]) -> Tensor | None:
    """Mask of slots in use: batch by slots; None for all."""
    return None if slots.mask is None else observations[slots.mask] != 0
