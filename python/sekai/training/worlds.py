"""Whatever a user trains on, as many envs that act together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.training.multi.joint_world import JointWorld
from sekai.vector.make_vec import make_vec
from sekai.vector.multi_agent import MultiAgentVecEnv
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import VecEnv

__all__ = ["is_foreign", "vector_of", "world_of"]


def world_of(env: Any, num_envs: int, options: Mapping[str, Any] | None = None) -> VecEnv:
    """The same as `vector_of`, as it is stored: several agents as one."""
    vec = vector_of(env, num_envs, options)
    return JointWorld(vec) if isinstance(vec, MultiAgentVecEnv) else vec


def vector_of(
    env: Any, num_envs: int, options: Mapping[str, Any] | None = None
) -> VecEnv | MultiAgentVecEnv:
    """Many envs of the kind that was given.

    Args:
        env: an id or a spec, of which `num_envs` are made; a vector env, taken as it is; an env,
            of sekai, gymnasium or PettingZoo, which stays the only one; or a function that makes
            one, called `num_envs` times.
        num_envs: how many to make, where that is free.
        options: what `make_vec` is given beside the id. Envs without a native batch run in this
            process unless `mode` says otherwise.
    """
    given = dict(options or {})
    if isinstance(env, (str, EnvSpec)):
        spec = env if isinstance(env, EnvSpec) else spec_of(env)
        if spec.vector_entry_point is None:
            # Processes would import the user's script, which then must not train on the way.
            given.setdefault("mode", "sync")
        return make_vec(env, num_envs, copy=False, **given)
    if given:
        raise ValueError(f"env_options belong to an id, and {env!r} is none; found {list(given)}")
    if isinstance(env, (VecEnv, MultiAgentVecEnv)):
        if _autoreset(env) != "same_step":
            raise ValueError(f"training needs autoreset='same_step', found {_autoreset(env)!r}")
        return env
    if isinstance(env, (Env, MultiAgentEnv)) or is_foreign(env):
        return _around([lambda: _own(env)])
    if callable(env):
        return _around([lambda: _own(env())] * num_envs)
    raise TypeError(
        "an id, a spec, an env of sekai, gymnasium or PettingZoo, a vector env or a function that "
        f"makes an env was wanted, found {env!r}"
    )


def _around(factories: list[Callable[[], Any]]) -> VecEnv | MultiAgentVecEnv:
    first = factories[0]()
    rest = factories[1:]
    built: list[Callable[[], Any]] = [lambda: first, *rest]
    if isinstance(first, MultiAgentEnv):
        return MultiAgentVecEnv(built)
    return SyncVecEnv(built)


def _autoreset(vec: VecEnv | MultiAgentVecEnv) -> str:
    inner = vec.vec if isinstance(vec, MultiAgentVecEnv) else vec
    return inner.autoreset


def is_foreign(env: Any) -> bool:
    """Whether it is an env of gymnasium or PettingZoo."""
    # Asked by what it is made of, so that neither package has to be there.
    roots = {kind.__module__.partition(".")[0] for kind in type(env).__mro__}
    return bool(roots & {"gymnasium", "pettingzoo"}) and hasattr(env, "step")


def _own(env: Any) -> Any:
    if not is_foreign(env):
        return env
    from sekai.compat import from_gymnasium, from_pettingzoo

    is_single = hasattr(env, "action_space") and not callable(env.action_space)
    return from_gymnasium(env) if is_single else from_pettingzoo(env)
