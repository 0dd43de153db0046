"""Component base classes: weak reference to the `EnvWrapper`, and saved state."""

from __future__ import annotations

import copyreg
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from sekai.core.base import Stateful

if TYPE_CHECKING:
    from sekai.compose.env_wrapper import EnvWrapper

__all__ = ["Component", "EnvAware", "WrapperLink"]


class WrapperLink(weakref.ref[Any]):
    """Weak reference to a wrapper that copies and pickles as None.

    Components keep it in their `__dict__`, where classes with their own `__getstate__` find it
    too; a plain weak reference could not be pickled.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> tuple[Any, tuple[()]]:
        return _no_link, ()


class EnvAware:
    """Mixin with a weak reference `env` to the calling `EnvWrapper`.

    A wrapper attaches its components before each call, so that a component shared by several
    wrappers sees the one that calls. Wrappers stepped in several threads need their own
    components. Copies and pickles start without an env.
    """

    _wrapper: WrapperLink | None = None

    @property
    def env(self) -> EnvWrapper[Any, Any, Any, Any, Any] | None:
        """Wrapper of the last call; None before the first.

        Raises:
            ReferenceError: that wrapper was garbage-collected.
        """
        link = self._wrapper
        if link is None:
            return None
        env: EnvWrapper[Any, Any, Any, Any, Any] | None = link()
        if env is None:
            raise ReferenceError(
                f"the EnvWrapper of this {type(self).__name__} is gone; components do not keep it "
                "alive, so keep a reference to the env itself"
            )
        return env

    @env.setter
    def env(self, env: EnvWrapper[Any, Any, Any, Any, Any] | None) -> None:
        self._attach(None if env is None else WrapperLink(env))

    def _attach(self, link: WrapperLink | None) -> None:
        # A frozen dataclass rejects setattr.
        self.__dict__["_wrapper"] = link

    def __getstate__(self) -> Any:
        state = {name: value for name, value in vars(self).items() if name != "_wrapper"}
        names = copyreg._slotnames(type(self))  # type: ignore[attr-defined]
        slots = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return (state, slots) if slots else state


class Component(EnvAware, Stateful):
    """Part of a composed env that serves many episodes; its state is saved with the env."""

    state_excludes: ClassVar[tuple[str, ...]] = ("_wrapper",)

    def _excluded(self) -> frozenset[str]:
        excluded = super()._excluded()
        parameters = getattr(self, "__dataclass_params__", None)
        if parameters is not None and parameters.frozen:
            # Frozen fields are not state, and could not be restored.
            excluded |= set(getattr(self, "__dataclass_fields__", ()))
        return excluded


def _no_link() -> None:
    """Value of a link in a copy."""
