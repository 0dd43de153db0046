"""Native batches: their interface, and the single env over a batch of one without its axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.error import ClosedError
from sekai.spaces import Space
from sekai.storage.names import close_matches, suggestion

Config = TypeVar("Config")
RewardTerms = tuple[tuple[str, float], ...]
"""Names of reward terms with their weights."""
Columns = Mapping[str, Any]
"""Infos by key, with a value for each env: arrays, or sequences that build a value when it is
read."""


@runtime_checkable
class NativeBatch(Protocol):
    """Interface of a native batch. It writes into arrays of the caller and keeps none of them.

    A batch of a Dict or Tuple space is a dict or tuple of arrays. All arrays are C-contiguous. A
    call that raises changes nothing; long calls release the GIL.
    """

    @property
    def num_envs(self) -> int:
        """Number of envs in the batch."""

    def reset(
        self,
        ids: NDArray[np.int64],
        seeds: NDArray[np.uint64] | None,
        observations: Any,
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        """Reset the envs `ids`, with one seed each or with their current generators.

        Their first observations are written to their rows of `observations`, which has rows for all
        envs.
        """

    def step(
        self,
        actions: Any,
        observations: Any,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: Any,
        skip: NDArray[np.bool_] | None,
    ) -> None:
        """Step all envs except those where `skip` is true, whose rows stay unchanged.

        If an episode ends and `final_observations` is passed, its last observation is written
        there, the next episode starts, and its first observation is written to `observations`.
        Without `final_observations` the last observation is written to `observations` and no
        episode starts.
        """

    def clone_env(self, source: int, target: int) -> None:
        """Copy env `source` to `target`, including its random generators."""

    def infos(self) -> Columns:
        """Return infos after the last call: for each key N new rows."""

    def final_infos(self) -> Columns:
        """Return infos of episodes that the last step ended; other rows are undefined."""

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot from which all envs continue bit for bit."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a snapshot; raise `StateError` and change nothing if it does not fit."""


class BatchOfOne(Protocol[ObsType]):
    """Fast path of a native batch with one env: results without the first axis."""

    def reset_one(self, seed: int | None = None) -> ResetResult[ObsType]:
        """Start an episode, of this seed or the next one of the env's own stream."""

    def step_one(self, action: Any) -> StepResult[ObsType]:
        """Step the env; arrays in the result are new. A call that raises changes nothing."""

    def state_dict(self) -> dict[str, Any]:
        """State from which the batch continues bit for bit."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a rejected one changes nothing."""


class BatchWrapper:
    """Native batch around another one: every call passes through; subclasses override methods.

    Args:
        batch: the batch.
    """

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.num_envs: int = batch.num_envs
        self.num_threads: int = batch.num_threads

    def reset(self, ids: Any, seeds: Any, observations: Any, options: Any) -> None:
        """Reset the envs `ids`."""
        self.batch.reset(ids, seeds, observations, options)

    def step(
        self,
        actions: Any,
        observations: Any,
        rewards: Any,
        terminated: Any,
        truncated: Any,
        final_observations: Any,
        skip: Any,
    ) -> None:
        """Step all envs except those where `skip` is true."""
        self.batch.step(
            actions, observations, rewards, terminated, truncated, final_observations, skip
        )

    def reset_one(self, seed: int | None = None) -> ResetResult[Any]:
        """Start an episode of a batch of one."""
        result: ResetResult[Any] = self.batch.reset_one(seed)
        return result

    def step_one(self, action: Any) -> StepResult[Any]:
        """Step a batch of one."""
        result: StepResult[Any] = self.batch.step_one(action)
        return result

    def clone_env(self, source: int, target: int) -> None:
        """Copy env `source` to `target`, including its random generators."""
        self.batch.clone_env(source, target)

    def infos(self) -> Columns:
        """Infos after the last call, one array for each key."""
        columns: Columns = self.batch.infos()
        return columns

    def final_infos(self) -> Columns:
        """Infos of episodes that the last step ended; other rows are undefined."""
        columns: Columns = self.batch.final_infos()
        return columns

    def state_dict(self) -> dict[str, Any]:
        """State from which the batch continues bit for bit."""
        state: dict[str, Any] = self.batch.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a rejected one changes nothing."""
        self.batch.load_state_dict(state)


class NativeEnv(Env[ObsType, ActType]):
    """Env whose rules are written in Rust, once for single envs and batches.

    The batch itself rejects invalid actions and steps outside an episode, so register such envs
    with `validate_actions=False, order_enforce=False`.
    """

    def __init__(
        self,
        batch: BatchOfOne[ObsType],
        observation_space: Space[ObsType],
        action_space: Space[ActType],
    ) -> None:
        self.batch = batch
        self.observation_space = observation_space
        self.action_space = action_space
        # Looked up once: half of the cost of a step beside the native call.
        self._step_one = batch.step_one

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Start an episode: the first one of `seed`, or the next one of the seed in use."""
        if self._step_one is reject_closed:
            reject_closed()
        if options:
            raise ValueError(
                f"{type(self).__name__} takes no options for reset(), got {sorted(options)}"
            )
        result = self.batch.reset_one(seed)
        if seed is not None:
            self._rng, self._rng_seed = None, int(seed)
        return result

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the env."""
        return self._step_one(action)

    def close(self) -> None:
        """Reject all calls from now on. Closing twice is no error."""
        self._step_one = reject_closed

    @property
    def rng(self) -> np.random.Generator:
        """Random generator for wrappers, determined by the env's seed; the batch has its own."""
        if self._rng is None and self._rng_seed is not None:
            self._set_rng(self._rng_seed)
        return super().rng


def reject_closed(action: Any = None, actions: Any = None) -> NoReturn:
    """Raise because the env is closed."""
    raise ClosedError("the env is closed: make a new one")


def reward_terms(
    reward: str | Mapping[str, float] | RewardTerms, known: Sequence[str]
) -> RewardTerms:
    """Terms of a reward as immutable pairs, from a name, a mapping or pairs.

    Args:
        reward: the reward terms.
        known: names of all terms.

    Raises:
        ValueError: a term is unknown.
    """
    pairs: Any = reward.items() if isinstance(reward, Mapping) else reward
    terms = ((reward, 1.0),) if isinstance(reward, str) else tuple((t, w) for t, w in pairs)
    for term, _ in terms:
        if term not in known:
            hint = suggestion(close_matches(str(term), known))
            raise ValueError(
                f"unknown term {term!r:.80} in reward, expected one of {', '.join(known)}{hint}"
            )
    return terms


def resolve_config(kind: type[Config], config: Config | None, settings: dict[str, Any]) -> Config:
    """Config of an env, from the config itself or from its fields by name."""
    if config is None:
        return kind(**settings)
    if settings:
        raise TypeError(
            f"pass either a config or its fields, got both: {kind.__name__} and {sorted(settings)}"
        )
    return config
