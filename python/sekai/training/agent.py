"""Agent: training loop, prediction, checkpoints and resuming, common to all algorithms."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import signal
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from html import escape
from textwrap import fill
from types import FrameType
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import torch

from sekai.config.convert import documented_fields, type_hints
from sekai.error import SekaiError
from sekai.policy.observations import leaves_of
from sekai.policy.settings import PolicySettings, Settings
from sekai.training.actions import ActionMap
from sekai.training.agent_settings import AgentSettings, scheduled, with_arguments
from sekai.training.callbacks.callback import Callback, CallbackList
from sekai.training.callbacks.reporting import ProgressBar
from sekai.training.defaults import default_settings, named_settings
from sekai.training.device import resolve_device
from sekai.training.multi_agent.groups import Group, TeamPolicy
from sekai.training.multi_agent.joint_env import JointTrainingEnv
from sekai.training.observations import WindowGather, window_gather
from sekai.training.policies.actor_critic import SB3_POLICIES
from sekai.training.ray.cluster import EngineName, rollout_engine
from sekai.training.rng import EnvSlice, RandomStream
from sekai.training.rollout import EpisodeStatistics
from sekai.training.saving import SavableAgent
from sekai.training.shaping import LearnWhere, RewardShaping, RewardTransform
from sekai.training.teacher import Teacher, public_space
from sekai.training.trained_policy import TrainedPolicy
from sekai.training.training_envs import fixed_count, make_training_envs
from sekai.vector.vec_env import VecEnv

__all__ = ["Agent", "DivergedError", "Metrics"]

LOG = logging.getLogger(__name__)

Metrics: TypeAlias = dict[str, float]

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


class Agent(SavableAgent):
    """Policy that is trained on an env.

    The same seed and settings on the same env give the same policy, bit for bit.

    Args:
        env: an id, a spec, a vector env (of sekai, gymnasium or stable-baselines3), an env of
            sekai, gymnasium or PettingZoo, or a function that makes one.
        policy: name of a backbone, or settings of the networks.
        seed: seed of the networks, the envs and the actions.
        settings: hyperparameters; None for the defaults, tuned for known env ids, and else by
            whether the env is native. A name such as "LunarLander-v3" gives the tuned ones of that
            env.
        env_options: keyword arguments of the env, if it is an id.
        reward_transform: function of the steps between two updates that returns the rewards to
            learn from: of a rollout of PPO and A2C, of `train_freq` steps of the others.
        learn_where: mask of the steps to learn from: a function of the same, or the name of a part
            of observations or infos; the other steps still count in returns.
        teacher: trained policy of PPO or A2C, its agent or its file, which PPO, A2C and
            RecurrentPPO imitate by `teacher_coef`; it may observe more, see `privileged`. It is not
            saved.
        device: device of the networks: "cpu", "cuda", "cuda:1", "mps", or "auto" for the first of
            cuda, mps and cpu that is available. Envs and buffers stay on the CPU.
        changes: single hyperparameters, instead of those of `settings`.
    """

    __signature__: ClassVar[inspect.Signature]
    actions: ActionMap
    _short_length: int | None = None
    gather: WindowGather | None = None
    _watch: Callable[[Any, int], None] | None = None
    """Called with the result of each step, if infos select the steps to learn from."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give each algorithm a signature and a help text with its settings by name."""
        super().__init_subclass__(**kwargs)
        if "settings_type" in vars(cls):
            cls.__signature__ = _signature(cls)
            own = inspect.cleandoc(cls.__doc__ or "")
            cls.__doc__ = f"{own}\n\n{_arguments(cls)}"
        elif "__init__" in vars(cls):
            cls.__signature__ = _signature_of_init(cls)

    def __new__(cls: type[Own], *positional: Any, **_: Any) -> Own:
        """Refuse the arguments of stable-baselines3, whose policy comes first, with a hint."""
        first = next(iter(cls.__signature__.parameters), "env")
        if positional and isinstance(positional[0], str) and positional[0] in SB3_POLICIES:
            raise TypeError(
                f"the {first} comes first, got the policy {positional[0]!r}: {cls.__name__}"
                f"({first}), or {cls.__name__}({first}, policy={SB3_POLICIES[positional[0]]!r})"
            )
        if len(positional) > 1 and _positional_count(cls) == 1:
            raise TypeError(
                f"{cls.__name__} expected 1 positional argument, the {first}, got "
                f"{len(positional)}; pass the others by name, such as policy=..."
            )
        return super().__new__(cls)

    def __init__(
        self,
        env: Any,
        *,
        policy: str | PolicySettings | Mapping[str, Any] | None = None,
        seed: int = 0,
        settings: AgentSettings | str | None = None,
        env_options: Mapping[str, Any] | None = None,
        reward_transform: RewardTransform | None = None,
        learn_where: LearnWhere | None = None,
        teacher: Any = None,
        device: str | torch.device = "cpu",
        **changes: Any,
    ) -> None:
        self.shaping = RewardShaping(reward_transform, learn_where)
        self.device = resolve_device(device)
        self.env_argument = env
        self.env_options = dict(env_options or {})
        self.seed = seed
        if isinstance(settings, str):
            base = named_settings(self.settings_type, settings)
        else:
            base = settings or default_settings(self.settings_type, env)
        self.settings = with_arguments(base, policy, changes)
        self._check_env_count(base, changes)
        self.vec = self._make_envs()
        self.teacher = self._make_teacher(teacher)
        self.randomness = RandomStream(seed)
        self.steps = 0
        """Env steps so far, summed over envs."""
        self.iterations = 0
        self.planned_steps = 0
        """Steps at which the current `fit` ends: those requested, in whole iterations."""
        self.requested_steps = 0
        """Steps at which the current `fit` was requested to end."""
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env_name!r}, seed={self.seed}, steps={self.steps})"

    def _repr_html_(self) -> str:
        """Table of the algorithm, env, steps and changed settings, for notebooks."""
        rows = {
            "env": f"{self.env_name} x {self.vec.num_envs}",
            "steps": f"{self.steps:,}",
            "seed": self.seed,
            **_changed(self.settings, type(self.settings)()),
        }
        cells = (
            f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
            for name, value in rows.items()
        )
        title = escape(type(self).__name__)
        return f"<table><caption>{title}</caption>{''.join(cells)}</table>"

    @abstractmethod
    def _build(self) -> None:
        """Make networks, optimizers and buffers."""

    @abstractmethod
    def _iterate(self) -> Metrics:
        """Collect steps, train on them and return metrics."""

    @property
    @abstractmethod
    def _full_length(self) -> int:
        """Steps of each env in an iteration, by the settings."""

    @property
    def iteration_length(self) -> int:
        """Steps of each env in an iteration; fewer in a `fit` of less than an iteration."""
        return self._full_length if self._short_length is None else self._short_length

    @property
    def iteration_steps(self) -> int:
        """Env steps in an iteration, summed over envs."""
        return self.iteration_length * self.vec.num_envs

    def _set_length(self, steps: int | None) -> None:
        """Shorten iterations to `steps` of each env; None for the length by the settings."""
        self._short_length = steps

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

        An iteration has `n_steps * n_envs` steps (PPO, A2C) or `steps_per_iteration * n_envs`
        steps (the others). If `steps` are fewer, the iteration is shortened to them, rounded up to
        a step of each env. A larger number that is rounded up is logged, and shown by the progress
        bar.

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
        self.total_steps = total or max(self.total_steps, end)
        with ExitStack() as parts:
            parts.enter_context(self._planned(steps))
            parts.enter_context(_threads(self.settings.threads))
            interrupt = parts.enter_context(DeferredInterrupt())
            parts.enter_context(rollout_engine(self, engine, workers, address))
            parts.enter_context(listeners)
            is_running = listeners.begin(self._callback_states)
            self._callbacks, self._callback_states = listeners, {}
            while is_running and self.steps < self.planned_steps:
                is_stopped = listeners.on_iteration(self._run_iteration())
                is_running = not (is_stopped or interrupt.is_requested)
        if interrupt.is_requested:
            raise KeyboardInterrupt
        return self

    @contextmanager
    def _planned(self, steps: int) -> Iterator[None]:
        """Plan a `fit` of whole iterations, shorter ones if the steps are less than one."""
        envs = self.vec.num_envs
        if steps < self.iteration_steps:
            self._set_length(-(-steps // envs))
        length = self.iteration_steps
        self.planned_steps = self.steps + -(-steps // length) * length
        self.requested_steps = self.steps + steps
        if self.planned_steps > self.requested_steps:
            text = "%d steps were requested and %d are taken: iterations have %d steps of %d envs"
            taken = self.planned_steps - self.steps
            LOG.info(text, steps, taken, self.iteration_length, envs)
        try:
            yield
        finally:
            self._set_length(None)

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
        signature = self.data_signature
        if isinstance(self.vec, JointTrainingEnv):
            spaces = self.vec.spaces
            return TeamPolicy(self.network, spaces, self.randomness, data_signature=signature)
        return self.policy_type(
            self.network,
            self.observation_space,
            self.vec.action_space,
            self.randomness,
            make=partial(self.make_network, settings=self.settings, gather=self.gather),
            data_signature=signature,
        )

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

    def _check_env_count(self, base: AgentSettings, changes: Mapping[str, Any]) -> None:
        """Set `n_envs` to the number of envs that were passed, or refuse another one."""
        count, n_envs = fixed_count(self.env_argument), self.settings.n_envs
        if count is None or count == n_envs:
            return
        if "n_envs" in changes or base.n_envs != type(base).n_envs:
            raise ValueError(
                f"n_envs must be {count}, the number of envs that were passed, got {n_envs}; leave "
                "it out, or pass an id or a function that makes one env"
            )
        self.settings = self.settings.replaced(n_envs=count)

    def _make_envs(self) -> VecEnv:
        vec = make_training_envs(self.env_argument, self.settings.n_envs, self.env_options)
        if isinstance(vec, JointTrainingEnv):
            self._use_multi_agent(vec)
        else:
            self._use_single_agent(vec)
        return vec

    def _use_single_agent(self, vec: VecEnv) -> None:
        """Prepare for a single-agent env, or refuse it."""
        privileged = getattr(self.settings, "privileged", ())
        self.leaves = leaves_of(public_space(vec.observation_space, privileged))
        self.gather = window_gather(vec, self.leaves)
        self.actions = ActionMap(vec.action_space)
        shown = leaves_of(vec.observation_space)
        self._watch = self.shaping.watch if self.shaping.watches(shown) else None

    def _make_teacher(self, teacher: Any) -> Teacher | None:
        """Check the policy to imitate, or refuse it."""
        if teacher is not None:
            raise TypeError(
                f"{type(self).__name__} has no teacher, got {teacher!r}; use PPO, A2C or "
                "RecurrentPPO"
            )
        return None

    def _use_multi_agent(self, vec: JointTrainingEnv) -> None:
        """Prepare for a multi-agent env, or refuse it."""
        raise TypeError(
            f"{type(self).__name__} needs a single-agent env, got {self.env_argument!r}; "
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


def _positional_count(kind: type[Any]) -> int:
    """Number of arguments that may be passed by position."""
    parameters = _signature_of_init(kind).parameters.values()
    return sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)


def _signature_of_init(kind: type[Any]) -> inspect.Signature:
    return inspect.Signature(list(inspect.signature(kind.__init__).parameters.values())[1:])


Agent.__signature__ = _signature_of_init(Agent)


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

    def __exit__(self, *error: object) -> None:
        if self._is_installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._is_installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
        LOG.warning("interrupted: training ends after this iteration; once more ends it at once")


def _signature(cls: type[Agent]) -> inspect.Signature:
    """Signature of an algorithm: arguments of its base class, and its settings by name."""
    settings_type = cls.settings_type
    own = [
        parameter
        for parameter in inspect.signature(cls.__init__).parameters.values()
        if parameter.name not in ("self", "changes")
    ]
    names = {parameter.name for parameter in own}
    hints = type_hints(settings_type)
    settings = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints.get(field.name, Any),
        )
        for field in dataclasses.fields(settings_type)
        if field.name not in names
    ]
    return inspect.Signature([*own, *settings])


def _arguments(cls: type[Agent]) -> str:
    """Description of all arguments of an algorithm, for `help`."""
    base = next(base for base in cls.__mro__ if "__init__" in vars(base))
    shared = inspect.cleandoc(base.__doc__ or "").partition("Args:\n")[2]
    lines = [f"Args:\n{shared.partition('    changes:')[0].rstrip()}"]
    for field in documented_fields(cls.settings_type):
        if field.name != "policy":
            text = f"{field.name}: {field.text} Default {field.default}."
            lines.append(fill(text, 96, initial_indent="    ", subsequent_indent="        "))
    return "\n".join(lines) + "\n\nDefaults of settings are tuned for known env ids."


def _changed(settings: Settings, defaults: Settings, prefix: str = "") -> dict[str, Any]:
    """Settings that differ from the defaults, by name."""
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value, default = getattr(settings, field.name), getattr(defaults, field.name)
        if isinstance(value, Settings):
            changed.update(_changed(value, default, f"{prefix}{field.name}."))
        elif value != default:
            changed[f"{prefix}{field.name}"] = value
    return changed


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Set the number of torch threads, on which the rounding of sums depends."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
