"""Hears of the steps of many envs, and tells of them step by step and episode by episode."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sekai.compose.logs.level import LogLevel
from sekai.core.closing import Closing
from sekai.error import ResetRequired, StateError

__all__ = ["LogWriter"]


class LogWriter(Closing):
    """Gathers what envs log until their episodes end; write `log_step` or `log_episode`.

    The vector env calls the `on_env_...` methods in the process it lives in, so that a writer
    needs no locks and is never copied. Entries below `loglevel` are left out.
    """

    state_names: ClassVar[tuple[str, ...]] = (
        "episode_count",
        "step_count",
        "global_episode",
        "global_step",
        "episode_lengths",
        "episode_rewards",
        "episode_logs",
    )
    """Attributes that are saved and restored; subclasses name those that they add."""

    def __init__(self, loglevel: int | LogLevel = LogLevel.PERIODIC) -> None:
        """Take entries from `loglevel` upwards."""
        self.loglevel = int(loglevel)
        self.global_episode = 0
        self.global_step = 0
        self._forget()

    def _forget(self) -> None:
        self.episode_count = 0
        """Episodes that have ended since the last `clear`; `global_episode` counts all."""
        self.step_count = 0
        """Steps since the last `clear`; `global_step` counts all."""
        self.episode_lengths: dict[int, int] = {}
        self.episode_rewards: dict[int, list[float]] = {}
        self.episode_logs: dict[int, list[dict[str, Any]]] = {}

    def clear(self) -> None:
        """Forget everything but the global counts: a collection of episodes begins."""
        self._forget()

    @staticmethod
    def aggregation(values: Sequence[Any], name: str) -> Any:
        """What an episode has for what its steps had.

        Floats become their mean, and those called "reward" their sum; of anything else the first
        is taken.
        """
        if not len(values):
            raise ValueError(f"{name!r}: at least one value was wanted, found none")
        if not all(isinstance(value, float) for value in values):
            return values[0]
        total = math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
        return float(total) if name == "reward" else float(total / len(values))

    def aggregated(self, contents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Each name of an episode's contents, aggregated over the steps that have it."""
        columns: dict[str, list[Any]] = {}
        for step in contents:
            for name, value in step.items():
                columns.setdefault(name, []).append(value)
        return {name: self.aggregation(values, name) for name, values in columns.items()}

    def numbers(self, contents: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """The floats among what an episode's contents aggregate to."""
        found = self.aggregated(contents)
        return {name: value for name, value in found.items() if isinstance(value, float)}

    def log_step(self, reward: float, contents: dict[str, Any]) -> None:
        """Tell of a step.

        Args:
            reward: what the step was paid.
            contents: what was logged in it, name -> value.
        """

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Tell of an episode that has ended.

        Args:
            length: its steps.
            rewards: what each was paid.
            contents: what was logged in each step, name -> value; in front of them what was
                logged while the episode was begun, if anything was.
        """

    def on_env_reset(self, env_id: int, obs: Any, info: Mapping[str, Any] | None = None) -> None:
        """An env has begun an episode."""
        self.episode_lengths[env_id] = 0
        self.episode_rewards[env_id] = []
        begun = self._contents({} if info is None else info)
        self.episode_logs[env_id] = [begun] if begun else []

    def on_env_step(
        self, env_id: int, obs: Any, rew: float, done: bool, info: Mapping[str, Any]
    ) -> None:
        """An env has made a step; `done` if its episode has ended."""
        if env_id not in self.episode_lengths:
            raise ResetRequired(
                f"{type(self).__name__} heard of a step of env {env_id} before any reset of it: "
                f"call on_env_reset() when an episode begins"
            )
        reward, contents = float(rew), self._contents(info)
        self.global_step += 1
        self.step_count += 1
        self.episode_lengths[env_id] += 1
        self.episode_rewards[env_id].append(reward)
        self.episode_logs[env_id].append(contents)
        self.log_step(reward, contents)
        if done:
            self.global_episode += 1
            self.episode_count += 1
            # The next episode of the env begins with its reset, and until then there is none.
            length, rewards = self.episode_lengths.pop(env_id), self.episode_rewards.pop(env_id)
            self.log_episode(length, rewards, self.episode_logs.pop(env_id))

    def on_env_all_ready(self) -> None:
        """All envs are about to begin: a new collection."""
        self.clear()

    def on_env_all_done(self) -> None:
        """All envs have come to their end."""

    def flush(self) -> None:
        """Bring to disk what is known so far.

        Whoever guards a collection calls this when it is broken off by an exception, in place of
        `on_env_all_done`.
        """

    def close(self) -> None:
        """Flush, and release what is held."""
        self.flush()

    def state_dict(self) -> dict[str, Any]:
        """Counts, and what is known of the episodes under way."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self._saved_names()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from where the state was taken; a refused state changes nothing."""
        wanted = self._saved_names()
        if state_dict.keys() != set(wanted):
            raise StateError(
                f"a state of {type(self).__name__} has the keys {sorted(wanted)}, "
                f"found {sorted(map(str, state_dict))}"
            )
        for name in wanted:
            setattr(self, name, copy.deepcopy(state_dict[name]))

    def _saved_names(self) -> list[str]:
        names = (vars(ancestor).get("state_names", ()) for ancestor in type(self).__mro__)
        return [name for own in names for name in own]

    def _contents(self, info: Mapping[str, Any]) -> dict[str, Any]:
        log = info.get("log", {})
        return {name: value for name, (level, value) in log.items() if level >= self.loglevel}
