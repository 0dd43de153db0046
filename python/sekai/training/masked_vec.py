"""Masks of allowed actions that envs tell beside observations, as a part of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import SpaceError
from sekai.spaces import Dict, Discrete, MultiBinary, MultiDiscrete, Space
from sekai.training.observations import ACTION_MASK, ROOT
from sekai.vector.autoreset import FINAL_INFO, FINAL_OBSERVATION
from sekai.vector.columns import Column
from sekai.vector.infos import Infos
from sekai.vector.vec_env import VecEnv
from sekai.vector.wrapper import VecWrapper, infos_of

__all__ = ["MaskedVecEnv", "flat_mask", "masks_actions", "with_mask"]


class MaskedVecEnv(VecWrapper):
    """Shows `info["action_mask"]` as `action_mask` in the observation, all picks one after another.

    So whatever keeps observations keeps the masks beside them. A mask of None allows everything.
    """

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        count = sum(_counts(env.action_space))
        self.observation_space = _with_mask_space(env.observation_space, count)

    def _map_reset(self, result: VecResetResult[Any], ids: Sequence[int]) -> VecResetResult[Any]:
        masks = self._masks(result.infos)
        return VecResetResult(with_mask(result.observations, masks), result.infos)

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        return VecStepResult(
            with_mask(result.observations, self._masks(result.infos)),
            result.rewards,
            result.terminated,
            result.truncated,
            self._with_finals(infos_of(result)),
        )

    def _masks(self, infos: Sequence[Mapping[str, Any]]) -> NDArray[np.int8]:
        return np.stack([self._flat(info.get(ACTION_MASK)) for info in infos])

    def _with_finals(self, infos: Infos) -> Infos:
        """The infos, with masks in the last observations of episodes."""
        ended = infos.column(FINAL_OBSERVATION)
        if not ended.indices.size:
            return infos
        last = infos.values(ended.indices, FINAL_INFO)
        masks = [self._flat((info or {}).get(ACTION_MASK)) for info in last]
        finals = [with_mask(seen, mask) for seen, mask in zip(ended.values, masks, strict=True)]
        return infos.with_columns({FINAL_OBSERVATION: Column(ended.indices, finals)})

    def _flat(self, mask: Any) -> NDArray[np.int8]:
        return flat_mask(self.action_space, mask).astype(np.int8)


def masks_actions(vec: VecEnv) -> bool:
    """Whether all envs are held to masks of actions that only their infos tell."""
    if not isinstance(vec.action_space, (Discrete, MultiDiscrete)):
        return False
    space = vec.observation_space
    if isinstance(space, Dict) and ACTION_MASK in space.spaces:
        return False
    try:
        return all(vec.call("has_attr", "masks_actions"))
    except AttributeError:
        # Native batches have no layers of single envs.
        return False


def flat_mask(space: Space[Any], mask: Any) -> NDArray[np.bool_]:
    """A mask of the form that `space.sample(mask=...)` takes, all picks one after another.

    Raises:
        SpaceError: it has not that form.
    """
    counts = _counts(space)
    if mask is None:
        return np.ones(sum(counts), np.bool_)
    flat: NDArray[np.bool_] = np.concatenate([np.ravel(part) for part in _parts(mask)]) != 0
    if flat.size != sum(counts):
        raise SpaceError(
            f"action_mask needs {sum(counts)} truths, one for each of the picks {counts}, found "
            f"{flat.size}"
        )
    return flat


def with_mask(observation: Any, mask: Any) -> dict[str, Any]:
    """An observation, or a batch of them, with a mask beside it."""
    inner = observation if isinstance(observation, Mapping) else {ROOT: observation}
    return {**inner, ACTION_MASK: mask}


def _with_mask_space(space: Space[Any], count: int) -> Dict:
    inner = space.spaces if isinstance(space, Dict) else {ROOT: space}
    return Dict({**inner, ACTION_MASK: MultiBinary(count)})


def _counts(space: Space[Any]) -> tuple[int, ...]:
    if isinstance(space, Discrete):
        return (int(space.n),)
    if isinstance(space, MultiDiscrete):
        return tuple(int(count) for count in np.ravel(space.nvec))
    raise SpaceError(f"masks are for Discrete and MultiDiscrete actions, found {space!r}")


def _parts(mask: Any) -> list[Any]:
    """The masks of single picks, from masks nested as deep as the space has dimensions."""
    if isinstance(mask, (tuple, list)):
        return [part for nested in mask for part in _parts(nested)]
    return [mask]
