"""Infos of several agents, made into dicts when somebody reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any

from numpy.typing import NDArray

from sekai.core.equality import equal_values

__all__ = ["AgentInfos"]


class AgentInfos(MutableMapping[str, dict[str, Any]]):
    """What is told of each agent, by name: as good as a dict, and rows of numbers until it is read.

    Dicts of all numbers of all agents would cost as much as the rest of a step, and few steps are
    looked at. Copied or pickled, it is the plain dict that it stands for.
    """

    __slots__ = ("_agents", "_built", "_keys", "_numbers")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, agents: Iterable[str], keys: Sequence[str], numbers: NDArray[Any]) -> None:
        """Take the numbers of all agents one after the other, one for each key."""
        self._agents = tuple(agents)
        self._keys = keys
        self._numbers = numbers
        self._built: dict[str, dict[str, Any]] | None = None

    def _dicts(self) -> dict[str, dict[str, Any]]:
        if self._built is None:
            rows = self._numbers.reshape(len(self._agents), len(self._keys)).tolist()
            told = (dict(zip(self._keys, row, strict=True)) for row in rows)
            self._built = dict(zip(self._agents, told, strict=True))
        return self._built

    def __getitem__(self, agent: str) -> dict[str, Any]:
        return self._dicts()[agent]

    def __setitem__(self, agent: str, info: dict[str, Any]) -> None:
        self._dicts()[agent] = info

    def __delitem__(self, agent: str) -> None:
        del self._dicts()[agent]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dicts())

    def __len__(self) -> int:
        return len(self._dicts())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (dict, AgentInfos)):
            return NotImplemented
        return equal_values(self._dicts(), dict(other))

    def __repr__(self) -> str:
        return repr(self._dicts())

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (self._dicts(),)
