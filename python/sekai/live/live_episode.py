"""The env of a live session: moved by rows and by what the broker says the account is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env
from sekai.data import Bar
from sekai.envs.account_report import AccountReport
from sekai.envs.portfolio import Portfolio
from sekai.envs.portfolio_config import PortfolioConfig

__all__ = ["Decider", "LiveEpisode", "Observed", "decider_of"]

Decider = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What a row led to."""

    row: int
    """Rows since the session began."""

    observation: Any
    reward: float
    info: Mapping[str, Any]
    is_over: bool
    """Whether there is nothing left to trade with, or nothing more to trade."""

    shown: Mapping[str, NDArray[Any]] = field(init=False)
    """A copy of the observation: a policy may write into the one that it is given."""

    def __post_init__(self) -> None:
        shown = {name: np.array(part) for name, part in self.observation.items()}
        object.__setattr__(self, "shown", shown)

    @property
    def digest(self) -> str:
        """Of all of it: equal digests, equal bytes. No decision waits for it: it is made here."""
        return _digest(self.shown, self.reward, self.info)


class LiveEpisode:
    """One episode of `Portfolio-v0`, row by row; live, recovered and replayed sessions are this."""

    def __init__(self, env: Env[Any, Any], seed: int) -> None:
        """Begin with the last row that is known, and with cash alone.

        Args:
            env: made with `stream=True` or on a feed, or on data that has the rows to come.
            seed: of its episode.
        """
        inner = env.unwrapped
        if not isinstance(inner, Portfolio):
            raise TypeError(
                f"an env of Portfolio-v0 was wanted to trade live, found {type(inner).__name__}"
            )
        _check(inner.config)
        self.env, self.portfolio = env, inner
        self.row = 0
        begun = env.reset(seed=seed)
        self.observed = Observed(0, begun.observation, 0.0, begun.info, False)
        self.action = self.hold()
        """What the next row is gone through with."""
        self._taken: Bar | None = None
        self._close = inner.data.fields.index("close")
        self.prices = _last_known(inner.data.field("close")[: self._first_row() + 1])
        """The last known price of each asset; NaN where there was none yet."""
        self.previous_prices = self.prices
        """Those of the row before."""

    @property
    def assets(self) -> tuple[str, ...]:
        """The names of the assets."""
        return self.portfolio.assets

    def hold(self) -> Any:
        """The action that changes nothing."""
        if self.portfolio.config.action == "tilts":
            return np.ones(len(self.assets), np.int64)
        return np.asarray(self.observed.shown["weights"], np.float64)

    def take(self, bar: Bar) -> None:
        """Take in the next row, to be gone through by `advance`. A refused one changes nothing.

        Raises:
            ValueError: it is no row of this market.
        """
        if self.portfolio.config.stream:
            self.portfolio.push(bar)
        self._taken = bar

    def advance(self, bar: Bar, report: AccountReport | None) -> Observed:
        """Go through a row with the last action, to the account that the broker reports.

        Args:
            bar: the row; one that was taken, or that the env has already, is only gone through.
            report: None where the env is to work out by itself what became of its orders.
        """
        if self._taken is not bar:
            self.take(bar)
        if report is not None:
            self.portfolio.report(report)
        result = self.env.step(self.action)
        self._taken = None
        self._mark(bar)
        self.row += 1
        self.observed = Observed(
            self.row, result.observation, result.reward, result.info,
            result.terminated or result.truncated,
        )  # fmt: skip
        self.action = self.hold()
        return self.observed

    def set_traded(self, asset: str, is_traded: bool) -> None:
        """Take an asset out from the next row on, sold and not bought, or let it in again."""
        if is_traded:
            self.portfolio.add_asset(asset)
        else:
            self.portfolio.remove_asset(asset)

    def orders(self, action: Any) -> NDArray[np.float64]:
        """What an action means in units, now; nothing moves. NaN where nothing can be ordered."""
        return self.portfolio.orders(action)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here, on the same rows."""
        told = {name: float(number) for name, number in self.observed.info.items()}
        return {
            "row": self.row,
            "env": self.env.state_dict(),
            "action": np.asarray(self.action),
            "observation": dict(self.observed.shown),
            "reward": self.observed.reward,
            "info": told,
            "is_over": self.observed.is_over,
        }

    def pass_over(self, bar: Bar) -> None:
        """Take in a row that a state which is loaded next has seen already."""
        self.portfolio.push(bar)
        self._mark(bar)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; all rows that it has seen were passed over before."""
        self.env.load_state_dict(state["env"])
        self.row = int(state["row"])
        self.observed = Observed(
            self.row, state["observation"], float(state["reward"]), state["info"],
            bool(state.get("is_over", False)),
        )  # fmt: skip
        self.action = state["action"]

    def _mark(self, bar: Bar) -> None:
        closes = np.asarray(bar.values, np.float64)[:, self._close]
        self.previous_prices = self.prices
        self.prices = np.where(np.isfinite(closes), closes, self.prices)

    def _first_row(self) -> int:
        return int(self.observed.info["time_index"])


def _check(config: PortfolioConfig) -> None:
    if config.execution.sizing != "decision":
        raise ValueError(
            "orders to a broker are in units: make the env with "
            "execution=Execution(sizing='decision')"
        )
    if config.decisions != "every_row" or config.episode_rows is not None:
        raise ValueError(
            f"a live session decides on every row and has no end of its own: make the env with "
            f"decisions='every_row' and episode_rows=None, found {config.decisions!r} and "
            f"{config.episode_rows!r}"
        )


def decider_of(policy: Any) -> Decider:
    """What decides: a function of the observation, or something with `predict`."""
    predict = getattr(policy, "predict", None)
    if predict is not None:
        return lambda observation: predict(observation, deterministic=True)
    if not callable(policy):
        raise TypeError(
            f"a policy with predict(), or a function of the observation, was wanted, found "
            f"{policy!r}"
        )
    decide: Decider = policy
    return decide


def _last_known(closes: NDArray[np.float64]) -> NDArray[np.float64]:
    known = np.full(closes.shape[1], np.nan)
    for asset, column in enumerate(closes.T):
        there = np.flatnonzero(np.isfinite(column))
        if len(there):
            known[asset] = column[there[-1]]
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
