"""Windows that envs show only the numbers of, looked up when a network reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.data import PanelWindows, RollingWindows, Windows
from sekai.error import StateError
from sekai.training.observations import Leaf
from sekai.vector.vec_env import VecEnv

__all__ = ["WindowGather", "window_gather"]

INDEX, WINDOWS = "index", "windows"
WindowSource = PanelWindows | Windows | RollingWindows


class WindowGather:
    """Puts windows in the place of their numbers. They are the env's, and are not kept with it."""

    windows: WindowSource | None

    def __init__(self, windows: WindowSource) -> None:
        self.windows = windows
        self.shape = (windows.lookback, len(windows.assets), len(windows.features))

    @classmethod
    def without_data(cls, shape: tuple[int, int, int]) -> WindowGather:
        """One that knows the form of windows alone: enough to build networks, not to act."""
        made = cls.__new__(cls)
        made.windows, made.shape = None, shape
        return made

    def leaves(self, leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
        """What an observation has when it was looked up: windows where the number was."""
        return {
            WINDOWS if name == INDEX else name: Leaf(self.shape) if name == INDEX else leaf
            for name, leaf in leaves.items()
        }

    def __call__(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The observations with their windows."""
        if self.windows is None:
            raise StateError("windows are looked up in the data of envs, and there are none")
        rows = observations[INDEX].reshape(-1).numpy()
        windows: NDArray[Any] = self.windows.gather(rows)
        return {**observations, WINDOWS: torch.from_numpy(windows)}

    def __deepcopy__(self, memory: dict[int, Any]) -> WindowGather:
        # Networks are copied by some algorithms; the data is the same for all of them.
        return self


def window_gather(vec: VecEnv, leaves: Mapping[str, Leaf]) -> WindowGather | None:
    """What looks up the windows of these envs, if that is what they show the numbers of."""
    if INDEX not in leaves or leaves[INDEX].shape != (1,):
        return None
    try:
        found = vec.get_attr(WINDOWS)
    except AttributeError:
        return None
    first = found[0]
    if not isinstance(first, WindowSource):
        return None
    for other in found[1:]:
        if other is not first and not _same(other, first):
            raise ValueError(
                "all envs must show numbers of the same windows, found others: use "
                "observation='window', or one vector env for each"
            )
    return WindowGather(first)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, PanelWindows) and isinstance(other, PanelWindows):
        is_alike = one.lookback == other.lookback and one.assets == other.assets
        return is_alike and np.array_equal(one.panel, other.panel)
    return type(one) is type(other) and bool(one.digest == other.digest)
