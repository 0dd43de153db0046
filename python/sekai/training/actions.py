"""Action space mapping of tensors, and action masks of infos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sekai.policy.actions import REACH, ActionLayout, flat_mask
from sekai.policy.observations import ACTION_MASK
from sekai.spaces import Dict, Discrete, MultiDiscrete, Simplex, Space
from sekai.vector.infos import DictInfos, Infos

__all__ = ["ActionMap", "info_masks", "takes_info_masks"]


class ActionMap(ActionLayout):
    """Conversion between policy outputs, as tensors, and actions of a space."""

    def to_env(self, chosen: torch.Tensor, used: torch.Tensor | None = None) -> Any:
        """Convert policy outputs to actions of the env; see `ActionLayout.actions`."""
        numbers = chosen.detach().cpu()
        mask = None if used is None else used.cpu().numpy()
        return self.actions(numbers.numpy(), mask)

    def _weights(self, chosen: NDArray[Any], used: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        # For batches of rollouts torch is several times faster than NumPy.
        logits = REACH * torch.from_numpy(chosen).double().clamp(-1.0, 1.0)
        if used is not None:
            mask = torch.from_numpy(used)
            # Weights sum to one: without any component in use, all are.
            logits = logits.masked_fill(~mask & mask.any(-1, keepdim=True), -torch.inf)
        weights: NDArray[np.float64] = torch.softmax(logits, dim=-1).numpy()
        return weights

    def from_env(self, actions: NDArray[Any]) -> torch.Tensor:
        """Convert actions of the env to policy outputs, the approximate inverse of `to_env`."""
        rows = torch.from_numpy(np.asarray(actions))
        if isinstance(self.space, Discrete):
            return (rows - int(self.space.start)).reshape(-1, 1)
        if isinstance(self.space, MultiDiscrete):
            positions = np.asarray(actions) - self.space.start
            return torch.from_numpy(positions).reshape(len(rows), -1)
        numbers = rows.double().reshape(len(rows), -1)
        if isinstance(self.space, Simplex):
            logits = torch.log(numbers.clamp_min(torch.finfo(torch.float64).tiny))
            middle = (logits.amax(-1, keepdim=True) + logits.amin(-1, keepdim=True)) / 2
            return ((logits - middle) / REACH).clamp(-1.0, 1.0).float()
        return torch.from_numpy((numbers.numpy() - self._middle) / self._half).float()


def takes_info_masks(observation_space: Space[Any], action_space: Space[Any]) -> bool:
    """Return True if action masks come from infos: discrete actions, no mask in observations."""
    is_choice = isinstance(action_space, (Discrete, MultiDiscrete))
    is_shown = isinstance(observation_space, Dict) and ACTION_MASK in observation_space.spaces
    return is_choice and not is_shown


def info_masks(
    infos: Sequence[Mapping[str, Any]], space: Space[Any]
) -> dict[int, NDArray[np.bool_]]:
    """Action masks in infos by env, flattened; an env without a mask allows everything.

    Raises:
        SpaceError: a mask does not fit the space, or allows nothing.
    """
    batch = infos if isinstance(infos, Infos) else DictInfos([dict(info) for info in infos])
    column = batch.column(ACTION_MASK)
    pairs = zip(column.indices.tolist(), column.values, strict=True)
    return {
        env: flat_mask(space, mask, f" of env {env}") for env, mask in pairs if mask is not None
    }
