"""Sync and async methods: derive one from the other, and run coroutines from sync code.

One daemon thread runs one event loop for the whole process. What an async env binds to its loop in
`reset` (sockets, queues) is therefore on the same loop in `step`, and sync calls work in scripts,
threads and notebooks, whose own loop is already running.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from sekai.error import SekaiError

if TYPE_CHECKING:
    import asyncio


def derive_missing_methods(cls: type, names: Iterable[str], base: type) -> None:
    """Derive the sync or async method that `cls` lacks from the one that it defines.

    The class nearest in the method resolution order decides: if it defines `step` only,
    `async_step` calls that `step`; if it defines `async_step` only, `step` runs it to completion. A
    class in which neither is defined below `base` is abstract.
    """
    missing = []
    for name in names:
        sync_definer = _definer(cls, name)
        async_definer = _definer(cls, f"async_{name}")
        if sync_definer is base and async_definer is base:
            missing.append(name)
        elif cls.__mro__.index(sync_definer) < cls.__mro__.index(async_definer):
            setattr(cls, f"async_{name}", _async_from(getattr(cls, name)))
        elif cls.__mro__.index(async_definer) < cls.__mro__.index(sync_definer):
            setattr(cls, name, _sync_from(getattr(cls, f"async_{name}")))
    # Not ABCMeta's own set: whether `step` is abstract depends on `async_step`. `type` honours
    # the attribute all the same, so an incomplete class cannot be instantiated.
    cls.__abstractmethods__ = frozenset(missing)  # type: ignore[attr-defined]


def _definer(cls: type, name: str) -> type:
    return next(ancestor for ancestor in cls.__mro__ if name in ancestor.__dict__)


def _async_from(method: Callable[..., Any]) -> Callable[..., Any]:
    async def derived(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **kwargs)

    return _named_after(derived, method, f"async_{method.__name__}")


def _sync_from(method: Callable[..., Any]) -> Callable[..., Any]:
    def derived(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run_coroutine(method(self, *args, **kwargs))

    return _named_after(derived, method, method.__name__.removeprefix("async_"))


def _named_after(
    derived: Callable[..., Any], method: Callable[..., Any], name: str
) -> Callable[..., Any]:
    derived.__name__ = name
    derived.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{name}"
    derived.__module__ = method.__module__
    derived.__doc__ = method.__doc__
    # Marks a derived method, and gives it the signature of the other.
    derived.__wrapped__ = method  # type: ignore[attr-defined]
    return derived


Result = TypeVar("Result")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None

CANCEL_SECONDS = 5.0
"""Seconds that an interrupted call waits for its coroutine to clean up."""


def run_coroutine(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to completion from sync code and return its result."""
    import asyncio  # imported late: it is a third of the time that `import sekai` may take

    loop = _background_loop()
    if threading.current_thread() is _thread:
        coroutine.close()
        raise SekaiError(
            "sync method of an async env called from async code on sekai's own event loop, "
            "which would deadlock; use `await env.async_step(...)` instead"
        )
    finished = threading.Event()

    async def supervised() -> Result:
        try:
            return await coroutine
        finally:
            finished.set()

    future = asyncio.run_coroutine_threadsafe(supervised(), loop)
    try:
        return future.result()
    except BaseException:
        # Only an interrupted wait (Ctrl-C in the caller) leaves a coroutine to cancel.
        if future.cancel():
            finished.wait(CANCEL_SECONDS)
        raise


def _background_loop() -> asyncio.AbstractEventLoop:
    import asyncio

    global _loop, _thread
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="sekai-async", daemon=True)
            _thread.start()
        return _loop


def _forget_after_fork() -> None:
    global _lock, _loop, _thread
    _lock, _loop, _thread = threading.Lock(), None, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
