"""Keeps the sync and async twins of a method in agreement, whichever of them a class defines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sekai.core import aio

__all__ = ["complete_twins"]


def complete_twins(cls: type, names: Iterable[str], base: type) -> None:
    """For each method, derive the twin that `cls` lacks from the one it defines.

    The class nearest in the resolution order decides: where it defines `step` alone,
    `async_step` calls that `step`; where it defines `async_step` alone, `step` runs it to the
    end. A class in which neither is defined below `base` is abstract.
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
    async def twin(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **kwargs)

    return _named_after(twin, method, f"async_{method.__name__}")


def _sync_from(method: Callable[..., Any]) -> Callable[..., Any]:
    def twin(self: Any, *args: Any, **kwargs: Any) -> Any:
        return aio.run(method(self, *args, **kwargs))

    return _named_after(twin, method, method.__name__.removeprefix("async_"))


def _named_after(
    twin: Callable[..., Any], method: Callable[..., Any], name: str
) -> Callable[..., Any]:
    twin.__name__ = name
    twin.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{name}"
    twin.__module__ = method.__module__
    twin.__doc__ = method.__doc__
    # Tells a derived twin from a written one, and gives it the signature of the other.
    twin.__wrapped__ = method  # type: ignore[attr-defined]
    return twin
