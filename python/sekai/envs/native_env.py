"""A single env over a native batch of one: the batch with its first axis removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

import numpy as np

from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.error import ClosedError
from sekai.spaces import Space

__all__ = ["BatchOfOne", "NativeEnv"]


class BatchOfOne(Protocol[ObsType]):
    """The short way of a native batch that has one env: results without the first axis."""

    def reset_one(self, seed: int | None = None) -> ResetResult[ObsType]:
        """Begin an episode, of this seed or the next one in the env's own stream."""

    def step_one(self, action: Any) -> StepResult[ObsType]:
        """Act once; arrays in the result are new. A call that raises has moved nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here, bit for bit."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""


class NativeEnv(Env[ObsType, ActType]):
    """An env whose rules are written in Rust, once for single envs and batches alike.

    The batch itself refuses actions that do not fit and steps outside an episode, so that an env
    needs no layers for that: register it with `validate_actions=False, order_enforce=False`.
    """

    def __init__(
        self,
        batch: BatchOfOne[ObsType],
        observation_space: Space[ObsType],
        action_space: Space[ActType],
    ) -> None:
        """Take over a batch of one env."""
        self.batch = batch
        self.observation_space = observation_space
        self.action_space = action_space
        # Looked up once: half of what a step costs beside the native call.
        self._step_one = batch.step_one

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Begin an episode: the first one of `seed`, or the next one of the seed in use."""
        if self._step_one is _refuse:
            _refuse()
        if options:
            raise ValueError(
                f"{type(self).__name__} takes no options for reset(), found {sorted(options)}"
            )
        result = self.batch.reset_one(seed)
        if seed is not None:
            self._rng, self._rng_seed = None, int(seed)
        return result

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Act once."""
        return self._step_one(action)

    def close(self) -> None:
        """Refuse everything from now on. Closing twice is no error."""
        self._step_one = _refuse

    @property
    def rng(self) -> np.random.Generator:
        """A stream for layers around the env, governed by its seed; the batch has its own."""
        if self._rng is None and self._rng_seed is not None:
            self._set_rng(self._rng_seed)
        return super().rng


def _refuse(action: Any = None) -> NoReturn:
    raise ClosedError("the env is closed: make a new one")
