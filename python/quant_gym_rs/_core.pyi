"""What the compiled core offers to `sekai`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

__all__ = [
    "EpisodeTotals",
    "FeatureState",
    "MarketMakingBatch",
    "PyTradingEnv",
    "PyVecTradingEnv",
    "ResetResult",
    "RewardScale",
    "RunningMoments",
    "StepResult",
    "TradingBatch",
    "TradingWeightsBatch",
    "feature_columns",
    "feature_registry",
    "market_defaults",
    "market_settled",
    "trading_defaults",
]

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
        self, rewards: NDArray[np.float64], finished: NDArray[np.bool_], learn: bool = True
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

class _NativeBatch:
    """What the batches of all tasks have in common: `sekai.vector.NativeBatch`, and more."""

    @property
    def num_envs(self) -> int: ...
    @property
    def num_threads(self) -> int: ...
    def reset(
        self,
        ids: NDArray[np.int64],
        seeds: NDArray[np.uint64] | None,
        observations: NDArray[np.float64],
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None: ...
    def step(
        self,
        actions: NDArray[Any],
        observations: NDArray[np.float64],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: NDArray[np.float64] | None,
        skip: NDArray[np.bool_] | None,
    ) -> None: ...
    def reset_one(self, seed: int | None = None) -> ResetResult[NDArray[np.float64]]: ...
    def step_one(self, action: Any) -> StepResult[NDArray[np.float64]]: ...
    def clone_env(self, source: int, target: int) -> None: ...
    def infos(self) -> dict[str, NDArray[np.float64]]: ...
    def final_infos(self) -> dict[str, NDArray[np.float64]]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

@final
class MarketMakingBatch(_NativeBatch):
    """Many episodes of quoting both sides of a market."""

    def __new__(
        cls,
        config: Any,
        num_envs: int = 1,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
    ) -> MarketMakingBatch: ...
    @staticmethod
    def check(config: Any) -> None: ...
    def optimal_action(self) -> NDArray[np.float64]: ...
    def certainty_equivalent(self) -> NDArray[np.float64]: ...

@final
class TradingBatch(_NativeBatch):
    """Many episodes of selling, holding or buying."""

    def __new__(
        cls,
        config: str,
        num_envs: int = 1,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
    ) -> TradingBatch: ...
    @staticmethod
    def check(config: str) -> None: ...
    def feature_names(self) -> list[str]: ...

@final
class TradingWeightsBatch(_NativeBatch):
    """Many episodes of setting the share of equity to hold."""

    def __new__(
        cls,
        config: str,
        num_envs: int = 1,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
    ) -> TradingWeightsBatch: ...
    @staticmethod
    def check(config: str) -> None: ...
    def feature_names(self) -> list[str]: ...

@final
class PyTradingEnv:
    """A trading env: sell (0), hold (1) or buy (2) in an agent-based order-book market."""

    def __new__(
        cls, max_ticks: int = 10_000, seed: int | None = None, num_symbols: int = 1
    ) -> PyTradingEnv: ...
    def reset(self, seed: int | None = None) -> NDArray[np.float64]: ...
    def step(
        self, action: Any
    ) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]: ...
    @property
    def observation_space(self) -> Any: ...
    @property
    def action_space(self) -> Any: ...
    def feature_names(self) -> list[str]: ...

@final
class PyVecTradingEnv:
    """Many trading envs; env i of an unseeded reset has the seed `base_seed + i`."""

    def __new__(
        cls,
        num_envs: int,
        max_ticks: int = 10_000,
        base_seed: int | None = None,
        autoreset: bool = True,
        num_threads: int | None = None,
    ) -> PyVecTradingEnv: ...
    def reset_all(self, seeds: Sequence[int] | None = None) -> NDArray[np.float64]: ...
    def step_all(
        self, actions: Sequence[int]
    ) -> tuple[
        NDArray[np.float64], NDArray[np.float64], list[bool], list[bool], list[dict[str, Any]]
    ]: ...
    @property
    def num_envs(self) -> int: ...
    @property
    def observation_space(self) -> Any: ...
    @property
    def action_space(self) -> Any: ...
    def feature_names(self) -> list[str]: ...

def market_defaults() -> str: ...
def market_settled(config: str, regime: str) -> str: ...
def trading_defaults() -> str: ...

@final
class FeatureState:
    """The features of one symbol, kept up to date bar by bar."""

    def __new__(
        cls, normalize: bool = False, privileged: bool = True, full55: bool = False
    ) -> FeatureState: ...
    def __len__(self) -> int: ...
    def push(self, bar: Sequence[float]) -> None: ...
    def row(self, view: Sequence[float], raw: bool = False) -> NDArray[np.float64]: ...
    def series(
        self,
        bars: NDArray[np.float64],
        views: NDArray[np.float64] | None = None,
        raw: bool = False,
    ) -> NDArray[np.float64]: ...
    def reset(self) -> None: ...
    def encode(self) -> bytes: ...
    def decode(self, state: bytes) -> None: ...

def feature_registry(
    full55: bool = False,
) -> list[tuple[int, str, str, float, float, float, bool, bool]]:
    """What is known of each feature beforehand, in the order of a row."""

def feature_columns() -> tuple[list[str], list[str]]:
    """The names of the columns of bars, and of views."""
