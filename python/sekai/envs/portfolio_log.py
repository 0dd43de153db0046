"""What happened in an episode of portfolios: trades, and accounts step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import portfolio_names
from sekai.data import MarketData

__all__ = ["COST_KINDS", "EpisodeLog", "Steps", "Trades", "taken_part"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.datetime64]

INFO = portfolio_names()[1]
COST_KINDS = ("commission", "fixed", "spread", "impact", "borrow", "financing", "delisting")
"""What can be paid; what cash has earned is a financing cost below 0."""

NUMBERS = (
    "equity", "cash", "pnl", "cost", "turnover", "drawdown", "delisted",
)  # fmt: skip
"""What an info and a logged step have in common."""

LEAD = 5
"""Numbers in front of those of an info: the agent, its reward, seconds, `refused`, `waived`."""

SECONDS = 2
"""Where a logged step has how long it took; NaN of an agent that took no part in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Trades:
    """Fills in the order in which they happened, and positions that a delisting turned to cash."""

    row: Integers
    """The row of the data in which it happened."""

    time: Times
    """When that row was known."""

    agent: Integers
    """Who traded: the place in `EpisodeLog.agents`."""

    asset: NDArray[np.str_]
    """What was traded."""

    units: Floats
    """How many units; below 0 for a sale."""

    price: Floats
    """At which price."""

    rate: Floats
    """What it cost as a share of its value, apart from what every order costs."""

    is_delisting: NDArray[np.bool_]
    """Whether nobody ordered it: the asset was delisted, and the position became cash."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self.row)

    @property
    def value(self) -> Floats:
        """What was paid for the units; below 0 what was taken in."""
        return self.units * self.price

    @property
    def cost(self) -> Floats:
        """What each cost, apart from what every order costs."""
        return np.abs(self.value) * self.rate


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Accounts after each step; where there are several agents, one after the other.

    Who was ruined has no more steps.
    """

    row: Integers
    """The row of the data that the step has led to."""

    time: Times
    """When that row was known."""

    agent: Integers
    """Whose account it is: the place in `EpisodeLog.agents`."""

    reward: Floats
    """What the step was worth."""

    seconds: Floats
    """What the step took."""

    equity: Floats
    cash: Floats
    pnl: Floats
    """The change of equity."""

    cost: Floats
    """What was paid, of every kind."""

    turnover: Floats
    """Values traded, as shares of equity."""

    drawdown: Floats
    """How far equity is below its highest, as a share of that."""

    margin_call: NDArray[np.bool_]
    """Whether only reductions were possible."""

    refused: Floats
    """Value of due orders that were not filled: too expensive for the account, or above a limit."""

    waived: Floats
    """Costs that a cash account did not pay, since it had nothing left to pay them with."""

    delisted: Floats
    """Value of positions that became cash because their assets were delisted."""

    costs: Floats
    """What was paid: steps by `COST_KINDS`."""

    weights: Floats
    """What assets and cash, which is last, are of equity: steps by assets and one."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self.row)

    @property
    def gross_exposure(self) -> Floats:
        """Values held, long and short together, as a share of equity."""
        return np.asarray(np.abs(self.weights[:, :-1]).sum(axis=1))

    @property
    def net_exposure(self) -> Floats:
        """Values held long less those held short, as a share of equity."""
        return np.asarray(self.weights[:, :-1].sum(axis=1))

    def cost_of(self, kind: str) -> Floats:
        """What was paid of one kind."""
        if kind not in COST_KINDS:
            raise KeyError(f"one of {', '.join(COST_KINDS)} was wanted, found {kind!r}")
        paid: Floats = self.costs[:, COST_KINDS.index(kind)]
        return paid

    def latency(self, quantile: float = 0.5) -> float:
        """The seconds that such a share of all steps took at most: 0.5 and 0.99, say."""
        return float(np.quantile(self.seconds, quantile)) if len(self) else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeLog:
    """One episode, or as much of it as was recorded since the log was last taken."""

    env: int
    """The env's place in its batch."""

    seed: int
    """The seed of the env."""

    episode: int
    """How many episodes had begun before with that seed."""

    agents: tuple[str, ...]
    """The names of the agents; `("portfolio",)` where there is one without a name."""

    assets: tuple[str, ...]
    """The names of the assets, places that are still free included."""

    sectors: Mapping[str, str]
    """The sector of each asset that has one."""

    opening_row: int
    """The row that the log begins at."""

    opening_time: np.datetime64
    """When that row was known."""

    opening_cash: Floats
    """What each agent has then in cash."""

    opening_units: Floats
    """What each agent has then of each asset: agents by assets."""

    trades: Trades
    steps: Steps

    @classmethod
    def take(cls, batch: Any) -> list[EpisodeLog]:
        """What a batch of portfolios has recorded since this was last asked, of all its envs."""
        agents = tuple(batch.config.members)
        return [cls.of(log, batch.data, agents) for log in batch.take_log()]

    @classmethod
    def take_by_agent(cls, batch: Any) -> dict[str, list[EpisodeLog]]:
        """What a batch has recorded of each agent, as if each had been alone; by name."""
        logs = cls.take(batch)
        return {name: [log.of_agent(name) for log in logs] for name in batch.config.members}

    @classmethod
    def of(
        cls, log: Mapping[str, Any], data: MarketData, agents: Sequence[str] = ("portfolio",)
    ) -> EpisodeLog:
        """A log of the native batch, with the names of agents and assets, and times."""
        row = log["row"].astype(np.int64)
        trades = Trades(
            row, data.times[row], log["agent"].astype(np.int64),
            np.array(data.assets)[log["asset"]], log["units"], log["price"], log["rate"],
            ~data.listed[row, log["asset"].astype(np.int64)],
        )  # fmt: skip
        opening = int(log["opening_row"])
        units = log["opening_units"].reshape(-1, len(data.assets))
        return cls(
            log["env"], log["seed"], log["episode"], tuple(agents), data.assets,
            dict(data.sectors), opening, data.times[opening], log["opening_cash"], units, trades,
            _steps(log["steps"][taken_part(log["steps"])], data),
        )  # fmt: skip

    @property
    def pnl(self) -> float:
        """What all agents have earned together."""
        return float(self.steps.pnl.sum())

    @property
    def costs(self) -> dict[str, float]:
        """What all agents have paid together, by kind."""
        return dict(zip(COST_KINDS, self.steps.costs.sum(axis=0).tolist(), strict=True))

    def sector_exposure(self, *, net: bool = False) -> dict[str, Floats]:
        """The gross or the net exposure to each sector after each step."""
        weights = self.steps.weights[:, :-1] if net else np.abs(self.steps.weights[:, :-1])
        owners = np.array([self.sectors.get(asset, "") for asset in self.assets])
        return {
            sector: np.asarray(weights[:, owners == sector].sum(axis=1))
            for sector in sorted(set(self.sectors.values()))
        }

    def of_agent(self, agent: int | str) -> EpisodeLog:
        """The same with the trades and steps of one agent alone, given by its name or place."""
        if isinstance(agent, str) and agent not in self.agents:
            raise KeyError(f"one of {', '.join(self.agents)} was wanted, found {agent!r}")
        place = self.agents.index(agent) if isinstance(agent, str) else agent
        return replace(
            self,
            agents=(self.agents[place],),
            opening_cash=self.opening_cash[[place]],
            opening_units=self.opening_units[[place]],
            trades=_of_agent(self.trades, place),
            steps=_of_agent(self.steps, place),
        )

    def to_jsonl(self, path: str | Path) -> None:
        """Write a line of JSON for the episode, each step and each trade; all or nothing."""
        from sekai.envs.portfolio_log_files import write_jsonl

        write_jsonl([self], path)

    def to_parquet(self, path: str | Path) -> None:
        """Write a row for the episode, each step and each trade; all or nothing."""
        from sekai.envs.portfolio_log_files import write_parquet

        write_parquet([self], path)


def taken_part(steps: Floats) -> NDArray[np.bool_]:
    """Which of the logged steps are of agents that took part in them, and were not gone."""
    took_part: NDArray[np.bool_] = ~np.isnan(steps[:, SECONDS])
    return took_part


def _steps(table: Floats, data: MarketData) -> Steps:
    info = {name: table[:, LEAD + place] for place, name in enumerate(INFO)}
    row = info["time_index"].astype(np.int64)
    named = {name: info[name] for name in NUMBERS}
    return Steps(
        row=row, time=data.times[row], agent=table[:, 0].astype(np.int64), reward=table[:, 1],
        seconds=table[:, 2], refused=table[:, 3], waived=table[:, 4],
        margin_call=info["margin_call"] > 0,
        costs=np.stack([info[kind] for kind in COST_KINDS], axis=1),
        weights=table[:, LEAD + len(INFO) :], **named,
    )  # fmt: skip


def _of_agent(table: Any, agent: int) -> Any:
    """The rows of one agent, who is the only one there."""
    rows = table.agent == agent
    columns = {each.name: getattr(table, each.name)[rows] for each in fields(table)}
    return type(table)(**{**columns, "agent": np.zeros_like(columns["agent"])})
