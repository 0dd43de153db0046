"""Register environments by id, and make them."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import EllipsisType
from typing import Any

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.error import UnknownOptionError
from sekai.registry.catalog import Catalog
from sekai.registry.entry_point import EntryPoint, loaded
from sekai.registry.namespace import Loader, Namespace, Resolver
from sekai.registry.naming import check_namespace
from sekai.registry.spec import EnvSpec, WrapperSpec, copied
from sekai.storage.kinds import isolated_kinds
from sekai.storage.names import close_matches, suggestion

_catalog = Catalog()


def register(
    id: str,
    entry_point: EntryPoint,
    *,
    max_episode_steps: int | None = None,
    reward_threshold: float | None = None,
    kwargs: Mapping[str, Any] | None = None,
    order_enforce: bool = True,
    validate_actions: bool = True,
    nondeterministic: bool = False,
    vector_entry_point: EntryPoint | None = None,
    wrappers: Iterable[WrapperSpec | EntryPoint] = (),
    force: bool = False,
) -> None:
    """Register an environment, so that `make(id)` creates it.

    Args:
        id: `[namespace/]Name[-vN]`.
        entry_point: env class, function that returns an env, or the import path of either,
            `"package.module:Class"`, which is imported when the first env is made.
        max_episode_steps: time limit after which episodes are truncated.
        reward_threshold: return at which the task counts as solved.
        kwargs: default arguments of the entry point. They are copied deeply, now and for every env,
            so that no env can change them.
        order_enforce: reject `step()` before `reset()`, after an episode and after `close()`.
        validate_actions: reject actions outside the action space.
        nondeterministic: True if the same seed may lead to different episodes.
        vector_entry_point: entry point of a vector env, for `make_vec`.
        wrappers: further wrappers, innermost first: classes or `WrapperSpec`s.
        force: replace an env registered under the id instead of raising.

    Raises:
        DuplicateEnvError: the id is already registered.
    """
    new = EnvSpec(
        id=id,
        entry_point=entry_point,
        max_episode_steps=max_episode_steps,
        reward_threshold=reward_threshold,
        kwargs=kwargs or {},  # type: ignore[arg-type]
        order_enforce=order_enforce,
        validate_actions=validate_actions,
        nondeterministic=nondeterministic,
        vector_entry_point=vector_entry_point,
        wrappers=wrappers,  # type: ignore[arg-type]
    )
    _catalog.add(_independent(new), force=force)


def register_namespace(
    name: str, loader: Loader | None, resolver: Resolver | None = None, *, force: bool = False
) -> None:
    """Register a namespace whose envs are loaded when one of them is first requested.

    Args:
        name: part of the ids before the slash.
        loader: called once, without arguments, to register the envs, usually by importing a module.
            If it raises, it is called again at the next request. None if there is nothing to load.
        resolver: called with an unregistered id of the namespace; returns its `EnvSpec`, or None.
        force: replace a namespace of that name instead of raising.

    Raises:
        DuplicateEnvError: the name is already registered, other than by a plugin.
    """
    namespace = Namespace(check_namespace(name), loader, resolver, is_plugin=False)
    _catalog.add_namespace(namespace, force=force)


def make(
    id: str | EnvSpec,
    *,
    max_episode_steps: int | EllipsisType | None = ...,
    wrappers: Iterable[Callable[..., Any] | WrapperSpec] = (),
    **kwargs: Any,
) -> Env[Any, Any]:
    """Make an env.

    From the inside out: the env, `ValidateAction`, `OrderEnforcing`, `TimeLimit` (each as the spec
    says), the spec's wrappers, and `wrappers`. A multi-agent env gets the multi-agent counterparts.

    Args:
        id: registered id, or a spec. Without a version it is the highest registered one, unless the
            id is registered without a version.
        max_episode_steps: time limit that replaces the registered one; None for no limit.
        wrappers: further wrappers, innermost first.
        kwargs: arguments of the entry point, added to or replacing the registered ones.

    Returns:
        The env, whose `spec` can make it again. Typed as the common case: cast it for an id that
        makes a `MultiAgentEnv`.

    Raises:
        UnknownEnvError: no env is registered under the id.
        NamespaceError: the loader of its namespace failed.
    """
    known = id if isinstance(id, EnvSpec) else _catalog.find(id)
    limit = known.max_episode_steps if max_episode_steps is ... else max_episode_steps
    requested = dataclasses.replace(
        known,
        kwargs={**known.kwargs, **kwargs},
        max_episode_steps=limit,
        wrappers=(*known.wrappers, *wrappers),  # type: ignore[arg-type]
        _made=(),
    )
    env: Env[Any, Any] = build(requested)
    return env


def spec(id: str) -> EnvSpec:
    """Return a copy of the spec registered under `id`; loads its namespace."""
    return _catalog.find(id)


def all_specs() -> list[EnvSpec]:
    """Return all registered specs by namespace, name and version; loads nothing."""
    return _catalog.all()


def namespaces() -> list[str]:
    """Return the names of all namespaces, loaded or not, including plugins."""
    return _catalog.namespaces()


@contextlib.contextmanager
def isolated(*, empty: bool = False) -> Iterator[None]:
    """Context manager for tests: on exit, registered envs and kinds are as before.

    Args:
        empty: start with nothing registered and no plugins.
    """
    with _catalog.isolated(empty=empty), isolated_kinds(empty=empty):
        yield


def _independent(new: EnvSpec) -> EnvSpec:
    """Copy the arguments of a spec."""
    copies = {
        name: _own_copy(value, f"argument {name!r} of {new.id}")
        for name, value in new.kwargs.items()
    }
    wrappers = tuple(
        _own_copy(wrapper, f"an argument of wrapper {wrapper.name} of {new.id}")
        for wrapper in new.wrappers
    )
    return dataclasses.replace(new, kwargs=copies, wrappers=wrappers)


def _own_copy(value: Any, name: str) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise ValueError(
            f"{name} cannot be copied ({error}) and must not be shared by envs; pass it to "
            f"make(), or create it in the entry point"
        ) from error


def build(spec: EnvSpec) -> Any:
    """Create the env of a spec, with all its wrappers."""
    env = _construct(spec)
    try:
        return _wrap(env, spec)
    except BaseException:
        # No caller has a reference to the env yet, so close it here.
        env.close()
        raise


def _construct(spec: EnvSpec) -> Any:
    creator = loaded(spec.entry_point)
    kwargs = copied(spec.kwargs)
    try:
        env = creator(**kwargs)
    except UnknownOptionError as error:
        raise option_error(spec.id, [creator], kwargs, error) from error
    except TypeError as error:
        misfit = _misfit(creator, kwargs)
        if misfit is None:
            raise
        raise TypeError(f"{spec.id} cannot be made: {misfit}") from error
    if not isinstance(env, (Env, MultiAgentEnv)):
        raise TypeError(
            f"entry point of {spec.id} must return a sekai.Env or a MultiAgentEnv, got {env!r}; "
            f"convert envs of gymnasium and PettingZoo with sekai.compat"
        )
    return env


def _wrap(env: Any, spec: EnvSpec) -> Any:
    """Add the wrappers, and record on the base env how it was made."""
    own_layers = [WrapperSpec.of(layer) for layer in reversed(list(env)[:-1])]
    layers = _layers_of_flags(spec, isinstance(env, MultiAgentEnv))
    env.unwrapped.spec = dataclasses.replace(spec, wrappers=(), _made=(*own_layers, *layers))
    for layer in (*layers, *spec.wrappers):
        env = layer.wrap(env)
        if not isinstance(env, (Env, MultiAgentEnv)):
            raise TypeError(f"wrapper {layer.name} of {spec.id} must return an env, got {env!r}")
    return env


def _layers_of_flags(spec: EnvSpec, is_multi_agent: bool) -> list[WrapperSpec]:
    """Wrappers that the flags of `spec` ask for, innermost first."""
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


def option_error(
    id: str,
    creators: Iterable[Callable[..., Any]],
    kwargs: Mapping[str, Any],
    error: UnknownOptionError,
) -> UnknownOptionError:
    """Error of an env whose config does not know an argument, with the arguments of the env itself.

    An error about a config that the env makes of other arguments is returned as it is.
    """
    if error.name not in kwargs:
        return error
    named = [
        each.name
        for creator in creators
        for each in inspect.signature(creator).parameters.values()
        if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    known = dict.fromkeys([*error.known, *named])
    close = close_matches(error.name, known) or error.close
    return UnknownOptionError(id, error.name, list(known), close)


def _misfit(creator: Callable[..., Any], kwargs: Mapping[str, Any]) -> str | None:
    """Explain why `creator` cannot be called with `kwargs`, without calling it; None if unknown."""
    try:
        signature = inspect.signature(creator)
    except ValueError:
        # Some native callables have no signature.
        return None
    try:
        signature.bind(**kwargs)
    except TypeError as error:
        accepted = list(signature.parameters)
        unknown = [argument for argument in kwargs if argument not in accepted]
        hints = [hint for argument in unknown for hint in close_matches(argument, accepted)]
        name = getattr(creator, "__name__", repr(creator))
        taken = ", ".join(accepted) or "no arguments"
        return f"{error}; {name} takes {taken}{suggestion(hints)}"
    return None
