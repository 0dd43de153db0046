"""Reward shaping: user functions that transform rewards and select steps to learn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.core.autoreset import FINAL_INFO
from sekai.core.result import VecStepResult
from sekai.error import StateError
from sekai.registry.entry_point import path_of

__all__ = ["LearnWhere", "RewardShaping", "RewardTransform", "StepBatch"]


@dataclass(frozen=True, slots=True, eq=False)
class StepBatch:
    """Steps of all envs: arrays of times by envs by shape."""

    observations: Mapping[str, NDArray[Any]]
    """Observations before each step, by leaf name; `observation` if they are one array."""

    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


RewardTransform: TypeAlias = Callable[[StepBatch], NDArray[Any]]
"""Function that returns the rewards to learn from, of the same shape."""

LearnWhere: TypeAlias = "str | Callable[[StepBatch], NDArray[np.bool_]]"
"""Mask of the steps to learn from: a function, or the name of an observation leaf or info."""


class RewardShaping:
    """Reward transform and step selection of an agent."""

    def __init__(
        self, reward_transform: RewardTransform | None, learn_where: LearnWhere | None
    ) -> None:
        if reward_transform is not None and not callable(reward_transform):
            raise TypeError(f"reward_transform must be a function, got {reward_transform!r}")
        if learn_where is not None and not (isinstance(learn_where, str) or callable(learn_where)):
            raise TypeError(f"learn_where must be a function or a name, got {learn_where!r}")
        self.reward_transform, self.learn_where = reward_transform, learn_where
        self._flags: list[NDArray[np.bool_]] = []

    @property
    def is_plain(self) -> bool:
        """True without reward transform and step selection."""
        return self.reward_transform is None and self.learn_where is None

    def watches(self, leaves: Mapping[str, Any]) -> bool:
        """Return True if `watch` must be called in every step, because infos select the steps."""
        return isinstance(self.learn_where, str) and self.learn_where not in leaves

    def watch(self, result: VecStepResult[Any], step: int) -> None:
        """Read the flags of one step from infos."""
        if step == 0:
            self._flags.clear()
        name, count = str(self.learn_where), len(result.rewards)
        infos: Any = result.infos
        flags = list(infos.values(range(count), name))
        ended = np.flatnonzero(result.terminated | result.truncated)
        for index, last in zip(ended.tolist(), infos.values(ended, FINAL_INFO), strict=True):
            # Infos of the reset may have the same key: the flag of the final info counts.
            if last is not None and name in last:
                flags[index] = last[name]
        for index, value in enumerate(flags):
            if value is None:
                raise StateError(
                    f"learn_where={name!r} is neither an observation leaf nor an info of env "
                    f"{index}; expected one of {', '.join(infos[index])}"
                )
        self._flags.append(np.array(flags, np.bool_))

    def flags(self) -> NDArray[np.bool_] | None:
        """Flags of the latest steps: times by envs; None if infos do not select steps."""
        return np.stack(self._flags) if self._flags else None

    def set_flags(self, tables: Sequence[NDArray[np.bool_]]) -> None:
        """Set the flags from workers, each of a slice of the envs."""
        self._flags = list(np.concatenate(tables, axis=1))

    def rewards(self, steps: StepBatch) -> NDArray[np.float64]:
        """Rewards to learn from."""
        if self.reward_transform is None:
            return steps.rewards
        shaped = np.asarray(self.reward_transform(steps), np.float64)
        if shaped.shape != steps.rewards.shape or not np.isfinite(shaped).all():
            raise ValueError(
                f"reward_transform must give finite rewards of shape {steps.rewards.shape}, gave "
                f"{shaped.shape} with {int((~np.isfinite(shaped)).sum())} that are not finite"
            )
        return shaped

    def mask(self, steps: StepBatch) -> NDArray[np.bool_] | None:
        """Mask of the steps to learn from; None for all."""
        wanted = self.learn_where
        if wanted is None:
            return None
        if callable(wanted):
            mask = np.asarray(wanted(steps))
        elif wanted in steps.observations:
            is_set = np.not_equal(steps.observations[wanted], 0)
            mask = np.asarray(is_set.reshape(*steps.rewards.shape, -1).all(-1))
        else:
            mask = np.stack(self._flags)
        if mask.shape != steps.rewards.shape or mask.dtype != np.bool_:
            raise ValueError(
                f"learn_where must give truth values of shape {steps.rewards.shape}, gave "
                f"{mask.dtype} of shape {mask.shape}"
            )
        return mask

    def names(self) -> dict[str, str]:
        """Import paths of the functions, for checkpoints.

        Raises:
            StateError: one of them cannot be imported.
        """
        names = {}
        for name in ("reward_transform", "learn_where"):
            value = getattr(self, name)
            if value is None:
                continue
            path = value if isinstance(value, str) else path_of(value)
            if path is None:
                raise StateError(
                    f"{name} is {value!r}, which no import finds again: define it at the top level "
                    "of a module, or save(..., training=False), which keeps what acts"
                )
            names[name] = path
        return names
