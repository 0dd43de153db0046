"""One of our vector envs as gymnasium sees it."""

from __future__ import annotations

from typing import Any

import gymnasium.vector
import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sekai.compat.gymnasium.infos import FINAL_OBS, their_names
from sekai.compat.gymnasium.spaces import space_to_gymnasium
from sekai.compat.gymnasium.values import owned, value_from_gymnasium, value_to_gymnasium
from sekai.vector import VecEnv

__all__ = ["AUTORESET_MODES", "ExportedVectorEnv", "gymnasium_vector"]

AUTORESET_MODES = {
    "same_step": gymnasium.vector.AutoresetMode.SAME_STEP,
    "next_step": gymnasium.vector.AutoresetMode.NEXT_STEP,
    "disabled": gymnasium.vector.AutoresetMode.DISABLED,
}
"""Our names for when the next episode begins, and gymnasium's."""


class ExportedVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A `gymnasium.vector.VectorEnv` around a `sekai.vector.VecEnv`, which is its `sekai_env`.

    One seed for the vector is spread over the envs by our rule, not as seed, seed + 1, ...; a list
    of seeds is taken as it is.
    """

    def __init__(self, env: VecEnv) -> None:
        if not isinstance(env, VecEnv):
            raise TypeError(f"a sekai vector env was wanted, found {env!r}")
        self.sekai_env = env
        self.num_envs = env.num_envs
        self.single_observation_space = space_to_gymnasium(env.observation_space)
        self.single_action_space = space_to_gymnasium(env.action_space)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.metadata = {"autoreset_mode": AUTORESET_MODES[env.autoreset], "render_modes": []}
        self._observations: Any = None

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes: in all envs, or in those of `options["reset_mask"]`."""
        if isinstance(seed, int):
            super().reset(seed=seed)
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        ids = range(self.num_envs) if mask is None else np.flatnonzero(mask).tolist()
        some = None if mask is None else ids
        result = self.sekai_env.reset(seed=_seeds_of(seed, mask), options=options or None, ids=some)
        observations = self._observed(result.observations)
        if mask is not None:
            observations = _with_rows(owned(self._observations), ids, observations)
        self._observations = observations
        return observations, self._joined(dict(zip(ids, result.infos, strict=True)))

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Let every env act once."""
        actions = value_from_gymnasium(self.sekai_env.action_space, actions)
        result = self.sekai_env.step(actions)
        self._observations = self._observed(result.observations)
        infos = self._joined(dict(enumerate(result.infos)))
        return self._observations, result.rewards, result.terminated, result.truncated, infos

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each env."""
        return tuple(self.sekai_env.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The attribute of each env."""
        return tuple(self.sekai_env.get_attr(name))

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: one value for all, or a list or tuple of them."""
        self.sekai_env.set_attr(name, values, per_env=isinstance(values, (list, tuple)))

    def close_extras(self, **kwargs: Any) -> None:
        """Close the envs."""
        self.sekai_env.close()

    def _observed(self, observations: Any) -> Any:
        return value_to_gymnasium(self.sekai_env.observation_space, observations)

    def _joined(self, infos: dict[int, dict[str, Any]]) -> dict[str, Any]:
        joined: dict[str, Any] = {}
        for index, info in infos.items():
            named = their_names(info)
            if FINAL_OBS in named:
                space = self.sekai_env.observation_space
                named[FINAL_OBS] = value_to_gymnasium(space, named[FINAL_OBS])
            joined = self._add_info(joined, named, index)
        return joined


def gymnasium_vector(env: VecEnv) -> ExportedVectorEnv:
    """`env` as a `gymnasium.vector.VectorEnv`, whose metadata tell its autoreset mode."""
    return ExportedVectorEnv(env)


def _seeds_of(seed: Any, mask: Any) -> Any:
    """The seeds of the envs that `mask` selects; gymnasium gives one for every env."""
    if mask is None or seed is None or isinstance(seed, int):
        return seed
    return [seed[index] for index in np.flatnonzero(mask)]


def _with_rows(batch: Any, ids: Any, rows: Any) -> Any:
    """`batch` with other values in some rows."""
    if isinstance(batch, dict):
        return {key: _with_rows(part, ids, rows[key]) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_with_rows(part, ids, row) for part, row in zip(batch, rows, strict=True))
    batch[ids] = rows
    return batch
