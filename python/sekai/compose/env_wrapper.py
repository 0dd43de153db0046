"""Simulator, interpreters and reward composed into one environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple

import numpy as np

from sekai.compose.attached import WrapperLink
from sekai.compose.aux_info import AuxiliaryInfoCollector
from sekai.compose.interpreter import ActionInterpreter, PolicyActType, StateInterpreter
from sekai.compose.logs.collector import LogCollector
from sekai.compose.logs.level import LogLevel
from sekai.compose.nan_observation import generate_nan_observation
from sekai.compose.reward import Reward
from sekai.compose.seeds import ExhaustedError, remaining_seeds, seed_source
from sekai.compose.simulator import ActType, InitialStateType, Simulator, StateType
from sekai.compose.status import EnvWrapperStatus, kept
from sekai.core.env import Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.error import ClosedError, ResetRequired, StateError
from sekai.spaces import Space

__all__ = ["EnvWrapper"]

NOT_BEGUN = "step() was called before reset(): call reset() first"
RESET_FAILED = "the last reset failed: call reset() again"
BROKEN_OFF = "the last step failed after the simulator had moved: call reset() to begin anew"
OVER = "the episode is over: call reset() to begin the next one"


class ResumePoint(NamedTuple):
    """What is left of an env between two collections."""

    seeds: dict[str, Any] | None
    """Where its seeds stand; None if they know it by themselves."""
    rng: np.random.Generator | None
    rng_seed: int | None
    refusal: str | None
    """Why the seeds cannot go on, if they cannot."""


class EnvWrapper(
    Env[ObsType, PolicyActType],
    Generic[InitialStateType, StateType, ActType, ObsType, PolicyActType],
):
    """An env in which every episode is a new simulator, made from the next seed.

    Observation: what `state_interpreter` makes of the simulator's state.
    Action: whatever `action_interpreter` understands; it makes of it what the simulator takes.
    Reward: what `reward_fn` pays for the state after the step; 0 without one.
    Terminates: when the simulator is done.
    Truncates: never.

    `info["log"]` has what was logged in the step, name -> (level, value), `info["aux_info"]` what
    `aux_info_collector` gathered, and `info["exhausted"]` whether the seeds are used up: then
    `reset` shows an observation that stands for none (see `generate_nan_observation`), and
    whatever is asked of the env afterwards raises `ExhaustedError`.

    `reset(seed=...)` begins the stream `env.rng`, which a simulator may draw from as
    `self.env.rng`, and so may an iterator of seeds that is `Attached`. It does not choose the
    seed of the episode, which is always the next one.
    """

    state_excludes: ClassVar[tuple[str, ...]] = ("_link", "_closed", "simulator_fn")
    simulator: Simulator[InitialStateType, StateType, ActType] | None
    """The episode in hand, or the last one; None before the first reset."""
    status: EnvWrapperStatus | None
    """Where that episode stands; None before the first reset."""

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
        """Compose an env.

        Args:
            simulator_fn: makes the simulator of an episode from its seed, or from nothing if
                there are no seeds.
            state_interpreter: makes observations.
            action_interpreter: understands actions.
            seed_iterator: the seeds, each used for one episode; of a sequence the position is
                saved with the env. None begins episodes without a seed, and without end.
            reward_fn: pays.
            aux_info_collector: gathers what else is to be told.
            logger: collects what components log; None collects from `LogLevel.PERIODIC` upwards.
        """
        _require("state_interpreter", state_interpreter, StateInterpreter)
        _require("action_interpreter", action_interpreter, ActionInterpreter)
        self.simulator_fn = simulator_fn
        self.state_interpreter = state_interpreter
        self.action_interpreter = action_interpreter
        self.reward_fn = _required("reward_fn", reward_fn, Reward)
        self.aux_info_collector = _required(
            "aux_info_collector", aux_info_collector, AuxiliaryInfoCollector
        )
        self.logger = _required("logger", logger, LogCollector) or LogCollector()
        self.simulator = None
        self.status = None
        self._link = WrapperLink(self)
        self._seeds = seed_source(seed_iterator)
        self._exhausted = self._closed = False
        self._refusal: str | None = NOT_BEGUN
        self._attach()
        self.observation_space = _space_of(state_interpreter, "observation_space")
        self.action_space = _space_of(action_interpreter, "action_space")

    @property
    def exhausted(self) -> bool:
        """Whether the seeds are used up, which the last reset found out."""
        return self._exhausted

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Begin the episode of the next seed.

        Args:
            seed: begins the stream `env.rng`; None goes on with it.
            options: not used.

        Raises:
            ExhaustedError: an earlier reset has found that the seeds are used up.
            RuntimeError: a component raised StopIteration, which only the seeds may.
        """
        self._check_usable()
        self._set_rng(seed)
        self.logger.reset()
        try:
            arguments = self._seeds.take(self._link)
        except StopIteration:
            self._exhausted, self._refusal = True, OVER
            return ResetResult(generate_nan_observation(self.observation_space), self._info({}))
        try:
            return self._begin(arguments)
        except StopIteration as error:
            raise RuntimeError(
                f"StopIteration was raised while the episode of {_named(arguments)} was begun, "
                f"which is not begun now: only the seeds may end the episodes"
            ) from error

    def step(self, action: PolicyActType) -> StepResult[ObsType]:
        """Act once. An action that is refused changes nothing.

        Raises:
            ResetRequired: no episode is under way.
            ExhaustedError: the seeds are used up.
            RuntimeError: a component raised StopIteration, which only the seeds may.
        """
        simulator, status = self.simulator, self.status
        if self._refusal is not None or self._closed or simulator is None or status is None:
            self._check_usable()
            raise ResetRequired(self._refusal or NOT_BEGUN)
        self.logger.reset()
        try:
            self._act(simulator, status, action)
            return self._look(simulator, status, action)
        except StopIteration as error:
            raise RuntimeError(
                "StopIteration was raised in a step: only the seeds may end the episodes"
            ) from error

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """What the simulator's own `render` draws."""
        if self.simulator is None:
            raise ResetRequired("render() was called before reset(): call reset() first")
        draw = getattr(self.simulator, "render", None)
        if draw is None:
            raise NotImplementedError(
                f"{type(self.simulator).__name__} has no render(): write one, or draw the env "
                f"from outside with a sekai.rendering.Renderer"
            )
        return draw(*args, **kwargs)

    def close(self) -> None:
        """Close the simulator, if it can be closed; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._close_simulator()

    @property
    def resume_point(self) -> ResumePoint:
        """Remaining seeds and random stream: what an env built anew needs to go on after this one.

        The episode under way is not part of it.
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
        """Continue from where `state_dict` was taken; a refused state changes nothing."""
        super().load_state_dict(state_dict)
        self._attach()

    def _begin(self, arguments: tuple[Any, ...]) -> ResetResult[ObsType]:
        link = self._link
        self._refusal = RESET_FAILED
        self._close_simulator()
        self.simulator = None
        simulator = self.simulator_fn(*arguments)
        _require("what simulator_fn returns", simulator, Simulator)
        self.simulator = simulator
        self.status = EnvWrapperStatus(initial_state=arguments[0] if arguments else None)
        simulator._attach(link)
        state = simulator.get_state()
        self.state_interpreter._attach(link)
        observation = self.state_interpreter(state)
        self.status.obs_history.append(kept(observation))
        self._refusal = None
        return ResetResult(observation, self._info({}))

    def _act(
        self,
        simulator: Simulator[InitialStateType, StateType, ActType],
        status: EnvWrapperStatus,
        action: PolicyActType,
    ) -> None:
        """Let the action have its effect; if it is refused, all is as it was before."""
        link, before = self._link, status.cur_step
        self._refusal = BROKEN_OFF
        status.action_history.append(kept(action))
        try:
            simulator._attach(link)
            state = simulator.get_state()
            self.action_interpreter._attach(link)
            meant = self.action_interpreter(state, action)
            status.cur_step = before + 1
            simulator.step(meant)
        except Exception:
            status.action_history.pop()
            status.cur_step = before
            self._refusal = None
            raise

    def _look(
        self,
        simulator: Simulator[InitialStateType, StateType, ActType],
        status: EnvWrapperStatus,
        action: PolicyActType,
    ) -> StepResult[ObsType]:
        """See what has become of it, and pay."""
        link = self._link
        status.done = done = bool(simulator.done())
        state = simulator.get_state()
        self.state_interpreter._attach(link)
        observation = self.state_interpreter(state)
        status.obs_history.append(kept(observation))
        reward, auxiliary = 0.0, {}
        if self.reward_fn is not None:
            self.reward_fn._attach(link)
            reward = self.reward_fn(state)
        status.reward_history.append(reward)
        if self.aux_info_collector is not None:
            self.aux_info_collector._attach(link)
            auxiliary = self.aux_info_collector(state)
        self._log(status, observation, action, reward)
        self._refusal = OVER if done else None
        return StepResult(observation, reward, done, False, self._info(auxiliary))

    def _log(self, status: EnvWrapperStatus, observation: Any, action: Any, reward: float) -> None:
        logger = self.logger
        if status.done:
            logger.add_scalar("steps_per_episode", status.cur_step)
        logger.add_scalar("reward", reward)
        if logger.min_loglevel <= LogLevel.DEBUG:
            logger.add_any("obs", kept(observation), LogLevel.DEBUG)
            logger.add_any("policy_act", kept(action), LogLevel.DEBUG)

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
                "the seeds are used up, which the last reset told by info['exhausted']: make a "
                "new env with new seeds"
            )

    def _close_simulator(self) -> None:
        close = getattr(self.simulator, "close", None)
        if close is not None:
            close()

    def _attach(self) -> None:
        """Attach all components, so that they know their env before it first calls them."""
        link = self._link
        parts = (self.state_interpreter, self.action_interpreter, self.reward_fn)
        for part in (*parts, self.aux_info_collector, self.simulator):
            if part is not None:
                part._attach(link)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        # A copy is not linked to where it was copied from.
        self._link = WrapperLink(self)


def _require(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a sekai.compose.{kind.__name__}, was {value!r}")


def _required(name: str, value: Any, kind: type) -> Any:
    """The value, if it is None or what was wanted."""
    if value is not None:
        _require(name, value, kind)
    return value


def _space_of(interpreter: Any, name: str) -> Any:
    """A copy of the interpreter's space, so that envs which share it have streams of their own."""
    space = getattr(interpreter, name, None)
    if not isinstance(space, Space):
        raise TypeError(
            f"{type(interpreter).__name__} must have an {name}, a sekai.Space; found {space!r}"
        )
    return copy.deepcopy(space)


def _named(arguments: tuple[Any, ...]) -> str:
    return f"the seed {arguments[0]!r}" if arguments else "no seed"
