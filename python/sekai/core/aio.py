"""Runs coroutines to the end from sync code, wherever that code runs.

One daemon thread holds one event loop for the whole process, so that what an async env bound to
its loop in `reset` (sockets, queues) is still on that loop in `step`, and so that sync calls work
in scripts, threads and notebooks (whose own loop is already running) alike.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from sekai.error import SekaiError

if TYPE_CHECKING:
    import asyncio

__all__ = ["run"]

Result = TypeVar("Result")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None

CANCEL_SECONDS = 5.0
"""How long an interrupted call waits for its coroutine to clean up."""


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run `coroutine` to the end and return its result, or raise its error."""
    import asyncio  # imported late: it is a third of the time that `import sekai` may take

    loop = _background_loop()
    if threading.current_thread() is _thread:
        coroutine.close()
        raise SekaiError(
            "a sync method of an async env was called from async code that runs on sekai's own "
            "loop, which would wait for itself: use `await env.async_step(...)` there"
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
        # Ours to clean up only if the wait itself was interrupted (Ctrl-C in the caller).
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
    """The child of a fork has the loop's memory but not its thread: begin anew."""
    global _lock, _loop, _thread
    _lock, _loop, _thread = threading.Lock(), None, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
