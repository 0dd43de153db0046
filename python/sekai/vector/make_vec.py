"""Make a vector env from an env id."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from types import EllipsisType
from typing import Any, Literal, TypeAlias, cast, get_args

from sekai.backend import Backend
from sekai.core.autoreset import Autoreset, is_exhausted
from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.error import UnknownOptionError
from sekai.registry import EnvSpec, WrapperSpec, make, spec
from sekai.registry.entry_point import loaded
from sekai.registry.registry import option_error
from sekai.vector.asyncio_env import AsyncVecEnv
from sekai.vector.multi_agent import JointEnv, JointSpace, MultiAgentVecEnv
from sekai.vector.proc import ProcVecEnv, worker_count
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import VecEnv

Mode: TypeAlias = Literal["auto", "native", "sync", "async", "proc"]
"""Kind of vector env: native batch, sync, asyncio, worker processes, or the fastest of them."""

EXCHANGE_SECONDS = 300e-6
"""Overhead of a `ProcVecEnv` step; see benchmarks/vector.py."""

PROC_MARGIN = 1.25
"""Speed-up from which processes are worth their start and memory."""

PROBE_SECONDS = 0.05
PROBE_STEPS = 64


def make_vec(
    id: str | EnvSpec,
    num_envs: int = 1,
    mode: Mode = "auto",
    *,
    num_workers: int | None = None,
    autoreset: Autoreset = "same_step",
    backend: Backend = "numpy",
    copy: bool = True,
    max_episode_steps: int | EllipsisType | None = ...,
    wrappers: Iterable[Callable[..., Any] | WrapperSpec] = (),
    vector_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> VecEnv:
    """Make a vector env of `num_envs` registered envs.

    Args:
        id: registered id, or a spec.
        num_envs: number of envs.
        mode: kind of vector env; "auto" takes the native batch if the env has one, else asyncio if
            the env has async methods, else times a few steps of one env and takes processes if
            faster.
        num_workers: number of worker processes; None for one per core.
        autoreset: autoreset mode; see `Autoreset`.
        backend: array backend of results.
        copy: False lets a result share its arrays with the second result after it.
        max_episode_steps: time limit that replaces the registered one; None for no limit.
        wrappers: further wrappers of each env, innermost first; not for native batches.
        vector_kwargs: further arguments of the vector env, such as `on_error`.
        kwargs: arguments of each env, added to or replacing the registered ones.

    Returns:
        The vector env. Typed as the common case: an id that makes a `MultiAgentEnv` gives a
        `MultiAgentVecEnv`.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, got {num_envs}")
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be one of {get_args(Mode)}, got {mode!r}")
    known = spec(id) if isinstance(id, str) else id
    layers = tuple(wrappers)
    shared = {"autoreset": autoreset, "backend": backend, "copy": copy, **(vector_kwargs or {})}
    if mode == "native" or (mode == "auto" and known.vector_entry_point is not None and not layers):
        return _native(known, num_envs, layers, max_episode_steps, {**shared, **kwargs})
    build = functools.partial(
        make, known, max_episode_steps=max_episode_steps, wrappers=layers, **kwargs
    )
    return _composed(build, num_envs, mode, num_workers, shared)


def _native(
    known: EnvSpec,
    num_envs: int,
    layers: tuple[Any, ...],
    max_episode_steps: int | EllipsisType | None,
    kwargs: dict[str, Any],
) -> VecEnv:
    if known.vector_entry_point is None:
        raise ValueError(f"{known.id} has no native batch; use mode='sync', 'async' or 'proc'")
    if layers or known.wrappers:
        raise ValueError(
            f"native batch of {known.id} takes no single-env wrappers; wrap the vector "
            f"env, or use mode='sync', 'async' or 'proc'"
        )
    limit = known.max_episode_steps if max_episode_steps is ... else max_episode_steps
    limits = {} if limit is None else {"max_episode_steps": limit}
    creator, arguments = loaded(known.vector_entry_point), {**known.kwargs, **kwargs}
    try:
        vec = creator(num_envs=num_envs, **limits, **arguments)
    except UnknownOptionError as error:
        creators = creator, loaded(known.entry_point)
        raise option_error(known.id, creators, arguments, error) from error
    if not isinstance(vec, (VecEnv, MultiAgentVecEnv)):
        raise TypeError(
            f"vector entry point of {known.id} must return a VecEnv or a MultiAgentVecEnv, "
            f"got {vec!r}"
        )
    return cast("VecEnv", vec)


def _composed(
    build: Callable[[], Any],
    num_envs: int,
    mode: Mode,
    num_workers: int | None,
    shared: dict[str, Any],
) -> VecEnv:
    factory = functools.partial(_single, build)
    if mode == "auto":
        mode = _quickest(factory, num_envs, worker_count(num_workers, num_envs))
    if mode == "proc":
        shared = {"num_workers": num_workers, **shared}
    kinds: dict[str, Callable[..., VecEnv]]
    kinds = {"sync": SyncVecEnv, "async": AsyncVecEnv, "proc": ProcVecEnv}
    vec = kinds[mode]([factory] * num_envs, **shared)
    if isinstance(vec.observation_space, JointSpace):
        return cast("VecEnv", MultiAgentVecEnv.around(vec))
    return vec


def _single(build: Callable[[], Any]) -> Env[Any, Any]:
    """Create a single-agent env; a multi-agent env becomes a `JointEnv`."""
    env = build()
    return JointEnv(env) if isinstance(env, MultiAgentEnv) else env


def _quickest(factory: Callable[[], Env[Any, Any]], num_envs: int, num_workers: int) -> Mode:
    """Choose the fastest kind of vector env by timing one env."""
    with factory() as env:
        if any(hasattr(type(layer).step, "__wrapped__") for layer in env):
            # `step` is derived from `async_step`: the env waits for I/O.
            return "async"
        if min(num_envs, num_workers) == 1:
            return "sync"
        alone = num_envs * _step_seconds(env)
    shared = EXCHANGE_SECONDS + alone / num_workers
    return "proc" if shared * PROC_MARGIN < alone else "sync"


def _step_seconds(env: Env[Any, Any]) -> float:
    """Median time of a step."""
    is_over = is_exhausted(env.reset(seed=0))
    env.action_space.seed(0)
    times: list[float] = []
    begun = time.perf_counter()
    while not is_over and len(times) < PROBE_STEPS and time.perf_counter() - begun < PROBE_SECONDS:
        action = env.action_space.sample()
        before = time.perf_counter()
        result = env.step(action)
        times.append(time.perf_counter() - before)
        is_over = result.done and is_exhausted(env.reset())
    return sorted(times)[len(times) // 2] if times else 0.0
