"""Remote rollouts: the envs of an agent in workers of a Ray cluster."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sekai.error import StateError
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.training.observations import tensors_of
from sekai.training.policies.actor_critic import BACKBONES
from sekai.training.ray.cluster import connected, cores_of
from sekai.training.ray.env_state import (
    cut_rows,
    cut_states,
    env_slices,
    joined_rows,
    joined_state,
)
from sekai.training.ray.workers import (
    EnvState,
    ParityProbe,
    RayWorkerPool,
    WorkerRollout,
    WorkerSpec,
    weights_of,
)
from sekai.training.rng import EnvSlice
from sekai.training.training_envs import fixed_count
from sekai.vector.batching import map_arrays

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["RemoteRollouts"]

LOG = logging.getLogger(__name__)


class RemoteRollouts:
    """Context in which an agent's envs run in workers; the trained policy is the same.

    Each worker has an agent of the same class with a slice of the envs. It receives weights and
    the state of the random stream, draws random numbers for all envs, and returns the steps between
    two updates with the state of its envs, so that a lost worker can be replaced.
    """

    def __init__(self, agent: Agent, workers: int | None, address: str | None) -> None:
        self.agent, self._workers, self._address = agent, workers, address
        # Agents that cannot run in workers are refused before anything starts.
        worker_specs(agent, env_slices(agent.vec.num_envs, self._checked(workers or 1)))
        self._is_remote = False

    def _checked(self, workers: int) -> int:
        if workers > self.agent.vec.num_envs:
            raise ValueError(
                f"workers must be at most the {self.agent.vec.num_envs} envs, got {workers}"
            )
        return workers

    def __enter__(self) -> RemoteRollouts:
        with ExitStack() as opened:
            ray = opened.enter_context(connected(self._address, self._workers))
            count = self._workers or min(cores_of(ray), self.agent.vec.num_envs)
            self._ray, self.slices = ray, env_slices(self.agent.vec.num_envs, count)
            self.pool = RayWorkerPool(ray, worker_specs(self.agent, self.slices))
            opened.callback(self.pool.close)
            self._opened = opened.pop_all()
        self._is_ready, self._is_fresh = False, not self.agent._has_begun
        self.agent._engine = self
        return self

    def __exit__(self, *error: object) -> None:
        self.agent._engine = None
        with self._opened:
            if self._can_sync:
                self.sync_envs()
            else:
                LOG.warning(
                    "envs cannot save their state; training that continues starts new episodes"
                )
                self.agent._has_begun = False

    def collect(self, step_counts: Sequence[int]) -> None:
        """Run the envs in workers and store their steps in the agent."""
        if not self._is_ready:
            self._start_workers()
        weights = self._ray.put(weights_of(self.agent.network))
        stream = torch.get_rng_state().numpy()
        answers = self.pool.ask("play", [(weights, list(step_counts), stream)] * len(self.slices))
        played: list[WorkerRollout] = [rollout for rollout, _ in answers]
        self._set_stream(played)
        # Copies: objects of other processes are read-only.
        states: list[EnvState] = [deepcopy(state) for _, state in answers]
        self.pool.states = list(states)
        parts = zip(self.slices, (rollout.part for rollout in played), strict=True)
        self.agent._store_collected(list(parts))
        self.agent._load_acting_state(joined_rows([state.acting for state in states]))
        self._is_remote = True

    def sync_envs(self) -> None:
        """Set the agent's own envs to the state of those in workers.

        Raises:
            StateError: the envs cannot save their state.
        """
        if not self._is_remote:
            return
        if not self._can_sync:
            raise StateError(
                "envs in workers cannot save their state; save(..., envs=False) saves all but the "
                "envs"
            )
        env_states = [state.envs for state in self.pool.states if state and state.envs]
        self.agent.vec.load_state_dict(joined_state(env_states))
        self._is_remote = False

    @property
    def _can_sync(self) -> bool:
        states = self.pool.states
        return not self._is_remote or all(state and state.envs is not None for state in states)

    def _start_workers(self) -> None:
        agent, acting = self.agent, self.agent._acting_state()
        cut = [cut_rows(acting, env_slice) for env_slice in self.slices]
        if self._is_fresh:
            begun = self.pool.begin([None] * len(self.slices))
            self._check_equal(begun, cut)
        else:
            self.pool.begin(list(map(EnvState, self._env_states(), cut)))
        probe = ParityProbe.of(agent.network, tensors_of(acting["seen"]))
        if not all(self.pool.match([probe.cut(env_slice) for env_slice in self.slices])):
            LOG.warning(
                "workers compute other bits than this process, and the trained policy differs; use "
                "machines with equal processors"
            )
        self._is_ready = True

    def _env_states(self) -> list[dict[str, Any]]:
        try:
            return cut_states(self.agent.vec, self.slices)
        except StateError as error:
            raise StateError(
                f"running episodes cannot be continued in workers: {error}; start with a new agent"
            ) from error

    @staticmethod
    def _check_equal(actual: Sequence[Any], wanted: Sequence[Any]) -> None:
        """Raise unless envs in workers start as those of the agent."""
        alike: list[bool] = []

        def compare(array: Any, other: Any) -> None:
            alike.append(np.array_equal(array, other, equal_nan=array.dtype.kind == "f"))

        for own, cut in zip(actual, wanted, strict=True):
            map_arrays(compare, cut, own)
        if not all(alike):
            raise StateError(
                "envs with the same seeds start differently in workers; their reset must depend on "
                "the seed only"
            )

    def _set_stream(self, played: Sequence[WorkerRollout]) -> None:
        """Set the random stream to the state of those in workers."""
        first = played[0].stream
        if any(not np.array_equal(rollout.stream, first) for rollout in played):
            raise StateError(
                "workers have drawn different random numbers; custom networks must not "
                "draw depending on observations"
            )
        torch.set_rng_state(torch.tensor(first))


LEAST_STEPS = 8
"""Least steps per call of a worker, which costs about a millisecond."""


def worker_specs(agent: Agent, slices: Sequence[EnvSlice]) -> list[WorkerSpec]:
    """Specs of the workers of an agent, each with a slice of the envs.

    Raises:
        TypeError: the agent was made with envs instead of a way to make them.
        ValueError: gradient steps are so frequent that workers would mostly wait.
    """
    steps = getattr(agent.settings, "train_freq", LEAST_STEPS)
    if steps < LEAST_STEPS:
        raise ValueError(
            f"engine='ray' needs train_freq of at least {LEAST_STEPS}, since workers are "
            f"called once for as many steps; was {steps}"
        )
    own = {
        name: backbone
        for name, backbone in BACKBONES.items()
        if name == agent.settings.policy.backbone
    }
    return [
        WorkerSpec(
            kind=type(agent),
            env=_env_source(agent.env_argument),
            env_options=agent.env_options,
            settings=agent._worker_settings(env_slice.count),
            options=agent._worker_options(),
            backbones={} if _is_builtin(own) else own,
            seed=agent.seed,
            env_slice=env_slice,
        )
        for env_slice in slices
    ]


def _env_source(env: Any) -> Any:
    """Env spec or function that works in other processes."""
    if isinstance(env, str):
        # Other processes may not have registered it.
        return spec_of(env)
    if not isinstance(env, EnvSpec) and (fixed_count(env) is not None or not callable(env)):
        raise TypeError(
            "engine='ray' needs an id, a spec or a function, so that workers can make their own "
            f"envs; got {env!r}"
        )
    return env


def _is_builtin(backbones: dict[str, Any]) -> bool:
    return all(backbone.__module__.startswith("sekai.") for backbone in backbones.values())
