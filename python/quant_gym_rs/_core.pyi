"""What the compiled core offers to `sekai`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

__all__ = ["EpisodeTotals", "ResetResult", "RewardScale", "RunningMoments", "StepResult"]

_Observation = TypeVar("_Observation")
_Floats = TypeVar("_Floats", bound=NDArray[np.floating[Any]])

@disjoint_base
@dataclass(init=False, frozen=True, slots=True, eq=False)
class StepResult(Generic[_Observation]):
    """What one step gave back."""

    observation: _Observation
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    def __new__(
        cls,
        observation: _Observation,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> StepResult[_Observation]: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    @property
    def done(self) -> bool:
        """Whether the episode is over: terminated or truncated."""

@disjoint_base
@dataclass(init=False, frozen=True, slots=True, eq=False)
class ResetResult(Generic[_Observation]):
    """What one reset gave back."""

    observation: _Observation
    info: dict[str, Any]
    def __new__(
        cls, observation: _Observation, info: dict[str, Any]
    ) -> ResetResult[_Observation]: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...

@final
class RunningMoments:
    """Running mean and variance of each of `width` columns."""

    def __new__(cls, width: int) -> RunningMoments: ...
    @property
    def count(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def mean(self) -> NDArray[np.float64]: ...
    @property
    def variance(self) -> NDArray[np.float64]: ...
    def update(self, values: NDArray[np.floating[Any]]) -> None: ...
    def normalise(
        self,
        values: _Floats,
        epsilon: float = 1e-08,
        clip: float = ...,
        learn: bool = True,
        out: _Floats | None = None,
    ) -> _Floats: ...
    def merge(self, other: RunningMoments) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

@final
class RewardScale:
    """Scales the rewards of `batch` episodes by the spread of their discounted returns."""

    def __new__(
        cls, batch: int = 1, gamma: float = 0.99, epsilon: float = 1e-08
    ) -> RewardScale: ...
    @property
    def count(self) -> int: ...
    @property
    def variance(self) -> float: ...
    def scale_one(self, reward: float, finished: bool, learn: bool = True) -> float: ...
    def scale(
        self,
        rewards: NDArray[np.float64],
        finished: NDArray[np.bool_],
        learn: bool = True,
        running: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]: ...
    def restart(self, which: NDArray[np.bool_] | None = None) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

@final
class EpisodeTotals:
    """Return, length and duration of each of `batch` running episodes."""

    def __new__(cls, batch: int = 1) -> EpisodeTotals: ...
    @property
    def returns(self) -> NDArray[np.float64]: ...
    @property
    def lengths(self) -> NDArray[np.int64]: ...
    def step_one(self, result: StepResult[Any]) -> tuple[float, int, float] | None: ...
    def step(
        self,
        rewards: NDArray[np.float64],
        ended: NDArray[np.bool_],
        running: NDArray[np.bool_] | None = None,
    ) -> (
        tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]] | None
    ): ...
    def restart(self, which: NDArray[np.bool_] | None = None) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
