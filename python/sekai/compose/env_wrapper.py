"""EnvWrapper: simulator, interpreters and reward composed into an environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple

import numpy as np

from sekai.compose.component import WrapperLink
from sekai.compose.interpreter import (
    ActionInterpreter,
    PolicyActType,
    StateInterpreter,
    generate_nan_observation,
)
from sekai.compose.logs.collector import LogCollector, LogLevel
from sekai.compose.reward import AuxiliaryInfoCollector, Reward
from sekai.compose.seeds import ExhaustedError, remaining_seeds, seed_source
from sekai.compose.simulator import ActType, InitialStateType, Simulator, StateType
from sekai.core.env import Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.error import ClosedError, ResetRequired, StateError
from sekai.spaces import Space

__all__ = ["EnvWrapper", "EnvWrapperStatus"]

NOT_RESET = "step() was called before reset(): call reset() first"
RESET_FAILED = "the last reset failed: call reset() again"
STEP_FAILED = "the last step failed after the simulator had moved: call reset() first"
EPISODE_OVER = "the episode is over: call reset() first"


class ResumePoint(NamedTuple):
    """State of an env between two collections of episodes."""

    seeds: dict[str, Any] | None
    """State of its seeds; None if a shared queue has it."""
    rng: np.random.Generator | None
    rng_seed: int | None
    refusal: str | None
    """Reason why the seeds cannot be resumed, if they cannot."""


class EnvWrapper(
    Env[ObsType, PolicyActType],
    Generic[InitialStateType, StateType, ActType, ObsType, PolicyActType],
):
    """Env in which every episode is a new simulator, made from the next seed.

    Observation: the simulator's state, interpreted by `state_interpreter`.
    Action: interpreted by `action_interpreter` for the simulator.
    Reward: `reward_fn` of the state after the step; 0 without one.
    Terminates: when the simulator is done.
    Truncates: never.

    `info["log"]` has the log of the step, name -> (level, value), `info["aux_info"]` the result of
    `aux_info_collector`, and `info["exhausted"]` is True if the seeds are used up: then `reset`
    returns a placeholder observation (see `generate_nan_observation`), and all later calls raise
    `ExhaustedError`.

    `reset(seed=...)` seeds `env.rng`, which simulators may draw from as `self.env.rng`, and
    iterators of seeds that are `EnvAware`. It does not choose the seed of the episode, which is
    always the next one.

    Args:
        simulator_fn: makes the simulator of an episode from its seed, or without an argument if
            there are no seeds.
        state_interpreter: makes observations.
        action_interpreter: interprets actions.
        seed_iterator: seeds, one for each episode; the position in a sequence is saved with the
            env. None starts episodes without a seed, and without end.
        reward_fn: computes rewards.
        aux_info_collector: collects auxiliary info.
        logger: collects logs of components; None collects from `LogLevel.PERIODIC` upwards.
    """

    state_excludes: ClassVar[tuple[str, ...]] = ("_link", "_closed", "simulator_fn")
    simulator: Simulator[InitialStateType, StateType, ActType] | None
    """Simulator of the current or last episode; None before the first reset."""
    status: EnvWrapperStatus | None
    """Status of that episode; None before the first reset."""

    def __init__(
        self,
        simulator_fn: Callable[..., Simulator[InitialStateType, StateType, ActType]],
        state_interpreter: StateInterpreter[StateType, ObsType],
        action_interpreter: ActionInterpreter[StateType, PolicyActType, ActType],
        seed_iterator: Iterable[InitialStateType] | None,
        reward_fn: Reward[StateType] | None = None,
        aux_info_collector: AuxiliaryInfoCollector[StateType, Any] | None = None,
        logger: LogCollector | None = None,
    ) -> None:
        _require("state_interpreter", state_interpreter, StateInterpreter)
        _require("action_interpreter", action_interpreter, ActionInterpreter)
        self.simulator_fn = simulator_fn
        self.state_interpreter = state_interpreter
        self.action_interpreter = action_interpreter
        self.reward_fn = _optional("reward_fn", reward_fn, Reward)
        self.aux_info_collector = _optional(
            "aux_info_collector", aux_info_collector, AuxiliaryInfoCollector
        )
        self.logger = _optional("logger", logger, LogCollector) or LogCollector()
        self.simulator = None
        self.status = None
        self._link = WrapperLink(self)
        self._seeds = seed_source(seed_iterator)
        self._exhausted = self._closed = False
        self._refusal: str | None = NOT_RESET
        self._attach()
        self.observation_space = _space_of(state_interpreter, "observation_space")
        self.action_space = _space_of(action_interpreter, "action_space")

    @property
    def exhausted(self) -> bool:
        """True if the last reset found the seeds used up."""
        return self._exhausted

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Start the episode of the next seed.

        Args:
            seed: seed of `env.rng`; None continues its stream.
            options: not used.

        Raises:
            ExhaustedError: an earlier reset found the seeds used up.
            RuntimeError: a component raised StopIteration, which is reserved for seeds.
        """
        self._check_usable()
        self._set_rng(seed)
        self.logger.reset()
        try:
            arguments = self._seeds.take(self._link)
        except StopIteration:
            self._exhausted, self._refusal = True, EPISODE_OVER
            return ResetResult(generate_nan_observation(self.observation_space), self._info({}))
        try:
            return self._start(arguments)
        except StopIteration as error:
            raise RuntimeError(
                f"StopIteration was raised while the episode of {_named(arguments)} was started; "
                "only the iterator of seeds may raise it"
            ) from error

    def step(self, action: PolicyActType) -> StepResult[ObsType]:
        """Step the env. A rejected action changes nothing.

        Raises:
            ResetRequired: no episode is in progress.
            ExhaustedError: the seeds are used up.
            RuntimeError: a component raised StopIteration, which is reserved for seeds.
        """
        simulator, status = self.simulator, self.status
        if self._refusal is not None or self._closed or simulator is None or status is None:
            self._check_usable()
            raise ResetRequired(self._refusal or NOT_RESET)
        self.logger.reset()
        try:
            self._apply(simulator, status, action)
            return self._result(simulator, status, action)
        except StopIteration as error:
            raise RuntimeError(
                "StopIteration was raised in a step; only the iterator of seeds may raise it"
            ) from error

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Render the simulator by its own `render`."""
        if self.simulator is None:
            raise ResetRequired("render() was called before reset(): call reset() first")
        draw = getattr(self.simulator, "render", None)
        if draw is None:
            raise NotImplementedError(
                f"{type(self.simulator).__name__} has no render(); add one, or use a "
                "sekai.rendering.Renderer"
            )
        return draw(*args, **kwargs)

    def close(self) -> None:
        """Close the simulator if it has `close`; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._close_simulator()

    @property
    def resume_point(self) -> ResumePoint:
        """Remaining seeds and random stream, from which a rebuilt env resumes.

        The current episode is not part of it.
        """
        try:
            seeds, refusal = remaining_seeds(self._seeds), None
        except StateError as error:
            seeds, refusal = None, str(error)
        return ResumePoint(seeds, copy.deepcopy(self._rng), self._rng_seed, refusal)

    @resume_point.setter
    def resume_point(self, point: ResumePoint) -> None:
        if point.seeds is not None:
            self._seeds.load_state_dict(point.seeds)
        self._rng, self._rng_seed = point.rng, point.rng_seed

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a saved state; a rejected one changes nothing."""
        super().load_state_dict(state_dict)
        self._attach()

    def _start(self, arguments: tuple[Any, ...]) -> ResetResult[ObsType]:
        link = self._link
        self._refusal = RESET_FAILED
        self._close_simulator()
        self.simulator = None
        simulator = self.simulator_fn(*arguments)
        _require("result of simulator_fn", simulator, Simulator)
        self.simulator = simulator
        self.status = EnvWrapperStatus(initial_state=arguments[0] if arguments else None)
        simulator._attach(link)
        state = simulator.get_state()
        self.state_interpreter._attach(link)
        observation = self.state_interpreter(state)
        self.status.obs_history.append(copy_value(observation))
        self._refusal = None
        return ResetResult(observation, self._info({}))

    def _apply(
        self,
        simulator: Simulator[InitialStateType, StateType, ActType],
        status: EnvWrapperStatus,
        action: PolicyActType,
    ) -> None:
        """Apply an action; a rejected one changes nothing."""
        link, before = self._link, status.cur_step
        self._refusal = STEP_FAILED
        status.action_history.append(copy_value(action))
        try:
            simulator._attach(link)
            state = simulator.get_state()
            self.action_interpreter._attach(link)
            simulator_action = self.action_interpreter(state, action)
            status.cur_step = before + 1
            simulator.step(simulator_action)
        except Exception:
            status.action_history.pop()
            status.cur_step = before
            self._refusal = None
            raise

    def _result(
        self,
        simulator: Simulator[InitialStateType, StateType, ActType],
        status: EnvWrapperStatus,
        action: PolicyActType,
    ) -> StepResult[ObsType]:
        """Observation, reward and info after a step."""
        link = self._link
        status.done = done = bool(simulator.done())
        state = simulator.get_state()
        self.state_interpreter._attach(link)
        observation = self.state_interpreter(state)
        status.obs_history.append(copy_value(observation))
        reward, auxiliary = 0.0, {}
        if self.reward_fn is not None:
            self.reward_fn._attach(link)
            reward = self.reward_fn(state)
        status.reward_history.append(reward)
        if self.aux_info_collector is not None:
            self.aux_info_collector._attach(link)
            auxiliary = self.aux_info_collector(state)
        self._log(status, observation, action, reward)
        self._refusal = EPISODE_OVER if done else None
        return StepResult(observation, reward, done, False, self._info(auxiliary))

    def _log(self, status: EnvWrapperStatus, observation: Any, action: Any, reward: float) -> None:
        logger = self.logger
        if status.done:
            logger.add_scalar("steps_per_episode", status.cur_step)
        logger.add_scalar("reward", reward)
        if logger.min_loglevel <= LogLevel.DEBUG:
            logger.add_any("obs", copy_value(observation), LogLevel.DEBUG)
            logger.add_any("policy_act", copy_value(action), LogLevel.DEBUG)

    def _info(self, auxiliary: Any) -> dict[str, Any]:
        return {
            "log": self.logger.logs(),
            "aux_info": auxiliary,
            "exhausted": self._exhausted,
        }

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedError("the env is closed: make a new one")
        if self._exhausted:
            raise ExhaustedError(
                "the seeds are used up (info['exhausted'] of the last reset is True); make a new "
                "env with new seeds"
            )

    def _close_simulator(self) -> None:
        close = getattr(self.simulator, "close", None)
        if close is not None:
            close()

    def _attach(self) -> None:
        """Attach all components, so that they have their env before the first call."""
        link = self._link
        parts = (self.state_interpreter, self.action_interpreter, self.reward_fn)
        for part in (*parts, self.aux_info_collector, self.simulator):
            if part is not None:
                part._attach(link)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        # A copy links to itself.
        self._link = WrapperLink(self)


def _require(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a sekai.compose.{kind.__name__}, got {value!r}")


def _optional(name: str, value: Any, kind: type) -> Any:
    if value is not None:
        _require(name, value, kind)
    return value


def _space_of(interpreter: Any, name: str) -> Any:
    """Copy of the interpreter's space, so that envs that share it have separate streams."""
    space = getattr(interpreter, name, None)
    if not isinstance(space, Space):
        raise TypeError(
            f"{name} of {type(interpreter).__name__} must be a sekai.Space, got {space!r}"
        )
    return copy.deepcopy(space)


def _named(arguments: tuple[Any, ...]) -> str:
    return f"the seed {arguments[0]!r}" if arguments else "no seed"


@dataclass(slots=True, kw_only=True, eq=False)
class EnvWrapperStatus:
    """Status of an episode as the policy sees it: its actions, observations and rewards.

    After k steps there are k + 1 observations, k actions and k rewards, all of them copies.
    """

    cur_step: int = 0
    """Steps taken, including the current one once its action is interpreted."""

    done: bool = False
    initial_state: Any = None
    """Seed of the episode."""

    obs_history: list[Any] = field(default_factory=list)
    action_history: list[Any] = field(default_factory=list)
    reward_history: list[float] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        """Field by name, as components written for Qlib read it."""
        if name not in self.__dataclass_fields__:
            raise KeyError(
                f"unknown status field {name!r}; expected one of {list(self.__dataclass_fields__)}"
            )
        return getattr(self, name)


def copy_value(value: Any) -> Any:
    """Copy an observation or action, arrays included."""
    if type(value) is np.ndarray:
        return value.copy()
    if type(value) is dict:
        return {key: copy_value(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(copy_value, value))
    # Tensors of torch.
    clone = getattr(value, "clone", None)
    return value if clone is None else clone()
