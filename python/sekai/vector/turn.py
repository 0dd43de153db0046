"""One call at a time: a vector env that is stepping refuses a second caller."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sekai.error import BusyError

__all__ = ["busy", "in_turn"]


class TakesTurns(Protocol):
    """What has calls that must not overlap."""

    _is_busy: bool


Caller = TypeVar("Caller", bound=TakesTurns)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_turn(
    method: Callable[Concatenate[Caller, Arguments], Result],
) -> Callable[Concatenate[Caller, Arguments], Result]:
    """Refuse a call with `BusyError` while another one, in any thread, is under way."""

    @wraps(method)
    def guarded(self: Caller, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if self._is_busy:
            raise busy(self)
        # Nothing is called between the look and this, so that the interpreter lets neither
        # another thread nor an interrupt in between. A lock would be as safe and not picklable.
        self._is_busy = True
        try:
            return method(self, *args, **kwargs)
        finally:
            self._is_busy = False

    return guarded


def busy(vec: TakesTurns) -> BusyError:
    """The error that says what to do."""
    return BusyError(
        f"a step or another call of this {type(vec).__name__} is under way: wait for its end "
        f"(await it, or share a lock between threads), or give each thread a vector of its own"
    )
