"""Base class of policies that act in the spaces of an env."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.signature import DataSignature, checked_allow
from sekai.error import SpaceError
from sekai.policy.actions import flat_mask
from sekai.policy.observations import leaves_of
from sekai.spaces import Space
from sekai.vector.batching import Batcher

__all__ = ["PolicyState", "SpacePolicy", "with_state"]


class PolicyState:
    """State of a recurrent policy, carried from one call of its `predict` to the next.

    Args:
        predict: `predict` or `predict_batch` of a policy. With a parameter `state` after the first
            one it returns the action and the state, as in stable-baselines3; without, nothing is
            carried.
    """

    def __init__(self, predict: Callable[..., Any]) -> None:
        self.predict = predict
        options = list(inspect.signature(predict).parameters)[1:]
        self.is_recurrent, self._takes_starts = "state" in options, "episode_start" in options
        self.state: Any = None

    def __call__(
        self, observations: Any, *arguments: Any, starts: Any = None, **options: Any
    ) -> Any:
        """Actions for the observations that follow those of the last call.

        Args:
            observations: observations of one step.
            arguments: further arguments of `predict`.
            starts: envs whose observation is the first of an episode; None for none.
            options: named arguments of `predict`.
        """
        if not self.is_recurrent:
            return self.predict(observations, *arguments, **options)
        if self._takes_starts and self.state is not None:
            options["episode_start"] = starts
        predicted = self.predict(observations, *arguments, state=self.state, **options)
        actions, self.state = with_state(predicted)
        return actions


def with_state(predicted: Any) -> tuple[Any, Any]:
    """Action and state that a policy returned; a state of None if it returned the action alone."""
    if isinstance(predicted, tuple) and len(predicted) == 2:
        state = predicted[1]
        if state is None or isinstance(state, (tuple, list, dict)):
            return predicted
    return predicted, None


class SpacePolicy(ABC):
    """Policy: observations of a space to actions of a space.

    Args:
        observation_space: observation space of the env.
        action_space: action space of the env.
        data_signature: data that the policy was trained on; None without market data.
        allow: names of differences from that data that are allowed; see `load_policy`.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        *,
        data_signature: DataSignature | None = None,
        allow: Collection[str] = (),
    ) -> None:
        self.data_signature = data_signature
        self.allow = checked_allow(allow)
        self.observation_space, self.action_space = observation_space, action_space
        self.leaves = leaves_of(observation_space)
        self._observation_batcher = Batcher(observation_space)
        self._action_batcher = Batcher(action_space)

    @abstractmethod
    def on_spaces(self, observation_space: Space[Any], action_space: Space[Any]) -> SpacePolicy:
        """Same policy for another number of assets.

        Backbones that share weights between assets fit any number of them.

        Raises:
            SpaceError: the network has weights of single assets or observations.
        """

    @abstractmethod
    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        """Actions for a batch of observations of a vector env.

        Args:
            observations: batch of observations.
            deterministic: take the most likely action instead of a sample.
            action_mask: action mask of each env; None as in `predict`.
        """

    def predict(self, observation: Any, deterministic: bool = True, action_mask: Any = None) -> Any:
        """Action for one observation of one env.

        Args:
            observation: observation of the env.
            deterministic: take the most likely action instead of a sample.
            action_mask: allowed actions, as in `action_space.sample(mask=...)` and
                `info["action_mask"]`; None for the mask in the observation, or all.
        """
        self._check_observation(observation)
        masks = None if action_mask is None else [action_mask]
        batch = self._batch_of_one(observation)
        return self._action_batcher.rows(self.predict_batch(batch, deterministic, masks))[0]

    def _check_observation(self, observation: Any) -> None:
        why = self.observation_space.mismatch(observation)
        if why is not None:
            raise SpaceError(f"observation does not match the space of the policy: {why}")

    def _batch_of_one(self, observation: Any) -> Any:
        """Batch of one observation, which is in the space."""
        return self._observation_batcher.stack([observation])

    def _flat_masks(self, masks: Any) -> NDArray[np.bool_]:
        """Action masks of a batch: batch by actions."""
        return np.stack([flat_mask(self.action_space, mask) for mask in masks])

    def _misfit(self, observation_space: Space[Any]) -> SpaceError:
        """Error of a network that does not fit other spaces."""
        return SpaceError(
            f"the policy does not fit {observation_space!r}: it was trained on "
            f"{self.observation_space!r}; train it on this env, or for other numbers of assets "
            "use a backbone that shares weights, such as 'mean'"
        )
