"""Type stubs of the compiled core of `sekai`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

from quant_gym_rs.codes import Side

__all__ = [
    "ActorCriticTrainer",
    "DepthLevel",
    "EpisodeTotals",
    "FeatureState",
    "Fill",
    "Free",
    "Market",
    "MarketMakingBatch",
    "OfNotional",
    "OptimalExecutionBatch",
    "OrderBook",
    "OrderExecutionBatch",
    "OrderMatcher",
    "OrderSummary",
    "OrderTable",
    "PerLot",
    "Placement",
    "PolicyActor",
    "PolicyProgram",
    "PortfolioAgents",
    "PortfolioBatch",
    "PortfolioPanel",
    "PyTradingEnv",
    "PyVecTradingEnv",
    "QueuePosition",
    "ResetResult",
    "Resting",
    "RewardScale",
    "RunningMoments",
    "StepResult",
    "TradingBatch",
    "TradingWeightsBatch",
    "adjustment_factors",
    "advantages",
    "benchmark_returns",
    "combine_rewards",
    "cost_kinds",
    "feature_columns",
    "feature_registry",
    "gather_windows",
    "join_features",
    "log_changes",
    "logarithms",
    "market_defaults",
    "market_settled",
    "optimal_trajectory",
    "panel_flaw",
    "portfolio_names",
    "priced_places",
    "project_weights",
    "rolling_windows",
    "row_masks",
    "seen_places",
    "settle_trades",
    "show_features",
    "split_steps",
    "trading_defaults",
]

_Observation = TypeVar("_Observation")
_Floats = TypeVar("_Floats", bound=NDArray[np.floating[Any]])

@disjoint_base
@dataclass(init=False, frozen=True, slots=True, eq=False)
class StepResult(Generic[_Observation]):
    """Result of one step."""

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
    def __iter__(self) -> Iterator[Any]: ...
    @property
    def done(self) -> bool:
        """True if the episode is over: terminated or truncated."""

def split_steps(
    results: list[StepResult[Any]],
) -> tuple[
    list[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], list[dict[str, Any]]
]:
    """Columns of step results: observations, rewards, terminated, truncated, infos."""

@disjoint_base
@dataclass(init=False, frozen=True, slots=True, eq=False)
class ResetResult(Generic[_Observation]):
    """Result of one reset."""

    observation: _Observation
    info: dict[str, Any]
    def __new__(
        cls, observation: _Observation, info: dict[str, Any]
    ) -> ResetResult[_Observation]: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...

_Numbers: TypeAlias = NDArray[np.int64]
_Codes: TypeAlias = NDArray[np.int8]

@final
class Fill:
    """Fill; its price is the resting order's."""

    __match_args__: tuple[str, ...]
    def __new__(
        cls,
        maker: int,
        maker_account: int,
        taker_account: int,
        price: int,
        size: int,
        maker_left: int,
        taker_side: int,
    ) -> Fill: ...
    @property
    def maker(self) -> int: ...
    @property
    def maker_account(self) -> int: ...
    @property
    def taker_account(self) -> int: ...
    @property
    def price(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def maker_left(self) -> int: ...
    @property
    def taker_side(self) -> Side: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Placement:
    """Outcome of an order; filled, resting and cancelled lots add up to its size."""

    __match_args__: tuple[str, ...]
    def __new__(
        cls,
        id: int | None,
        filled: int,
        resting: int,
        cancelled: int,
        prevented: int,
        fills: Sequence[Fill],
    ) -> Placement: ...
    @property
    def id(self) -> int | None: ...
    @property
    def filled(self) -> int: ...
    @property
    def resting(self) -> int: ...
    @property
    def cancelled(self) -> int: ...
    @property
    def prevented(self) -> int: ...
    @property
    def fills(self) -> tuple[Fill, ...]: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Resting:
    """Resting order."""

    __match_args__: tuple[str, ...]
    def __new__(cls, id: int, account: int, side: int, price: int, size: int) -> Resting: ...
    @property
    def id(self) -> int: ...
    @property
    def account(self) -> int: ...
    @property
    def side(self) -> Side: ...
    @property
    def price(self) -> int: ...
    @property
    def size(self) -> int: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class DepthLevel:
    """Depth of one price level."""

    __match_args__: tuple[str, ...]
    def __new__(cls, price: int, size: int, orders: int) -> DepthLevel: ...
    @property
    def price(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def orders(self) -> int: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class OrderSummary:
    """Sums and means over the ticks of a step, or of all steps so far."""

    __match_args__: tuple[str, ...]
    def __new__(
        cls,
        wanted: float,
        filled: float,
        value: float,
        cost: float,
        market_volume: float,
        market_price: float,
    ) -> Self: ...
    @property
    def wanted(self) -> float: ...
    @property
    def filled(self) -> float: ...
    @property
    def value(self) -> float: ...
    @property
    def cost(self) -> float: ...
    @property
    def market_volume(self) -> float: ...
    @property
    def market_price(self) -> float: ...
    def __getnewargs__(self) -> tuple[float, ...]: ...

@final
class OrderMatcher:
    """Execution of one order: matching and costs of both order simulators."""

    def __new__(
        cls,
        price: NDArray[np.float64],
        volume: NDArray[np.float64],
        is_buy: bool,
        amount: float,
        first: int,
        stop: int,
        *,
        ticks_per_step: int = 30,
        carries: bool = False,
        finishes: bool = True,
        tradable: NDArray[np.bool_] | None = None,
        current_cap: NDArray[np.float64] | None = None,
        cumulative_cap: NDArray[np.float64] | None = None,
        factor: NDArray[np.float64] | None = None,
        trade_unit: float | None = None,
        open_cost: float = 0.0,
        close_cost: float = 0.0,
        min_cost: float = 0.0,
        impact_cost: float = 0.0,
        cash: float | None = None,
        sessions: Sequence[int] = ...,
    ) -> Self:
        """Create an order of `amount`, executed from tick `first` up to `stop`, not included.

        Args:
            price: fill price of each tick of the day.
            volume: market volume of each tick.
            is_buy: True to buy, False to sell.
            amount: size of the order.
            first: first tick of the order.
            stop: tick after its last.
            ticks_per_step: number of ticks per step, counted from the first tick of the day.
            carries: request unfilled amounts again in later ticks of the step.
            finishes: request all remaining size in the last tick.
            tradable: mask of ticks in which fills are possible.
            current_cap: volume cap of each tick.
            cumulative_cap: cumulative volume cap up to and including each tick.
            factor: adjustment factor: adjusted shares times this are real shares.
            trade_unit: trade unit of real shares.
            open_cost: commission of purchases, as a share of value.
            close_cost: commission of sales, as a share of value.
            min_cost: minimum commission.
            impact_cost: impact coefficient of the squared participation.
            cash: available cash; None if unlimited.
            sessions: first tick of each session after the first.
        """

    def step(self, amount: float) -> OrderSummary:
        """Spread `amount` over the ticks of the next step; a refused amount changes nothing."""

    def total(self) -> OrderSummary:
        """Summary of all steps so far."""

    def fills(self, begin: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """Table of executed ticks: requested, filled, value, cost, price and volume."""

    def step_summaries(self, first: int = 0) -> list[tuple[int, float, float, OrderSummary]]:
        """Steps from the `first`th on: tick of its start, amount ordered, amount left, summary."""

    def boundary_after(self, tick: int) -> int: ...
    def shortfall(self, begin: int, stop: int) -> float: ...
    def advantage(self, begin: int, stop: int) -> float: ...
    def concentration(self, begin: int, stop: int) -> float: ...
    def price_score(self, stop: int, day_begin: int, day_stop: int) -> float: ...
    @property
    def ordered(self) -> float: ...
    @property
    def done(self) -> bool: ...
    @property
    def position(self) -> float: ...
    @property
    def cash(self) -> float | None: ...
    @property
    def tick(self) -> int: ...
    @property
    def twap_price(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def total_steps(self) -> int: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> OrderMatcher: ...
    def __copy__(self) -> OrderMatcher: ...
    def __deepcopy__(self, _memo: Any, /) -> OrderMatcher: ...

@final
class QueuePosition:
    """Queue position of a resting order at its price."""

    __match_args__: tuple[str, ...]
    def __new__(cls, lots_ahead: int, orders_ahead: int) -> QueuePosition: ...
    @property
    def lots_ahead(self) -> int: ...
    @property
    def orders_ahead(self) -> int: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@disjoint_base
class OrderBook:
    """Limit order book with price-time priority, in integer ticks and lots."""

    def __new__(cls, self_trade: int = ...) -> Self: ...
    def place(
        self, account: int, side: int, price: int, size: int, time_in_force: int
    ) -> Placement: ...
    def limit(self, account: int, side: int, price: int, size: int) -> Placement: ...
    def post_only(self, account: int, side: int, price: int, size: int) -> Placement: ...
    def immediate_or_cancel(self, account: int, side: int, price: int, size: int) -> Placement: ...
    def fill_or_kill(self, account: int, side: int, price: int, size: int) -> Placement: ...
    def market(self, account: int, side: int, size: int) -> Placement: ...
    def cancel(self, id: int) -> Resting: ...
    def reduce(self, id: int, by: int) -> int: ...
    def replace(self, id: int, price: int, size: int) -> Placement: ...
    def cancel_all(self, account: int) -> list[Resting]: ...
    @property
    def rule(self) -> int: ...
    @property
    def best_bid(self) -> int | None: ...
    @property
    def best_ask(self) -> int | None: ...
    @property
    def mid(self) -> float | None: ...
    @property
    def spread(self) -> int | None: ...
    @property
    def traded(self) -> int: ...
    def __len__(self) -> int: ...
    def volume(self, side: int) -> int: ...
    def volume_at(self, side: int, price: int) -> int: ...
    def levels(self, side: int, count: int | None = None) -> list[DepthLevel]: ...
    def order(self, id: int) -> Resting | None: ...
    def queue_position(self, id: int) -> QueuePosition: ...
    def order_columns(self, side: int) -> tuple[_Numbers, _Numbers, _Numbers, _Numbers]: ...
    def depth_columns(self, side: int, levels: int) -> tuple[_Numbers, _Numbers, _Numbers]: ...
    def batch_columns(
        self,
        kind: _Codes,
        side: _Codes | None,
        price: _Numbers | None,
        size: _Numbers | None,
        account: _Numbers | None,
        id: _Numbers | None,
        strict: bool,
    ) -> tuple[
        tuple[_Numbers, _Numbers, _Numbers, _Numbers, _Numbers, _Codes],
        tuple[_Numbers, _Numbers, _Numbers, _Numbers, _Numbers, _Numbers, _Numbers, _Codes],
    ]: ...
    def encode(self) -> bytes: ...
    def decode(self, state: bytes) -> None: ...
    def copy_from(self, other: OrderBook) -> None: ...

@final
class Free:
    """No fees: an upper bound on the profit of a strategy."""

    __match_args__: tuple[str, ...]
    def __new__(cls) -> Free: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class PerLot:
    """Fixed fee per lot, in ticks; negative for a rebate."""

    __match_args__: tuple[str, ...]
    def __new__(cls, maker: int, taker: int) -> PerLot: ...
    @property
    def maker(self) -> int: ...
    @property
    def taker(self) -> int: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class OfNotional:
    """Fee as a share of the notional, in millionths, rounded up in favour of the market."""

    __match_args__: tuple[str, ...]
    def __new__(cls, maker_millionths: int, taker_millionths: int) -> OfNotional: ...
    @property
    def maker_millionths(self) -> int: ...
    @property
    def taker_millionths(self) -> int: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def settle_trades(
    price: _Numbers, size: _Numbers, taker_side: _Codes, fees: Free | PerLot | OfNotional
) -> tuple[_Numbers, _Numbers, _Numbers, _Numbers, _Numbers]: ...

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
class PolicyActor:
    """Network with the conversion of its outputs to actions."""

    def __new__(
        cls,
        program: PolicyProgram,
        kind: str,
        sizes: Sequence[int],
        limits: Sequence[tuple[float, float]],
        shape: Sequence[int],
        is_float32: bool,
        fields: Sequence[
            tuple[str | None, Sequence[int], str, Sequence[float], Sequence[float], bool]
        ]
        | None,
        slots: int | None,
    ) -> PolicyActor: ...
    def predict(self, observation: Any) -> NDArray[Any] | None: ...
    def convert(
        self, outputs: NDArray[np.float32], used: NDArray[np.float32] | None
    ) -> NDArray[Any]: ...

@final
class ActorCriticTrainer:
    """Actor and critic, multilayer perceptrons that share nothing, and their gradient steps."""

    def __new__(
        cls,
        actor: Sequence[int],
        critic: Sequence[int],
        activation: str,
        choices: Sequence[int],
        is_bounded: bool,
    ) -> ActorCriticTrainer: ...
    @property
    def size(self) -> int: ...
    def values(
        self, parameters: NDArray[np.float32], observations: NDArray[np.float32]
    ) -> NDArray[np.float32]: ...
    def update(
        self,
        state: dict[str, Any],
        samples: dict[str, Any],
        order: NDArray[np.int64],
        settings: dict[str, Any],
    ) -> tuple[int, dict[str, float] | None]: ...
    def gradient(
        self,
        parameters: NDArray[np.float32],
        samples: dict[str, Any],
        log_probs: NDArray[np.float32] | None,
        settings: dict[str, Any],
    ) -> NDArray[np.float32]: ...

def advantages(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    next_values: NDArray[np.float32],
    done: NDArray[np.bool_],
    terminated: NDArray[np.bool_],
    gamma: float,
    gae_lambda: float,
) -> NDArray[np.float32]: ...

@final
class PolicyProgram:
    """Program of a policy network: a list of operations over rows of observations."""

    def __new__(
        cls,
        leaves: Sequence[tuple[str, int]],
        operations: Sequence[tuple[str, dict[str, Any]]],
        outputs: Sequence[int],
    ) -> PolicyProgram: ...
    def forward(
        self, inputs: dict[str, NDArray[Any]], allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], ...]: ...
    @property
    def widths(self) -> list[int]: ...

@final
class RewardScale:
    """Reward scaling of `batch` episodes by the deviation of their discounted returns."""

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

class _NativeBatch(Generic[_Observation]):
    """Base class of native batches: `sekai.vector.NativeBatch`, and more."""

    @property
    def num_envs(self) -> int: ...
    @property
    def num_threads(self) -> int: ...
    def reset(
        self,
        ids: NDArray[np.int64],
        seeds: NDArray[np.uint64] | None,
        observations: _Observation,
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None: ...
    def step(
        self,
        actions: NDArray[Any],
        observations: _Observation,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: _Observation | None,
        skip: NDArray[np.bool_] | None,
    ) -> None: ...
    def rollout(
        self,
        policy: PolicyProgram,
        head: dict[str, Any],
        key: tuple[int, int],
        observations: Any,
        chosen: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    def write_cuts(self, observations: Any) -> None: ...
    def reset_one(self, seed: int | None = None) -> ResetResult[_Observation]: ...
    def step_one(self, action: Any) -> StepResult[_Observation]: ...
    def clone_env(self, source: int, target: int) -> None: ...
    def infos(self) -> dict[str, NDArray[np.float64]]: ...
    def final_infos(self) -> dict[str, NDArray[np.float64]]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

@final
class MarketMakingBatch(_NativeBatch[NDArray[np.float64]]):
    """Batch of market making episodes."""

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
    def scene(self, env: int = 0) -> dict[str, Any]: ...

@final
class OptimalExecutionBatch(_NativeBatch[NDArray[np.float32]]):
    """Batch of optimal execution episodes."""

    def __new__(
        cls,
        config: Any,
        num_envs: int = 1,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
    ) -> OptimalExecutionBatch: ...
    @staticmethod
    def check(config: Any) -> None: ...
    def optimal_action(self) -> NDArray[np.float64]: ...
    def scene(self, env: int = 0) -> dict[str, Any]: ...

@final
class OrderTable:
    """Ticks and features that orders of native batches are executed in."""

    def __new__(cls) -> OrderTable: ...
    def add_features(self, rows: NDArray[np.float32]) -> int: ...
    def add_ticks(
        self,
        sell_price: NDArray[np.float64],
        buy_price: NDArray[np.float64] | None,
        volume: NDArray[np.float64],
        *,
        tradable: NDArray[np.bool_] | None = None,
        current_cap: NDArray[np.float64] | None = None,
        sessions: Sequence[int] = ...,
        features: Sequence[tuple[int, int | None]] = ...,
    ) -> int: ...
    def __len__(self) -> int: ...

@final
class OrderExecutionBatch(_NativeBatch[dict[str, NDArray[Any]]]):
    """Batch of order execution episodes."""

    def __new__(
        cls,
        table: OrderTable,
        settings: dict[str, Any],
        num_envs: int = 1,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        *,
        candidates: Sequence[int | None] | None = None,
        assets: int = 1,
        orders: Sequence[Sequence[tuple[int, bool, float, int, int]]] | None = None,
    ) -> OrderExecutionBatch: ...
    @staticmethod
    def info_names() -> list[str]: ...
    def matcher(self, env: int = 0, order: int = 0) -> OrderMatcher: ...
    def order_infos(self) -> NDArray[np.float64]: ...
    def final_order_infos(self) -> NDArray[np.float64]: ...

@final
class PortfolioPanel:
    """Panel of market data, shared by all batches on it."""

    def __new__(cls, columns: dict[str, Any], open_ended: bool = False) -> PortfolioPanel: ...
    @property
    def rows(self) -> int: ...
    @property
    def assets(self) -> int: ...
    @property
    def features(self) -> int: ...

@final
class PortfolioAgents:
    """Names of the agents, and the features that each of them observes."""

    def __new__(
        cls,
        names: Sequence[str],
        windows: Sequence[tuple[NDArray[Any] | None, int]],
        shown: Sequence[int],
    ) -> PortfolioAgents: ...

@final
class PortfolioBatch(_NativeBatch[dict[str, NDArray[Any]]]):
    """Batch of portfolio episodes."""

    def __new__(
        cls,
        panel: PortfolioPanel,
        config: str,
        num_envs: int = 1,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
    ) -> PortfolioBatch: ...
    @staticmethod
    def check(panel: PortfolioPanel, config: str) -> None: ...
    def reset_agents(
        self, agents: PortfolioAgents, seed: int | None = None
    ) -> tuple[dict[str, dict[str, NDArray[Any]]], dict[str, dict[str, Any]]]: ...
    def step_agents(
        self, agents: PortfolioAgents, actions: Mapping[str, Any]
    ) -> tuple[
        dict[str, dict[str, NDArray[Any]]],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        NDArray[np.float64],
        list[str] | None,
    ]: ...
    @property
    def rows(self) -> int: ...
    @property
    def has_one_start(self) -> bool: ...
    def seen(self) -> NDArray[np.uint64]: ...
    def waits(self, env: int = 0) -> bool: ...
    def push(self, columns: dict[str, Any]) -> None: ...
    def forget(self, keep: int) -> int: ...
    def save_rows(self, keep: int) -> bytes: ...
    def load_rows(self, rows: bytes) -> None: ...
    def fill_slot(self, place: int, asset: PortfolioPanel, config: str) -> None: ...
    def set_removed(self, env: int, asset: int, removed: bool) -> None: ...
    def orders(self, env: int, action: Any) -> NDArray[np.float64]: ...
    def report(
        self,
        env: int,
        cash: float,
        units: NDArray[np.float64],
        open_units: NDArray[np.float64],
        paid: NDArray[np.float64],
        traded: float,
    ) -> None: ...
    def account(
        self, env: int
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]: ...
    def keep_log(self, kept: bool) -> None: ...
    def take_log(self) -> list[dict[str, Any]]: ...
    def take_trades(self) -> list[tuple[int, float, float, float]]: ...

def cost_kinds() -> list[tuple[str, str, bool]]:
    """Cost kinds in order: the name, the rate that sets it, and if it is paid for trades."""

def portfolio_names() -> tuple[list[str], list[str]]: ...
def optimal_trajectory(
    steps: int,
    step_time: float,
    volatility: float,
    risk_aversion: float,
    effective_impact: float,
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Decay in a step; optimal holdings after each step and trades as shares of the rest."""

def combine_rewards(
    mode: str, rewards: NDArray[np.float64], took_part: NDArray[np.bool_]
) -> None: ...

@final
class TradingBatch(_NativeBatch[NDArray[np.float64]]):
    """Batch of trading episodes: sell, hold or buy."""

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
    def scene(self, env: int = 0, symbol: int = 0, levels: int = 20) -> dict[str, Any]: ...

@final
class TradingWeightsBatch(_NativeBatch[NDArray[np.float64]]):
    """Batch of trading episodes: target share of equity to hold."""

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
    def scene(self, env: int = 0, symbol: int = 0, levels: int = 20) -> dict[str, Any]: ...

@final
class PyTradingEnv:
    """Trading env: sell (0), hold (1) or buy (2) in an agent-based order-book market."""

    def __new__(
        cls,
        max_ticks: int = 10_000,
        seed: int | None = None,
        num_symbols: int = 1,
        privileged: bool = False,
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
    """Batch of trading envs; env i of an unseeded reset has the seed `base_seed + i`."""

    def __new__(
        cls,
        num_envs: int,
        max_ticks: int = 10_000,
        base_seed: int | None = None,
        autoreset: bool = True,
        num_threads: int | None = None,
        privileged: bool = False,
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

def project_weights(
    wanted: NDArray[np.float64],
    held: NDArray[np.float64],
    movable: NDArray[np.bool_],
    *,
    lower: Sequence[float],
    upper: Sequence[float],
    cash_lower: float,
    cash_upper: float,
    leverage: float | None = None,
    sectors: Sequence[int | None] | None = None,
    sector_caps: Sequence[float | None] | None = None,
    turnover: float | None = None,
    net_exposure: tuple[float, float] | None = None,
    betas: Sequence[float] | None = None,
    beta_exposure: tuple[float, float] | None = None,
    untradable: str = "cash",
    min_weight: float = 0.0,
    max_names: int | None = None,
    tolerance: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Project each row of `wanted` to allowed weights; relaxed constraints are bits."""

def market_defaults() -> str: ...
def market_settled(config: str, regime: str) -> str: ...
def trading_defaults() -> str: ...

@final
class FeatureState:
    """Feature set of one symbol, updated bar by bar."""

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
    """Descriptions of the features, in the order of a row."""

def feature_columns() -> tuple[list[str], list[str]]:
    """Column names of bars, and of views."""

@disjoint_base
class Market:
    """Running simulated market, with learning agents that trade in it."""

    def __new__(cls, config: str, seed: int = 0, episode: int = 0) -> Self: ...
    def tick(self, ticks: int = 1) -> None: ...
    def record_columns(self, ticks: int) -> dict[str, NDArray[Any]]: ...
    def place_order(
        self, agent: int, symbol: int, side: int, price: int, size: int, time_in_force: int
    ) -> Placement: ...
    def take(self, agent: int, symbol: int, side: int, size: int) -> int: ...
    def cancel(self, agent: int, symbol: int, id: int) -> Resting: ...
    def room(self, agent: int, symbol: int, side: int) -> int: ...
    def order(self, id: int, symbol: int = 0) -> Resting | None: ...
    def quote(self, symbol: int = 0) -> tuple[int | None, int | None]: ...
    def mid(self, symbol: int = 0) -> float: ...
    def fair(self, symbol: int = 0) -> float: ...
    def depth_columns(
        self, symbol: int, side: int, levels: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def account_columns(self, agent: int) -> tuple[int, float, list[int], list[int], list[int]]: ...
    def news_rows(self) -> list[tuple[str, int, float, float, int, int]]: ...
    @property
    def total_cash(self) -> int: ...
    def total_lots(self, symbol: int = 0) -> int: ...
    @property
    def now(self) -> int: ...
    def encode(self) -> bytes: ...
    def decode(self, state: bytes) -> None: ...

def rolling_windows(values: NDArray[np.float64], rows: int, fold: str) -> NDArray[np.float64]:
    """Rolling `sum`, `maximum`, `minimum` or `deviation` over `rows` rows."""

def log_changes(
    values: NDArray[np.float64], there: NDArray[np.bool_], rows: int
) -> NDArray[np.float64]:
    """Log return over `rows` rows, where both values are present."""

def logarithms(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Natural logarithm of each value; NaN where undefined."""

def join_features(
    blocks: Sequence[NDArray[np.float64]], listed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Concatenate blocks of rows by assets by channels; NaN where not listed or not finite."""

def show_features(
    values: NDArray[np.float64],
    limits: tuple[float, float] | None = None,
    firsts: Sequence[int] | None = None,
    is_double: bool = False,
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Convert joined features to a feature block, and masks of those present.

    Args:
        values: rows by assets by channels.
        limits: clipping range.
        firsts: the first channel of each feature, if each has a mask of its own.
        is_double: float64 instead of float32.
    """

def panel_flaw(
    values: NDArray[np.float64],
    listed: NDArray[np.bool_],
    quoted: NDArray[np.bool_],
    tradable: NDArray[np.bool_],
    prices: Sequence[int],
) -> tuple[Literal["not_listed", "not_quoted", "no_price"], int, int, int] | None:
    """First flaw of the rows of a panel: its kind, row, asset and field."""

def priced_places(values: NDArray[np.float64], prices: Sequence[int]) -> NDArray[np.bool_]:
    """Mask of entries with all prices present, or all values if no field is a price."""

def seen_places(values: NDArray[np.float64], quoted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of entries with any data: a value, or a quoted flag."""

def row_masks(
    values: NDArray[np.float64],
    prices: Sequence[int],
    still_listed: NDArray[np.bool_],
    listed: NDArray[np.bool_] | None = None,
    quoted: NDArray[np.bool_] | None = None,
    tradable: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Masks of listed, quoted and tradable assets of a row, and of those with any data.

    Args:
        values: assets by fields.
        prices: indices of the price fields.
        still_listed: rows by assets: mask of those listed even without data; no row for none.
        listed: mask of listed assets; by default those with data or still listed.
        quoted: mask of quoted assets; by default those with all prices present.
        tradable: mask of tradable assets; by default those quoted.
    """

def adjustment_factors(
    close: NDArray[np.float64],
    quoted: NDArray[np.bool_],
    dividend: NDArray[np.float64] | None = None,
    split: NDArray[np.float64] | None = None,
    before: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Price factors and units by dividends and splits so far, and the state after the last row."""

def benchmark_returns(
    levels: NDArray[np.float64],
    quoted: NDArray[np.bool_] | None = None,
    counted: NDArray[np.bool_] | None = None,
    before: NDArray[np.float64] | None = None,
    dividend: NDArray[np.float64] | None = None,
    split: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Benchmark returns of each row, and the last known levels after them.

    Args:
        levels: rows by series whose mean return is taken.
        quoted: mask of known levels; all by default.
        counted: mask of levels in the mean; all by default.
        before: last known levels before the first row.
        dividend: dividends of each row, for total returns.
        split: splits of each row.
    """

def gather_windows(
    panel: NDArray[np.float32],
    rows: NDArray[np.int64],
    lookback: int,
    out: NDArray[np.float32],
    threads: int = 1,
) -> None:
    """Copy, for each of `rows`, the `lookback` rows of `panel` that end with it into `out`."""
