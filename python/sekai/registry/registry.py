"""Register environments by id, and make them by it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from sekai.registry.catalog import Catalog
from sekai.registry.entry_point import EntryPoint
from sekai.registry.namespace import Loader, Namespace, Resolver
from sekai.registry.naming import check_namespace
from sekai.registry.spec import EnvSpec
from sekai.registry.wrapper_spec import WrapperSpec
from sekai.storage.kinds import isolated_kinds

if TYPE_CHECKING:
    from sekai.core.env import Env

__all__ = [
    "all_specs",
    "isolated",
    "make",
    "namespaces",
    "register",
    "register_namespace",
    "spec",
]

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
    """Let `make(id)` make an env.

    Args:
        id: `[namespace/]Name[-vN]`.
        entry_point: an env class, a function that returns an env, or where to import it from,
            `"package.module:Class"`; it is imported when the first env is made.
        max_episode_steps: truncate episodes after so many steps.
        reward_threshold: the return at which the task counts as solved.
        kwargs: what the entry point is called with, unless `make` is told otherwise. They are
            copied deeply, now and for every env: nobody can change the registered ones.
        order_enforce: refuse `step()` before `reset()`, after the end and after `close()`.
        validate_actions: refuse actions outside the action space.
        nondeterministic: whether the same seed may lead to different episodes.
        vector_entry_point: what makes many of these envs at once, for `make_vec`.
        wrappers: further layers, innermost first: wrapper classes or `WrapperSpec`s.
        force: replace an env that has the id already, instead of refusing.

    Raises:
        DuplicateEnvError: the id is registered already.
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
    """Let the envs of a namespace be registered when one of them is first asked for.

    Args:
        name: the part of the ids before the slash.
        loader: called once, with nothing, to register the envs; usually it imports a module. One
            that raises is called again at the next request. None if there is nothing to load.
        resolver: called with an id of the namespace that is not registered; returns its
            `EnvSpec`, or None for an id it does not know either.
        force: replace a namespace that has the name already, instead of refusing.

    Raises:
        DuplicateEnvError: the name is registered already, other than by a plugin.
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

    From the inside out: the env, `ValidateAction`, `OrderEnforcing`, `TimeLimit` (each as the
    spec says), the spec's wrappers, and `wrappers`. A multi-agent env gets the counterparts.

    Args:
        id: a registered id, or a spec. Without a version it means the highest one registered,
            unless the id is registered without a version.
        max_episode_steps: the time limit instead of the registered one; None for none.
        wrappers: further layers, innermost first.
        kwargs: arguments for the entry point, beside or instead of the registered ones.

    Returns:
        The env, whose `spec` tells how to make it again. Typed as the common case: cast it for
        an id that makes a `MultiAgentEnv`.

    Raises:
        UnknownEnvError: no env is registered under the id.
        NamespaceError: the loader of its namespace failed.
    """
    from sekai.registry.building import build

    known = id if isinstance(id, EnvSpec) else _catalog.find(id)
    limit = known.max_episode_steps if max_episode_steps is ... else max_episode_steps
    wanted = dataclasses.replace(
        known,
        kwargs={**known.kwargs, **kwargs},
        max_episode_steps=limit,
        wrappers=(*known.wrappers, *wrappers),  # type: ignore[arg-type]
        _made=(),
    )
    env: Env[Any, Any] = build(wanted)
    return env


def spec(id: str) -> EnvSpec:
    """The spec that is registered under `id`, as a copy; loads its namespace."""
    return _catalog.find(id)


def all_specs() -> list[EnvSpec]:
    """What is registered now, by namespace, name and version; loads nothing."""
    return _catalog.all()


def namespaces() -> list[str]:
    """The names of all namespaces, loaded or not, those of installed plugins included."""
    return _catalog.namespaces()


@contextlib.contextmanager
def isolated(*, empty: bool = False) -> Iterator[None]:
    """A context for tests: on leaving it, all is registered as it was before, kinds included.

    Args:
        empty: begin with nothing registered, and nothing known of plugins.
    """
    with _catalog.isolated(empty=empty), isolated_kinds(empty=empty):
        yield


def _independent(new: EnvSpec) -> EnvSpec:
    """`new` with arguments that nobody else holds."""
    copies = {
        name: _own_copy(value, f"the argument {name!r} of {new.id}")
        for name, value in new.kwargs.items()
    }
    wrappers = tuple(
        _own_copy(wrapper, f"an argument of the wrapper {wrapper.name} of {new.id}")
        for wrapper in new.wrappers
    )
    return dataclasses.replace(new, kwargs=copies, wrappers=wrappers)


def _own_copy(value: Any, name: str) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise ValueError(
            f"{name} cannot be copied ({error}), and envs must not share it: pass it to make(), "
            f"or let the entry point create it"
        ) from error
