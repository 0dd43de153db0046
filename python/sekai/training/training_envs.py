"""Training environments: vector envs from ids, specs, envs and functions; evaluation episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.compat import adapt_env, adapt_vector, is_foreign_env, is_foreign_vector
from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.error import StateError
from sekai.policy.base import PolicyState
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.training.actions import info_masks, takes_info_masks
from sekai.training.multi_agent.joint_env import MASKS, SEEN, JointTrainingEnv
from sekai.vector.make_vec import make_vec
from sekai.vector.multi_agent import MultiAgentVecEnv
from sekai.vector.native import NativeVecEnv
from sekai.vector.native_envs import NativeAgentsVecEnv
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import VecEnv

__all__ = [
    "EpisodeReturns",
    "as_vec_env",
    "fixed_count",
    "is_native",
    "make_training_envs",
    "masked_actions",
    "play",
]


def make_training_envs(env: Any, num_envs: int, options: Mapping[str, Any] | None = None) -> VecEnv:
    """Make the vector env to train on; multi-agent envs become a `JointTrainingEnv`."""
    vec = as_vec_env(env, num_envs, options)
    return JointTrainingEnv(vec) if isinstance(vec, MultiAgentVecEnv) else vec


def as_vec_env(
    env: Any, num_envs: int, options: Mapping[str, Any] | None = None
) -> VecEnv | MultiAgentVecEnv:
    """Make a vector env.

    Args:
        env: an id or a spec; a vector env of sekai, gymnasium or stable-baselines3; one env of
            sekai, gymnasium or PettingZoo; or a function that makes one.
        num_envs: number of envs, if they are made from an id, a spec or a function.
        options: keyword arguments of `make_vec`. Envs without a native batch run in this process
            by default.
    """
    kwargs = dict(options or {})
    env = adapt_vector(env)
    if isinstance(env, (str, EnvSpec)):
        spec = env if isinstance(env, EnvSpec) else spec_of(env)
        if spec.vector_entry_point is None:
            # Worker processes would import the user's script, which may train on import.
            kwargs.setdefault("mode", "sync")
        return make_vec(env, num_envs, copy=False, **kwargs)
    if kwargs:
        raise ValueError(f"env_options need an env id or a spec, got {env!r} with {list(kwargs)}")
    if isinstance(env, (VecEnv, MultiAgentVecEnv)):
        if _autoreset(env) != "same_step":
            raise ValueError(
                f"training needs autoreset='same_step', got {_autoreset(env)!r}; make the vector "
                "env with autoreset='same_step', or pass its id or a function that makes one env"
            )
        return env
    if fixed_count(env) == 1:
        return _vec_of([lambda: adapt_env(env)])
    if callable(env):
        return _vec_of([lambda: adapt_env(env())] * num_envs)
    raise TypeError(
        f"cannot make envs from {env!r}; expected an id, a spec, an env of sekai, gymnasium or "
        "PettingZoo, a vector env of sekai, gymnasium or stable-baselines3, or a function that "
        "makes an env"
    )


def fixed_count(env: Any) -> int | None:
    """Number of envs in a vector env, 1 for an env; None for an id, a spec or a function."""
    if isinstance(env, (VecEnv, MultiAgentVecEnv)) or is_foreign_vector(env):
        return int(env.num_envs)
    return 1 if isinstance(env, (Env, MultiAgentEnv)) or is_foreign_env(env) else None


def is_native(env: Any) -> bool:
    """Return True for a native vector env, and for an id or a spec that has one."""
    if isinstance(env, (str, EnvSpec)):
        spec = env if isinstance(env, EnvSpec) else spec_of(env)
        return spec.vector_entry_point is not None
    return isinstance(env, (NativeVecEnv, NativeAgentsVecEnv))


def _vec_of(factories: list[Callable[[], Any]]) -> VecEnv | MultiAgentVecEnv:
    first = factories[0]()
    rest = factories[1:]
    built: list[Callable[[], Any]] = [lambda: first, *rest]
    if isinstance(first, MultiAgentEnv):
        return MultiAgentVecEnv(built)
    return SyncVecEnv(built)


def _autoreset(vec: VecEnv | MultiAgentVecEnv) -> str:
    inner = vec.vec if isinstance(vec, MultiAgentVecEnv) else vec
    return inner.autoreset


MAX_EPISODE_STEPS = 1_000_000
"""Longest episode of an evaluation."""


class BatchPolicy(Protocol):
    """Policy that acts on batches."""

    def predict_batch(self, observations: Any, deterministic: bool = True) -> Any:
        """Actions for a batch of observations; with action masks, `action_mask` is passed too."""


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeReturns:
    """Returns and lengths of episodes."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    def metrics(self, prefix: str) -> dict[str, float]:
        """Mean, spread and minimum of the returns, and mean length."""
        return {
            f"{prefix}return": float(self.returns.mean()),
            f"{prefix}return_spread": float(self.returns.std()),
            f"{prefix}worst_return": float(self.returns.min()),
            f"{prefix}length": float(self.lengths.mean()),
            f"{prefix}episodes": float(len(self.returns)),
        }


def play(
    policy: BatchPolicy,
    vec: VecEnv,
    episodes: int,
    seed: int | None,
    *,
    deterministic: bool = True,
    longest: int = MAX_EPISODE_STEPS,
) -> EpisodeReturns:
    """Play episodes with a policy, equally many in each env.

    Equally many, because the first to end are shorter than the others.

    Args:
        policy: policy to evaluate.
        vec: vector env, which is reset.
        episodes: number of episodes, rounded up to a multiple of the envs.
        seed: seed of the envs; None continues their random streams.
        deterministic: take the most likely actions.
        longest: maximum length of an episode.

    Raises:
        StateError: an episode was longer than `longest`.
    """
    count = vec.num_envs
    left = np.full(count, math.ceil(episodes / count))
    running, lengths = np.zeros(count), np.zeros(count, np.int64)
    ended: list[tuple[float, int]] = []
    result: Any = vec.reset(seed=seed)
    predict, starts = PolicyState(policy.predict_batch), np.ones(count, np.bool_)
    while left.any():
        result = vec.step(masked_actions(predict, vec, result, deterministic, starts))
        starts = result.terminated | result.truncated
        running += result.rewards
        lengths += 1
        if lengths.max() > longest:
            raise StateError(f"an episode is longer than {longest} steps; add a TimeLimit")
        over = np.flatnonzero(result.terminated | result.truncated)
        for index in over[left[over] > 0].tolist():
            ended.append((float(running[index]), int(lengths[index])))
            left[index] -= 1
        running[over], lengths[over] = 0.0, 0
    returns, steps = zip(*ended, strict=True)
    return EpisodeReturns(np.array(returns), np.array(steps, np.int64))


def masked_actions(
    predict: PolicyState, vec: Any, result: Any, deterministic: bool = True, starts: Any = None
) -> Any:
    """Actions of a policy after a reset or a step of `vec`, within the reported action masks.

    Args:
        predict: `predict_batch` of the policy, with its state.
        vec: vector env.
        result: result of the reset or step.
        deterministic: take the most likely actions.
        starts: envs whose observation is the first of an episode.
    """
    if isinstance(vec, JointTrainingEnv):
        observations = result.observations
        masks: Any = {name: list(rows) for name, rows in observations.get(MASKS, {}).items()}
        observations = observations[SEEN]
    else:
        observations, masks = result.observations, None
        if takes_info_masks(vec.observation_space, vec.action_space):
            by_env = info_masks(result.infos, vec.action_space)
            masks = [by_env.get(env) for env in range(vec.num_envs)] if by_env else None
    options = {"action_mask": masks} if masks else {}
    return predict(observations, deterministic, starts=starts, **options)
