"""Ray workers: remote envs with failover, and checks of bit-identical computation."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.error import StateError, WorkerError
from sekai.training.agent_settings import AgentSettings
from sekai.training.policies.actor_critic import BACKBONES, Factory
from sekai.training.policies.recurrent import RecurrentActorCritic
from sekai.training.ray.cluster import answered
from sekai.training.ray.env_state import cut_rows
from sekai.training.rng import EnvSlice, env_slice_drawn
from sekai.training.trained_policy import PolicyNetwork
from sekai.vector.vec_env import env_seed

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = [
    "EnvState",
    "PaddedNetwork",
    "ParityProbe",
    "RayWorkerPool",
    "Worker",
    "WorkerRollout",
    "WorkerSpec",
    "take_weights",
    "weights_of",
]


@dataclass(frozen=True)
class WorkerSpec:
    """Spec of a worker: an agent like the trained one, with a slice of its envs."""

    kind: type[Agent]
    env: Any
    env_options: Mapping[str, Any]
    settings: AgentSettings
    options: Mapping[str, Any]
    backbones: Mapping[str, Factory]
    """Custom backbones that the program registered."""

    seed: int
    env_slice: EnvSlice

    def agent(self) -> Agent:
        """Make the agent of the worker, which never trains."""
        for name, factory in self.backbones.items():
            BACKBONES.setdefault(name, factory)
        return self.kind(
            self.env,
            seed=self.seed,
            settings=self.settings,
            env_options=self.env_options,
            **self.options,
        )


class EnvState(NamedTuple):
    """State of a worker's envs."""

    envs: dict[str, Any] | None
    """State of the vector env; None at the start, or if it cannot be saved."""

    acting: dict[str, Any]
    """State of acting, beside envs and network."""


class WorkerRollout(NamedTuple):
    """Steps that a worker collected."""

    part: dict[str, Any]
    stream: NDArray[np.uint8]
    """State of the random stream after the steps."""


class Worker:
    """Remote actor: an agent with a slice of the envs that acts with the weights it receives."""

    agent: Agent

    def greet(self) -> int:
        """Process id, to wait for the start of the worker."""
        return os.getpid()

    def make(self, spec: WorkerSpec, state: EnvState | None) -> dict[str, Any]:
        """Make the envs and reset them, or restore a state.

        Returns:
            State of acting.
        """
        self.spec, self.agent = spec, spec.agent()
        env_slice = spec.env_slice
        self.agent._start(
            [env_seed(spec.seed, env) for env in range(env_slice.first, env_slice.end)]
        )
        if state is not None:
            # A copy: objects of other processes are read-only.
            state = deepcopy(state)
            if state.envs is not None:
                self.agent.vec.load_state_dict(state.envs)
            self.agent._load_acting_state(state.acting)
        return self.agent._acting_state()

    def match(self, probe: ParityProbe) -> bool:
        """Choose a bit-identical way to compute actions; return False if there is none."""
        network = self.agent.network
        take_weights(network, probe.weights)
        if keeps_lanes(self.spec.env_slice) and probe.is_met(network.action_parameters):
            return True
        padded = PaddedNetwork(network, self.spec.env_slice)
        # Compared first: `action_parameters` of a network may call `choose`.
        is_met = probe.is_met(padded.action_parameters)
        network.choose = padded.choose  # type: ignore[method-assign]
        if isinstance(network, RecurrentActorCritic):
            network.act = padded.act  # type: ignore[method-assign]
        return is_met

    def play(
        self, weights: Mapping[str, Any], step_counts: Sequence[int], stream: NDArray[np.uint8]
    ) -> tuple[WorkerRollout, EnvState]:
        """Step the envs; return the steps and the state of the envs."""
        agent = self.agent
        take_weights(agent.network, weights)
        agent.randomness.restore(torch.tensor(stream))
        with agent.randomness, env_slice_drawn(self.spec.env_slice):
            agent._act_steps(step_counts)
        part = agent._collected(len(step_counts))
        played = WorkerRollout(part, agent.randomness.state.numpy())
        return played, EnvState(self._env_state(), agent._acting_state())

    def close(self) -> None:
        """Close the envs."""
        if hasattr(self, "agent"):
            self.agent.close()

    def _env_state(self) -> dict[str, Any] | None:
        try:
            return self.agent.vec.state_dict()
        except (StateError, NotImplementedError):
            return None


LOG = logging.getLogger(__name__)

RETRIES = 3
"""Replacements of a worker during one call."""

START_SECONDS = 180.0
"""Time limit for the start of workers."""

CLOSE_SECONDS = 5.0


class RayWorkerPool:
    """Ray actors, one for each spec; lost ones are replaced from their last state."""

    def __init__(self, ray: Any, specs: Sequence[WorkerSpec]) -> None:
        self._ray, self._specs = ray, list(specs)
        # Ray does not restart workers: they are replaced here, from their last state.
        self._kind = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self._deaths = (
            ray.exceptions.RayActorError,
            ray.exceptions.ObjectLostError,
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.OutOfMemoryError,
        )
        self.states: list[EnvState | None] = [None] * len(self._specs)
        """State of each worker's envs."""
        self._probes: list[ParityProbe] = []
        self._workers = [self._kind.remote() for _ in self._specs]

    def begin(self, states: Sequence[EnvState | None]) -> list[dict[str, Any]]:
        """Make the envs of all workers and restore their states; None for a reset."""
        self.states = list(states)
        self._wait_for(self._workers)
        return self.ask("make", list(zip(self._specs, self.states, strict=True)))

    def match(self, probes: Sequence[ParityProbe]) -> list[bool]:
        """Run parity probes in all workers."""
        self._probes = list(probes)
        return self.ask("match", [(probe,) for probe in probes])

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of all workers concurrently; results in order."""
        answers = [
            self._call(worker_index, method, args) for worker_index, args in enumerate(arguments)
        ]
        return [
            self._result(
                worker_index,
                partial(_itself, answer),
                partial(self._retry, worker_index, method, args),
            )
            for worker_index, (args, answer) in enumerate(zip(arguments, answers, strict=True))
        ]

    def _call(self, worker_index: int, method: str, args: tuple[Any, ...]) -> Any:
        return getattr(self._workers[worker_index], method).remote(*args)

    def _retry(self, worker_index: int, method: str, args: tuple[Any, ...]) -> Any:
        self._replace(worker_index)
        return self._call(worker_index, method, args)

    def _result(
        self,
        worker_index: int,
        ask: Callable[[], Any],
        again: Callable[[], Any],
        left: int = RETRIES,
    ) -> Any:
        """Result of a worker, or of its replacement."""
        try:
            return answered(self._ray, ask())
        except self._deaths as error:
            if not left or not self._can_replace(worker_index):
                raise self._lost(worker_index, error) from error
            LOG.warning("worker %d was lost and is replaced: %s", worker_index, _first_line(error))
        return self._result(worker_index, again, again, left - 1)

    def _replace(self, worker_index: int) -> None:
        """Replace a worker and restore its last state."""
        self._ray.kill(self._workers[worker_index])
        self._workers[worker_index] = worker = self._kind.remote()
        self._wait_for([worker])
        answered(
            self._ray, worker.make.remote(self._specs[worker_index], self.states[worker_index])
        )
        if self._probes:
            answered(self._ray, worker.match.remote(self._probes[worker_index]))

    def _can_replace(self, worker_index: int) -> bool:
        state = self.states[worker_index]
        return state is None or state.envs is not None

    def _lost(self, worker_index: int, error: BaseException) -> WorkerError:
        why = f"was lost {RETRIES + 1} times in a row"
        if not self._can_replace(worker_index):
            why = "was lost, and its envs cannot save their state"
        return WorkerError(
            f"worker {worker_index} of {len(self._specs)} {why}: {_first_line(error)}"
        )

    def _wait_for(self, workers: Sequence[Any]) -> None:
        greetings = [worker.greet.remote() for worker in workers]
        ready, _ = self._ray.wait(
            greetings, num_returns=len(greetings), timeout=START_SECONDS, fetch_local=False
        )
        if len(ready) < len(greetings):
            raise WorkerError(
                f"the cluster has started {len(ready)} of {len(self._specs)} workers "
                f"of a core each in {START_SECONDS:.0f} s; use fewer workers, or add machines"
            )

    def close(self) -> None:
        """Close all envs and terminate all workers."""
        ray = self._ray
        with suppress(ray.exceptions.RayError):
            farewells = [worker.close.remote() for worker in self._workers]
            ray.wait(farewells, num_returns=len(farewells), timeout=CLOSE_SECONDS)
        for worker in self._workers:
            with suppress(ray.exceptions.RayError):
                ray.kill(worker)


def _itself(value: Any) -> Any:
    return value


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


PROBES = 32
"""Batches in a parity probe."""


LANES = 16
"""Floats in the widest SIMD registers."""


def keeps_lanes(env_slice: EnvSlice) -> bool:
    """Return True if the rows of a slice keep their SIMD lanes.

    Functions such as exp differ in the last bit between full registers and the scalar remainder.
    """
    is_whole = env_slice.count % LANES == 0 or env_slice.end == env_slice.total
    return env_slice.first % LANES == 0 and is_whole


class PaddedNetwork:
    """Network that computes rows for all envs, padded by repetition.

    The last bits of a matrix product can depend on the number of rows.
    """

    def __init__(self, network: PolicyNetwork, env_slice: EnvSlice) -> None:
        self.env_slice = env_slice
        self._choose, self._leanings = network.choose, network.action_parameters
        self._act: Any = getattr(network, "act", None)

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Actions of the slice; random numbers are drawn for all envs."""
        with env_slice_drawn(None):
            return self._own(self._choose(self._all(observations), deterministic))

    def act(
        self, observations: Mapping[str, Tensor], state: Tensor, deterministic: bool
    ) -> tuple[Tensor, Tensor]:
        """Actions and recurrent states of the slice; random numbers are drawn for all envs."""
        padded = self._all({"": state})[""]
        with env_slice_drawn(None):
            actions, after = self._act(self._all(observations), padded, deterministic)
        return self._own(actions), self._own(after)

    def action_parameters(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Parameters of the action distribution of the slice."""
        return self._own(self._leanings(self._all(observations)))

    def _all(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        env_slice = self.env_slice
        indices = (torch.arange(env_slice.total) - env_slice.first) % env_slice.count
        return {name: rows[indices] for name, rows in observations.items()}

    def _own(self, rows: Tensor) -> Tensor:
        return rows[self.env_slice.first : self.env_slice.end]


@dataclass(frozen=True)
class ParityProbe:
    """Inputs and outputs of a network, to test for bit-identical computation."""

    weights: dict[str, Any]
    observations: list[dict[str, Any]]
    expected: list[NDArray[Any]]

    @classmethod
    @torch.no_grad()
    def of(cls, network: PolicyNetwork, observations: Mapping[str, Tensor]) -> ParityProbe:
        """Make a probe with perturbed observations and weights.

        Initial weights have zeros, which hide differences.
        """
        noise = torch.Generator().manual_seed(0)
        before = {
            name: parameter.detach().clone() for name, parameter in network.named_parameters()
        }
        try:
            for parameter in network.parameters():
                parameter.add_(
                    torch.randn(parameter.shape, generator=noise, dtype=parameter.dtype), alpha=0.1
                )
            perturbed = [_perturbed(observations, noise) for _ in range(PROBES)]
            expected = [network.action_parameters(rows).numpy() for rows in perturbed]
            weights = {name: numbers.copy() for name, numbers in weights_of(network).items()}
        finally:
            for name, parameter in network.named_parameters():
                parameter.copy_(before[name])
        return cls(weights, [_numbers(rows) for rows in perturbed], expected)

    def cut(self, env_slice: EnvSlice) -> ParityProbe:
        """Probe of a slice of envs."""
        observations, expected = (
            [cut_rows(rows, env_slice) for rows in batches]
            for batches in (self.observations, self.expected)
        )
        return ParityProbe(self.weights, observations, expected)

    @torch.no_grad()
    def is_met(self, action_parameters: Callable[[Mapping[str, Tensor]], Tensor]) -> bool:
        """Return True if the outputs are bit-identical."""
        return all(
            np.array_equal(action_parameters(_tensors(rows)).numpy(), expected, equal_nan=True)
            for rows, expected in zip(self.observations, self.expected, strict=True)
        )


def weights_of(network: PolicyNetwork) -> dict[str, Any]:
    """Weights that acting needs, by name."""
    return {
        name: weights.numpy()
        for name, weights in network.state_dict().items()
        if not name.startswith(network.for_learning)
    }


def take_weights(network: PolicyNetwork, weights: Mapping[str, Any]) -> None:
    """Load weights that acting needs."""
    # By load_state_dict, whose hooks update caches; other weights are left unchanged.
    network.load_state_dict(
        {name: torch.tensor(numbers) for name, numbers in weights.items()}, strict=False
    )


def _perturbed(observations: Mapping[str, Tensor], noise: torch.Generator) -> dict[str, Tensor]:
    """Add noise to measured observations."""
    return {
        name: rows + torch.randn(rows.shape, generator=noise, dtype=rows.dtype)
        if rows.is_floating_point()
        else rows
        for name, rows in observations.items()
    }


def _numbers(rows: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: tensor.numpy() for name, tensor in rows.items()}


def _tensors(rows: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: torch.tensor(array) for name, array in rows.items()}
