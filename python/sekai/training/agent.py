"""Agent: training loop, prediction, checkpoints and resuming, common to all algorithms."""

from __future__ import annotations

import logging
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import torch

from sekai.core.portable_state import portable
from sekai.error import SekaiError, StateError
from sekai.training.actions import ActionMap
from sekai.training.agent_settings import (
    AgentSettings,
    PolicySettings,
    default_settings,
    scheduled,
)
from sekai.training.callbacks.callback import Callback, CallbackList
from sekai.training.callbacks.reporting import ProgressBar
from sekai.training.checkpoint import (
    ModelFileError,
    agent_content,
    env_of,
    load_network,
    network_of,
    read_agent,
    require_functions,
    settings_of,
    space_of,
    windows_of,
    write_file,
)
from sekai.training.multi_agent.groups import Group, TeamPolicy
from sekai.training.multi_agent.joint_env import JointSpaces, JointTrainingEnv
from sekai.training.normalizers import Gather
from sekai.training.observations import Leaf, WindowGather, leaves_of, window_gather
from sekai.training.ray.cluster import EngineName, rollout_engine
from sekai.training.rng import EnvSlice, RandomStream
from sekai.training.rollout import EpisodeStatistics
from sekai.training.shaping import LearnWhere, RewardShaping, RewardTransform
from sekai.training.trained_policy import PolicyNetwork, TrainedPolicy
from sekai.training.training_envs import make_training_envs
from sekai.vector.vec_env import Seeds, VecEnv

__all__ = ["Agent", "DivergedError", "Metrics", "load_policy"]

LOG = logging.getLogger(__name__)

Metrics: TypeAlias = dict[str, float]

STATE_ERRORS = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError)
"""Errors that a malformed state can raise."""

Own = TypeVar("Own", bound="Agent")


class DivergedError(SekaiError, ArithmeticError):
    """The gradient is not finite; the weights are those before the update."""

    def __init__(self) -> None:
        super().__init__(
            "the gradient is not finite: observations or rewards are not, or learning_rate is too "
            "large; the weights are those from before this update"
        )


class RolloutEngine(Protocol):
    """Runs the envs of an agent in other processes."""

    def collect(self, step_counts: Sequence[int]) -> None:
        """Do the work of `Agent._act_steps`."""

    def sync_envs(self) -> None:
        """Set the agent's own envs to the state of those in workers."""


class Agent(ABC):
    """Policy that is trained on an env.

    The same seed and settings on the same env give the same policy, bit for bit.

    Args:
        env: an id, a spec, a vector env, an env of sekai, gymnasium or PettingZoo, or a function
            that makes one.
        policy: name of a backbone, or settings of the networks.
        seed: seed of the networks, the envs and the actions.
        settings: hyperparameters; None for the defaults, tuned for known env ids.
        env_options: keyword arguments of the env, if it is an id.
        reward_transform: function of the steps between two updates that returns the rewards to
            learn from: of a rollout of PPO and A2C, of `train_freq` steps of the others.
        learn_where: mask of the steps to learn from: a function of the same, or the name of a part
            of observations or infos; the other steps still count in returns.
        changes: single hyperparameters, instead of those of `settings`.
    """

    settings_type: ClassVar[type[AgentSettings]] = AgentSettings
    settings: AgentSettings
    actions: ActionMap
    gather: WindowGather | None = None
    network: PolicyNetwork
    """Trained networks, which checkpoints save."""

    _engine: RolloutEngine | None = None
    _watch: Callable[[Any, int], None] | None = None
    """Called with the result of each step, if infos select the steps to learn from."""

    def __init__(
        self,
        env: Any,
        *,
        policy: str | PolicySettings | Mapping[str, Any] | None = None,
        seed: int = 0,
        settings: AgentSettings | None = None,
        env_options: Mapping[str, Any] | None = None,
        reward_transform: RewardTransform | None = None,
        learn_where: LearnWhere | None = None,
        **changes: Any,
    ) -> None:
        self.shaping = RewardShaping(reward_transform, learn_where)
        self.env_given = env
        self.env_options = dict(env_options or {})
        self.seed = seed
        base = settings or default_settings(self.settings_type, env)
        self.settings = base.replaced(**_with_policy(base, policy, changes))
        self.vec = self._make_envs()
        self.randomness = RandomStream(seed)
        self.steps = 0
        """Env steps so far, summed over envs."""
        self.iterations = 0
        self.planned_steps = 0
        """Steps at which the current `fit` ends."""
        self.total_steps = 0
        """Steps at which schedules end; saved with the agent."""
        self.is_between_iterations = True
        """False after an error interrupted an iteration."""
        with _threads(self.settings.threads), self.randomness:
            self._build()
        self.episodes = EpisodeStatistics(self.vec.num_envs)
        self._has_begun = False
        self._callbacks: CallbackList | None = None
        self._callback_states: Mapping[str, Any] = {}

    @abstractmethod
    def _build(self) -> None:
        """Make networks, optimizers and buffers."""

    @abstractmethod
    def _iterate(self) -> Metrics:
        """Collect steps, train on them and return metrics."""

    @property
    @abstractmethod
    def iteration_steps(self) -> int:
        """Env steps in an iteration, summed over envs."""

    @abstractmethod
    def _start(self, seed: Seeds) -> None:
        """Reset the envs."""

    @abstractmethod
    def _act_steps(self, step_counts: Sequence[int]) -> None:
        """Step all envs and store the transitions.

        Args:
            step_counts: steps so far, before each group of steps that updates may follow.
        """

    @abstractmethod
    def _collected(self, steps: int) -> dict[str, Any]:
        """Latest steps of a worker, for `_store_collected` of the agent."""

    @abstractmethod
    def _store_collected(self, parts: Sequence[tuple[EnvSlice, dict[str, Any]]]) -> None:
        """Store the steps of workers, each of a slice of the envs."""

    @abstractmethod
    def _acting_state(self) -> dict[str, Any]:
        """State of acting beside envs and network: arrays with a row for each env."""

    @abstractmethod
    def _load_acting_state(self, state: Mapping[str, Any]) -> None:
        """Restore `_acting_state`."""

    @abstractmethod
    def _learning_state(self) -> dict[str, Any]:
        """Training state of the algorithm."""

    @abstractmethod
    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        """Restore `_learning_state`."""

    @classmethod
    def make_network(
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> PolicyNetwork | None:
        """Make the untrained network of one agent; None if it cannot act alone."""
        return None

    @classmethod
    def make_team(cls, spaces: JointSpaces, settings: Any) -> PolicyNetwork | None:
        """Make the untrained networks of several agents; None for single-agent algorithms."""
        return None

    def fit(
        self: Own,
        steps: int,
        callbacks: Sequence[Callback] = (),
        *,
        total: int | None = None,
        progress: bool = False,
        engine: EngineName = "local",
        workers: int | None = None,
        address: str | None = None,
    ) -> Own:
        """Train for a number of env steps, rounded up to whole iterations.

        Schedules such as a linear `learning_rate_schedule` end at `total` steps, which is saved
        with the agent: `fit(n, total=2 * n)` and `resume(path, n)` train the same policy as
        `fit(2 * n)`, bit for bit.

        A keyboard interrupt is raised after the current iteration and the end of all callbacks.

        Args:
            steps: steps beside those of earlier calls, summed over envs.
            callbacks: called after each iteration; they may end training.
            total: steps at which schedules end, counted from the start of training; None keeps the
                last value, or takes the end of this call if that is later.
            progress: show a progress bar on the terminal.
            engine: "local" runs the envs in this process, "ray" in workers of a Ray cluster. The
                trained policy is the same, bit for bit.
            workers: number of workers with "ray"; None for one per core of the cluster.
            address: address of a running cluster with "ray"; None for the one that this process or
                RAY_ADDRESS is connected to, or else a new one on this machine.
        """
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}")
        end = self.steps + steps
        if total is not None and total <= self.steps:
            raise ValueError(
                f"total must be above the {self.steps} steps trained so far, got {total}"
            )
        listeners = CallbackList(self, [*callbacks, ProgressBar()] if progress else callbacks)
        rollouts = rollout_engine(self, engine, workers, address)
        self.planned_steps, self.total_steps = end, total or max(self.total_steps, end)
        with _threads(self.settings.threads), DeferredInterrupt() as interrupt, rollouts, listeners:
            is_running = listeners.begin(self._callback_states)
            self._callbacks, self._callback_states = listeners, {}
            while is_running and self.steps < self.planned_steps:
                is_stopped = listeners.on_iteration(self._run_iteration())
                is_running = not (is_stopped or interrupt.is_requested)
        if interrupt.is_requested:
            raise KeyboardInterrupt
        return self

    def _run_iteration(self) -> Metrics:
        self.is_between_iterations = False
        self.episodes.ended.clear()
        with self.randomness:
            if not self._has_begun:
                self._start(self.seed)
                self._has_begun = True
            metrics = self._iterate()
        self.steps += self.iteration_steps
        self.iterations += 1
        self.is_between_iterations = True
        recent = self.episodes.summary
        return {
            "steps": float(self.steps),
            "episodes": float(recent.episodes),
            "episode_return": recent.episode_return,
            "episode_length": recent.episode_length,
            **metrics,
        }

    def _run_envs(self, step_counts: Sequence[int]) -> None:
        """Step all envs, here or in workers; see `_act_steps`."""
        if self._engine is None:
            self._act_steps(step_counts)
        else:
            self._engine.collect(step_counts)

    def predict(self, observation: Any, deterministic: bool = True, action_mask: Any = None) -> Any:
        """Action for one observation of one env; by agent, if there are several.

        See `TrainedPolicy.predict` and `TeamPolicy.predict`.
        """
        return self.policy.predict(observation, deterministic, action_mask)

    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        """Actions for a batch of observations of a vector env."""
        return self.policy.predict_batch(observations, deterministic, action_mask)

    @property
    def policy(self) -> TrainedPolicy | TeamPolicy:
        """Policy without the training state."""
        if isinstance(self.vec, JointTrainingEnv):
            return TeamPolicy(self.network, self.vec.spaces, self.randomness)
        spaces = self.vec.observation_space, self.vec.action_space
        return TrainedPolicy(self.network, *spaces, self.randomness)

    def save(
        self, path: str | os.PathLike[str], *, training: bool = True, envs: bool = True
    ) -> Path:
        """Save the agent to a file atomically.

        Args:
            path: a file that ends in .safetensors, or a folder for it.
            training: include the training state, so that `resume` continues bit for bit; otherwise
                only the policy is saved.
            envs: include the state of running episodes; otherwise resumed training starts new
                ones. Envs of other frameworks can seldom be saved.
        """
        content = agent_content(self)
        try:
            if training:
                content["training"] = self._training_state(envs)
            return write_file(path, content)
        except StateError as error:
            raise StateError(f"{error}: save(..., envs=False) saves all but the envs") from error

    @classmethod
    def load(cls: type[Own], path: str | os.PathLike[str], env: Any = None, **given: Any) -> Own:
        """Load a saved agent, to act or to train further.

        Args:
            path: model file.
            env: env to train on; None for the env that the file names.
            given: other arguments of the agent, such as `env_options`.
        """
        return cls._from_content(read_agent(path, cls.__name__), path, env, given)

    @classmethod
    def resume(
        cls: type[Own],
        path: str | os.PathLike[str],
        steps: int | None = None,
        callbacks: Sequence[Callback] = (),
        env: Any = None,
        *,
        total: int | None = None,
        **given: Any,
    ) -> Own:
        """Continue training from a checkpoint, bit for bit.

        Args:
            path: model file with the training state.
            steps: steps to train; None only loads the agent.
            callbacks: as in `fit`.
            env: env to train on, the same as before; None for the env that the file names.
            total: as in `fit`; None for the value in the file.
            given: other arguments of the agent, such as `env_options`.
        """
        content = read_agent(path, cls.__name__)
        if "training" not in content:
            raise ModelFileError(f"{path} was saved with training=False: use {cls.__name__}.load")
        agent = cls._from_content(content, path, env, given)
        agent._load_training_state(content["training"])
        return agent if steps is None else agent.fit(steps, callbacks, total=total)

    @classmethod
    def _from_content(
        cls: type[Own], content: Mapping[str, Any], path: Any, env: Any, given: Any
    ) -> Own:
        is_named_by_file = env is None
        if is_named_by_file:
            env = env_of(content, path)
        require_functions(content, given, path)
        settings = settings_of(content, cls.settings_type)
        # The network of the file is validated before envs and buffers are allocated.
        cls.saved_network(content, settings)
        try:
            agent = cls(env, seed=content["seed"], settings=settings, **given)
        except (*STATE_ERRORS, OverflowError, MemoryError) as error:
            if not is_named_by_file or isinstance(error, SekaiError):
                raise
            raise ModelFileError(
                f"{path}: the env that the file names cannot be made: {error}: pass env=..."
            ) from error
        for name in ("observation_space", "action_space"):
            if space_of(content, name) != getattr(agent.vec, name):
                raise ModelFileError(f"{path} was trained with another {name}")
        load_network(agent.network, content["network"])
        agent._network_loaded()
        agent.steps = content["steps"]
        return agent

    @classmethod
    def saved_network(
        cls, content: Mapping[str, Any], settings: AgentSettings
    ) -> PolicyNetwork | None:
        """Network of a model file, without envs; None if it cannot act alone."""
        seen, done = (space_of(content, name) for name in ("observation_space", "action_space"))

        def make() -> PolicyNetwork | None:
            spaces = JointSpaces.of(seen, done)
            if spaces is not None:
                return cls.make_team(spaces, settings)
            gather = windows_of(content)
            return cls.make_network(leaves_of(seen), ActionMap(done), settings, gather)

        return network_of(content, make)

    def close(self) -> None:
        """Close the envs."""
        self.vec.close()

    @property
    def progress(self) -> float:
        """Fraction of the steps of the current `fit` that is done."""
        return self.steps / self.planned_steps if self.planned_steps else 0.0

    @property
    def learning_rate(self) -> float:
        """Learning rate after the steps so far, by its schedule."""
        progress = self.steps / self.total_steps if self.total_steps else 0.0
        settings = self.settings
        return scheduled(settings.learning_rate, settings.learning_rate_schedule, progress)

    def _make_envs(self) -> VecEnv:
        vec = make_training_envs(self.env_given, self.settings.n_envs, self.env_options)
        if isinstance(vec, JointTrainingEnv):
            self._use_multi_agent(vec)
        else:
            self._use_single_agent(vec)
        return vec

    def _use_single_agent(self, vec: VecEnv) -> None:
        """Prepare for a single-agent env, or refuse it."""
        self.leaves = leaves_of(vec.observation_space)
        self.gather = window_gather(vec, self.leaves)
        self.actions = ActionMap(vec.action_space)
        self._watch = self.shaping.watch if self.shaping.watches(self.leaves) else None

    def _use_multi_agent(self, vec: JointTrainingEnv) -> None:
        """Prepare for a multi-agent env, or refuse it."""
        raise TypeError(
            f"{type(self).__name__} needs a single-agent env, got {self.env_given!r}; "
            "use PPO, A2C, MADDPG or QMIX"
        )

    def _check_groups(self, groups: Sequence[Group]) -> None:
        """Refuse a `learn_where` that names no observation of all agents."""
        for group in groups:
            if self.shaping.watches(group.leaves):
                raise ValueError(
                    "learn_where must be a function, or name an observation of all agents; got "
                    f"{self.shaping.learn_where!r}, and {group.agents[0]!r} observes "
                    f"{', '.join(group.leaves)}"
                )

    def _worker_settings(self, n_envs: int) -> AgentSettings:
        """Settings of a worker with a slice of the envs."""
        return self.settings.replaced(n_envs=n_envs)

    def _worker_options(self) -> dict[str, Any]:
        """Other arguments of the agent of a worker."""
        return {} if self._watch is None else {"learn_where": self.shaping.learn_where}

    def _network_loaded(self) -> None:  # noqa: B027 (optional hook)
        """Update what depends on the network after its weights were loaded."""

    def _training_state(self, envs: bool) -> dict[str, Any]:
        if self._engine is not None and envs:
            self._engine.sync_envs()
        states = self._callback_states if self._callbacks is None else self._callbacks.state_dict()
        return {
            "randomness": self.randomness.state,
            "has_begun": self._has_begun,
            "iterations": self.iterations,
            "planned_steps": self.planned_steps,
            "total_steps": self.total_steps,
            "callbacks": states,
            "functions": self.shaping.names(),
            "episodes": self.episodes.state_dict(),
            "envs": portable(self.vec.state_dict()) if self._has_begun and envs else None,
            "learning": self._learning_state(),
        }

    def _load_training_state(self, state: Mapping[str, Any]) -> None:
        try:
            self.randomness.restore(state["randomness"])
            self._has_begun = bool(state["has_begun"])
            self.iterations = int(state["iterations"])
            self.planned_steps = int(state["planned_steps"])
            self.total_steps = int(state["total_steps"])
            self._callback_states = dict(state["callbacks"])
            self.episodes.load_state_dict(state["episodes"])
            self._load_learning_state(state["learning"])
            if self._has_begun:
                self._start(self.seed)
            if state["envs"] is not None:
                self.vec.load_state_dict(state["envs"])
                self._load_learning_state(state["learning"])
        except STATE_ERRORS as error:
            raise ModelFileError(f"the training state of the file is invalid: {error}") from error


def load_policy(path: str | os.PathLike[str]) -> TrainedPolicy | TeamPolicy:
    """Load the policy of a saved agent, with its normalizer, without envs and training state.

    Raises:
        ModelFileError: the file holds no agent, or one that cannot act without its env.
    """
    content = read_agent(path)
    kind = _subclasses(Agent).get(content["algorithm"])
    if kind is None:
        raise ModelFileError(f"{path}: unknown algorithm {content['algorithm']!r:.80}")
    network = kind.saved_network(content, settings_of(content, kind.settings_type))
    if network is None or content.get("windows") is not None:
        raise ModelFileError(
            f"{path} cannot act without its env, whose data holds the windows it reads: use "
            f"{kind.__name__}.load"
        )
    seen, done = (space_of(content, name) for name in ("observation_space", "action_space"))
    spaces, randomness = JointSpaces.of(seen, done), RandomStream(content["seed"])
    if spaces is not None:
        return TeamPolicy(network, spaces, randomness)
    return TrainedPolicy(network, seen, done, randomness)


class DeferredInterrupt:
    """Context that defers the first keyboard interrupt; the second has its usual effect.

    Interrupts that are handled by the program, or in other threads, are left alone.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._is_installed = False

    def __enter__(self) -> DeferredInterrupt:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._is_installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._is_installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
        LOG.warning("interrupted: training ends after this iteration; once more ends it at once")


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Set the number of torch threads, on which the rounding of sums depends."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _with_policy(base: AgentSettings, policy: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    if policy is None:
        return dict(changes)
    if isinstance(policy, str):
        policy = base.policy.replaced(backbone=policy)
    elif isinstance(policy, Mapping):
        policy = base.policy.replaced(**policy)
    return {**changes, "policy": policy}


def _subclasses(base: Any) -> dict[str, type[Agent]]:
    kinds = {kind.__name__: kind for kind in base.__subclasses__()}
    for kind in base.__subclasses__():
        kinds.update(_subclasses(kind))
    return kinds
