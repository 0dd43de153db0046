"""What all agents have in common: they learn from envs, act, and can be kept."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from sekai.core.portable_state import portable
from sekai.error import SekaiError, StateError
from sekai.training.acting import Acting
from sekai.training.actions import ActionMap
from sekai.training.agent_settings import AgentSettings
from sekai.training.callbacks.audience import Audience
from sekai.training.callbacks.callback import Callback
from sekai.training.callbacks.progress_bar import ProgressBar
from sekai.training.defaults import default_settings
from sekai.training.distributed.engine import EngineName, crew_of
from sekai.training.episodes import Episodes
from sekai.training.gathering import WindowGather, window_gather
from sekai.training.interruption import Interruption
from sekai.training.keeping import (
    described,
    env_of,
    load_network,
    network_of,
    read_agent,
    require_functions,
    settings_of,
    space_of,
    windows_of,
)
from sekai.training.kept_file import ModelFileError, write_file
from sekai.training.metrics import Metrics
from sekai.training.multi.groups import Group
from sekai.training.multi.joint_spaces import JointSpaces
from sekai.training.multi.joint_world import JointWorld
from sekai.training.multi.team import TeamPolicy
from sekai.training.observations import Leaf, leaves_of
from sekai.training.policies.inputs import Gather
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.randomness import Randomness
from sekai.training.shaping import LearnWhere, RewardTransform, Shaping
from sekai.training.threads import threads
from sekai.training.trained_policy import Chooser, TrainedPolicy
from sekai.training.worlds import world_of
from sekai.vector.vec_env import VecEnv

__all__ = ["Agent"]

DAMAGES = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError)
"""What is raised by whoever is given a state that is none."""

Own = TypeVar("Own", bound="Agent")


class Agent(Acting):
    """A policy that learns from an env.

    The same seed and settings on the same env give the same policy, bit for bit.
    """

    settings_type: ClassVar[type[AgentSettings]] = AgentSettings
    actions: ActionMap
    gather: WindowGather | None = None
    network: Chooser
    """Everything that is learnt; what is saved of an agent."""

    _watch: Callable[[Any, int], None] | None = None
    """What must be told of the result of each step, because infos say what is learnt from."""

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
        """Get ready to learn.

        Args:
            env: an id, a spec, a vector env, an env of sekai, gymnasium or PettingZoo, or a
                function that makes one.
            policy: the name of a backbone, or settings of the networks.
            seed: for everything that is random: the networks at first, the envs, the choices.
            settings: how to learn; None takes what is known to suit the env.
            env_options: what the env is made with, where it is an id.
            reward_transform: makes the rewards to learn from, given the steps between two updates:
                a rollout of PPO and A2C, `steps_per_update` of the others, before they are stored.
            learn_where: which steps are learnt from: a function of the same, or the name of a part
                of observations or infos that tells; the others still count in what came before.
            changes: single settings, instead of those of `settings`.
        """
        self.shaping = Shaping(reward_transform, learn_where)
        self.env_given = env
        self.env_options = dict(env_options or {})
        self.seed = seed
        base = settings or default_settings(self.settings_type, env)
        self.settings = base.replaced(**_with_policy(base, policy, changes))
        self.vec = self._vector()
        self.randomness = Randomness(seed)
        self.steps = 0
        self.iterations = 0
        self.planned_steps = 0
        """Steps at which the `fit` under way ends."""
        self.total_steps = 0
        """Horizon of schedules: the steps at which they end; it is kept with the agent."""
        self.is_between_iterations = True
        """Whether everything is as an iteration left it: no error has broken one off."""
        with threads(self.settings.threads), self.randomness:
            self._build()
        self.episodes = Episodes(self.vec.num_envs)
        self._has_begun = False
        self._audience: Audience | None = None
        self._kept_by_callbacks: Mapping[str, Any] = {}

    def _vector(self) -> VecEnv:
        vec = world_of(self.env_given, self.settings.num_envs, self.env_options)
        if isinstance(vec, JointWorld):
            self._take_several(vec)
        else:
            self._take_one(vec)
        return vec

    def _take_one(self, vec: VecEnv) -> None:
        """Get ready for an env with one agent, or refuse it."""
        self.leaves = leaves_of(vec.observation_space)
        self.gather = window_gather(vec, self.leaves)
        self.actions = ActionMap(vec.action_space)
        self._watch = self.shaping.watch if self.shaping.watches(self.leaves) else None

    def _take_several(self, world: JointWorld) -> None:
        """Get ready for an env with several agents, or refuse it."""
        raise TypeError(
            f"{type(self).__name__} learns for one agent, and {self.env_given!r} has several: "
            "use PPO, A2C, MADDPG or QMIX"
        )

    def _take_groups(self, groups: Sequence[Group]) -> None:
        """Refuse functions that look at what agents of an env with several have not."""
        self._watch = None
        for group in groups:
            if self.shaping.watches(group.leaves):
                raise ValueError(
                    "learn_where must be a function, or name a part of what all agents see; found "
                    f"{self.shaping.learn_where!r}, and {group.agents[0]!r} sees "
                    f"{', '.join(group.leaves)}"
                )

    @abstractmethod
    def _build(self) -> None:
        """Make networks, optimisers and storage."""

    def _begin(self) -> None:
        self._start(self.seed)

    @abstractmethod
    def _iterate(self) -> Metrics:
        """Let the envs act for a while, learn from it, and tell how that went."""

    @property
    @abstractmethod
    def iteration_steps(self) -> int:
        """Steps of single envs in an iteration."""

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
        """Learn for so many steps of single envs, rounded up to whole iterations.

        Schedules, such as a linear `learning_rate_schedule`, end at a horizon of steps that is
        kept with the agent and its file: `fit(n, total=2 * n)` and `resume(path, n)` learn what
        `fit(2 * n)` learns, bit for bit.

        An interrupt from the keyboard lets the iteration finish and callbacks do what they do at
        the end, and is raised then.

        Args:
            steps: how many, beside those that were learnt before.
            callbacks: who is told after each iteration, and may end it all.
            total: horizon of schedules, counted from the first step of all; None keeps the one
                stated before, or where training goes on beyond that takes the end of this `fit`.
            progress: whether a bar on the terminal tells how it goes.
            engine: where envs act: "local", in this process, or "ray", in workers of a Ray cluster.
                What is learnt is the same, bit for bit.
            workers: how many, with "ray"; None for one for each core of the cluster.
            address: of a cluster that runs, with "ray"; None for the one that this process or
                RAY_ADDRESS is connected to, or else one of its own on this machine.
        """
        if steps < 1:
            raise ValueError(f"steps must be at least 1, was {steps}")
        end = self.steps + steps
        if total is not None and total <= self.steps:
            raise ValueError(
                f"total must be above the {self.steps} steps that were learnt before, was {total}"
            )
        audience = Audience(self, [*callbacks, ProgressBar()] if progress else callbacks)
        crew = crew_of(self, engine, workers, address)
        self.planned_steps, self.total_steps = end, total or max(self.total_steps, end)
        with threads(self.settings.threads), Interruption() as interruption, crew, audience:
            is_going = audience.begin(self._kept_by_callbacks)
            self._audience, self._kept_by_callbacks = audience, {}
            while is_going and self.steps < self.planned_steps:
                wants_end = audience.tell(self._one_iteration())
                is_going = not (wants_end or interruption.is_asked)
        if interruption.is_asked:
            raise KeyboardInterrupt
        return self

    def _one_iteration(self) -> Metrics:
        self.is_between_iterations = False
        self.episodes.ended.clear()
        with self.randomness:
            if not self._has_begun:
                self._begin()
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

    def predict(self, observation: Any, deterministic: bool = True, action_mask: Any = None) -> Any:
        """The action for one observation of one env; by agent, where there are several.

        See `TrainedPolicy.predict` and `TeamPolicy.predict`.
        """
        return self.policy.predict(observation, deterministic, action_mask)

    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        """Actions for a batch of observations, as a vector env gives and takes them."""
        return self.policy.predict_batch(observations, deterministic, action_mask)

    @property
    def policy(self) -> TrainedPolicy | TeamPolicy:
        """What acts, without what learns."""
        if isinstance(self.vec, JointWorld):
            return TeamPolicy(self.network, self.vec.spaces, self.randomness)
        spaces = self.vec.observation_space, self.vec.action_space
        return TrainedPolicy(self.network, *spaces, self.randomness)

    def save(
        self, path: str | os.PathLike[str], *, training: bool = True, envs: bool = True
    ) -> Path:
        """Keep the agent in a file, or in a folder; an older one is replaced all at once.

        Args:
            path: a file that ends in .safetensors, or a folder for it.
            training: whether training can go on from there, bit for bit: optimisers, random
                streams, envs and all. Without it, what is needed to act is kept.
            envs: whether episodes that are under way can be gone on with; without it, training
                that goes on begins new ones. Envs of other frameworks can seldom be kept.
        """
        content = described(self)
        try:
            if training:
                content["training"] = self._training_state(envs)
            return write_file(path, content)
        except StateError as error:
            raise StateError(f"{error}: save(..., envs=False) keeps all but the envs") from error

    @classmethod
    def load(cls: type[Own], path: str | os.PathLike[str], env: Any = None, **given: Any) -> Own:
        """An agent that acts as the kept one did, ready to learn on.

        Args:
            path: where it was kept.
            env: what to learn on; None for the env that the file names.
            given: what else agents are made with, such as `env_options`.
        """
        return cls._from(read_agent(path, cls.__name__), path, env, given)

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
        """Go on where the kept agent was, bit for bit.

        Args:
            path: where it was kept, with what its training needs.
            steps: how many to learn at once; None only gets ready to.
            callbacks: as in `fit`.
            env: what to learn on, the same as before; None for the env that the file names.
            total: as in `fit`; None for the horizon that the file states.
            given: what else agents are made with, such as `env_options`.
        """
        content = read_agent(path, cls.__name__)
        if "training" not in content:
            raise ModelFileError(f"{path} was saved with training=False: use {cls.__name__}.load")
        agent = cls._from(content, path, env, given)
        agent._load_training_state(content["training"])
        return agent if steps is None else agent.fit(steps, callbacks, total=total)

    @classmethod
    def _from(cls: type[Own], content: Mapping[str, Any], path: Any, env: Any, given: Any) -> Own:
        is_named_by_file = env is None
        if is_named_by_file:
            env = env_of(content, path)
        require_functions(content, given, path)
        settings = settings_of(content, cls.settings_type)
        # What a file asks for is looked at before anything is made of it.
        cls.kept_network(content, settings)
        try:
            agent = cls(env, seed=content["seed"], settings=settings, **given)
        except (*DAMAGES, OverflowError, MemoryError) as error:
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

    def _network_loaded(self) -> None:
        """Bring everything that follows the network in line with weights that were loaded."""

    @classmethod
    def make_network(
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> Chooser | None:
        """What acts, on its own, before it has learnt; None where it cannot act on its own."""
        return None

    @classmethod
    def make_team(cls, spaces: JointSpaces, settings: Any) -> Chooser | None:
        """What acts for several agents, before it has learnt; None where it learns for one."""
        return None

    @classmethod
    def kept_network(cls, content: Mapping[str, Any], settings: AgentSettings) -> Chooser | None:
        """What acts as a file says, without envs; None where it cannot act on its own."""
        seen, done = (space_of(content, name) for name in ("observation_space", "action_space"))

        def made() -> Chooser | None:
            spaces = JointSpaces.of(seen, done)
            if spaces is not None:
                return cls.make_team(spaces, settings)
            gather = windows_of(content)
            return cls.make_network(leaves_of(seen), ActionMap(done), settings, gather)

        return network_of(content, made)

    def _training_state(self, envs: bool) -> dict[str, Any]:
        """Everything needed to go on learning."""
        if self._crew is not None and envs:
            self._crew.bring_home()
        return {
            "randomness": self.randomness.state,
            "has_begun": self._has_begun,
            "iterations": self.iterations,
            "planned_steps": self.planned_steps,
            "total_steps": self.total_steps,
            "callbacks": self._callback_states(),
            "functions": self._functions(),
            "episodes": self.episodes.state_dict(),
            "envs": portable(self.vec.state_dict()) if self._has_begun and envs else None,
            "learning": self._learning_state(),
        }

    def _functions(self) -> dict[str, str]:
        """What the user gave that a file can only name."""
        return self.shaping.names()

    def _worker_options(self) -> dict[str, Any]:
        return {} if self._watch is None else {"learn_where": self.shaping.learn_where}

    def _callback_states(self) -> Mapping[str, Any]:
        return self._kept_by_callbacks if self._audience is None else self._audience.state_dict()

    def _load_training_state(self, state: Mapping[str, Any]) -> None:
        try:
            self.randomness.restore(state["randomness"])
            self._has_begun = bool(state["has_begun"])
            self.iterations = int(state["iterations"])
            self.planned_steps = int(state["planned_steps"])
            self.total_steps = int(state["total_steps"])
            self._kept_by_callbacks = dict(state["callbacks"])
            self.episodes.load_state_dict(state["episodes"])
            self._load_learning_state(state["learning"])
            if self._has_begun:
                self._begin()
            if state["envs"] is not None:
                self.vec.load_state_dict(state["envs"])
                self._load_learning_state(state["learning"])
        except DAMAGES as error:
            raise ModelFileError(f"the file's training cannot be gone on with: {error}") from error

    @abstractmethod
    def _learning_state(self) -> dict[str, Any]:
        """What the algorithm itself needs to go on."""

    @abstractmethod
    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""

    def close(self) -> None:
        """Close the envs."""
        self.vec.close()

    @property
    def done_share(self) -> float:
        """How much of what was planned is over."""
        return self.steps / self.planned_steps if self.planned_steps else 0.0

    @property
    def schedule_share(self) -> float:
        """How much of the horizon of schedules is over."""
        return self.steps / self.total_steps if self.total_steps else 0.0


def _with_policy(base: AgentSettings, policy: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    if policy is None:
        return dict(changes)
    if isinstance(policy, str):
        policy = base.policy.replaced(backbone=policy)
    elif isinstance(policy, Mapping):
        policy = base.policy.replaced(**policy)
    return {**changes, "policy": policy}
