"""Vector wrappers: change observations, actions or rewards of all envs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import EpisodeTotals, RewardScale
from sekai.backend import BackendOps
from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION, Autoreset
from sekai.core.result import VecResetResult, VecStepResult
from sekai.core.wrapper import BaseWrapper
from sekai.spaces import Space
from sekai.stats.tracker import EpisodeStats, InMemoryTracker, StatsTracker
from sekai.vector.batching import Batcher, StepBuffers, to_backend, to_numpy
from sekai.vector.infos import Column, DictInfos, Infos, RowDicts, Rows
from sekai.vector.vec_env import Ids, Options, Seeds, VecEnv, checked_ids
from sekai.wrappers.normalize_observation import NestedMoments
from sekai.wrappers.normalize_reward import checked_gamma


class VecWrapper(BaseWrapper, VecEnv):
    """Wrapper of a vector env that changes nothing by default.

    As with `Wrapper`, subclasses override the hooks `_map_actions`, `_map_step` and `_map_reset`,
    which serve both the sync and the async methods.
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
            raise TypeError(f"{type(self).__name__} expected a VecEnv, got {env!r}")
        self.env = env
        self._batchers: dict[int, Batcher] = {}

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step all envs, or only those in `ids`."""
        self._check_out(out, ids)
        inner = self.env.step(self._map_actions(actions), ids=ids)
        return _written(self._mapped(inner, ids), out)

    async def async_step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step envs without blocking the event loop."""
        self._check_out(out, ids)
        inner = await self.env.async_step(self._map_actions(actions), ids=ids)
        return _written(self._mapped(inner, ids), out)

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset all envs, or only those in `ids`."""
        result = self.env.reset(seed=seed, options=options, ids=ids)
        return self._map_reset(result, checked_ids(ids, self.num_envs))

    async def async_reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset envs without blocking the event loop."""
        result = await self.env.async_reset(seed=seed, options=options, ids=ids)
        return self._map_reset(result, checked_ids(ids, self.num_envs))

    def _map_actions(self, actions: Any) -> Any:
        """Return the actions for the inner envs, or raise before they are stepped."""
        return actions

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        """Return the step result of this wrapper."""
        return result

    def _map_some(self, result: VecStepResult[Any], ids: Sequence[int]) -> VecStepResult[Any]:
        """Return the step result of this wrapper for the envs `ids` only, with a row for each.

        A wrapper that stores values per env uses `ids` to find them.
        """
        return self._map_step(result)

    def _map_reset(self, result: VecResetResult[Any], ids: Sequence[int]) -> VecResetResult[Any]:
        """Return the reset result of this wrapper for the envs `ids`."""
        return result

    def _mapped(self, result: VecStepResult[Any], ids: Ids | None) -> VecStepResult[Any]:
        if ids is None:
            return self._map_step(result)
        indices = checked_ids(ids, self.num_envs)
        return self._map_some(result, indices) if indices else result

    def _check_out(self, out: StepBuffers | None, ids: Ids | None) -> None:
        if out is not None:
            batcher = self._batcher_of(self.observation_space)
            count = len(checked_ids(ids, self.num_envs))
            out.check(StepBuffers.allocate(batcher, count))

    def _batcher_of(self, space: Space[Any]) -> Batcher:
        """Return the cached batcher of a space."""
        if id(space) not in self._batchers:
            self._batchers[id(space)] = Batcher(space)
        return self._batchers[id(space)]

    def get_attr(self, name: str) -> list[Any]:
        """Return the attribute of each env."""
        return self.env.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, on the outermost wrapper that has it."""
        self.env.set_attr(name, value, per_env=per_env)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and return the results."""
        return self.env.call(name, *args, **kwargs)

    @property
    def num_envs(self) -> int:  # type: ignore[override]
        """Number of envs."""
        return self.env.num_envs

    @property
    def autoreset(self) -> Autoreset:  # type: ignore[override]
        """Autoreset mode."""
        return self.env.autoreset

    @property
    def backend(self) -> BackendOps:  # type: ignore[override]
        """Array backend of results."""
        return self.env.backend

    @property
    def closed(self) -> bool:
        """True if the vector env has been closed."""
        return self.env.closed

    @property
    def observation_space(self) -> Space[Any]:
        """Space of one env's observations that this wrapper returns."""
        own = self._observation_space
        return own if own is not None else self.env.observation_space

    @observation_space.setter
    def observation_space(self, space: Space[Any]) -> None:
        self._observation_space = space

    @property
    def action_space(self) -> Space[Any]:
        """Space of one env's actions that this wrapper accepts."""
        own = self._action_space
        return own if own is not None else self.env.action_space

    @action_space.setter
    def action_space(self, space: Space[Any]) -> None:
        self._action_space = space


class VecObservationWrapper(VecWrapper):
    """Wrapper that transforms batches of observations; define `observation`.

    The last observations of finished episodes, in `infos`, are transformed by `final_observation`.
    """

    def observation(self, obs: Any) -> Any:
        """Return the transformed batch."""
        raise NotImplementedError(f"{type(self).__name__} must define observation(obs)")

    def final_observation(self, obs: Any) -> Any:
        """Return the transformed last observations, a batch of the envs that ended."""
        return self.observation(obs)

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        # Final observations first: they precede the current ones.
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
        ended = ended_envs(result)
        if not ended.size:
            return infos
        finals = infos.values(ended, FINAL_OBSERVATION)
        if not isinstance(finals, Rows):
            # Envs with their own autoreset have finals in every mode, others in `same_step` only.
            ended = ended[[final is not None for final in finals]]
            finals = [final for final in finals if final is not None]
        if not ended.size:
            return infos
        batch = self._batcher_of(self.env.observation_space).stack(finals)
        shown = to_numpy(self.final_observation(to_backend(self.backend, batch)))
        rows = self._batcher_of(self.observation_space).lazy_rows(shown, ended.size)
        if len(rows) != ended.size:
            raise ValueError(
                f"final_observation() of {type(self).__name__} must return {ended.size} "
                f"observations, as many as it receives, got {len(rows)}"
            )
        return infos.with_columns({FINAL_OBSERVATION: Column(ended, rows)})


class VecRewardWrapper(VecWrapper):
    """Wrapper that transforms the rewards of all envs; define `reward`."""

    def reward(self, rewards: Any) -> Any:
        """Return the transformed rewards."""
        raise NotImplementedError(f"{type(self).__name__} must define reward(rewards)")

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        return with_rewards(result, self.reward(result.rewards))


class VecActionWrapper(VecWrapper):
    """Wrapper that transforms the actions of all envs; define `action`."""

    def action(self, actions: Any) -> Any:
        """Return the actions for the inner envs."""
        raise NotImplementedError(f"{type(self).__name__} must define action(actions)")

    def _map_actions(self, actions: Any) -> Any:
        return self.action(actions)


def scatter(values: Any, ids: Sequence[int], count: int) -> NDArray[Any]:
    """Place values of the envs `ids` in an array of all `count` envs; zeros elsewhere."""
    chosen = to_numpy(values)
    rows: NDArray[Any] = np.zeros(count, chosen.dtype)
    rows[list(ids)] = chosen
    return rows


def with_rewards(result: VecStepResult[Any], rewards: Any) -> VecStepResult[Any]:
    """Return a step with other rewards."""
    return VecStepResult(
        result.observations, rewards, result.terminated, result.truncated, result.infos
    )


def ended_envs(result: VecStepResult[Any]) -> NDArray[np.int64]:
    """Return the indices of envs whose episode ended in a step."""
    indices: NDArray[np.int64] = to_numpy(result.dones).nonzero()[0]
    return indices


def awaiting_reset(result: VecStepResult[Any]) -> NDArray[np.bool_]:
    """Flags of envs whose next step is a reset in `next_step` mode."""
    waits: NDArray[np.bool_] = to_numpy(result.dones).copy()
    ended = ended_envs(result)
    if ended.size:
        # An env with its own autoreset continues with its next action.
        finals = infos_of(result).values(ended, FINAL_OBSERVATION)
        waits[ended] = [final is None for final in finals]
    return waits


def infos_of(result: VecStepResult[Any]) -> Infos:
    """Return the infos of a step as `Infos`; custom vector envs may use a plain list."""
    infos = result.infos
    return infos if isinstance(infos, Infos) else DictInfos(list(infos))


def _written(result: VecStepResult[Any], out: StepBuffers | None) -> VecStepResult[Any]:
    if out is None:
        return result
    arrays = (result.observations, result.rewards, result.terminated, result.truncated)
    out.fill(StepBuffers(*map(to_numpy, arrays)))
    out.fill_finals(infos_of(result))
    return VecStepResult(out.observations, out.rewards, out.terminated, out.truncated, result.infos)


class NormalizeVecObservation(VecObservationWrapper):
    """Wrapper that normalizes observations by the running mean and variance over all envs.

    Every Box in a nested space is normalized element by element; other spaces pass unchanged. The
    last observations of episodes are included and normalized too. Set `learning` to False to freeze
    the statistics, for evaluation say.
    """

    def __init__(self, env: VecEnv, epsilon: float = 1e-8, clip: float = math.inf) -> None:
        super().__init__(env)
        self.learning = True
        self.moments = NestedMoments(env.observation_space, epsilon, clip)
        self.observation_space = self.moments.normalised_space

    def observation(self, obs: Any) -> Any:
        """Update the statistics with a batch and normalize it."""
        shown = self.moments.normalise(to_numpy(obs), self.learning)
        return to_backend(self.backend, shown)


class NormalizeVecReward(VecWrapper):
    """Wrapper that divides rewards by the running standard deviation of discounted returns.

    The mean is not subtracted, so that rewards keep their sign. Set `learning` to False to freeze
    the statistics.
    """

    def __init__(self, env: VecEnv, gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__(env)
        self.gamma = checked_gamma(gamma)
        self.learning = True
        self.scale = RewardScale(env.num_envs, gamma, epsilon)
        self._running = np.ones(env.num_envs, np.bool_)

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        dones = to_numpy(result.dones)
        skips = self.autoreset == "next_step"
        running = self._running if skips else None
        rewards = self.scale.scale(to_numpy(result.rewards), dones, self.learning, running)
        if skips:
            # The step after the end is a reset: its zero is not a reward.
            self._running = ~awaiting_reset(result)
        return with_rewards(result, to_backend(self.backend, rewards))

    def _map_some(self, result: VecStepResult[Any], ids: Sequence[int]) -> VecStepResult[Any]:
        rewards = scatter(result.rewards, ids, self.num_envs)
        dones = scatter(result.dones, ids, self.num_envs)
        counts = scatter(self._running[list(ids)], ids, self.num_envs)
        scaled = self.scale.scale(rewards, dones, self.learning, counts)[list(ids)]
        if self.autoreset == "next_step":
            self._running[list(ids)] = ~awaiting_reset(result)
        return with_rewards(result, to_backend(self.backend, scaled))

    def _map_reset(self, result: VecResetResult[Any], ids: Sequence[int]) -> VecResetResult[Any]:
        begun = np.zeros(self.num_envs, np.bool_)
        begun[list(ids)] = True
        self.scale.restart(begun)
        self._running |= begun
        return result


class RecordVecEpisodeStatistics(VecWrapper):
    """Wrapper that adds `infos[i]["episode"]`, an `EpisodeStats`, to steps that end an episode.

    With `same_step` autoreset it is in `infos[i]["final_info"]["episode"]` too. `tracker` is called
    for every episode that ends, not for single steps; the default keeps the last episodes in memory
    (`vec.tracker.mean_return()`).
    """

    def __init__(self, env: VecEnv, tracker: StatsTracker | None = None) -> None:
        super().__init__(env)
        self.tracker: StatsTracker = InMemoryTracker() if tracker is None else tracker
        self._totals = EpisodeTotals(env.num_envs)
        self._running = np.ones(env.num_envs, np.bool_)

    def _map_step(self, result: VecStepResult[Any]) -> VecStepResult[Any]:
        dones = to_numpy(result.dones)
        skips = self.autoreset == "next_step"
        finished = self._totals.step(
            to_numpy(result.rewards), dones, self._running if skips else None
        )
        if skips:
            # The step after the end is a reset and counts for neither episode.
            self._running = ~awaiting_reset(result)
        return result if finished is None else self._with_statistics(result, finished)

    def _map_some(self, result: VecStepResult[Any], ids: Sequence[int]) -> VecStepResult[Any]:
        rewards = scatter(result.rewards, ids, self.num_envs)
        dones = scatter(result.dones, ids, self.num_envs)
        counts = scatter(self._running[list(ids)], ids, self.num_envs)
        finished = self._totals.step(rewards, dones, counts)
        if self.autoreset == "next_step":
            self._running[list(ids)] = ~awaiting_reset(result)
        if finished is None:
            return result
        # Convert env indices to rows of the result.
        rows = np.array([list(ids).index(env) for env in finished[0].tolist()], np.int64)
        return self._with_statistics(result, (rows, *finished[1:]))

    def _with_statistics(
        self, result: VecStepResult[Any], finished: tuple[NDArray[Any], ...]
    ) -> VecStepResult[Any]:
        ended = finished[0]
        stats = _stats_of(result, finished)
        for episode in stats:
            self.tracker.on_episode_end(episode)
        infos = infos_of(result)
        columns = {"episode": Column(ended, stats)}
        columns.update(_final_infos(ended, infos.values(ended, FINAL_INFO), stats))
        return VecStepResult(
            result.observations,
            result.rewards,
            result.terminated,
            result.truncated,
            infos.with_columns(columns),
        )

    def _map_reset(self, result: VecResetResult[Any], ids: Sequence[int]) -> VecResetResult[Any]:
        begun = np.zeros(self.num_envs, np.bool_)
        begun[list(ids)] = True
        self._totals.restart(begun)
        self._running |= begun
        return result

    def _excluded(self) -> frozenset[str]:
        # A tracker may hold a connection or a file: it is state only if it has a state_dict.
        stateful = hasattr(self.tracker, "state_dict")
        return super()._excluded() | (frozenset() if stateful else {"tracker"})


def _stats_of(result: VecStepResult[Any], finished: tuple[NDArray[Any], ...]) -> list[EpisodeStats]:
    ended, *totals = finished
    flags = (to_numpy(result.terminated)[ended], to_numpy(result.truncated)[ended])
    return EpisodeStats.of_columns(*(column.tolist() for column in (*totals, *flags)))


def _final_infos(
    ended: NDArray[np.int64], finals: Sequence[Any] | NDArray[Any], stats: list[EpisodeStats]
) -> dict[str, Column]:
    """Add the statistics to the final infos of envs that have them."""
    if isinstance(finals, RowDicts):
        return {FINAL_INFO: Column(ended, finals.with_column("episode", stats))}
    shown = [row for row, final in enumerate(finals) if final is not None]
    final_infos = [{**finals[row], "episode": stats[row]} for row in shown]
    return {FINAL_INFO: Column(ended[shown], final_infos)} if shown else {}
