"""Episode of a live session: the env, advanced by rows and by the broker's account."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env
from sekai.data import Bar
from sekai.data.summary import price_decimals
from sekai.envs.portfolio import Portfolio
from sekai.envs.portfolio.config import PortfolioConfig
from sekai.live.account import BrokerAccount
from sekai.policy.base import PolicyState, with_state
from sekai.storage.codec import from_text, to_text

__all__ = ["LiveEpisode", "ObservedRow", "PolicyFunction", "is_recurrent", "policy_function"]

PolicyFunction = Callable[[Any], Any]

PRICE_ROWS = 1_000
"""Rows that the number of decimals of prices is derived from."""


@dataclass(frozen=True, slots=True, eq=False)
class ObservedRow:
    """Observation, reward and info after a row."""

    row: int
    """Number of rows since the session began."""

    observation: Any
    reward: float
    info: Mapping[str, Any]
    is_over: bool
    """True if no equity is left, or no asset to trade."""

    shown: Mapping[str, NDArray[Any]] = field(init=False)
    """Copy of the observation, since a policy may write into the one it is given."""

    def __post_init__(self) -> None:
        shown = {name: np.array(part) for name, part in self.observation.items()}
        object.__setattr__(self, "shown", shown)

    @property
    def digest(self) -> str:
        """SHA-256 of observation, reward and info; computed on access, after the decision."""
        return _digest(self.shown, self.reward, self.info)


class LiveEpisode:
    """Episode of `Portfolio-v0`, row by row, for live, recovered and replayed sessions.

    Args:
        env: env with `stream=True` or on a feed, or on data that includes the rows to come.
        seed: seed of the episode.
        is_recurrent: the policy takes the state that it returned with the last decision.
    """

    def __init__(self, env: Env[Any, Any], seed: int, is_recurrent: bool = False) -> None:
        inner = env.unwrapped
        if not isinstance(inner, Portfolio):
            raise TypeError(f"live trading needs a Portfolio-v0 env, got {type(inner).__name__}")
        _check(inner.config)
        self.env, self.portfolio = env, inner
        self.row = 0
        result = env.reset(seed=seed)
        self.observed = ObservedRow(0, result.observation, 0.0, result.info, False)
        self.action = self.hold()
        """Action of the next step."""

        self.is_recurrent = is_recurrent
        self.policy_state: Any = None
        """State of a recurrent policy after its last decision; None before the first."""

        self._taken: Bar | None = None
        self._close = inner.data.fields.index("close")
        first_row = int(result.info["time_index"])
        self.prices = _last_known(inner.data.field("close")[: first_row + 1])
        """Last known price of each asset; NaN before the first."""

        self.previous_prices = self.prices
        """Prices of the row before."""

    @property
    def assets(self) -> tuple[str, ...]:
        """Names of the assets."""
        return self.portfolio.assets

    def price_decimals(self) -> dict[str, int]:
        """Decimals of the prices of each asset, from the latest rows of the history."""
        closes = self.portfolio.data.field("close")[-PRICE_ROWS:]
        return {asset: price_decimals(closes[:, index]) for index, asset in enumerate(self.assets)}

    def hold(self) -> Any:
        """Action that keeps the current positions."""
        if self.portfolio.config.action == "tilts":
            return np.ones(len(self.assets), np.int64)
        return np.asarray(self.observed.shown["weights"], np.float64)

    def take(self, bar: Bar) -> None:
        """Validate and store the next row, for `advance`. A refused row changes nothing.

        Raises:
            ValueError: the row is malformed.
        """
        if self.portfolio.config.stream:
            self.portfolio.push(bar)
        self._taken = bar

    def advance(self, bar: Bar, account: BrokerAccount | None) -> ObservedRow:
        """Step the env by a row with the last action, to the broker's account.

        Args:
            bar: the row, taken before or not.
            account: None if the env simulates its own fills.
        """
        if self._taken is not bar:
            self.take(bar)
        if account is not None:
            self.portfolio.report(account.report(self.assets))
        result = self.env.step(self.action)
        self._taken = None
        self._mark(bar)
        self.row += 1
        is_over = result.terminated or result.truncated
        self.observed = ObservedRow(
            self.row, result.observation, result.reward, result.info, is_over
        )
        self.action = self.hold()
        return self.observed

    def set_traded(self, asset: str, is_traded: bool) -> None:
        """Remove an asset from the next row on, or add it again."""
        if is_traded:
            self.portfolio.add_asset(asset)
        else:
            self.portfolio.remove_asset(asset)

    def orders(self, action: Any) -> NDArray[np.float64]:
        """Units to trade for an action, without a step; NaN where nothing can be ordered."""
        return self.portfolio.orders(action)

    def state_dict(self) -> dict[str, Any]:
        """State from which `load_state_dict` continues bit for bit, without earlier rows.

        Its size is bounded: it holds the last rows that features and lookback need.
        """
        carried = {} if self.policy_state is None else {"policy_state": self.policy_state}
        return {
            **carried,
            "row": self.row,
            "env": to_text(self.env.state_dict(), "the state of the env"),
            "rows": self.portfolio.batch.market.save_rows(),
            "prices": [self.previous_prices, self.prices],
            "action": np.asarray(self.action),
            "observation": dict(self.observed.shown),
            "reward": self.observed.reward,
            "info": {name: float(number) for name, number in self.observed.info.items()},
            "is_over": self.observed.is_over,
        }

    def check_state(self) -> None:
        """Raise `ValueError` unless a file can hold the state of the env."""
        to_text(self.env.state_dict(), "the state of the env")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; one of another env changes nothing.

        Raises:
            StateError: the state is of another env.
        """
        market = self.portfolio.batch.market
        before = market.save_rows(every=True)
        try:
            market.load_rows(state["rows"])
            self.env.load_state_dict(from_text(state["env"]))
        except BaseException:
            market.load_rows(before)
            raise
        self.row = int(state["row"])
        self.observed = ObservedRow(
            self.row,
            state["observation"],
            float(state["reward"]),
            state["info"],
            bool(state["is_over"]),
        )
        self.action = state["action"]
        self.policy_state = state.get("policy_state")
        self.previous_prices, self.prices = state["prices"]

    def closes(self, bar: Bar) -> NDArray[np.float64]:
        """Closing prices of a row; NaN without a quote."""
        closes: NDArray[np.float64] = np.asarray(bar.values, np.float64)[:, self._close]
        return closes

    def _mark(self, bar: Bar) -> None:
        closes = self.closes(bar)
        self.previous_prices = self.prices
        self.prices = np.where(np.isfinite(closes), closes, self.prices)


def is_recurrent(policy: Any) -> bool:
    """Return True if `predict` of a policy takes the state that it returned before."""
    predict = getattr(policy, "predict", None)
    return predict is not None and PolicyState(predict).is_recurrent


def policy_function(policy: Any) -> PolicyFunction:
    """Deterministic function of the observation from a policy with `predict`, or a callable.

    That of a recurrent policy is a function of observation and state, and returns both action and
    state: the session carries the state, so that a decision that is discarded leaves it unchanged.
    """
    predict = getattr(policy, "predict", None)
    if predict is not None and is_recurrent(policy):
        return lambda seen: with_state(predict(seen[0], state=seen[1], deterministic=True))
    if predict is not None:
        return lambda observation: predict(observation, deterministic=True)
    if not callable(policy):
        raise TypeError(
            f"policy must have predict() or be a function of the observation, got {policy!r}"
        )
    function: PolicyFunction = policy
    return function


def _check(config: PortfolioConfig) -> None:
    if config.execution.sizing != "decision":
        raise ValueError(
            f"live orders are in units, got sizing={config.execution.sizing!r}; make the env with "
            f"execution=Execution(sizing='decision')"
        )
    if config.decisions != "every_row" or config.episode_rows is not None:
        raise ValueError(
            f"live sessions decide on every row and have no time limit, got "
            f"decisions={config.decisions!r} and episode_rows={config.episode_rows!r}; make the "
            f"env with decisions='every_row' and episode_rows=None"
        )


def _last_known(closes: NDArray[np.float64]) -> NDArray[np.float64]:
    known = np.full(closes.shape[1], np.nan)
    for asset, column in enumerate(closes.T):
        finite = np.flatnonzero(np.isfinite(column))
        if len(finite):
            known[asset] = column[finite[-1]]
    return known


def _digest(observation: Mapping[str, Any], reward: float, info: Mapping[str, Any]) -> str:
    hashed = hashlib.sha256()
    for name in sorted(observation):
        part = np.ascontiguousarray(observation[name])
        hashed.update(f"{name} {part.dtype.str} {part.shape} ".encode())
        hashed.update(part.tobytes())
    numbers = [reward, *(float(info[name]) for name in sorted(info))]
    hashed.update(" ".join(sorted(info)).encode())
    hashed.update(np.asarray(numbers, np.float64).tobytes())
    return hashed.hexdigest()
