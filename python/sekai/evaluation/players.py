"""Whoever plays: an agent, a function or a baseline, as one that acts in many envs at once."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.vector.batching import Batcher
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.arena import Arena
    from sekai.evaluation.tasks.task import Task

__all__ = ["Ground", "Moment", "Player", "player_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """What a player stands on before it begins."""

    vec: VecEnv
    task: Task
    seeds: tuple[int, ...]
    """Of the episode in each env."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """What is known before a decision; a row for each env."""

    observations: Any
    infos: Mapping[str, Floats]
    """The numbers of infos."""

    masks: Any
    """Which actions are allowed in each env, as infos tell it; None where they do not."""

    step: int
    """Decisions that were taken before."""


class Player(ABC):
    """Decides in many envs at once.

    What is decided may differ from what an env is sent: an order that waits is sent later, and
    what it is worth to do nothing is known only then.
    """

    name = "agent"

    is_bare = False
    """Whether it plays without layers that change what is seen or done."""

    def where(self, arena: Arena) -> Arena:
        """Where it plays, of what is given: without layers, if those are in its way."""
        return arena.bare if self.is_bare and arena.bare is not None else arena

    def begin(self, ground: Ground) -> None:
        """Take a place before the first decision."""
        self.ground = ground

    @abstractmethod
    def decide(self, moment: Moment) -> Any:
        """What shall be done."""

    def wait(self, moment: Moment) -> Any:
        """What is decided by somebody who does nothing."""
        return self.ground.task.idle(self.ground.vec, moment)

    def send(self, decided: Any, moment: Moment) -> Any:
        """The actions for what was decided, now or some steps ago."""
        return decided


class _Batched(Player):
    """A policy for whole batches."""

    def __init__(self, name: str, predict: Callable[..., Any], takes_masks: bool) -> None:
        self.name, self._predict, self._takes_masks = name, predict, takes_masks

    def decide(self, moment: Moment) -> Any:
        if moment.masks is not None and self._takes_masks:
            return self._predict(moment.observations, action_mask=moment.masks)
        return self._predict(moment.observations)


class _LookingUp(_Batched):
    """An agent that is shown numbers of windows, and looks them up where it plays.

    Left alone it would look them up in the data that it was trained on.
    """

    def __init__(self, name: str, policy: Any) -> None:
        super().__init__(name, policy.predict_batch, _takes_masks(policy.predict_batch))
        self._gather = policy.gather

    def begin(self, ground: Ground) -> None:
        super().begin(ground)
        self._windows = ground.vec.get_attr("windows")[0]
        found = self._windows
        shape = (found.lookback, len(found.assets), len(found.features))
        if shape != self._gather.shape:
            raise ValueError(
                f"{self.name} was trained on windows of {self._gather.shape}, found those of "
                f"{shape}: judge it with the same lookback, assets and features"
            )

    def decide(self, moment: Moment) -> Any:
        its_own, self._gather.windows = self._gather.windows, self._windows
        try:
            return super().decide(moment)
        finally:
            self._gather.windows = its_own


class _OneByOne(Player):
    """A policy for one observation, asked env by env."""

    def __init__(self, name: str, predict: Callable[[Any], Any]) -> None:
        self.name, self._predict = name, predict

    def begin(self, ground: Ground) -> None:
        super().begin(ground)
        self._seen = Batcher(ground.vec.observation_space)
        self._done = Batcher(ground.vec.action_space)

    def decide(self, moment: Moment) -> Any:
        rows = self._seen.rows(moment.observations)
        space = self.ground.vec.action_space
        chosen = [self._predict(row) for row in rows]
        if getattr(space, "shape", None) is not None:
            chosen = [np.asarray(one, getattr(space, "dtype", None)) for one in chosen]
        return self._done.stack(chosen)


def player_of(policy: Any, name: str | None = None) -> Player:
    """Whatever can decide, as a player.

    Args:
        policy: an agent or a policy of `sekai.training`; an object with `predict_batch` or
            `predict`; a function from one observation to one action; a `Player`; or the path of a
            saved agent.
        name: what it is called; taken from the policy if not given.
    """
    if isinstance(policy, Player):
        return policy
    if isinstance(policy, (str, os.PathLike)):
        from sekai.training import load_policy

        return player_of(load_policy(policy), name or Path(policy).stem)
    called = name or getattr(policy, "__name__", None) or type(policy).__name__
    called = "agent" if called == "<lambda>" else called
    if getattr(policy, "gather", None) is not None:
        return _LookingUp(called, policy)
    if callable(getattr(policy, "predict_batch", None)):
        return _Batched(called, policy.predict_batch, _takes_masks(policy.predict_batch))
    if callable(getattr(policy, "predict", None)):
        return _OneByOne(called, lambda seen: _first(policy.predict(seen)))
    if callable(policy):
        return _OneByOne(called, policy)
    raise TypeError(
        "an agent, an object with predict_batch or predict, a function from an observation to an "
        f"action, or the path of a saved agent was wanted, found {policy!r}"
    )


def _takes_masks(function: Callable[..., Any]) -> bool:
    import inspect

    return "action_mask" in inspect.signature(function).parameters


def _first(predicted: Any) -> Any:
    # Others return their state beside the action.
    is_pair = isinstance(predicted, tuple) and len(predicted) == 2 and (
        predicted[1] is None or isinstance(predicted[1], (tuple, list, dict))
    )  # fmt: skip
    return predicted[0] if is_pair else predicted
