"""Builds an environment and its layers from a spec."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.registry.containers import copied
from sekai.registry.entry_point import loaded
from sekai.registry.naming import nearest
from sekai.registry.spec import EnvSpec
from sekai.registry.wrapper_spec import WrapperSpec

__all__ = ["build"]


def build(spec: EnvSpec) -> Any:
    """The env that `spec` describes, in all its layers."""
    env = _construct(spec)
    try:
        return _wrap(env, spec)
    except BaseException:
        # Nobody has a reference to the env yet, so nobody else could close it.
        env.close()
        raise


def _construct(spec: EnvSpec) -> Any:
    creator = loaded(spec.entry_point)
    kwargs = copied(spec.kwargs)
    try:
        env = creator(**kwargs)
    except TypeError as error:
        misfit = _misfit(creator, kwargs)
        if misfit is None:
            raise
        raise TypeError(f"{spec.id} cannot be made: {misfit}") from error
    if not isinstance(env, (Env, MultiAgentEnv)):
        raise TypeError(
            f"{spec.id} made {env!r}, which is neither a sekai.Env nor a MultiAgentEnv; "
            f"sekai.compat adapts envs of gymnasium and PettingZoo"
        )
    return env


def _wrap(env: Any, spec: EnvSpec) -> Any:
    """Put the layers around `env`, and note on the env itself how it was made."""
    own_layers = [WrapperSpec.of(layer) for layer in reversed(list(env)[:-1])]
    layers = _layers_of_flags(spec, isinstance(env, MultiAgentEnv))
    env.unwrapped.spec = dataclasses.replace(spec, wrappers=(), _made=(*own_layers, *layers))
    for layer in (*layers, *spec.wrappers):
        env = layer.wrap(env)
        if not isinstance(env, (Env, MultiAgentEnv)):
            raise TypeError(f"the wrapper {layer.name} of {spec.id} returned {env!r}, not an env")
    return env


def _layers_of_flags(spec: EnvSpec, is_multi_agent: bool) -> list[WrapperSpec]:
    """The layers that the flags of `spec` ask for, innermost first."""
    from sekai import wrappers

    prefix = "MultiAgent" if is_multi_agent else ""
    layers = []
    if spec.validate_actions:
        layers.append(WrapperSpec(getattr(wrappers, f"{prefix}ValidateAction")))
    if spec.order_enforce:
        layers.append(WrapperSpec(getattr(wrappers, f"{prefix}OrderEnforcing")))
    if spec.max_episode_steps is not None:
        limit = {"max_episode_steps": spec.max_episode_steps}
        layers.append(WrapperSpec(getattr(wrappers, f"{prefix}TimeLimit"), limit))
    return layers


def _misfit(creator: Callable[..., Any], kwargs: Mapping[str, Any]) -> str | None:
    """Why `creator` cannot be called with `kwargs`, if that can be told without calling it."""
    try:
        signature = inspect.signature(creator)
    except ValueError:
        # Some native callables do not tell what they take.
        return None
    try:
        signature.bind(**kwargs)
    except TypeError as error:
        accepted = list(signature.parameters)
        unknown = [argument for argument in kwargs if argument not in accepted]
        hints = [hint for argument in unknown for hint in nearest(argument, accepted)]
        advice = f"; did you mean {' or '.join(map(repr, hints))}?" if hints else ""
        name = getattr(creator, "__name__", repr(creator))
        return f"{error}; {name} takes {', '.join(accepted) or 'no arguments'}{advice}"
    return None
