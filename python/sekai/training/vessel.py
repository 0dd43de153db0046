"""Train on composed envs: seeds to learn from, seeds to choose by, and seeds to judge by."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.compose import (
    ActionInterpreter,
    DataQueue,
    EnvWrapper,
    LogBuffer,
    LogWriter,
    Reward,
    Simulator,
    StateInterpreter,
    vectorize_env,
)
from sekai.core.result import VecResetResult
from sekai.training.agent import Agent
from sekai.training.callbacks.callback import Callback
from sekai.training.playing import Acting, Played, decided
from sekai.training.settings import require
from sekai.training.vessel_seeds import EndlessSeeds, SeedSetError, some_of
from sekai.vector.batching import map_arrays
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import VecEnv

__all__ = ["TrainingVessel"]

Kind = TypeVar("Kind", bound=Agent)
EnvType = Literal["dummy", "subproc", "shmem"]


class TrainingVessel:
    """A simulator with its interpreters and reward, and three sets of seeds for its episodes."""

    def __init__(
        self,
        simulator_fn: Callable[..., Simulator[Any, Any, Any]],
        state_interpreter: StateInterpreter[Any, Any],
        action_interpreter: ActionInterpreter[Any, Any, Any],
        reward: Reward[Any],
        *,
        training: Sequence[Any] | None = None,
        validation: Sequence[Any] | None = None,
        test: Sequence[Any] | None = None,
        env_type: EnvType = "dummy",
        concurrency: int = 4,
        seed: int = 0,
        fast_dev_run: int | None = None,
    ) -> None:
        """Say what is simulated, and from which seeds.

        Args:
            simulator_fn: makes the simulator of an episode from its seed.
            state_interpreter: makes observations; every env gets a copy.
            action_interpreter: understands actions; every env gets a copy.
            reward: pays; every env gets a copy.
            training: seeds to learn from, shuffled, again and again.
            validation: seeds to choose settings and an end by, each played once.
            test: seeds to judge by, each played once.
            env_type: where `validate` and `test` play: see `sekai.compose.vectorize_env`.
            concurrency: how many episodes they play at the same time.
            seed: of the shuffling, and of which seeds a fast run takes.
            fast_dev_run: take so many seeds of each set, drawn at random: to see that it runs.
        """
        require(fast_dev_run is None or fast_dev_run >= 1, "fast_dev_run", "None or at least 1",
                fast_dev_run)  # fmt: skip
        self.simulator_fn = simulator_fn
        self.parts = state_interpreter, action_interpreter, reward
        self.env_type, self.concurrency, self.seed = env_type, concurrency, seed
        given = {"training": training, "validation": validation, "test": test}
        self._sets = {
            name: some_of(seeds, fast_dev_run, seed)
            for name, seeds in given.items()
            if seeds is not None
        }

    def fit(
        self,
        kind: Callable[..., Kind],
        steps: int | None = None,
        *,
        iterations: int | None = None,
        callbacks: Sequence[Callback] = (),
        num_envs: int = 16,
        seed: int = 0,
        progress: bool = False,
        validate_every: int | None = None,
        **given: Any,
    ) -> Kind:
        """An agent that has learnt from the training seeds.

        Args:
            kind: its class, `PPO` for example.
            steps: how many steps of single envs to learn for.
            iterations: the same in iterations; one of the two.
            callbacks: as in `Agent.fit`.
            num_envs: how many envs act together.
            seed: as in `Agent`.
            progress: as in `Agent.fit`.
            validate_every: after how many iterations `val/` metrics are added; None for never.
                The callbacks hear of them.
            given: what else the agent is made with.
        """
        require((steps is None) != (iterations is None), "steps", "given, or iterations", steps)
        told = list(callbacks)
        if validate_every is not None:
            self._seeds("validation")
            told.insert(0, _Validate(self, validate_every))
        agent = kind(self.training_envs(num_envs), seed=seed, **given)
        wanted = agent.iteration_steps * iterations if iterations is not None else steps
        assert wanted is not None, "one of the two was given"
        return agent.fit(wanted, told, progress=progress)

    def training_envs(self, num_envs: int = 16) -> VecEnv:
        """Envs that go through the training seeds without end: what an agent learns on."""
        seeds = self._seeds("training")
        shares = (EndlessSeeds(seeds, first, num_envs, self.seed) for first in range(num_envs))
        return SyncVecEnv([partial(self._env, share) for share in shares], copy=False)

    def validate(self, policy: Acting) -> dict[str, float]:
        """What the policy makes of the validation seeds, each played once; names begin `val/`."""
        return self._played(policy, "validation", "val/")

    def test(self, policy: Acting) -> dict[str, float]:
        """What the policy makes of the test seeds, each played once; names begin with `test/`."""
        return self._played(policy, "test", "test/")

    def _played(self, policy: Acting, name: str, prefix: str) -> dict[str, float]:
        """Episodes of every seed, with means of what the components log."""
        seeds = self._seeds(name)
        count = min(self.concurrency, len(seeds))
        ends, logged = _Ends(), LogBuffer(lambda on_episode, on_collect, buffer: None)
        with DataQueue(seeds, shuffle=False, seed=self.seed) as queue:
            vec = vectorize_env(lambda: self._env(queue), self.env_type, count, [ends, logged])
            with vec.collector_guard():
                latest: Any = vec.reset(seed=self.seed)
                while True:
                    latest = vec.step(decided(policy, vec, latest))
                    over = np.flatnonzero(latest.dones)
                    if over.size:
                        latest = _begun(latest, over, vec.reset(over))
        means = {f"{prefix}{key}": value for key, value in logged.collect_metrics().items()}
        return {**means, **ends.played().metrics(prefix)}

    def _env(self, seeds: Any) -> EnvWrapper[Any, Any, Any, Any, Any]:
        state_interpreter, action_interpreter, reward = copy.deepcopy(self.parts)
        return EnvWrapper(self.simulator_fn, state_interpreter, action_interpreter, seeds, reward)

    def _seeds(self, name: str) -> Sequence[Any]:
        seeds = self._sets.get(name)
        if seeds is None or len(seeds) == 0:
            found = ", ".join(self._sets) or "none"
            raise SeedSetError(f"the vessel has no {name} seeds ({found} given): pass {name}=...")
        return seeds


class _Validate(Callback):
    """Adds what `validate` finds."""

    def __init__(self, vessel: TrainingVessel, every: int) -> None:
        require(every >= 1, "validate_every", "at least 1 iteration", every)
        self.vessel, self.every = vessel, every
        self._names = ["val/return"]

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        if agent.iterations % self.every:
            metrics.update(dict.fromkeys(self._names, float("nan")))
        else:
            found = self.vessel.validate(agent)
            self._names = list(found)
            metrics.update(found)
        return False


class _Ends(LogWriter):
    """Remembers what each episode brought."""

    def __init__(self) -> None:
        super().__init__()
        self.returns: list[float] = []
        self.lengths: list[int] = []

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        self.returns.append(float(np.sum(rewards)))
        self.lengths.append(length)

    def played(self) -> Played:
        return Played(np.array(self.returns), np.array(self.lengths, np.int64))


def _begun(step: Any, over: NDArray[np.int64], first: Any) -> VecResetResult[Any]:
    """A step with what new episodes show in the places of those that are over."""
    infos = list(step.infos)
    for place, info in zip(over.tolist(), first.infos, strict=True):
        infos[place] = info
    map_arrays(
        lambda array, fresh: array.__setitem__(over, fresh), step.observations, first.observations
    )
    return VecResetResult(step.observations, infos)
