"""Saving, loading and resuming of agents, and policies of model files."""

from __future__ import annotations

import inspect
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import torch

from sekai.core.portable_state import portable
from sekai.data.signature import (
    DataSignature,
    checked_allow,
    data_signature,
    require_same_data,
)
from sekai.error import SekaiError, StateError, UnknownOptionError
from sekai.policy.files import ModelFileError, signature_of, space_of
from sekai.policy.observations import Leaf, leaves_of
from sekai.spaces import Space
from sekai.training.actions import ActionMap
from sekai.training.agent_settings import AgentSettings, with_arguments
from sekai.training.callbacks.callback import Callback, CallbackList
from sekai.training.checkpoint import (
    agent_content,
    env_of,
    load_network,
    network_of,
    read_agent,
    require_functions,
    settings_of,
    windows_of,
    write_file,
)
from sekai.training.device import resolve_device
from sekai.training.multi_agent.groups import TeamPolicy
from sekai.training.multi_agent.joint_env import JointSpaces
from sekai.training.normalizers import Gather
from sekai.training.observations import WindowGather
from sekai.training.rng import RandomStream
from sekai.training.rollout import EpisodeStatistics
from sekai.training.shaping import RewardShaping
from sekai.training.trained_policy import PolicyNetwork, TrainedPolicy
from sekai.training.training_envs import fixed_count
from sekai.vector.vec_env import Seeds, VecEnv

if TYPE_CHECKING:
    from sekai.training.agent import RolloutEngine
    from sekai.training.teacher import Teacher

__all__ = ["STATE_ERRORS", "SavableAgent", "load_torch_policy"]

LOG = logging.getLogger(__name__)

STATE_ERRORS = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError)
"""Errors that a malformed state can raise."""

UNSAVED_ENVS = "running episodes cannot be saved; resumed training starts new ones"

Own = TypeVar("Own", bound="SavableAgent")


class SavedData(NamedTuple):
    """Data that the agent of a file was trained on, and the allowed differences."""

    data_signature: DataSignature | None
    allow: tuple[str, ...]


class SavableAgent(ABC):
    """Files of an agent: `save`, `load` and `resume`."""

    settings_type: ClassVar[type[AgentSettings]] = AgentSettings
    policy_type: ClassVar[type[TrainedPolicy]] = TrainedPolicy
    """Class of the policies of one agent."""

    settings: AgentSettings
    env_argument: Any
    env_options: dict[str, Any]
    gather: WindowGather | None
    seed: int
    steps: int
    iterations: int
    planned_steps: int
    total_steps: int
    vec: VecEnv
    network: PolicyNetwork
    """Trained networks, which checkpoints save."""

    device: torch.device
    randomness: RandomStream
    episodes: EpisodeStatistics
    shaping: RewardShaping
    teacher: Teacher | None
    """Policy that is imitated; None without one, or with a `teacher_coef` of 0."""

    _has_begun: bool
    _callbacks: CallbackList | None
    _callback_states: Mapping[str, Any]
    _engine: RolloutEngine | None = None
    _unsaved_envs: str | None = None
    """Problem that kept the state of the envs out of a file; None before one occurred."""

    @abstractmethod
    def fit(
        self: Own, steps: int, callbacks: Sequence[Callback] = (), *, total: int | None = None
    ) -> Own:
        """Train for a number of env steps."""

    @abstractmethod
    def _start(self, seed: Seeds) -> None:
        """Reset the envs."""

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

    @property
    def env_name(self) -> str:
        """Id of the env, or the name of its class or function."""
        env = self.env_argument
        if isinstance(env, str):
            return env
        name = getattr(env, "id", None) or getattr(env, "__name__", None)
        return str(name or type(getattr(env, "unwrapped", env)).__name__)

    def save(
        self, path: str | os.PathLike[str], *, training: bool = True, envs: bool | None = None
    ) -> Path:
        """Save the agent to a file atomically.

        Envs of other frameworks can seldom be saved. By default such a file holds all but the
        running episodes, says so in a log line and in `training["unsaved"]`, and training that is
        resumed from it starts new episodes.

        Args:
            path: a file that ends in .safetensors, or a folder for it.
            training: include the training state, so that `resume` continues bit for bit; otherwise
                only the policy is saved.
            envs: state of running episodes: None includes it where the envs support it, True
                requires it, False leaves it out.

        Raises:
            StateError: the state of the envs is required and cannot be saved.
        """
        content = agent_content(self)
        if not training:
            return write_file(path, content)
        if envs is False or (envs is None and self._unsaved_envs is not None):
            return self._write_without_envs(path, content)
        try:
            return write_file(path, {**content, "training": self._training_state(envs=True)})
        except StateError as error:
            if envs:
                raise StateError(
                    f"{error}: save(..., envs=False) saves all but the envs"
                ) from error
            # An error that has another cause is raised here.
            self._unsaved_envs = str(error)
            file = self._write_without_envs(path, content)
            LOG.warning("%s; cause: %s", UNSAVED_ENVS, error)
            return file

    def _write_without_envs(self, path: str | os.PathLike[str], content: dict[str, Any]) -> Path:
        unsaved = {"envs": self._unsaved_envs or "envs=False"} if self._has_begun else {}
        state = {**self._training_state(envs=False), "unsaved": unsaved}
        return write_file(path, {**content, "training": state})

    @property
    def observation_space(self) -> Space[Any]:
        """Observation space of the policy: that of the envs without privileged parts."""
        from sekai.training.teacher import public_space

        return public_space(self.vec.observation_space, getattr(self.settings, "privileged", ()))

    @property
    def action_space(self) -> Space[Any]:
        """Action space of the envs."""
        return self.vec.action_space

    @cached_property
    def data_signature(self) -> DataSignature | None:
        """Bar length, calendar, features and assets of the envs; None without market data."""
        return data_signature(self.vec)

    @classmethod
    def load(
        cls: type[Own],
        path: str | os.PathLike[str],
        env: Any = None,
        *,
        allow: Collection[str] = (),
        **given: Any,
    ) -> Own:
        """Load a saved agent, to act or to train further.

        Args:
            path: model file.
            env: env to train on; None for the env that the file names.
            allow: differences from the data of the file that are allowed; see `load_policy`.
            given: other arguments of the agent, such as `env_options`.

        Raises:
            DataMismatchError: the env has other bars, features or assets than the file.
        """
        return cls._from_content(read_agent(path, cls.__name__), path, env, given, allow)

    @classmethod
    def resume(
        cls: type[Own],
        path: str | os.PathLike[str],
        steps: int | None = None,
        callbacks: Sequence[Callback] = (),
        env: Any = None,
        *,
        total: int | None = None,
        allow: Collection[str] = (),
        **given: Any,
    ) -> Own:
        """Continue training from a checkpoint, bit for bit.

        Args:
            path: model file with the training state.
            steps: steps to train; None only loads the agent.
            callbacks: as in `fit`.
            env: env to train on, the same as before; None for the env that the file names.
            total: as in `fit`; None for the value in the file.
            allow: as in `load`.
            given: other arguments of the agent, such as `env_options`.
        """
        content = read_agent(path, cls.__name__)
        if "training" not in content:
            raise ModelFileError(f"{path} was saved with training=False: use {cls.__name__}.load")
        trained_count = settings_of(content, cls.settings_type).n_envs
        count = fixed_count(env) or given.get("n_envs", trained_count)
        if count != trained_count:
            raise ModelFileError(
                f"{path} was trained on {trained_count} envs, got {count}; pass "
                f"n_envs={trained_count}, or as many envs, or use {cls.__name__}.load, which keeps "
                "the policy and starts the rest of training anew"
            )
        agent = cls._from_content(content, path, env, given, allow)
        state, trained = content["training"], signature_of(content)
        current = agent.data_signature
        if allow and trained and current and trained.differences(current):
            # Running episodes belong to the data of the file.
            state = {**state, "envs": None, "unsaved": {"envs": "the env has other data"}}
        agent._load_training_state(state)
        return agent if steps is None else agent.fit(steps, callbacks, total=total)

    @classmethod
    def _from_content(
        cls: type[Own],
        content: Mapping[str, Any],
        path: Any,
        env: Any,
        arguments: Mapping[str, Any],
        allow: Collection[str],
    ) -> Own:
        trained = SavedData(signature_of(content), checked_allow(allow))
        is_named_by_file = env is None
        if is_named_by_file:
            env = env_of(content, path)
        require_functions(content, arguments, path)
        # Arguments and the network of the file are validated before envs and buffers are allocated.
        settings, others = cls._with_settings(settings_of(content, cls.settings_type), arguments)
        cls.saved_network(content, settings)
        count = fixed_count(env)
        if "n_envs" in arguments:
            others["n_envs"] = arguments["n_envs"]
        elif count is not None:
            settings = settings.replaced(n_envs=count)
        make: Any = cls
        try:
            agent: Own = make(env, seed=content["seed"], settings=settings, **others)
        except (*STATE_ERRORS, OverflowError, MemoryError) as error:
            is_own = isinstance(error, SekaiError) and not isinstance(error, UnknownOptionError)
            if not is_named_by_file or is_own:
                raise
            raise ModelFileError(
                f"{path}: the env that the file names cannot be made: {error}: pass env=..., and "
                "env_options={...} if it is an id"
            ) from error
        require_same_data(trained, agent.vec)
        for name in ("observation_space", "action_space"):
            is_equal = space_of(content, name) == getattr(agent, name)
            # Of another number of assets the weights are compared.
            if not is_equal and "assets" not in trained.allow:
                raise ModelFileError(f"{path} was trained with another {name}")
        load_network(agent.network, content["network"])
        agent._network_loaded()
        agent.steps = content["steps"]
        return agent

    @classmethod
    def _with_settings(
        cls, saved: AgentSettings, arguments: Mapping[str, Any]
    ) -> tuple[AgentSettings, dict[str, Any]]:
        """Saved settings with the hyperparameters among arguments of an agent, and the others."""
        for name in ("seed", "settings"):
            if name in arguments:
                raise TypeError(f"{name} is that of the file; pass single hyperparameters by name")
        names = inspect.signature(cls.__init__).parameters
        others = {name: value for name, value in arguments.items() if name in names}
        changes = {name: value for name, value in arguments.items() if name not in names}
        RewardShaping(others.get("reward_transform"), others.get("learn_where"))
        if "device" in others:
            others["device"] = resolve_device(others["device"])
        return with_arguments(saved, others.pop("policy", None), changes), others

    @classmethod
    def saved_network(
        cls, content: Mapping[str, Any], settings: AgentSettings
    ) -> PolicyNetwork | None:
        """Network of a model file, without envs; None if it cannot act alone."""
        observation_space, action_space = (
            space_of(content, name) for name in ("observation_space", "action_space")
        )

        def make() -> PolicyNetwork | None:
            spaces = JointSpaces.of(observation_space, action_space)
            if spaces is not None:
                return cls.make_team(spaces, settings)
            gather = windows_of(content)
            return cls.make_network(
                leaves_of(observation_space), ActionMap(action_space), settings, gather
            )

        return network_of(content, make)

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
            "functions": self._function_names(),
            "episodes": self.episodes.state_dict(),
            "envs": portable(self.vec.state_dict()) if self._has_begun and envs else None,
            "unsaved": {},
            "learning": self._learning_state(),
        }

    def _function_names(self) -> dict[str, str]:
        """Functions to pass again on resuming by name, and the digest of the teacher."""
        teacher = {} if self.teacher is None else {"teacher": self.teacher.digest}
        return {**self.shaping.names(), **teacher}

    def _load_training_state(self, state: Mapping[str, Any]) -> None:
        taught = state["functions"].get("teacher")
        if self.teacher is not None and taught is not None and self.teacher.digest != taught:
            raise ModelFileError(
                "the agent was trained with another teacher; pass that one, or teacher=None to go "
                "on without"
            )
        try:
            self.randomness.restore(state["randomness"])
            self._has_begun = bool(state["has_begun"])
            self.iterations = int(state["iterations"])
            self.planned_steps = int(state["planned_steps"])
            self.total_steps = int(state["total_steps"])
            self._callback_states = dict(state["callbacks"])
            self.episodes.load_state_dict(state["episodes"])
            self._load_learning_state(state["learning"])
            if state["envs"] is not None:
                self._start(self.seed)
                self.vec.load_state_dict(state["envs"])
                self._load_learning_state(state["learning"])
            elif self._has_begun:
                self._start_new_episodes(state["unsaved"]["envs"])
        except STATE_ERRORS as error:
            raise ModelFileError(f"the training state of the file is invalid: {error}") from error

    def _start_new_episodes(self, reason: str) -> None:
        """Reset envs whose state is not in the file, to other episodes than the first ones."""
        self._start(int(np.random.SeedSequence([self.seed, self.steps]).generate_state(1)[0]))
        self.episodes.drop_running()
        LOG.warning("the file has no running episodes (%s): the envs were reset", reason)


def load_torch_policy(
    path: str | os.PathLike[str],
    *,
    allow: Collection[str] = (),
    device: str | torch.device = "cpu",
) -> TrainedPolicy | TeamPolicy:
    """Load the policy of a saved agent with its torch modules; see `sekai.policy.load_policy`."""
    content = read_agent(path)
    kind = _subclasses(SavableAgent).get(content["algorithm"])
    if kind is None:
        raise ModelFileError(f"{path}: unknown algorithm {content['algorithm']!r:.80}")
    settings = settings_of(content, kind.settings_type)
    network = kind.saved_network(content, settings)
    if network is None or content.get("windows") is not None:
        raise ModelFileError(
            f"{path} cannot act without its env, whose data holds the windows it reads: use "
            f"{kind.__name__}.load"
        )
    observation_space, action_space = (
        space_of(content, name) for name in ("observation_space", "action_space")
    )
    spaces, randomness = (
        JointSpaces.of(observation_space, action_space),
        RandomStream(content["seed"]),
    )
    signature = signature_of(content)
    network.to(resolve_device(device))
    if spaces is not None:
        return TeamPolicy(network, spaces, randomness, data_signature=signature, allow=allow)
    make = partial(kind.make_network, settings=settings)
    return kind.policy_type(
        network,
        observation_space,
        action_space,
        randomness,
        make=make,
        data_signature=signature,
        allow=allow,
    )


def _subclasses(base: Any) -> dict[str, type[SavableAgent]]:
    kinds = {kind.__name__: kind for kind in base.__subclasses__()}
    for kind in base.__subclasses__():
        kinds.update(_subclasses(kind))
    return kinds
