"""Single env over a native batch of one: the batch with its first axis removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.error import ClosedError
from sekai.spaces import Space
from sekai.storage.names import close_matches

__all__ = [
    "BatchOfOne",
    "NativeEnv",
    "RewardTerms",
    "reject_closed",
    "resolve_config",
    "reward_terms",
]

Config = TypeVar("Config")
RewardTerms = tuple[tuple[str, float], ...]
"""Names of reward terms with their weights."""


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
            close = close_matches(str(term), known)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
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
