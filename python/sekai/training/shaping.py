"""Functions of users that look at what happened: what it was worth, and what to learn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.core.result import VecStepResult
from sekai.error import StateError
from sekai.registry.entry_point import path_of
from sekai.vector.autoreset import FINAL_INFO

__all__ = ["LearnWhere", "RewardTransform", "Shaping", "Steps"]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Some steps of all envs; every array is times by envs by whatever it is."""

    observations: Mapping[str, NDArray[Any]]
    """What was seen before each step, by name; `observation` where there is but one array."""

    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


RewardTransform: TypeAlias = Callable[[Steps], NDArray[Any]]
"""The rewards to learn from, of the shape of those that were given."""

LearnWhere: TypeAlias = "str | Callable[[Steps], NDArray[np.bool_]]"
"""Which steps are learnt from: a function, or the name of a part of observations or infos."""


class Shaping:
    """What one agent's user wants done with rewards and steps before they are learnt from."""

    def __init__(
        self, reward_transform: RewardTransform | None, learn_where: LearnWhere | None
    ) -> None:
        if reward_transform is not None and not callable(reward_transform):
            raise TypeError(f"reward_transform must be a function, was {reward_transform!r}")
        if learn_where is not None and not (isinstance(learn_where, str) or callable(learn_where)):
            raise TypeError(f"learn_where must be a function or a name, was {learn_where!r}")
        self.reward_transform, self.learn_where = reward_transform, learn_where
        self._told: list[NDArray[np.bool_]] = []

    @property
    def is_plain(self) -> bool:
        """Whether rewards are taken as they are, and all steps."""
        return self.reward_transform is None and self.learn_where is None

    def watches(self, leaves: Mapping[str, Any]) -> bool:
        """Whether `watch` must be told of every step, because infos decide."""
        return isinstance(self.learn_where, str) and self.learn_where not in leaves

    def watch(self, result: VecStepResult[Any], step: int) -> None:
        """Read what infos say of one step."""
        if step == 0:
            self._told.clear()
        name, count = str(self.learn_where), len(result.rewards)
        infos: Any = result.infos
        found = list(infos.values(range(count), name))
        ended = np.flatnonzero(result.terminated | result.truncated)
        for place, last in zip(ended.tolist(), infos.values(ended, FINAL_INFO), strict=True):
            # The next episode has begun, and its reset may have said something by the same name.
            if last is not None and name in last:
                found[place] = last[name]
        for place, value in enumerate(found):
            if value is None:
                raise StateError(
                    f"learn_where={name!r} is no part of the observations, and env {place} has no "
                    f"such info; it has {', '.join(infos[place])}"
                )
        self._told.append(np.array(found, np.bool_))

    def told(self) -> NDArray[np.bool_] | None:
        """What infos said of the latest steps: times by envs; None where they do not decide."""
        return np.stack(self._told) if self._told else None

    def take_told(self, tables: Sequence[NDArray[np.bool_]]) -> None:
        """Take in what infos said elsewhere: tables of some of the envs each."""
        self._told = list(np.concatenate(tables, axis=1))

    def rewards(self, steps: Steps) -> NDArray[np.float64]:
        """The rewards to learn from."""
        if self.reward_transform is None:
            return steps.rewards
        made = np.asarray(self.reward_transform(steps), np.float64)
        if made.shape != steps.rewards.shape or not np.isfinite(made).all():
            raise ValueError(
                f"reward_transform must give finite rewards of shape {steps.rewards.shape}, gave "
                f"{made.shape} with {int((~np.isfinite(made)).sum())} that are not finite"
            )
        return made

    def mask(self, steps: Steps) -> NDArray[np.bool_] | None:
        """Which steps are learnt from; None for all of them."""
        wanted = self.learn_where
        if wanted is None:
            return None
        if callable(wanted):
            made = np.asarray(wanted(steps))
        elif wanted in steps.observations:
            told = np.not_equal(steps.observations[wanted], 0)
            made = np.asarray(told.reshape(*steps.rewards.shape, -1).all(-1))
        else:
            made = np.stack(self._told)
        if made.shape != steps.rewards.shape or made.dtype != np.bool_:
            raise ValueError(
                f"learn_where must give truth values of shape {steps.rewards.shape}, gave "
                f"{made.dtype} of shape {made.shape}"
            )
        return made

    def names(self) -> dict[str, str]:
        """What a file says of the functions: how they can be imported.

        Raises:
            StateError: one of them cannot be imported, so that nobody could say what it was.
        """
        found = {}
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
            found[name] = path
        return found
