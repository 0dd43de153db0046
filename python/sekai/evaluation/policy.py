"""Policies under evaluation: agents, functions and baselines that act in a vector env."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.signature import checked_allow, require_same_data
from sekai.error import SpaceError
from sekai.evaluation.env_source import AgentVecView, EnvSource, TeamVecEnv, agent_infos
from sekai.policy.base import PolicyState, with_state
from sekai.vector.batching import Batcher
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.tasks import Task

__all__ = ["EpisodeContext", "Policy", "StepContext", "as_multi_agent_policy", "as_policy"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeContext:
    """Envs, task and seeds, passed to a policy before the first step."""

    vec: VecEnv
    task: Task
    seeds: tuple[int, ...]
    """Seed of the episode in each env."""


@dataclass(frozen=True, slots=True, eq=False)
class StepContext:
    """Inputs of one decision, with a row for each env."""

    observations: Any
    infos: Mapping[str, Floats]
    """Numeric entries of the infos, by key."""

    masks: Any
    """Action mask of each env; None if infos have none."""

    step: int
    """Number of steps taken before."""

    starts: NDArray[np.bool_]
    """Envs whose observation is the first of an episode."""


class Policy(ABC):
    """Policy that decides for all envs of a vector env at once.

    A decision may be delayed before it is converted into actions, so that orders arrive late.
    """

    name = "agent"

    trained: Any = None
    """Agent or policy of `sekai.training`, which requires the data it was trained on."""

    allow: tuple[str, ...] = ()
    """Differences from that data that are allowed; see `sekai.data.require_same_data`."""

    ignores_wrappers = False
    """True if the policy acts in the env without wrappers that change observations or actions."""

    def source_for(self, source: EnvSource) -> EnvSource:
        """Return the env source to act in."""
        return source.bare if self.ignores_wrappers and source.bare is not None else source

    def begin(self, context: EpisodeContext) -> None:
        """Prepare for a new episode in each env."""
        require_same_data(self.trained, context.vec, self.allow)
        self.context = context

    @abstractmethod
    def decide(self, step: StepContext) -> Any:
        """Return decisions for all envs."""

    def idle(self, step: StepContext) -> Any:
        """Return the decision to do nothing."""
        return self.context.task.idle(self.context.vec, step)

    def actions(self, decision: Any, step: StepContext) -> Any:
        """Convert a decision, made now or some steps ago, into actions."""
        return decision


class _BatchPolicy(Policy):
    def __init__(self, name: str, predict: Callable[..., Any]) -> None:
        self.name, self._predict = name, PolicyState(predict)
        self._takes_masks = "action_mask" in inspect.signature(predict).parameters

    def begin(self, context: EpisodeContext) -> None:
        super().begin(context)
        self._predict = PolicyState(self._predict.predict)
        policy = getattr(self.trained, "policy", self.trained)
        if getattr(policy, "observation_space", None) is None:
            return
        spaces = context.vec.observation_space, context.vec.action_space
        shown, taken = (_layout(space) for space in spaces)
        is_shown = _covers(shown, _layout(policy.observation_space))
        if is_shown and taken == _layout(policy.action_space):
            self._predict = PolicyState(self.trained.predict_batch)
        elif "assets" in {*self.allow, *policy.allow}:
            self._predict = PolicyState(policy.on_spaces(*spaces).predict_batch)
        else:
            raise SpaceError(
                f"{self.name} was trained on observations {policy.observation_space!r} and actions "
                f"{policy.action_space!r}; the env has {spaces[0]!r} and {spaces[1]!r}: evaluate "
                "it on an env with the settings of its training"
            )

    def decide(self, step: StepContext) -> Any:
        has_masks = step.masks is not None and self._takes_masks
        options = {"action_mask": step.masks} if has_masks else {}
        return self._predict(step.observations, starts=step.starts, **options)


class _WindowPolicy(_BatchPolicy):
    """Agent that observes window indices and gathers the windows itself.

    Its windows are those of the training data; here they are replaced by those of the env.
    """

    def __init__(self, name: str, policy: Any) -> None:
        super().__init__(name, policy.predict_batch)
        self._gather = policy.gather

    def begin(self, context: EpisodeContext) -> None:
        super().begin(context)
        self._windows = windows = context.vec.get_attr("windows")[0]
        shape = (windows.lookback, len(windows.assets), len(windows.features))
        if shape != self._gather.shape:
            raise ValueError(
                f"windows of the env have shape {shape}, but {self.name} was trained on "
                f"{self._gather.shape}; use the same lookback, assets and features"
            )

    def decide(self, step: StepContext) -> Any:
        trained_on, self._gather.windows = self._gather.windows, self._windows
        try:
            return super().decide(step)
        finally:
            self._gather.windows = trained_on


class _SingleObservationPolicy(Policy):
    def __init__(self, name: str, make: Callable[[], Callable[[Any, Any], Any]]) -> None:
        """Args: name; and a maker of a function of observation and episode start, for each env."""
        self.name, self._make = name, make

    def begin(self, context: EpisodeContext) -> None:
        super().begin(context)
        self._observations = Batcher(context.vec.observation_space)
        self._actions = Batcher(context.vec.action_space)
        self._predict = [self._make() for _ in range(context.vec.num_envs)]

    def decide(self, step: StepContext) -> Any:
        space = self.context.vec.action_space
        rows = self._observations.rows(step.observations)
        actions = [
            predict(row, step.starts[env : env + 1])
            for env, (predict, row) in enumerate(zip(self._predict, rows, strict=True))
        ]
        if getattr(space, "shape", None) is not None:
            actions = [np.asarray(action, getattr(space, "dtype", None)) for action in actions]
        return self._actions.stack(actions)


class _PerAgentPolicy(Policy):
    """One policy for each agent of a multi-agent env.

    Args:
        name: name of the team.
        policies: policy of each agent, by agent; or a factory called once for each agent.
    """

    def __init__(self, name: str, policies: Callable[[], Policy] | Mapping[str, Policy]) -> None:
        self.name, self._policy_source = name, policies
        self._policies: dict[str, Policy] = dict(policies) if isinstance(policies, Mapping) else {}

    def source_for(self, source: EnvSource) -> EnvSource:
        # With different policies, a source that suits one would change the market of the others.
        return (
            source
            if isinstance(self._policy_source, Mapping)
            else self._policy_source().source_for(source)
        )

    def begin(self, context: EpisodeContext) -> None:
        super().begin(context)
        team = _team_of(context)
        if not isinstance(self._policy_source, Mapping) and not self._policies:
            self._policies = {agent: self._policy_source() for agent in team.agents}
        if set(self._policies) != set(team.agents):
            raise ValueError(
                f"policies for agents {list(self._policies)} do not match the env; expected one "
                f"for each of {team.agents}"
            )
        for index, agent in enumerate(team.agents):
            # Different seeds, so that random agents differ from each other.
            seeds = tuple(seed * len(team.agents) + index for seed in context.seeds)
            own = EpisodeContext(AgentVecView(team, agent), context.task, seeds)
            self._policies[agent].begin(own)

    def decide(self, step: StepContext) -> dict[str, Any]:
        return {
            agent: policy.decide(_step_of(agent, step)) for agent, policy in self._policies.items()
        }

    def idle(self, step: StepContext) -> dict[str, Any]:
        return {
            agent: policy.idle(_step_of(agent, step)) for agent, policy in self._policies.items()
        }

    def actions(self, decision: dict[str, Any], step: StepContext) -> dict[str, Any]:
        return {
            agent: policy.actions(decision[agent], _step_of(agent, step))
            for agent, policy in self._policies.items()
        }


class _JointPolicy(Policy):
    """Trained policy that decides for all agents at once."""

    def __init__(self, name: str, policy: Any, allow: tuple[str, ...]) -> None:
        self.name, self._policy, self.allow = name, policy, allow
        self.trained = policy if hasattr(policy, "data_signature") else None

    def decide(self, step: StepContext) -> Any:
        if step.masks is None:
            return self._policy.predict_batch(step.observations)
        masks = {agent: _masks_of(agent, step) for agent in _team_of(self.context).agents}
        known = {agent: rows for agent, rows in masks.items() if rows is not None}
        return self._policy.predict_batch(step.observations, action_mask=known)

    def idle(self, step: StepContext) -> dict[str, Any]:
        team = _team_of(self.context)
        return {
            agent: self.context.task.idle(AgentVecView(team, agent), _step_of(agent, step))
            for agent in team.agents
        }


def as_policy(policy: Any, name: str | None = None, allow: Collection[str] = ()) -> Policy:
    """Convert an agent, a function or a saved file into a `Policy`.

    Args:
        policy: an agent or a policy of `sekai.training`; an object with `predict_batch` or
            `predict`; a function from one observation to one action; a `Policy`; or the path of a
            saved agent.
        name: name in results; taken from the policy if None.
        allow: differences from the data of training that are allowed.
    """
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, (str, os.PathLike)):
        from sekai.policy import load_policy

        return as_policy(load_policy(policy), name or Path(policy).stem, allow)
    wrapped = _as_policy(policy, name)
    wrapped.allow = checked_allow(allow)
    wrapped.trained = policy if hasattr(policy, "data_signature") else None
    return wrapped


def _as_policy(policy: Any, name: str | None) -> Policy:
    name = name or getattr(policy, "__name__", None) or type(policy).__name__
    name = "agent" if name == "<lambda>" else name
    if getattr(policy, "gather", None) is not None:
        return _WindowPolicy(name, policy)
    if callable(getattr(policy, "predict_batch", None)):
        return _BatchPolicy(name, policy.predict_batch)
    if callable(getattr(policy, "predict", None)):
        return _SingleObservationPolicy(name, lambda: _deterministic(policy.predict))
    if callable(policy):
        return _SingleObservationPolicy(
            name, lambda: lambda observation, start: policy(observation)
        )
    raise TypeError(
        f"not a policy: {policy!r}; expected an agent, an object with predict_batch or predict, "
        "a function from an observation to an action, or the path of a saved agent"
    )


def as_multi_agent_policy(
    policy: Any,
    name: str | None,
    find_baseline: Callable[[str], Policy | None],
    allow: Collection[str] = (),
) -> Policy:
    """Convert a policy, or one for each agent, into a `Policy` of a multi-agent env.

    Args:
        policy: a policy of all agents; a mapping from agent to policy; or one policy for every
            agent: anything that `as_policy` takes, or the name of a baseline.
        name: name in results; taken from the policy if None.
        find_baseline: returns a new baseline by name; None if there is none.
        allow: differences from the data of training that are allowed.
    """

    def single(policy: Any) -> Policy:
        known = find_baseline(policy) if isinstance(policy, str) else None
        return as_policy(policy, allow=allow) if known is None else known

    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping):
        policies = {agent: single(own) for agent, own in policy.items()}
        return _PerAgentPolicy(name or "team", policies)
    if isinstance(policy, (str, os.PathLike)) and find_baseline(os.fspath(policy)) is None:
        from sekai.policy import load_policy

        loaded = load_policy(policy, allow=allow)
        return as_multi_agent_policy(loaded, name or Path(policy).stem, find_baseline)
    if hasattr(getattr(policy, "policy", policy), "action_spaces"):
        return _JointPolicy(name or type(policy).__name__, policy, checked_allow(allow))
    return _PerAgentPolicy(name or single(policy).name, lambda: single(policy))


def _layout(space: Any) -> Any:
    """Shapes of a space by name; bounds, which depend on the data, are left out."""
    if isinstance(space, tuple):
        return tuple(_layout(part) for part in space)
    parts = getattr(space, "spaces", None)
    if isinstance(parts, Mapping):
        return {name: _layout(part) for name, part in parts.items()}
    sizes = (getattr(space, name, None) for name in ("n", "nvec"))
    return type(space).__name__, space.shape, [np.asarray(size).tolist() for size in sizes]


def _covers(shown: Any, read: Any) -> bool:
    """Return True if an env shows what a policy reads; other parts do not matter."""
    if isinstance(shown, Mapping) and isinstance(read, Mapping):
        return all(name in shown and _covers(shown[name], part) for name, part in read.items())
    return bool(shown == read)


def _deterministic(predict: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Function from an observation to the deterministic action of a policy, where it has one.

    `predict` of stable-baselines3 samples by default; the state of recurrent policies is carried.
    """
    has_option = "deterministic" in inspect.signature(predict).parameters
    options = {"deterministic": True} if has_option else {}
    state = PolicyState(predict)

    def act(observation: Any, start: Any) -> Any:
        action = state(observation, starts=start, **options)
        # A policy that takes no state may return one.
        return action if state.is_recurrent else with_state(action)[0]

    return act


def _team_of(context: EpisodeContext) -> TeamVecEnv:
    assert isinstance(context.vec, TeamVecEnv), "multi-agent policies need a multi-agent env"
    return context.vec


def _step_of(agent: str, step: StepContext) -> StepContext:
    infos = agent_infos(agent, step.infos)
    masks = _masks_of(agent, step)
    return StepContext(step.observations[agent], infos, masks, step.step, step.starts)


def _masks_of(agent: str, step: StepContext) -> list[Any] | None:
    masks = [(by_agent or {}).get(agent) for by_agent in step.masks or ()]
    return masks if any(mask is not None for mask in masks) else None
