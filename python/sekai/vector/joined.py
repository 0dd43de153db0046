"""What envs of several agents have that stand for envs of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.vector.autoreset import Autoreset
from sekai.vector.multi_agent import MultiAgentVecEnv
from sekai.vector.vec_env import VecEnv

__all__ = ["JoinedVec"]


class JoinedVec(VecEnv):
    """Many envs of several agents as envs of one that acts for all; subclasses say how."""

    autoreset: Autoreset = "same_step"

    def __init__(self, inner: MultiAgentVecEnv) -> None:
        self.inner, self.num_envs = inner, inner.num_envs

    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each env."""
        return self.inner.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env."""
        self.inner.set_attr(name, value, per_env=per_env)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and give back what they return."""
        return self.inner.call(name, *args, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue all envs from here, bit for bit."""
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from where `state_dict` was taken."""
        self.inner.load_state_dict(state_dict)

    def close(self) -> None:
        """Close every env."""
        self.inner.close()

    @property
    def closed(self) -> bool:
        """Whether the vector has been closed."""
        return self.inner.closed
