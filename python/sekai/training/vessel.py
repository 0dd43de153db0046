"""Training vessel: composed envs with training, validation and test seeds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from sekai.error import SekaiError, StateError
from sekai.policy.base import PolicyState
from sekai.policy.settings import require
from sekai.training.agent import Agent
from sekai.training.callbacks.callback import Callback
from sekai.training.training_envs import BatchPolicy, EpisodeReturns, masked_actions
from sekai.vector.batching import map_arrays
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import VecEnv

__all__ = ["EndlessSeeds", "SeedSetError", "TrainingVessel", "some_of"]

Kind = TypeVar("Kind", bound=Agent)
EnvType = Literal["dummy", "subproc", "shmem"]


class TrainingVessel:
    """Simulator with interpreters and reward, and three sets of seeds for its episodes.

    Args:
        simulator_fn: makes the simulator of an episode from its seed.
        state_interpreter: makes observations; every env gets a copy.
        action_interpreter: interprets actions; every env gets a copy.
        reward: computes rewards; every env gets a copy.
        training: seeds to train on, shuffled, without end.
        validation: seeds for model selection, each played once.
        test: seeds for the final evaluation, each played once.
        env_type: vectorization of `validate` and `test`: see `sekai.compose.vectorize`.
        concurrency: episodes that they play in parallel.
        seed: seed of the shuffling, and of the seeds of a fast run.
        fast_dev_run: number of seeds of each set, drawn at random, for a quick test.
    """

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
        require(
            fast_dev_run is None or fast_dev_run >= 1,
            "fast_dev_run",
            "None or at least 1",
            fast_dev_run,
        )
        self.simulator_fn = simulator_fn
        self.parts = state_interpreter, action_interpreter, reward
        self.env_type, self.concurrency, self.seed = env_type, concurrency, seed
        seed_sets = {"training": training, "validation": validation, "test": test}
        self._sets = {
            name: some_of(seeds, fast_dev_run, seed)
            for name, seeds in seed_sets.items()
            if seeds is not None
        }

    def fit(
        self,
        kind: Callable[..., Kind],
        steps: int | None = None,
        *,
        iterations: int | None = None,
        callbacks: Sequence[Callback] = (),
        n_envs: int = 16,
        seed: int = 0,
        progress: bool = False,
        validate_every: int | None = None,
        **given: Any,
    ) -> Kind:
        """Train an agent on the training seeds.

        Args:
            kind: class of the agent, for example `PPO`.
            steps: env steps, summed over envs.
            iterations: iterations instead of steps.
            callbacks: as in `Agent.fit`.
            n_envs: environments that act in parallel.
            seed: as in `Agent`.
            progress: as in `Agent.fit`.
            validate_every: iterations between validations, which add `val/` metrics; None for
                never.
            given: other arguments of the agent.
        """
        require((steps is None) != (iterations is None), "steps", "given, or iterations", steps)
        all_callbacks = list(callbacks)
        if validate_every is not None:
            self._seeds("validation")
            all_callbacks.insert(0, _Validate(self, validate_every))
        agent = kind(self.training_envs(n_envs), seed=seed, **given)
        wanted = agent.iteration_steps * iterations if iterations is not None else steps
        assert wanted is not None, "checked above"
        return agent.fit(wanted, all_callbacks, progress=progress)

    def training_envs(self, n_envs: int = 16) -> VecEnv:
        """Vector env over the training seeds, without end."""
        seeds = self._seeds("training")
        shares = (EndlessSeeds(seeds, first, n_envs, self.seed) for first in range(n_envs))
        return SyncVecEnv([partial(self._env, share) for share in shares], copy=False)

    def validate(self, policy: BatchPolicy) -> dict[str, float]:
        """Evaluate a policy on the validation seeds; metrics begin with `val/`."""
        return self._played(policy, "validation", "val/")

    def test(self, policy: BatchPolicy) -> dict[str, float]:
        """Evaluate a policy on the test seeds; metrics begin with `test/`."""
        return self._played(policy, "test", "test/")

    def _played(self, policy: BatchPolicy, name: str, prefix: str) -> dict[str, float]:
        """Play an episode of every seed; metrics include means of logged values."""
        seeds = self._seeds(name)
        count = min(self.concurrency, len(seeds))
        ends, logged = _Ends(), LogBuffer(lambda on_episode, on_collect, buffer: None)
        with DataQueue(seeds, shuffle=False, seed=self.seed) as queue:
            vec = vectorize_env(lambda: self._env(queue), self.env_type, count, [ends, logged])
            with vec.collector_guard():
                latest: Any = vec.reset(seed=self.seed)
                predict, starts = PolicyState(policy.predict_batch), np.ones(count, np.bool_)
                while True:
                    latest = vec.step(masked_actions(predict, vec, latest, starts=starts))
                    starts = latest.dones
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
            known = ", ".join(self._sets) or "none"
            raise SeedSetError(f"the vessel has no {name} seeds, only {known}: pass {name}=...")
        return seeds


class _Validate(Callback):
    """Adds the metrics of `validate`."""

    def __init__(self, vessel: TrainingVessel, every: int) -> None:
        require(every >= 1, "validate_every", "at least 1 iteration", every)
        self.vessel, self.every = vessel, every
        self._names = ["val/return"]

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        if agent.iterations % self.every:
            metrics.update(dict.fromkeys(self._names, float("nan")))
        else:
            validation_metrics = self.vessel.validate(agent)
            self._names = list(validation_metrics)
            metrics.update(validation_metrics)
        return False


class _Ends(LogWriter):
    """Records returns and lengths of episodes."""

    def __init__(self) -> None:
        super().__init__()
        self.returns: list[float] = []
        self.lengths: list[int] = []

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        self.returns.append(float(np.sum(rewards)))
        self.lengths.append(length)

    def played(self) -> EpisodeReturns:
        return EpisodeReturns(np.array(self.returns), np.array(self.lengths, np.int64))


def _begun(step: Any, over: NDArray[np.int64], first: Any) -> VecResetResult[Any]:
    """Replace the rows of finished episodes by the first observations of new ones."""
    infos = list(step.infos)
    for index, info in zip(over.tolist(), first.infos, strict=True):
        infos[index] = info
    map_arrays(
        lambda array, fresh: array.__setitem__(over, fresh), step.observations, first.observations
    )
    return VecResetResult(step.observations, infos)


class SeedSetError(SekaiError, LookupError):
    """The vessel has no seeds of the requested set."""


class EndlessSeeds(Iterator[Any]):
    """Endless iterator over shuffled seeds for one of `stride` envs.

    Env `first` takes every `stride`-th seed, so that all envs together take each seed equally
    often, independent of their speed.
    """

    def __init__(self, seeds: Sequence[Any], first: int, stride: int, seed: int) -> None:
        self._seeds, self._stride, self._seed = seeds, stride, seed
        self._index = first

    def __next__(self) -> Any:
        round_, at = divmod(self._index, len(self._seeds))
        # Drawn again instead of stored: the position is the whole state.
        order = np.random.default_rng((self._seed, round_)).permutation(len(self._seeds))
        self._index += self._stride
        return self._seeds[int(order[at])]

    def state_dict(self) -> dict[str, Any]:
        """State for checkpoints."""
        return {"place": self._index, "count": len(self._seeds), "seed": self._seed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state; one of other seeds is refused."""
        wanted = {**self.state_dict(), "place": state.get("place")}
        if dict(state) != wanted or not isinstance(wanted["place"], int):
            raise StateError(f"state {state} is not of these seeds; expected one like {wanted}")
        self._index = wanted["place"]


def some_of(seeds: Sequence[Any], count: int | None, seed: int) -> Sequence[Any]:
    """Draw `count` seeds without replacement; all if there are no more."""
    if count is None or count >= len(seeds):
        return seeds
    indices = np.random.default_rng(seed).permutation(len(seeds))[:count]
    return [seeds[int(index)] for index in sorted(indices.tolist())]
