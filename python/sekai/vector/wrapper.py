"""Layers around a vector env that change what goes in or what comes out, for all envs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.backend import BackendOps
from sekai.core.layer import Layer
from sekai.core.result import VecResetResult, VecStepResult
from sekai.spaces import Space
from sekai.vector.autoreset import FINAL_OBSERVATION, Autoreset
from sekai.vector.batching import Batcher, to_backend, to_numpy
from sekai.vector.buffers import StepBuffers
from sekai.vector.columns import Column, Rows
from sekai.vector.infos import DictInfos, Infos
from sekai.vector.seeding import Seeds
from sekai.vector.vec_env import Ids, Options, VecEnv, checked_ids

__all__ = ["VecActionWrapper", "VecObservationWrapper", "VecRewardWrapper", "VecWrapper"]


class VecWrapper(Layer, VecEnv):
    """A layer around the vector env `env`, transparent unless a subclass says otherwise.

    As with `Wrapper`, a subclass states what it changes once, in the hooks `_map_actions`,
    `_map_step` and `_map_reset`; both the sync and the async path go through them.
    """

    state_excludes: ClassVar[tuple[str, ...]] = (
        "batched_observation_space",
        "batched_action_space",
        "_batchers",
    )
    env: VecEnv
    _observation_space: Space[Any] | None = None
    _action_space: Space[Any] | None = None

    def __init__(self, env: VecEnv) -> None:
        if not isinstance(env, VecEnv):
            raise TypeError(f"{type(self).__name__} wraps a VecEnv, was given {env!r}")
        self.env = env
        self._batchers: dict[int, Batcher] = {}

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let every env, or those of `ids` alone, act once, through this layer."""
        self._check_out(out, ids)
        inner = self.env.step(self._map_actions(actions), ids=ids)
        return _written(self._mapped(inner, ids), out)

    async def async_step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let envs act once, through this layer, without blocking the event loop."""
        self._check_out(out, ids)
        inner = await self.env.async_step(self._map_actions(actions), ids=ids)
        return _written(self._mapped(inner, ids), out)

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, or in those of `ids` alone, through this layer."""
        result = self.env.reset(seed=seed, options=options, ids=ids)
        return self._map_reset(result, checked_ids(ids, self.num_envs))

    async def async_reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, through this layer, without blocking the event loop."""
        result = await self.env.async_reset(seed=seed, options=options, ids=ids)
        return self._map_reset(result, checked_ids(ids, self.num_envs))

    def _map_actions(self, actions: Any) -> Any:
        """What the inner envs are given for `actions`; may refuse them before anything moves."""
        return actions

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        """What this layer makes of a step."""
        return result

    def _map_some(self, result: VecStepResult[Any], ids: Sequence[int]) -> VecStepResult[Any]:
        """What this layer makes of a step of the envs `ids` alone, with a row for each of them.

        A layer that keeps something for each env says here where it belongs.
        """
        return self._map_step(result)

    def _map_reset(self, result: VecResetResult[Any], ids: Sequence[int]) -> VecResetResult[Any]:
        """What this layer makes of a reset of the envs `ids`."""
        return result

    def _mapped(self, result: VecStepResult[Any], ids: Ids | None) -> VecStepResult[Any]:
        if ids is None:
            return self._map_step(result)
        places = checked_ids(ids, self.num_envs)
        return self._map_some(result, places) if places else result

    def _check_out(self, out: StepBuffers | None, ids: Ids | None) -> None:
        if out is not None:
            batcher = self._batcher_of(self.observation_space)
            count = len(checked_ids(ids, self.num_envs))
            out.check(StepBuffers.allocate(batcher, count))

    def _batcher_of(self, space: Space[Any]) -> Batcher:
        """The batcher of one of the few spaces that a layer ever has to do with."""
        if id(space) not in self._batchers:
            self._batchers[id(space)] = Batcher(space)
        return self._batchers[id(space)]

    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each env."""
        return self.env.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, in the outermost layer that has it."""
        self.env.set_attr(name, value, per_env=per_env)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and give back what they return."""
        return self.env.call(name, *args, **kwargs)

    @property
    def num_envs(self) -> int:  # type: ignore[override]
        """How many envs there are."""
        return self.env.num_envs

    @property
    def autoreset(self) -> Autoreset:  # type: ignore[override]
        """When the next episode begins."""
        return self.env.autoreset

    @property
    def backend(self) -> BackendOps:  # type: ignore[override]
        """Who makes the arrays of results."""
        return self.env.backend

    @property
    def closed(self) -> bool:
        """Whether the vector has been closed."""
        return self.env.closed

    @property
    def observation_space(self) -> Space[Any]:
        """The space of one env's observations that leave this layer."""
        own = self._observation_space
        return own if own is not None else self.env.observation_space

    @observation_space.setter
    def observation_space(self, space: Space[Any]) -> None:
        self._observation_space = space

    @property
    def action_space(self) -> Space[Any]:
        """The space of one env's actions that enter this layer."""
        own = self._action_space
        return own if own is not None else self.env.action_space

    @action_space.setter
    def action_space(self, space: Space[Any]) -> None:
        self._action_space = space


class VecObservationWrapper(VecWrapper):
    """Changes observations: write `observation`, which is given batches.

    The last observations of finished episodes, in `infos`, are changed by `final_observation`.
    """

    def observation(self, obs: Any) -> Any:
        """What the agent sees instead of the batch `obs`."""
        raise NotImplementedError(f"{type(self).__name__} must define observation(obs)")

    def final_observation(self, obs: Any) -> Any:
        """What the agent sees instead of `obs`, a batch of those envs whose episode has ended."""
        return self.observation(obs)

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        # The ends come first: they are older than what the envs show now.
        infos = self._map_finals(result)
        return VecStepResult(
            self.observation(result.observations),
            result.rewards,
            result.terminated,
            result.truncated,
            infos,
        )

    def _map_reset(self, result: VecResetResult[Any], ids: Sequence[int]) -> VecResetResult[Any]:
        if not ids:
            return result
        return VecResetResult(self.observation(result.observations), result.infos)

    def _map_finals(self, result: VecStepResult[Any]) -> Sequence[dict[str, Any]]:
        infos = infos_of(result)
        ended = ended_in(result)
        if not ended.size:
            return infos
        finals = infos.values(ended, FINAL_OBSERVATION)
        if not isinstance(finals, Rows):
            # Envs that reset themselves show an end in every mode, others in `same_step` alone.
            ended = ended[[final is not None for final in finals]]
            finals = [final for final in finals if final is not None]
        if not ended.size:
            return infos
        batch = self._batcher_of(self.env.observation_space).stack(finals)
        shown = to_numpy(self.final_observation(to_backend(self.backend, batch)))
        rows = self._batcher_of(self.observation_space).lazy_rows(shown, ended.size)
        if len(rows) != ended.size:
            raise ValueError(
                f"final_observation() of {type(self).__name__} was given {ended.size} "
                f"observations and must return as many, found {len(rows)}"
            )
        return infos.with_columns({FINAL_OBSERVATION: Column(ended, rows)})


class VecRewardWrapper(VecWrapper):
    """Changes rewards: write `reward`, which is given the rewards of all envs."""

    def reward(self, rewards: Any) -> Any:
        """What the agents earn instead of `rewards`."""
        raise NotImplementedError(f"{type(self).__name__} must define reward(rewards)")

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        return with_rewards(result, self.reward(result.rewards))


class VecActionWrapper(VecWrapper):
    """Changes actions: write `action`, which is given the actions of all envs."""

    def action(self, actions: Any) -> Any:
        """What the envs are given instead of `actions`."""
        raise NotImplementedError(f"{type(self).__name__} must define action(actions)")

    def _map_actions(self, actions: Any) -> Any:
        return self.action(actions)


def everywhere(values: Any, ids: Sequence[int], count: int) -> NDArray[Any]:
    """Values of the envs `ids` in the places of all `count` envs; the others have zeros."""
    chosen = to_numpy(values)
    rows: NDArray[Any] = np.zeros(count, chosen.dtype)
    rows[list(ids)] = chosen
    return rows


def with_rewards(result: VecStepResult[Any], rewards: Any) -> VecStepResult[Any]:
    """A step with other rewards."""
    return VecStepResult(
        result.observations, rewards, result.terminated, result.truncated, result.infos
    )


def ended_in(result: VecStepResult[Any]) -> NDArray[np.int64]:
    """The envs whose episode ended in a step."""
    indices: NDArray[np.int64] = to_numpy(result.dones).nonzero()[0]
    return indices


def waiting_in(result: VecStepResult[Any]) -> NDArray[np.bool_]:
    """The envs whose next step only begins an episode, as `next_step` autoreset has it."""
    waits: NDArray[np.bool_] = to_numpy(result.dones).copy()
    ended = ended_in(result)
    if ended.size:
        # An env that has reset itself goes on with its next action.
        finals = infos_of(result).values(ended, FINAL_OBSERVATION)
        waits[ended] = [final is None for final in finals]
    return waits


def infos_of(result: VecStepResult[Any]) -> Infos:
    """The infos of a step, which a foreign vector env may give as a plain list."""
    infos = result.infos
    return infos if isinstance(infos, Infos) else DictInfos(list(infos))


def _written(result: VecStepResult[Any], out: StepBuffers | None) -> VecStepResult[Any]:
    if out is None:
        return result
    arrays = (result.observations, result.rewards, result.terminated, result.truncated)
    out.fill(StepBuffers(*map(to_numpy, arrays)))
    out.fill_finals(infos_of(result))
    return VecStepResult(out.observations, out.rewards, out.terminated, out.truncated, result.infos)
