"""Vector envs of the tasks that come with sekai: what their registered entry points make."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sekai.backend import Backend
from sekai.registry import make
from sekai.registry.entry_point import load
from sekai.vector.autoreset import Autoreset
from sekai.vector.multi_agent import MultiAgentVecEnv
from sekai.vector.native import NativeVecEnv
from sekai.vector.native_agents import AgentsBatch, NativeAgentsVecEnv

__all__ = [
    "market_making",
    "multi_portfolio",
    "native_vector",
    "optimal_execution",
    "portfolio",
    "trading",
]


def native_vector(path: str) -> Callable[..., NativeVecEnv]:
    """What makes many envs of the class at `path` as one native batch.

    The class has a static method `make_batch(num_envs, num_threads, max_episode_steps, **kwargs)`
    that takes the arguments of its constructor in `kwargs` and returns a batch, the space of
    observations and the space of actions. It is imported when the first vector env is made.
    """

    def make(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        autoreset: Autoreset = "same_step",
        backend: Backend = "numpy",
        copy: bool = True,
        **kwargs: Any,
    ) -> NativeVecEnv:
        batch, observations, actions = load(path).make_batch(
            num_envs, num_threads=num_threads, max_episode_steps=max_episode_steps, **kwargs
        )
        return NativeVecEnv(
            batch, observations, actions, autoreset=autoreset, backend=backend, copy=copy
        )

    return make


def multi_portfolio(
    num_envs: int,
    *,
    num_threads: int | None = None,
    max_episode_steps: int | None = None,
    autoreset: Autoreset = "same_step",
    backend: Backend = "numpy",
    copy: bool = True,
    **kwargs: Any,
) -> MultiAgentVecEnv:
    """Many markets with several agents each.

    A single agent has no axis of agents in its batch: such envs are stepped one by one.
    """
    kind = load("sekai.envs.multi_portfolio:MultiPortfolio")
    options: dict[str, Any] = {"autoreset": autoreset, "backend": backend, "copy": copy}
    agents = kind.make_batch(
        num_envs, num_threads=num_threads, max_episode_steps=max_episode_steps, **kwargs
    )
    if len(agents["action_spaces"]) > 1:
        return NativeAgentsVecEnv(AgentsBatch(**agents), **options)
    single: Any = functools.partial(
        make, "MultiPortfolio-v0", max_episode_steps=max_episode_steps, **kwargs
    )
    return MultiAgentVecEnv([single] * num_envs, **options)


market_making = native_vector("sekai.envs.market_making:MarketMaking")
optimal_execution = native_vector("sekai.envs.optimal_execution:OptimalExecution")
portfolio = native_vector("sekai.envs.portfolio:Portfolio")
trading = native_vector("sekai.envs.trading:Trading")
