"""What the parts of a composed environment share: a weak link to the wrapper that calls them."""

from __future__ import annotations

import copyreg
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from sekai.core.world import Stateful

if TYPE_CHECKING:
    from sekai.compose.env_wrapper import EnvWrapper

__all__ = ["Attached", "Component", "WrapperLink"]


class WrapperLink(weakref.ref[Any]):
    """A weak reference to a wrapper, which copies and pickles as None: nobody takes the env along.

    Components keep it in their `__dict__`, where classes that write their own `__getstate__` find
    it too; a plain weak reference could not be pickled.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> tuple[Any, tuple[()]]:
        return _no_link, ()


class Attached:
    """Knows the `EnvWrapper` that is calling it, and does not keep it alive.

    A wrapper attaches its components each time it is about to call them, so that a component that
    several wrappers share sees the one that calls. (Wrappers that are stepped in several threads
    at the same time need components of their own.) Copies and pickles begin unattached.
    """

    _wrapper: WrapperLink | None = None

    @property
    def env(self) -> EnvWrapper[Any, Any, Any, Any, Any] | None:
        """The wrapper that called last; None before any did.

        Raises:
            ReferenceError: that wrapper is gone.
        """
        link = self._wrapper
        if link is None:
            return None
        env: EnvWrapper[Any, Any, Any, Any, Any] | None = link()
        if env is None:
            raise ReferenceError(
                f"the EnvWrapper that this {type(self).__name__} was attached to is gone: its "
                f"components do not keep it alive, so keep a reference to the env itself"
            )
        return env

    @env.setter
    def env(self, env: EnvWrapper[Any, Any, Any, Any, Any] | None) -> None:
        self._attach(None if env is None else WrapperLink(env))

    def _attach(self, link: WrapperLink | None) -> None:
        # Not by setattr, which a frozen dataclass refuses.
        self.__dict__["_wrapper"] = link

    def __getstate__(self) -> Any:
        state = {name: value for name, value in vars(self).items() if name != "_wrapper"}
        names = copyreg._slotnames(type(self))  # type: ignore[attr-defined]
        slots = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return (state, slots) if slots else state


class Component(Attached, Stateful):
    """Something attached that serves many episodes: what it holds is saved with the env."""

    state_excludes: ClassVar[tuple[str, ...]] = ("_wrapper",)

    def _excluded(self) -> frozenset[str]:
        excluded = super()._excluded()
        parameters = getattr(self, "__dataclass_params__", None)
        if parameters is not None and parameters.frozen:
            # What cannot change is no state, and could not be put back.
            excluded |= set(getattr(self, "__dataclass_fields__", ()))
        return excluded


def _no_link() -> None:
    """What a link is in a copy."""
