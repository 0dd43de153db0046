"""Whole episodes, played to judge a policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.error import StateError
from sekai.training.action_masks import info_masks, takes_info_masks
from sekai.training.multi.joint_spaces import MASKS, SEEN
from sekai.training.multi.joint_world import JointWorld
from sekai.vector.vec_env import VecEnv

__all__ = ["Played", "decided", "play"]

LONGEST = 1_000_000
"""Steps after which an episode is taken to have no end."""


class Acting(Protocol):
    """What can be judged."""

    def predict_batch(self, observations: Any, deterministic: bool = True) -> Any:
        """Actions for a batch of observations; who is held to masks takes `action_mask` too."""


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What each episode brought, and how long it was."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    def metrics(self, prefix: str) -> dict[str, float]:
        """Means, and how much they hide."""
        return {
            f"{prefix}return": float(self.returns.mean()),
            f"{prefix}return_spread": float(self.returns.std()),
            f"{prefix}worst_return": float(self.returns.min()),
            f"{prefix}length": float(self.lengths.mean()),
            f"{prefix}episodes": float(len(self.returns)),
        }


def play(
    policy: Acting,
    vec: VecEnv,
    episodes: int,
    seed: int | None,
    *,
    deterministic: bool = True,
    longest: int = LONGEST,
) -> Played:
    """Play at least so many episodes, equally many in each env.

    Equally many, because those that end first are not like the others.

    Args:
        policy: who acts.
        vec: where; what it did before is forgotten.
        episodes: how many, rounded up to a multiple of the envs.
        seed: of the envs; None goes on with their streams.
        deterministic: whether the likeliest action is taken.
        longest: steps of an episode after which it is taken to have no end.

    Raises:
        StateError: an episode was longer than `longest`.
    """
    count = vec.num_envs
    left = np.full(count, math.ceil(episodes / count))
    running, lengths = np.zeros(count), np.zeros(count, np.int64)
    ended: list[tuple[float, int]] = []
    result: Any = vec.reset(seed=seed)
    while left.any():
        result = vec.step(decided(policy, vec, result, deterministic))
        running += result.rewards
        lengths += 1
        if lengths.max() > longest:
            raise StateError(f"episodes of at most {longest} steps were wanted: add a TimeLimit")
        over = np.flatnonzero(result.terminated | result.truncated)
        for place in over[left[over] > 0].tolist():
            ended.append((float(running[place]), int(lengths[place])))
            left[place] -= 1
        running[over], lengths[over] = 0.0, 0
    returns, steps = zip(*ended, strict=True)
    return Played(np.array(returns), np.array(steps, np.int64))


def decided(policy: Acting, vec: Any, result: Any, deterministic: bool = True) -> Any:
    """Actions of a policy after a reset or a step of `vec`, under the masks that envs report."""
    if isinstance(vec, JointWorld):
        seen = result.observations
        masks = {name: list(rows) for name, rows in seen.get(MASKS, {}).items()}
        return _under(policy, seen[SEEN], deterministic, masks)
    if not takes_info_masks(vec.observation_space, vec.action_space):
        return policy.predict_batch(result.observations, deterministic)
    found = info_masks(result.infos, vec.action_space)
    listed = [found.get(env) for env in range(vec.num_envs)] if found else None
    return _under(policy, result.observations, deterministic, listed)


def _under(policy: Acting, seen: Any, deterministic: bool, masks: Any) -> Any:
    predict: Any = policy.predict_batch
    return (
        predict(seen, deterministic, action_mask=masks) if masks else predict(seen, deterministic)
    )
