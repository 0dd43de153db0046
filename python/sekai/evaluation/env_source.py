"""Env sources: fresh vector envs of one kind for every policy under evaluation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sekai.compat import adapt_env, adapt_vector, is_foreign_env
from sekai.core.autoreset import FINAL_INFO
from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import VecResetResult, VecStepResult
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.registry.entry_point import loaded
from sekai.spaces import Dict
from sekai.vector.batching import StepBuffers
from sekai.vector.infos import DictInfos
from sekai.vector.make_vec import make_vec
from sekai.vector.multi_agent import JointVecEnv, MultiAgentVecEnv
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import Ids, Options, Seeds, VecEnv
from sekai.vector.wrapper import VecWrapper
from sekai.wrappers import TimeLimit

__all__ = ["AgentVecView", "EnvSource", "TeamVecEnv", "agent_infos", "as_env_source"]

Info = dict[str, Any]

ACTION_MASK = "action_mask"
"""Info key of action masks; of a team, masks by agent."""

DEFAULT_WRAPPERS = {
    "OrderEnforcing",
    "ValidateAction",
    "TimeLimit",
    "MultiAgentOrderEnforcing",
    "MultiAgentValidateAction",
    "MultiAgentTimeLimit",
}
"""Wrappers that `make` adds to every env."""

REBUILDABLE = (
    "Portfolio",
    "MultiPortfolio",
    "Trading",
    "MarketMaking",
    "OptimalExecution",
    "OrderExecution",
    "BasketExecution",
)
"""Env classes that can be rebuilt from the config of an instance."""


@dataclass(frozen=True, slots=True, eq=False)
class EnvSource:
    """Factory of vector envs of one kind, with options where they are known."""

    name: str
    """Env id, or the name of its class."""

    env_class: str
    """Class name of the unwrapped env."""

    make: Callable[[int, Mapping[str, Any]], VecEnv]
    """Makes a vector env of so many envs with these options."""

    options: dict[str, Any] | None = None
    """Options of the env; None if it cannot be made with other options."""

    max_envs: int | None = None
    """Largest number of envs at once; None for no limit."""

    closes_envs: bool = True
    """True if envs are closed after use."""

    bare: EnvSource | None = None
    """Same envs without wrappers that may change observations or actions; None without such."""

    is_multi_agent: bool = False
    """True if several agents act; vector envs are then a `TeamVecEnv`."""

    def with_options(self, **changes: Any) -> EnvSource:
        """Return the source with some options changed."""
        if self.options is None:
            raise ValueError(
                f"cannot change the options of the env instance {self.name}; pass its id and "
                "env_options instead"
            )
        bare = None if self.bare is None else self.bare.with_options(**changes)
        return replace(self, options={**self.options, **changes}, bare=bare)

    @contextlib.contextmanager
    def open(self, num_envs: int) -> Iterator[VecEnv]:
        """Open a vector env, and close it afterwards if it was made here."""
        count = num_envs if self.max_envs is None else min(num_envs, self.max_envs)
        vec = self.make(count, self.options or {})
        try:
            yield vec
        finally:
            if self.closes_envs:
                vec.close()


class TeamVecEnv(JointVecEnv):
    """Vector env in which one policy acts for all agents of multi-agent envs.

    Observation: by agent; zeros for agents that have left.
    Action: by agent; actions of agents that have left are ignored.
    Reward: the sum over agents.
    Terminates: never, since agents end one by one.
    Truncates: when no agent is left.
    """

    def __init__(self, inner: MultiAgentVecEnv) -> None:
        super().__init__(inner)
        self.agents = list(inner.possible_agents)
        self.observation_space = Dict(dict(inner.observation_spaces))
        self.action_space = Dict(dict(inner.action_spaces))
        self._keys: dict[str, list[str]] = {}

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Start an episode in every env."""
        result = self.inner.reset(seed=seed, options=options, ids=ids)
        first = result.infos[0]
        self._keys = {name: list(first.get(name, ())) for name in self.agents}
        return VecResetResult(result.observations, self._infos(result.infos))

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step all remaining agents of every env."""
        if ids is not None or out is not None:
            raise ValueError("TeamVecEnv steps all envs at once; ids and out are not supported")
        result = self.inner.step(actions)
        rewards = np.sum([result.rewards[name] for name in self.agents], axis=0)
        terminated = np.zeros(self.num_envs, np.bool_)
        infos = self._infos(result.infos)
        return VecStepResult(result.observations, rewards, terminated, result.episode_over, infos)

    def _infos(self, infos: Sequence[Info]) -> DictInfos:
        return DictInfos([self._flat(info) for info in infos])

    def _flat(self, info: Mapping[str, Any]) -> Info:
        """Infos of all agents in one dict; NaN for agents that have left."""
        flat: Info = {
            f"{name}/{key}": info[name].get(key, math.nan) if name in info else math.nan
            for name, keys in self._keys.items()
            for key in keys
            if key != ACTION_MASK
        }
        by_agent = {name: info[name] for name in self.agents if isinstance(info.get(name), Mapping)}
        masks = {name: own[ACTION_MASK] for name, own in by_agent.items() if ACTION_MASK in own}
        if masks:
            flat[ACTION_MASK] = masks
        return {**flat, FINAL_INFO: self._flat(info[FINAL_INFO])} if FINAL_INFO in info else flat


class AgentVecView(VecWrapper):
    """Spaces of one agent of a `TeamVecEnv`, which is stepped elsewhere."""

    def __init__(self, team: TeamVecEnv, agent: str) -> None:
        super().__init__(team)
        self.agent = agent
        self._observation_space = team.inner.observation_spaces[agent]
        self._action_space = team.inner.action_spaces[agent]


def agent_infos(agent: str, infos: Mapping[str, Any]) -> dict[str, Any]:
    """Infos of one agent out of those of a `TeamVecEnv`, by their own keys."""
    prefix = f"{agent}/"
    return {key[len(prefix) :]: value for key, value in infos.items() if key.startswith(prefix)}


def as_env_source(env: Any, options: Mapping[str, Any] | None = None) -> EnvSource:
    """Convert an id, a spec, an env, a factory or a vector env into an `EnvSource`.

    Args:
        env: an id or a spec; an env of sekai, gymnasium or PettingZoo; a function that makes one; a
            vector env.
        options: options of an id or a spec, in addition to its own.
    """
    if isinstance(env, (str, EnvSpec)):
        return _from_spec(env if isinstance(env, EnvSpec) else spec_of(env), dict(options or {}))
    if options:
        raise ValueError(
            f"env_options {list(options)} need an env id or a spec, got {env!r}; set them when "
            "making the env"
        )
    env = adapt_vector(env)
    if isinstance(env, VecEnv):
        return _from_vec(env)
    if isinstance(env, MultiAgentVecEnv):
        raise TypeError(
            f"multi-agent vector env {env!r} does not expose its data; pass an id with "
            "env_options, or one of its envs"
        )
    if isinstance(env, (Env, MultiAgentEnv)):
        return _from_env(env)
    if is_foreign_env(env):
        source, spec = _from_env(adapt_env(env)), getattr(env, "spec", None)
        return source if spec is None else replace(source, name=f"gymnasium/{spec.id}")
    if callable(env):
        return _from_factory(env)
    raise TypeError(
        f"not an env: {env!r}; expected an id, a spec, an env of sekai, gymnasium or PettingZoo, "
        "a vector env or a function that makes an env"
    )


def _from_spec(spec: EnvSpec, options: dict[str, Any]) -> EnvSource:
    options = {**spec.kwargs, **options}
    wrapped = bool(spec.wrappers or options.get("wrappers"))
    if spec.vector_entry_point is None or wrapped:
        # Worker processes would import the user's script and run the evaluation again.
        options.setdefault("mode", "sync")
    plain = replace(spec, kwargs={})

    def make(num_envs: int, kwargs: Mapping[str, Any]) -> VecEnv:
        vec: VecEnv | MultiAgentVecEnv = make_vec(plain, num_envs, **kwargs)
        return TeamVecEnv(vec) if isinstance(vec, MultiAgentVecEnv) else vec

    own = {name: value for name, value in options.items() if name not in ("wrappers", "mode")}
    bare = _from_spec(replace(plain, wrappers=()), own) if wrapped else None
    entry = loaded(spec.entry_point)
    is_multi_agent = isinstance(entry, type) and issubclass(entry, MultiAgentEnv)
    return EnvSource(
        spec.id, _class_name(spec), make, options, bare=bare, is_multi_agent=is_multi_agent
    )


def _class_name(spec: EnvSpec) -> str:
    if isinstance(spec.entry_point, str):
        return spec.entry_point.rpartition(":")[2]
    return getattr(spec.entry_point, "__name__", type(spec.entry_point).__name__)


def _from_env(env: Env[Any, Any] | MultiAgentEnv) -> EnvSource:
    inner = env.unwrapped
    kind = type(inner).__name__
    if not _has_own_wrappers(env) and inner.spec is not None and not inner.spec.wrappers:
        return _from_spec(inner.spec, {})
    if env is inner and kind in REBUILDABLE and type(inner).__module__.startswith("sekai."):
        return _from_spec(spec_of(f"{kind}-v0"), _options_of(inner))
    # Wrappers may have fitted state: the instance itself runs one episode after another.
    source = _from_instance(env, lambda: env)
    bare = source.bare and replace(source.bare, max_envs=1, closes_envs=False)
    return replace(source, max_envs=1, closes_envs=False, bare=bare)


def _options_of(env: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"config": env.config}
    if type(env).__name__ in ("Portfolio", "MultiPortfolio"):
        features = env.features if env.pipeline is None else env.pipeline
        windows = getattr(env, "window_file", None)
        options.update(data=env.data, features=features if windows is None else windows)
    return options


def _from_factory(factory: Callable[[], Any]) -> EnvSource:
    first = adapt_env(factory())
    source = _from_instance(first, lambda: adapt_env(factory()))
    first.close()
    return source


def _from_instance(env: Any, factory: Callable[[], Any]) -> EnvSource:
    """Source of `factory`, which makes envs like `env`."""
    inner = env.unwrapped
    kind = type(inner).__name__
    name = inner.spec.id if inner.spec is not None else kind
    if isinstance(env, MultiAgentEnv):
        return EnvSource(
            name,
            kind,
            lambda count, options: TeamVecEnv(MultiAgentVecEnv([factory] * count)),
            is_multi_agent=True,
        )
    source = EnvSource(name, kind, lambda count, options: SyncVecEnv([factory] * count))
    if not _has_own_wrappers(env):
        return source
    bare = replace(
        source, make=lambda count, options: SyncVecEnv([lambda: _unwrapped(factory())] * count)
    )
    return replace(source, bare=bare)


def _has_own_wrappers(env: Env[Any, Any] | MultiAgentEnv) -> bool:
    wrappers = {type(layer).__name__ for layer in env if layer is not env.unwrapped}
    return not wrappers <= DEFAULT_WRAPPERS


def _unwrapped(env: Env[Any, Any]) -> Env[Any, Any]:
    """Return the env without wrappers other than time limits."""
    bare: Env[Any, Any] = env.unwrapped
    for layer in env:
        if isinstance(layer, TimeLimit):
            bare = TimeLimit(bare, layer.max_episode_steps)
    return bare


def _from_vec(vec: VecEnv) -> EnvSource:
    autoreset = getattr(vec, "autoreset", "same_step")
    if autoreset != "same_step":
        raise ValueError(f"evaluation needs autoreset='same_step', got {autoreset!r}")
    inner = vec.unwrapped
    envs = getattr(inner, "envs", None)
    kind = type(envs[0].unwrapped).__name__ if envs else _class_of_batch(inner)
    name = f"{kind}-v0" if kind in REBUILDABLE else kind
    plain = EnvSource(
        name, kind, lambda count, options: inner, max_envs=vec.num_envs, closes_envs=False
    )
    bare = None if vec is inner else plain
    return replace(plain, make=lambda count, options: vec, bare=bare)


def _class_of_batch(batch: Any) -> str:
    while batch is not None:
        name = type(batch).__name__.removesuffix("Batch").removesuffix("Weights")
        if name in REBUILDABLE:
            return name
        batch = getattr(batch, "batch", None) or getattr(batch, "native", None)
    return "VecEnv"
