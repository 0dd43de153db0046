"""Judge the agent on envs, or data, that it does not learn from."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sekai.error import SpaceError
from sekai.training.callbacks.callback import Callback
from sekai.training.playing import play
from sekai.training.settings import require
from sekai.training.worlds import world_of
from sekai.vector.multi_agent import MultiAgentVecEnv
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Evaluate"]


class Evaluate(Callback):
    """Plays whole episodes every few iterations, without chance in the actions.

    Adds `eval/return`, `eval/return_spread`, `eval/worst_return`, `eval/length` and
    `eval/episodes` to the metrics; NaN in the iterations between. Each time the envs begin with
    the same seed, so that what changes is the agent. Training is not touched by it. Of several
    agents the returns are added up.
    """

    def __init__(
        self,
        env: Any,
        *,
        every: int = 10,
        episodes: int = 16,
        seed: int = 1_000_003,
        save: str | os.PathLike[str] | None = None,
        prefix: str = "eval/",
        env_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Get ready to judge.

        Args:
            env: what agents take: an id, a spec, an env, a vector env, or a function.
            every: iterations from one judgement to the next.
            episodes: how many are played, rounded up to a multiple of the envs.
            seed: of the envs.
            save: where the agent with the highest mean return is kept, to act, not to learn on.
            prefix: what the names of metrics begin with.
            env_options: what the env is made with, where it is an id: held-out data, say.
        """
        require(every >= 1, "every", "at least 1 iteration", every)
        require(episodes >= 1, "episodes", "at least 1", episodes)
        self.env, self.env_options = env, env_options
        self.every, self.episodes, self.seed = every, episodes, seed
        self.save, self.prefix = save, prefix
        self.best = -math.inf
        self._vec: VecEnv | None = None
        self._names: list[str] = []

    def on_start(self, agent: Agent) -> None:
        """Make the envs."""
        vec = world_of(self.env, self.episodes, self.env_options)
        for name in ("observation_space", "action_space"):
            if getattr(vec, name) != getattr(agent.vec, name):
                self._close(vec)
                raise SpaceError(f"{self.env!r} has another {name} than the agent learns with")
        self._vec, self.best = vec, -math.inf

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        """Judge, if it is time to."""
        if agent.iterations % self.every:
            metrics.update(dict.fromkeys(self._names or [f"{self.prefix}return"], math.nan))
            return False
        assert self._vec is not None, "made when training began"
        found = play(agent, self._vec, self.episodes, self.seed).metrics(self.prefix)
        self._names = list(found)
        metrics.update(found)
        reached = found[f"{self.prefix}return"]
        if reached > self.best:
            self.best = reached
            if self.save is not None:
                agent.save(self.save, training=False)
        return False

    def on_end(self, agent: Agent) -> None:
        """Close the envs that were made."""
        vec, self._vec = self._vec, None
        if vec is not None:
            self._close(vec)

    def state_dict(self) -> dict[str, Any]:
        """The best so far."""
        return {"best": self.best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.best = float(state["best"])

    def _close(self, vec: VecEnv) -> None:
        if not isinstance(self.env, (VecEnv, MultiAgentVecEnv)):
            vec.close()
