"""Where policies play: envs of one kind, made anew for every policy that is judged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.evaluation.team_vec import TeamVec
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.registry.entry_point import loaded
from sekai.vector.make_vec import make_vec
from sekai.vector.multi_agent import MultiAgentVecEnv
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import VecEnv
from sekai.wrappers import TimeLimit

__all__ = ["Arena", "arena_of"]

USUAL_LAYERS = {
    "OrderEnforcing", "ValidateAction", "TimeLimit", "MultiAgentOrderEnforcing",
    "MultiAgentValidateAction", "MultiAgentTimeLimit",
}  # fmt: skip
"""Layers that `make` puts around an env, and puts there again."""

REBUILT = (
    "Portfolio", "MultiPortfolio", "Trading", "MarketMaking", "OptimalExecution", "OrderExecution",
)  # fmt: skip
"""Tasks that can be made again from the config of one that is there."""


@dataclass(frozen=True, slots=True, eq=False)
class Arena:
    """Envs that can be had again, and if their options are known, with others."""

    name: str
    """The id of the env, or what its class is called."""

    kind: str
    """What the class of the env inside all layers is called."""

    make: Callable[[int, Mapping[str, Any]], VecEnv]
    """So many envs with these options."""

    options: dict[str, Any] | None = None
    """What the env is made with; None where it can not be made with anything else."""

    most: int | None = None
    """How many envs there can be at once; None for as many as there are seeds."""

    is_ours: bool = True
    """Whether envs are closed after use."""

    bare: Arena | None = None
    """The same envs without layers that might change what is seen or done; None without any."""

    has_team: bool = False
    """Whether several agents act there: envs are then a `TeamVec`."""

    def with_options(self, **changes: Any) -> Arena:
        """The same with some options changed."""
        if self.options is None:
            raise ValueError(
                f"{self.name} was given as it is and can not be made with other options: give its "
                f"id and env_options"
            )
        bare = None if self.bare is None else self.bare.with_options(**changes)
        return replace(self, options={**self.options, **changes}, bare=bare)

    @contextlib.contextmanager
    def open(self, num_envs: int) -> Iterator[VecEnv]:
        """Envs to play in, closed afterwards if they were made for it."""
        count = num_envs if self.most is None else min(num_envs, self.most)
        vec = self.make(count, self.options or {})
        try:
            yield vec
        finally:
            if self.is_ours:
                vec.close()


def arena_of(env: Any, options: Mapping[str, Any] | None = None) -> Arena:
    """Envs of the kind that was given.

    Args:
        env: an id or a spec; an env of sekai or gymnasium; a function that makes one; a vector env.
        options: what an id or a spec is made with, beside what it says itself.
    """
    if isinstance(env, (str, EnvSpec)):
        return _of_spec(env if isinstance(env, EnvSpec) else spec_of(env), dict(options or {}))
    if options:
        raise ValueError(f"env_options belong to an id, and {env!r} is none; found {list(options)}")
    if isinstance(env, VecEnv):
        return _of_vec(env)
    if isinstance(env, MultiAgentVecEnv):
        raise TypeError(
            f"{env!r} does not tell what its agents trade on: give its id and env_options, or one "
            f"of its envs"
        )
    if isinstance(env, (Env, MultiAgentEnv)):
        return _of_env(env)
    if _is_gymnasium(env):
        found = _of_env(_own(env))
        return found if env.spec is None else replace(found, name=f"gymnasium/{env.spec.id}")
    if callable(env):
        return _of_function(env)
    raise TypeError(
        "an id, a spec, an env of sekai or gymnasium, a vector env or a function that makes an env "
        f"was wanted, found {env!r}"
    )


def _of_spec(spec: EnvSpec, options: dict[str, Any]) -> Arena:
    options = {**spec.kwargs, **options}
    if spec.vector_entry_point is None or spec.wrappers or options.get("wrappers"):
        # Processes would import the user's script, which then must not judge on the way.
        options.setdefault("mode", "sync")
    plain = replace(spec, kwargs={})
    layered = spec.wrappers or options.get("wrappers")

    def make(num_envs: int, given: Mapping[str, Any]) -> VecEnv:
        vec: VecEnv | MultiAgentVecEnv = make_vec(plain, num_envs, **given)
        return TeamVec(vec) if isinstance(vec, MultiAgentVecEnv) else vec

    own = {name: value for name, value in options.items() if name not in ("wrappers", "mode")}
    bare = _of_spec(replace(plain, wrappers=()), own) if layered else None
    entry = loaded(spec.entry_point)
    has_team = isinstance(entry, type) and issubclass(entry, MultiAgentEnv)
    return Arena(spec.id, _class_name(spec), make, options, bare=bare, has_team=has_team)


def _class_name(spec: EnvSpec) -> str:
    if isinstance(spec.entry_point, str):
        return spec.entry_point.rpartition(":")[2]
    return getattr(spec.entry_point, "__name__", type(spec.entry_point).__name__)


def _of_env(env: Env[Any, Any] | MultiAgentEnv) -> Arena:
    inside = env.unwrapped
    kind = type(inside).__name__
    name = inside.spec.id if inside.spec is not None else kind
    if _layers(env) <= USUAL_LAYERS and inside.spec is not None and not inside.spec.wrappers:
        return _of_spec(inside.spec, {})
    if env is inside and kind in REBUILT and type(inside).__module__.startswith("sekai."):
        return _of_spec(spec_of(f"{kind}-v0"), _made_of(inside))
    # Layers may have learnt something: the env is played as it is, one episode after another.
    if isinstance(env, MultiAgentEnv):
        make = _around(lambda: env, True)
        return Arena(name, kind, make, most=1, is_ours=False, has_team=True)
    return Arena(name, kind, _around(lambda: env), most=1, is_ours=False,
                 bare=_bare_arena(env, Arena(name, kind, _around(lambda: _bare(env)), most=1,
                                             is_ours=False)))  # fmt: skip


def _made_of(env: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"config": env.config}
    if type(env).__name__ in ("Portfolio", "MultiPortfolio"):
        computed = env.features if env.pipeline is None else env.pipeline
        windows = getattr(env, "window_file", None)
        options.update(data=env.data, features=computed if windows is None else windows)
    return options


def _of_function(function: Callable[[], Any]) -> Arena:
    first = _own(function())
    inside = first.unwrapped
    name = inside.spec.id if inside.spec is not None else type(inside).__name__
    kind = type(inside).__name__
    if isinstance(first, MultiAgentEnv):
        first.close()
        return Arena(name, kind, _around(function, True), has_team=True)
    plain = Arena(name, kind, _around(lambda: _bare(_own(function()))))
    bare = _bare_arena(first, plain)
    first.close()
    return Arena(name, kind, _around(lambda: _own(function())), bare=bare)


def _around(
    function: Callable[[], Any], has_team: bool = False
) -> Callable[[int, Mapping[str, Any]], VecEnv]:
    def make(num_envs: int, options: Mapping[str, Any]) -> VecEnv:
        if has_team:
            return TeamVec(MultiAgentVecEnv([function] * num_envs))
        return SyncVecEnv([function] * num_envs)

    return make


def _bare_arena(env: Env[Any, Any], arena: Arena) -> Arena | None:
    """The arena without layers, if there are any that might change what is seen or done."""
    return None if _layers(env) <= USUAL_LAYERS else arena


def _layers(env: Env[Any, Any] | MultiAgentEnv) -> set[str]:
    return {type(layer).__name__ for layer in env if layer is not env.unwrapped}


def _bare(env: Env[Any, Any]) -> Env[Any, Any]:
    """The env without layers, but for a limit of its time, which all have to keep."""
    bare: Env[Any, Any] = env.unwrapped
    for layer in env:
        if isinstance(layer, TimeLimit):
            bare = TimeLimit(bare, layer.max_episode_steps)
    return bare


def _of_vec(vec: VecEnv) -> Arena:
    autoreset = getattr(vec, "autoreset", "same_step")
    if autoreset != "same_step":
        raise ValueError(f"judging needs autoreset='same_step', found {autoreset!r}")
    inside = vec.unwrapped
    envs = getattr(inside, "envs", None)
    kind = type(envs[0].unwrapped).__name__ if envs else _task_of_batch(inside)
    name = f"{kind}-v0" if kind in REBUILT else kind
    plain = Arena(name, kind, lambda count, options: inside, most=vec.num_envs, is_ours=False)
    bare = None if vec is inside else plain
    return replace(plain, make=lambda count, options: vec, bare=bare)


def _task_of_batch(batch: Any) -> str:
    while hasattr(batch, "batch") or hasattr(batch, "native"):
        batch = batch.batch if hasattr(batch, "batch") else batch.native
    name = type(batch).__name__.removesuffix("Batch").removesuffix("Weights")
    return name if name in REBUILT else "VecEnv"


def _is_gymnasium(env: Any) -> bool:
    # Asked by what it is made of, so that the package does not have to be there.
    roots = {kind.__module__.partition(".")[0] for kind in type(env).__mro__}
    return "gymnasium" in roots and hasattr(env, "step")


def _own(env: Any) -> Any:
    if not _is_gymnasium(env):
        return env
    from sekai.compat import from_gymnasium

    return from_gymnasium(env)
