"""Native rollouts: a policy acts in a native vec env for many steps in one call."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from quant_gym_rs._core import PolicyProgram
from sekai.policy.acting import action_kind
from sekai.policy.actions import ActionLayout
from sekai.policy.native import NativePolicy, stochastic_actor
from sekai.policy.observations import ACTION_MASK
from sekai.policy.program import UnsupportedPolicyError, Weights
from sekai.policy.settings import PolicySettings
from sekai.spaces import Box, Simplex
from sekai.training.observations import tensors_of
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.rng import first_env, random_key
from sekai.training.rollout import Cut, RolloutBuffer
from sekai.vector.batching import map_arrays
from sekai.vector.native import NativeVecEnv
from sekai.vector.vec_env import VecEnv

__all__ = ["Implementation", "NativeRollout", "NoNativeFormError", "chosen_part"]

Implementation = Literal["auto", "native", "torch"]
"""Native code, torch, or native code where it can."""


class NoNativeFormError(Exception):
    """A part of training has no native form; the text is the reason."""


class NativeRollout:
    """Rollouts of an actor-critic policy in a native vec env, without Python between steps.

    Samples are keyed: an action depends on a key of the rollout, which is drawn from the random
    stream of the agent, and on the env and its past, not on the number of threads.

    Args:
        vec: vector env.
        network: policy network, whose weights are read before each rollout.
        settings: its architecture.

    Raises:
        NoNativeFormError: the env or the network has no native form.
    """

    def __init__(self, vec: VecEnv, network: Any, settings: PolicySettings) -> None:
        if type(vec) is not NativeVecEnv or not hasattr(vec.batch, "rollout"):
            raise NoNativeFormError(f"{type(vec).__name__} is not a native vector env")
        if ACTION_MASK in vec.batch.infos():
            raise NoNativeFormError("action masks come from infos")
        if type(network) is not ActorCritic:
            raise NoNativeFormError(f"{type(network).__name__} is not an actor-critic of one agent")
        if network.inputs.device.type != "cpu":
            raise NoNativeFormError(f"the network is on {network.inputs.device}")
        if network.inputs.gather is not None:
            raise NoNativeFormError("observations hold window indices")
        self.vec, self.network, self.settings = vec, network, settings
        self.actions = ActionLayout(vec.action_space)
        try:
            policy = NativePolicy(
                "PPO", vec.observation_space, vec.action_space, settings, self._weights()
            )
        except UnsupportedPolicyError as error:
            raise NoNativeFormError(f"the network has no native program: {error}") from error
        if any("/" in name for name in policy.leaves):
            raise NoNativeFormError("observations are nested")
        self._leaves, self._head = policy.leaves, self._layout(policy)

    def fill(self, rollout: RolloutBuffer) -> None:
        """Collect a rollout of `rollout.steps` steps; see `RolloutBuffer.fill`."""
        actor, std = self._actor()
        chosen = np.empty(tuple(rollout.chosen.shape), np.float32)
        steps, envs, finals = self.vec.rollout(
            actor,
            {**self._head, "std": std},
            (random_key(), first_env()),
            rollout.begin_native(),
            chosen,
            rollout.rewards,
            rollout.terminated,
            rollout.truncated,
        )
        rollout.chosen.copy_(torch.from_numpy(chosen))
        rollout.finish_native(cuts_of(steps, envs, finals))

    def _actor(self) -> tuple[PolicyProgram, NDArray[np.float32] | None]:
        """Program with the present weights."""
        weights = Weights(self._weights())
        return stochastic_actor(self._leaves, self.actions, self.settings, weights)

    def _weights(self) -> dict[str, NDArray[Any]]:
        state = self.network.state_dict()
        return {name: tensor.detach().numpy() for name, tensor in state.items()}

    def _layout(self, policy: NativePolicy) -> dict[str, Any]:
        """Description of the action distribution, without standard deviations."""
        space = self.vec.action_space
        kind = np.dtype(space.dtype)
        if isinstance(space, (Box, Simplex)) and kind not in (np.float32, np.float64):
            raise NoNativeFormError(f"actions are {kind}")
        return {
            "actions": action_kind(space, self.actions),
            "masks": list(policy.mask_leaves),
            "mask": policy.slot_mask_leaf,
            "is_single": kind == np.float32,
        }


def cuts_of(steps: NDArray[np.int64], envs: NDArray[np.int64], finals: Any) -> list[Cut]:
    """Truncated episodes by step, from rows in the order of steps."""
    cuts: list[Cut] = []
    bounds = np.flatnonzero(np.diff(steps, prepend=-1, append=-1)).tolist()
    for first, end in pairwise(bounds):
        rows = map_arrays(lambda array: array[first:end], finals)  # noqa: B023
        cuts.append((int(steps[first]), envs[first:end], tensors_of(rows)))
    return cuts


def chosen_part(wanted: Implementation, name: str, make: Any) -> Any:
    """Native part of training by a setting; None for torch.

    Raises:
        ValueError: the setting is "native" and the part has no native form.
    """
    if wanted == "torch":
        return None
    try:
        return make()
    except NoNativeFormError as error:
        if wanted == "native":
            raise ValueError(f"{name} cannot be 'native': {error}; use 'auto'") from error
        return None
